package jobsteps

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/oci"
	"github.com/rota-hpc/rota/noded/oci/launch"
	"github.com/rota-hpc/rota/noded/profile"
)

// Part describes a node's part of a step: programs, environment, and its share of the worker there.
type Part struct {
	Programs     []api.StepProgram `json:"programs"`
	Env          []string          `json:"env"`
	Workdir      string            `json:"workdir,omitempty"`
	Nodes        []string          `json:"nodes"`  // of the step
	Counts       []int             `json:"counts"` // tasks on each of them
	Node         int               `json:"node"`   // index of this one
	Share        Share             `json:"share"`
	CoresPerTask int               `json:"cores_per_task"`
	Exact        bool              `json:"exact,omitempty"`
	GPUsPerTask  int               `json:"gpus_per_task,omitempty"`
	Cyclic       bool              `json:"cyclic,omitempty"`
	Groups       []int             `json:"groups,omitempty"`   // the job's groups in the step, if several
	Terminal     *api.TerminalSize `json:"terminal,omitempty"` // of its first task
	Stdin        bool              `json:"stdin,omitempty"`    // at least one of its tasks reads input
}

// Node starts parts of steps on a node. Every call may be repeated. A part that does not exist is
// [container.ErrUnknown].
type Node interface {
	// Start starts a part.
	Start(ctx context.Context, id container.ID, p *Part) error
	// Open connects to the input and output of a part. The output begins behind from bytes, see
	// [container.IOAttach]. The connection ends with life; ctx bounds the call.
	Open(ctx, life context.Context, id container.ID, from int64) (*stream.Conn, error)
	// Begun reports whether the tasks of a part have started.
	Begun(ctx context.Context, id container.ID) (bool, error)
	// Signal sends a signal to all tasks of a part. SIGKILL ends everything in it.
	Signal(ctx context.Context, id container.ID, signal string) error
	// Remove waits for the end of a part, and removes it. It returns how it ended.
	Remove(ctx context.Context, id container.ID) (Ended, error)
}

// Ended is how a part ended.
type Ended struct {
	Exit *container.Exit `json:"exit,omitempty"` // nil: unknown
	GPU  model.Usage     `json:"gpu,omitzero"`   // the use of its GPUs; the other fields are unset
	GPUs int             `json:"gpus,omitempty"` // the number of GPUs behind GPU
}

// Worker is a worker of this node, beside which steps may run.
type Worker struct {
	ID    container.ID
	Alloc *api.Alloc
	Cores []int // by number; none: any
	Pid   int   // of the first process of its container
	// Paused: its processes stand still, srun with them.
	Paused bool
	// Refuse is why no more steps start beside it; nil: they may.
	Refuse error
}

// Local is this node. It implements [Node].
type Local struct {
	// Worker returns a worker of this node. The error says that it is unknown, here or as yet.
	Worker func(id container.ID) (Worker, error)
	// Build writes the bundle of a part, which runs on these cores, and returns its directory.
	Build func(ctx context.Context, w Worker, id container.ID, cores []int, s oci.Step, p *Part) (string, error)
	// Lease is when the lease of a new container beside a worker ends; the zero time: never.
	Lease   func(*api.Alloc) time.Time
	Runtime container.Runtime
	// Dropped is called when nothing of a part is left; it may be nil.
	Dropped func(id container.ID)
	// OpenIO connects to the input and output of a container.
	OpenIO func(ctx context.Context, id container.ID, from int64) (*stream.Conn, error)

	mu      sync.Mutex
	status  map[container.ID]container.Status
	meters  map[container.ID]*meter        // of parts with GPUs that were started since the daemon began
	changes uint64                         // counts starts and removals of parts
	noted   uint64                         // mark of the newest list that Note took
	started map[container.ID]uint64        // the change that started a part, until a later list has it
	removed map[container.ID]uint64        // the change that removed a part, until a later list lacks it
	busy    map[container.ID]chan struct{} // parts that are being started or removed
	changed chan struct{}                  // closed at the next change of a status
	slots   chan struct{}
}

var _ Node = (*Local)(nil)

// meter sums up a part's use of its GPUs.
type meter struct {
	gpus    []int // as the machine counts them
	samples int
	totals  profile.Totals
}

// createSlots is the number of parts that are created at the same time. More would only queue for
// the disk and the cores.
const createSlots = 16

// Init prepares a Local whose fields are set.
func (l *Local) Init() {
	l.status, l.busy = map[container.ID]container.Status{}, map[container.ID]chan struct{}{}
	l.started, l.removed = map[container.ID]uint64{}, map[container.ID]uint64{}
	l.meters = map[container.ID]*meter{}
	l.changed, l.slots = make(chan struct{}), make(chan struct{}, createSlots)
}

// Mark returns the present change. Take it before a list of the containers, and pass both to Note.
func (l *Local) Mark() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changes
}

// Note takes a list of the containers. The list was made after mark, and may be older than parts
// that this Local has started or removed meanwhile: for those it keeps its own word.
func (l *Local) Note(mark uint64, all []container.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if mark < l.noted {
		return // a newer list was there first
	}
	l.noted = mark
	// 1. Take the list, without parts that were removed after the mark.
	now := make(map[container.ID]container.Status, len(all))
	for _, s := range all {
		if l.removed[s.ID] <= mark {
			now[s.ID] = s
		}
	}
	// 2. Keep parts that were started after the mark: the list may lack them, or have an older state.
	for id, at := range l.started {
		if old, ok := l.status[id]; ok && at > mark {
			now[id] = later(old, now[id])
		} else {
			delete(l.started, id)
		}
	}
	// 3. Forget removals before the mark: later lists do not have those parts either.
	for id, at := range l.removed {
		if at <= mark {
			delete(l.removed, id)
		}
	}
	l.status = now
	maps.DeleteFunc(l.meters, func(id container.ID, _ *meter) bool { return now[id].State == "" })
	close(l.changed)
	l.changed = make(chan struct{})
}

// later returns the status of the later state: a container only moves forward.
func later(a, b container.Status) container.Status {
	order := map[container.State]int{container.Silent: 1, container.Created: 2, container.Running: 3, container.Exited: 4,
		container.Lost: 4}
	if order[b.State] >= order[a.State] {
		return b
	}
	return a
}

func live(s container.State) bool {
	return s == container.Silent || s == container.Created || s == container.Running
}

// Live returns the parts beside a worker that have not ended.
func (l *Local) Live(worker container.ID) []container.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []container.ID
	for id, s := range l.status {
		if id.OfWorker() == worker && live(s.State) {
			list = append(list, id)
		}
	}
	return list
}

// All returns the parts beside a worker, ended or not.
func (l *Local) All(worker container.ID) []container.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	var list []container.ID
	for id := range l.status {
		if id.OfWorker() == worker {
			list = append(list, id)
		}
	}
	return list
}

// claim waits until no other call starts or removes the part, and keeps others out until the
// returned function is called.
func (l *Local) claim(ctx context.Context, id container.ID) (func(), error) {
	for {
		l.mu.Lock()
		other := l.busy[id]
		if other == nil {
			mine := make(chan struct{})
			l.busy[id] = mine
			l.mu.Unlock()
			return func() {
				l.mu.Lock()
				delete(l.busy, id)
				l.mu.Unlock()
				close(mine)
			}, nil
		}
		l.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (l *Local) get(id container.ID) (container.Status, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status[id], l.changed
}

func (l *Local) set(id container.ID, state container.State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	l.started[id] = l.changes
	l.status[id] = later(l.status[id], container.Status{ID: id, State: state})
}

// drop notes that a part was removed.
func (l *Local) drop(id container.ID) {
	if l.Dropped != nil {
		l.Dropped(id)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes++
	l.removed[id] = l.changes
	delete(l.status, id)
	delete(l.started, id)
	delete(l.meters, id)
}

// OnGPUs returns the running parts with GPUs beside a worker, and the machine's numbers of those
// GPUs.
func (l *Local) OnGPUs(worker container.ID) map[container.ID][]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	var parts map[container.ID][]int
	for id, m := range l.meters {
		if id.OfWorker() == worker && live(l.status[id].State) {
			if parts == nil {
				parts = map[container.ID][]int{}
			}
			parts[id] = m.gpus
		}
	}
	return parts
}

// AddGPU adds a sample of the GPUs of a part, see [profile.Totals.AddGPU]. The utilisation in the
// first sample is ignored, because it may cover time before the part.
func (l *Local) AddGPU(id container.ID, now, utilisation, memory int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.meters[id]
	if m == nil {
		return
	}
	if m.samples++; m.samples == 1 {
		utilisation = profile.Unknown
	}
	m.totals.AddGPU(now, utilisation, memory)
}

// PauseGPU says that the parts beside a worker pause, see [profile.Totals.Pause].
func (l *Local) PauseGPU(worker container.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, m := range l.meters {
		if id.OfWorker() == worker {
			m.totals.Pause()
		}
	}
}

// GPUUse returns a part's use of its GPUs so far, and the number of those GPUs; 0 GPUs: it is
// unknown.
func (l *Local) GPUUse(id container.ID) (used model.Usage, gpus int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.meters[id]
	if m == nil || m.samples < 2 {
		return used, 0
	}
	u := m.totals.Usage()
	return model.Usage{GPU: u.Utilisation, PeakGPU: u.PeakUtilisation, GPUMemory: jobspec.Bytes(u.Memory),
		PeakGPUMemory: jobspec.Bytes(u.PeakMemory)}, len(m.gpus)
}

// Start implements [Node]. A part that exists already is left alone, so a repeated call is
// harmless. A failed start leaves no container behind.
func (l *Local) Start(ctx context.Context, id container.ID, p *Part) error {
	release, err := l.claim(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	if s, _ := l.get(id); s.State != "" && s.State != container.Created {
		return nil // an earlier call has started it
	}
	w, err := l.Worker(id.OfWorker())
	if err == nil {
		err = w.Refuse
	}
	if err != nil {
		return err
	}
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	step, cores, err := p.step(w, id)
	if err != nil {
		return err
	}
	dir, err := l.Build(ctx, w, id, cores, step, p)
	if err == nil {
		l.set(id, container.Created) // Live and All have it from here on
		err = l.Runtime.Create(ctx, id, dir, l.Lease(w.Alloc))
	}
	if err == nil {
		err = l.Runtime.Start(ctx, id)
	}
	if err != nil {
		return errors.Join(err, l.clear(id))
	}
	l.measure(id, step.GPUs)
	l.set(id, container.Running)
	return nil
}

// measure begins to sum up the use of a part's GPUs.
func (l *Local) measure(id container.ID, gpus []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(gpus) > 0 && l.meters[id] == nil {
		l.meters[id] = &meter{gpus: gpus}
	}
}

// clearTime bounds the removal of a container after a failed start.
const clearTime = 30 * time.Second

// clear removes the container of a failed start.
func (l *Local) clear(id container.ID) error {
	ctx, cancel := context.WithTimeout(context.Background(), clearTime)
	defer cancel()
	_ = l.Runtime.Kill(ctx, id) // most often there is none
	err := l.Runtime.Remove(ctx, id)
	if errors.Is(err, container.ErrLive) {
		return nil // it is removed with its worker
	}
	l.drop(id)
	return err
}

// step translates the part for package oci, and its cores and GPUs from the worker's numbers to the
// machine's.
func (p *Part) step(w Worker, id container.ID) (oci.Step, []int, error) {
	s := oci.Step{
		Number: id.Step - 1, Programs: p.Programs, Env: p.Env, Workdir: p.Workdir, Nodes: p.Nodes, Counts: p.Counts,
		Node: p.Node, Tasks: p.Share.Tasks, Cores: len(p.Share.Cores), CoresPerTask: p.CoresPerTask, Exact: p.Exact,
		GPUsPerTask: p.GPUsPerTask, Memory: p.Share.Memory, Cyclic: p.Cyclic, Groups: p.Groups,
	}
	if p.Terminal != nil && len(s.Tasks) > 0 && s.Tasks[0] == 0 {
		s.Terminal = &launch.Terminal{Rows: p.Terminal.Rows, Columns: p.Terminal.Columns}
	}
	for _, n := range p.Share.GPUs {
		if n < 0 || n >= len(w.Alloc.GPUs) {
			return s, nil, fmt.Errorf("the worker has no GPU %d", n)
		}
		s.GPUs = append(s.GPUs, w.Alloc.GPUs[n])
	}
	var cores []int
	for _, n := range p.Share.Cores {
		if n >= 0 && n < len(w.Cores) {
			cores = append(cores, w.Cores[n])
		}
	}
	return s, cores, nil
}

// Open implements [Node].
func (l *Local) Open(ctx, _ context.Context, id container.ID, from int64) (*stream.Conn, error) {
	s, _ := l.get(id)
	if s.State == "" {
		return nil, unknown(id)
	}
	conn, err := l.OpenIO(ctx, id, from)
	if err == nil {
		return conn, nil
	}
	if s, _ = l.get(id); s.State != "" && !live(s.State) {
		return endOf(s), nil // its shim is gone, and the unread output with it
	}
	return nil, err
}

// endOf returns a stream for a part whose output is gone: it has the end alone.
func endOf(s container.Status) *stream.Conn {
	end := stream.StepEnd{Why: s.Why, StepTaskExit: stream.StepTaskExit{Signal: int(unix.SIGKILL)}}
	if s.Exit != nil {
		end.StepTaskExit = stream.StepTaskExit{Code: s.Exit.Code, Signal: s.Exit.Signal, OOM: s.Exit.OOM}
		end.Why = s.Exit.Why
	}
	ours, theirs := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, ours) }() // until the other end is closed
	go func() { _ = stream.New(ours).WriteJSON(stream.End, stream.AllTasks, end) }()
	return stream.New(theirs)
}

func unknown(id container.ID) error { return fmt.Errorf("step %s: %w", id, container.ErrUnknown) }

// Begun implements [Node].
func (l *Local) Begun(_ context.Context, id container.ID) (bool, error) {
	s, _ := l.get(id)
	if s.State == "" {
		return false, unknown(id)
	}
	return s.State != container.Created, nil
}

// Signal implements [Node]. A part that has ended needs no signal.
func (l *Local) Signal(ctx context.Context, id container.ID, signal string) error {
	s, _ := l.get(id)
	if !live(s.State) {
		return nil
	}
	if signal == unix.SignalName(unix.SIGKILL) {
		return l.Runtime.Kill(ctx, id)
	}
	return l.Runtime.Signal(ctx, id, container.Signal{Number: container.SignalNumber(signal)})
}

// Remove implements [Node].
func (l *Local) Remove(ctx context.Context, id container.ID) (Ended, error) {
	for { // wait for the end; every new list of the containers closes changed
		s, changed := l.get(id)
		if s.State == "" {
			return Ended{}, unknown(id)
		}
		if !live(s.State) {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Ended{}, context.Cause(ctx)
		}
	}
	release, err := l.claim(ctx, id)
	if err != nil {
		return Ended{}, err
	}
	defer release()
	s, _ := l.get(id)
	if s.State == "" { // another call removed it while this one waited for its claim
		return Ended{}, unknown(id)
	}
	end := Ended{Exit: s.Exit}
	end.GPU, end.GPUs = l.GPUUse(id)
	if err := l.Runtime.Remove(ctx, id); err != nil {
		return end, err
	}
	l.drop(id)
	return end, nil
}

// allocations returns, for each group that starts together with a first worker, the places and the
// resources that steps may use. A group that runs no steps has no places.
func allocations(a *api.Alloc) []Allocation {
	if len(a.Hosts) == 0 {
		return []Allocation{allocation(&a.Spec.Groups[a.Group], a.Nodes, nil, a.Request.Active)}
	}
	var list []Allocation
	first := 0
	for i, h := range a.Hosts {
		var one Allocation
		if g := &a.Spec.Groups[i]; g.RunsSteps() {
			one = allocation(g, h.Nodes, h.Has, model.GroupRequest(g).Active)
		}
		one.First, first = first, first+len(h.Nodes)
		list = append(list, one)
	}
	return list
}

// allocation returns the places of a group on its nodes. The worker at index i has has[i], or the
// usual amount if has is shorter.
func allocation(g *jobspec.Group, nodes []string, has []model.Vector, usual model.Vector) Allocation {
	task := &g.Tasks[max(oci.StepTask(g.Tasks), 0)]
	job := Allocation{TasksPerNode: 1}
	for i, n := range nodes {
		v := usual
		if i < len(has) {
			v = has[i]
		}
		job.Places = append(job.Places, Place{Node: n, Cores: int(max(v.Cores, 1)), Memory: v.Memory, GPUs: wholeGPUs(v)})
	}
	if l := task.Launch; l != nil && l.NprocGPU {
		job.TasksPerNode = max(wholeGPUs(usual), 1)
	} else if l != nil {
		job.TasksPerNode = max(l.Nproc, 1)
	}
	if len(job.Places) > 0 {
		job.CoresPerTask = max(job.Places[0].Cores/job.TasksPerNode, 1)
	}
	return job
}

func wholeGPUs(v model.Vector) int {
	return int((v.GPUs + jobspec.WholeGPU - 1) / jobspec.WholeGPU)
}
