package jobsteps

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/jobsteps/choose"
	"github.com/rota-hpc/rota/noded/oci"
	"github.com/rota-hpc/rota/noded/oci/launch"
)

// Part describes a node's part of a step: programs, environment, and its share of the worker there.
type Part struct {
	Programs     []api.StepProgram `json:"programs"`
	Env          []string          `json:"env"`
	Workdir      string            `json:"workdir,omitempty"`
	Umask        jobspec.Umask     `json:"umask,omitempty"`
	Nodes        []string          `json:"nodes"`  // of the step
	Counts       []int             `json:"counts"` // tasks on each of them
	Node         int               `json:"node"`   // index of this one
	Share        choose.Share      `json:"share"`
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

// Runtime runs the containers of parts. A container.Runtime implements it.
type Runtime interface {
	Create(ctx context.Context, id container.ID, bundle string, lease time.Time) error
	Start(ctx context.Context, id container.ID) error
	Signal(ctx context.Context, id container.ID, s container.Signal) error
	Kill(ctx context.Context, id container.ID) error
}

// Local is this node. It implements [Node].
type Local struct {
	// Worker returns a worker of this node. The error says that it is unknown, here or as yet.
	Worker func(id container.ID) (Worker, error)
	// Build writes the bundle of a part, which runs on these cores, and returns its directory.
	Build func(ctx context.Context, w Worker, id container.ID, cores []int, s oci.Step, p *Part) (string, error)
	// Lease is when the lease of a new container beside a worker ends; the zero time: never.
	Lease   func(*api.Alloc) time.Time
	Runtime Runtime
	// Clear removes all of a part that has ended. It refuses a part that lives, by container.ErrLive.
	Clear func(ctx context.Context, id container.ID) error
	// OpenIO connects to the input and output of a container.
	OpenIO func(ctx context.Context, id container.ID, from int64) (*stream.Conn, error)

	parts *partTable // with a lock of its own
	use   *gpuUse    // the same
	slots chan struct{}
}

var _ Node = (*Local)(nil)

// createSlots is the number of parts that are created at the same time. More would only queue for
// the disk and the cores.
const createSlots = 16

// Init prepares a Local whose fields are set.
func (l *Local) Init() {
	l.parts, l.use = newPartTable(), &gpuUse{meters: map[container.ID]*meter{}}
	l.slots = make(chan struct{}, createSlots)
}

// Mark returns the present change. Take it before a list of the containers, and pass both to Note.
func (l *Local) Mark() uint64 { return l.parts.mark() }

// Note takes a list of the containers. The list was made after mark, and may be older than parts
// that this Local has started or removed meanwhile: for those it keeps its own word.
func (l *Local) Note(mark uint64, all []container.Status) {
	if l.parts.note(mark, all) {
		l.use.forget(func(id container.ID) bool { s, _ := l.parts.get(id); return s.State == "" })
	}
}

// Live returns the parts beside a worker that have not ended.
func (l *Local) Live(worker container.ID) []container.ID { return l.parts.beside(worker, live) }

// All returns the parts beside a worker, ended or not.
func (l *Local) All(worker container.ID) []container.ID {
	return l.parts.beside(worker, func(container.State) bool { return true })
}

// drop notes that a part was removed.
func (l *Local) drop(id container.ID) {
	l.parts.drop(id)
	l.use.forget(func(other container.ID) bool { return other == id })
}

// Start implements [Node]. A part that exists already is left alone, so a repeated call is
// harmless. A failed start leaves no container behind.
func (l *Local) Start(ctx context.Context, id container.ID, p *Part) error {
	release, err := l.parts.claim(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	if s, _ := l.parts.get(id); begun(s.State) {
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
		l.parts.set(id, container.Created) // Live and All have it from here on
		err = l.Runtime.Create(ctx, id, dir, l.Lease(w.Alloc))
	}
	if err == nil {
		err = l.Runtime.Start(ctx, id)
	}
	if err != nil {
		return errors.Join(err, l.clear(id))
	}
	l.use.begin(id, step.GPUs)
	l.parts.set(id, container.Running)
	return nil
}

// clearTime bounds the removal of a container after a failed start.
const clearTime = 30 * time.Second

// clear removes the container of a failed start.
func (l *Local) clear(id container.ID) error {
	ctx, cancel := context.WithTimeout(context.Background(), clearTime)
	defer cancel()
	_ = l.Runtime.Kill(ctx, id) // most often there is none
	err := l.Clear(ctx, id)
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
		Number: id.Step - 1, Programs: p.Programs, Env: p.Env, Workdir: p.Workdir, Umask: p.Umask, Nodes: p.Nodes,
		Counts: p.Counts, Node: p.Node, Tasks: p.Share.Tasks, Cores: len(p.Share.Cores), CoresPerTask: p.CoresPerTask,
		Exact: p.Exact, GPUsPerTask: p.GPUsPerTask, Memory: p.Share.Memory, Cyclic: p.Cyclic, Groups: p.Groups,
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
	s, _ := l.parts.get(id)
	if s.State == "" {
		return nil, unknown(id)
	}
	conn, err := l.OpenIO(ctx, id, from)
	if err == nil {
		return conn, nil
	}
	if s, _ = l.parts.get(id); s.State != "" && !live(s.State) {
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
	s, _ := l.parts.get(id)
	if s.State == "" {
		return false, unknown(id)
	}
	return begun(s.State), nil
}

// Signal implements [Node]. A part that has ended needs no signal.
func (l *Local) Signal(ctx context.Context, id container.ID, signal string) error {
	s, _ := l.parts.get(id)
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
	known, err := l.parts.awaitEnd(ctx, id)
	if err != nil {
		return Ended{}, err
	}
	if !known {
		return Ended{}, unknown(id)
	}
	release, err := l.parts.claim(ctx, id)
	if err != nil {
		return Ended{}, err
	}
	defer release()
	s, _ := l.parts.get(id)
	if s.State == "" { // another call removed it while this one waited for its claim
		return Ended{}, unknown(id)
	}
	end := Ended{Exit: s.Exit}
	end.GPU, end.GPUs = l.GPUUse(id)
	if err := l.Clear(ctx, id); err != nil {
		return end, err
	}
	l.drop(id)
	return end, nil
}
