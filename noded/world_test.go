package noded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/gpu"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/machine"
	"github.com/rota-hpc/rota/noded/progress"
	"github.com/rota-hpc/rota/noded/report"
	"github.com/rota-hpc/rota/noded/run"
)

// world is a node and its controllers, in memory: what survives when the agent is killed.
type world struct {
	t    *testing.T
	path string // of the journal

	mu      sync.Mutex
	rng     *rand.Rand
	faults  int // of 200 calls, those that are lost, and those whose answer is
	crashIn int // calls until the agent is killed; 0: never
	crashed chan struct{}
	down    bool // no controller answers
	unsure  bool // the controller that answers could not confirm that it leads
	full    bool // the journal cannot be written

	index       uint64
	wake        chan struct{} // closed when index grows
	allocs      map[container.ID]*assigned
	containers  map[container.ID]*fakeContainer
	changes     chan container.ID
	notices     map[container.ID]container.Notice
	retired     map[container.ID]bool
	reused      map[container.ID]bool // ids that the controllers have given to another job
	samples     []api.Sample
	rows        []model.StepReport // of steps, as reported
	progress    string             // file that every container reports to
	unbuildable error              // why no bundle can be made
	noUsers     error              // why the user database does not answer
	building    chan struct{}      // what making a bundle waits for
	stop10      bool               // the job is of an array with a stop rule at step 10
	findings    map[container.ID][]container.Finding
	found       []model.WorkerReport // of log policies, as reported
	classes     []model.WorkerReport // with a progress class, as reported
	boots       int
	sockets     openSockets
	life        *life // that runs
	gpus        []gpu.Device
	hung        error                // what the driver says instead
	onGPU       map[string][]int     // processes by GPU
	used        map[int]int64        // bytes of a GPU's memory by process
	serves      int                  // a process of MPS, 0: none
	owners      map[int]container.ID // containers by process
	nodes       []model.Node         // as registered
	held        chan struct{}        // the next registration waits for it

	usage      func(uuid string) gpu.Use // what a GPU does; nil: as onGPU says
	usageCalls int
	cpu        func(container.ID) time.Duration // processor time; nil: unknown
	progressOf map[container.ID]string          // files that certain containers report to
	measures   []model.WorkerReport             // with what was measured of a worker, as reported

	checkpoints Checkpoints              // nil: the node keeps none
	criu        container.Criu           // without a path: the node saves no processes
	unneeded    func(folder string) bool // which folders no attempt needs
	unknown     func(folder string) bool // which folders the controllers do not know

	witnesses *api.Witnesses   // that the controllers have chosen
	silent    map[string]int64 // what other witnesses say; without an entry they do not answer
	echoes    []api.Echo       // of the node

	generation string                // of the controllers; "": 0
	accepted   *api.AcceptGeneration // by the node
}

// assigned is what the controllers know of one worker.
type assigned struct {
	api.Alloc
	gone     bool // not listed any more
	switched int  // the last switch that was reported
	unpaused string
	state    model.WorkerState
	result   *model.WorkerReport
	history  []model.WorkerState
}

// fakeContainer is a container.
type fakeContainer struct {
	state    container.State
	pid      int // of its first process
	exit     *container.Exit
	extern   container.Spent
	starts   int
	creates  int
	signals  []int
	early    []container.Signal // those that told it of its time limit: the shim passes only one on
	plain    []container.Signal // of users
	stops    []container.Signal // the others
	lease    time.Time
	term     time.Duration // of its lease when it was created
	cores    []int
	exits    func(signal int) *container.Exit // its answer to a signal; nil: it ends
	removed  bool
	deaf     bool // its shim does not answer
	refuses  bool // its shim refuses to renew its lease
	undying  bool // a kill does not end it
	silent   bool // its shim is slow: orders fail, but for a kill
	unknown  bool // its shim has not said yet whether it has started
	switched container.Switching
	awake    bool // it does not pause
	save     container.Saving
	slow     bool   // its processes are not saved soon
	unsaved  string // why they cannot be
}

// listen waits in vain when the shim of a container does not answer.
func (r lifeRuntime) listen(ctx context.Context, id container.ID) error {
	r.mu.Lock()
	deaf := r.containers[id] != nil && r.containers[id].deaf
	r.mu.Unlock()
	if deaf {
		<-ctx.Done()
	}
	return ctx.Err()
}

func newWorld(t *testing.T, seed uint64) *world {
	return &world{
		t: t, path: filepath.Join(t.TempDir(), "journal"), rng: rand.New(rand.NewPCG(seed, 1)),
		wake: make(chan struct{}), index: 1,
		allocs: map[container.ID]*assigned{}, containers: map[container.ID]*fakeContainer{},
		changes: make(chan container.ID, 1000),
		notices: map[container.ID]container.Notice{}, retired: map[container.ID]bool{}, onGPU: map[string][]int{},
	}
}

// change lets the controllers' state change.
func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	w.bump()
}

func (w *world) bump() {
	w.index++
	close(w.wake)
	w.wake = make(chan struct{})
}

// assign gives the node a worker.
func (w *world) assign(id container.ID, released bool) *assigned {
	a := &assigned{state: model.WorkerAssigned, Alloc: api.Alloc{
		Job: model.JobID(id.Job), Attempt: id.Attempt, Worker: id.Worker, Released: released,
		Request: model.Request{Active: model.Vector{Cores: 1}},
	}}
	w.change(func() { w.allocs[id] = a })
	return a
}

// stop asks a worker to stop within grace.
func (w *world) stop(id container.ID, cause model.Cause, grace time.Duration) {
	w.change(func() {
		if a := w.allocs[id]; a.Stop == nil {
			a.Stop = &model.Stop{Cause: cause, At: clockNow(), KillAt: clockNow() +
				model.Instant(grace.Milliseconds()), Signal: "SIGTERM"}
		}
	})
}

// clockNow is the log's clock: far from the machine's, as it may be.
func clockNow() model.Instant { return model.Instant(time.Now().UnixMilli() - 123456789) }

// emit tells the agent of a change; a full channel loses it, as the runtime's may.
func (w *world) emit(id container.ID) {
	select {
	case w.changes <- id:
	default:
	}
}

// leave ends a container's command.
func (w *world) leave(id container.ID, e container.Exit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end(id, &e)
}

func (w *world) end(id container.ID, e *container.Exit) {
	if b := w.containers[id]; b != nil && (b.state == container.Created || b.state == container.Running) {
		b.state, b.exit = container.Exited, e
		w.emit(id)
	}
}

// becomes has the shim of a container report its first process, and how it has paused or gone on.
func (w *world) becomes(id container.ID, pid int, s container.Switching) {
	w.mu.Lock()
	w.containers[id].pid, w.containers[id].switched = pid, s
	w.emit(id)
	w.mu.Unlock()
	settle(time.Second)
}

// loseShim kills the shim of a container.
func (w *world) loseShim(id container.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b := w.containers[id]; b != nil && (b.state == container.Created || b.state == container.Running) {
		b.state = container.Lost
		w.emit(id)
	}
}

var errFault = errors.New("injected fault")

// life is one run of the agent: every call goes through it, and fails once the agent has been
// killed.
type life struct {
	*world
	dead    bool
	cancel  context.CancelFunc
	journal *journal.Journal
	agent   *Agent
	ended   chan struct{}
}

// start runs an agent until the life ends.
func (w *world) start() {
	w.t.Helper()
	j, err := journal.Open(w.path)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &life{world: w, cancel: cancel, journal: j, ended: make(chan struct{})}
	l.agent = NewAgent(Parts{Sockets: &w.sockets,
		Node:    model.Node{Name: "n1", BootID: "boot", Cores: 8},
		Control: l, Runtime: lifeRuntime{l}, Bundles: lifeBundles{l}, Journal: lifeJournal{l}, GPUs: lifeGPUs{l},
		GPUFile: gpu.InventoryFile{Path: w.path + ".gpus", BootID: "boot"},
		Cores:   machine.NewCores([][]int{{0, 1, 2, 3}, {4, 5, 6, 7}}),
		Used:    l.usedNow, Serves: func(pid int) bool { return pid == w.serving() },
		Checkpoints: w.checkpoints, Criu: w.criu, KeptFile: w.path + ".kept",
		Boot: func() int64 { return time.Now().UnixMilli() }, AskWitness: w.askWitness, Outage: w.outage(),
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	l.agent.runSteps(ctx, StepParts{})
	w.mu.Lock()
	w.boots++
	w.life = l
	w.crashed = make(chan struct{})
	w.mu.Unlock()
	if err := l.agent.gpus.Load(ctx); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		defer close(l.ended)
		if err := l.agent.Run(ctx); err != nil && ctx.Err() == nil {
			w.t.Errorf("agent: %v", err)
		}
	}()
}

// kill ends the agent without a chance to do anything more.
func (w *world) kill() {
	l := w.life
	l.mu.Lock()
	l.dead = true
	l.mu.Unlock()
	l.cancel()
	<-l.ended
	if err := l.journal.Close(); err != nil {
		l.t.Error(err)
	}
}

// call wraps every call of the agent: do may not happen, may happen and return an error, or may be
// the last call of all.
func (l *life) call(ctx context.Context, do func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return errFault
	}
	if l.crashIn > 0 {
		if l.crashIn--; l.crashIn == 0 {
			before := l.rng.IntN(2) == 0
			if !before {
				_ = do()
			}
			l.dead = true
			close(l.crashed)
			return errFault
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	fate := l.rng.IntN(200)
	if fate < l.faults {
		return errFault // the call is lost
	}
	err := do()
	if err == nil && fate < 2*l.faults {
		return errFault // the answer is lost
	}
	return err
}

var errUnreachable = errors.New("no controller reachable")

func newJournal(t *testing.T) Journal {
	t.Helper()
	j, err := journal.Open(filepath.Join(t.TempDir(), "journal"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// The controllers.

func (l *life) Register(ctx context.Context, _ string, req api.RegisterRequest) (*api.RegisterResponse, error) {
	l.mu.Lock()
	held := l.held
	l.held = nil
	l.mu.Unlock()
	if held != nil {
		<-held
	}
	return &api.RegisterResponse{}, l.call(ctx, func() error {
		if l.down {
			return errUnreachable
		}
		l.nodes = append(l.nodes, req.Node)
		return nil
	})
}

func (l *life) Allocs(
	ctx context.Context, node, boot string, after uint64, wait time.Duration, echo api.Echo,
) (*api.NodeAllocs, error) {
	l.checkSender(node, boot)
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	for {
		var out *api.NodeAllocs
		var wake chan struct{}
		err := l.call(ctx, func() error {
			if l.down {
				return errUnreachable
			}
			wake = l.wake
			if l.world.generation != "" && l.world.accepted == nil {
				return &api.Problem{Status: 421, Code: api.CodeGeneration}
			}
			if l.index > after {
				out = l.listed()
				l.echoes = append(l.echoes, echo)
				out.Sent = fmt.Sprint("leader-", len(l.echoes))
				if w := l.world.witnesses; w.Key() != echo.Witnesses {
					out.Witnesses = w
				}
			}
			return nil
		})
		if err != nil || out != nil {
			return out, err
		}
		select {
		case <-wake:
		case <-timeout.C:
			after = 0
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (w *world) listed() *api.NodeAllocs {
	out := &api.NodeAllocs{Generation: w.generation, Index: w.index, Now: clockNow(), LeaseMS: 600_000}
	if w.unsure {
		out.LeaseMS = 0
	}
	for _, a := range w.allocs {
		if !a.gone {
			copied := a.Alloc
			if a.Stop != nil {
				stop := *a.Stop
				copied.Stop = &stop
			}
			out.Allocs = append(out.Allocs, copied)
		}
	}
	return out
}

// checkSender notices requests that do not name the boot of the node that sent them. Without it,
// controllers would mistake jobs from before a reboot for running ones.
func (l *life) checkSender(node, boot string) {
	if node != "n1" || boot != "boot" {
		l.t.Errorf("a request of node %q, boot %q", node, boot)
	}
}

func (l *life) Report(ctx context.Context, node string, req api.ReportRequest) (*api.ReportResponse, error) {
	l.checkSender(node, req.BootID)
	return &api.ReportResponse{}, l.call(ctx, func() error {
		if l.down {
			return errUnreachable
		}
		l.world.samples = append(l.world.samples, req.Samples...)
		l.world.rows = append(l.world.rows, req.Steps...)
		for _, r := range req.Workers {
			l.take(r)
		}
		return nil
	})
}

func (l *life) DropCheckpoints(
	ctx context.Context, node string, req api.KeptCheckpoints,
) (*api.DroppedCheckpoints, error) {
	l.checkSender(node, req.BootID)
	out := &api.DroppedCheckpoints{}
	return out, l.call(ctx, func() error {
		if l.down {
			return errUnreachable
		}
		for _, id := range req.IDs {
			if l.world.unknown != nil && l.world.unknown(id) {
				out.Unknown = append(out.Unknown, id)
				continue
			}
			if l.unneeded != nil && l.unneeded(id) {
				out.IDs = append(out.IDs, id)
			}
		}
		return nil
	})
}

func (l *life) Generation(context.Context, string, string) (*api.Generation, error) {
	return &api.Generation{Generation: l.world.generation, Accepted: l.world.accepted != nil, Settled: true}, nil
}

func (l *life) AcceptGeneration(_ context.Context, _ string, req api.AcceptGeneration) (*api.Generation, error) {
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	l.world.accepted = &req
	return &api.Generation{Generation: l.world.generation, Accepted: true, Settled: true}, nil
}

func stage(s model.WorkerState) int {
	switch s {
	case model.WorkerCreated:
		return 1
	case model.WorkerRunning:
		return 2
	case model.WorkerExited, model.WorkerFailed:
		return 3
	}
	return 0
}

// take does what Apply does with one worker's report.
func (w *world) take(r model.WorkerReport) {
	if r.Policy != "" {
		w.found = append(w.found, r)
		if a := w.allocs[report.WorkerOf(r)]; a != nil && a.result != nil {
			w.t.Errorf("what policy %s found in %v comes after its end", r.Policy, report.WorkerOf(r))
		}
		return
	}
	if r.Class != "" {
		w.classes = append(w.classes, r)
	}
	if r.Profile != nil || r.Packed != nil {
		w.measures = append(w.measures, r)
	}
	a := w.allocs[report.WorkerOf(r)]
	if a == nil {
		w.t.Errorf("report for %v, which was never assigned", report.WorkerOf(r))
		return
	}
	if r.Switch != 0 && a.result == nil {
		w.takeSwitch(a, r)
	}
	if r.State.Final() {
		if a.result != nil && *a.result != r {
			w.t.Errorf("%v has two results: %+v and %+v", report.WorkerOf(r), *a.result, r)
		}
		a.result = &r
	}
	if stage(r.State) > stage(a.state) {
		a.state = r.State
		a.history = append(a.history, r.State)
		if r.State.Final() {
			a.gone = true
		}
		w.bump()
	}
}

// takeSwitch does what Apply does with a report about pausing and going on.
func (w *world) takeSwitch(a *assigned, r model.WorkerReport) {
	if a.Switch == nil || r.Switch > a.Switch.Number {
		w.t.Errorf("%v reports switch %d, which was not ordered", report.WorkerOf(r), r.Switch)
		return
	}
	if a.unpaused = r.Unpaused; r.Unpaused == "" {
		a.switched = max(a.switched, r.Switch)
	}
	b := w.containers[report.WorkerOf(r)]
	if r.Unpaused == "" && r.Switch%2 == 1 && r.Switch == a.Switch.Number && len(b.cores) > 0 {
		w.t.Errorf("%v is reported as paused with cores %v", report.WorkerOf(r), b.cores)
	}
}

func (w *world) serving() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.serves
}

// turn has a worker pause, or go on.
func (w *world) turn(id container.ID) {
	w.change(func() {
		a := w.allocs[id]
		next := api.Switch{Number: 1, Pause: true}
		if a.Switch != nil {
			next.Number, next.Pause = a.Switch.Number+1, a.Switch.Number%2 == 0
		}
		a.Switch = &next
	})
}

// The runtime.

type lifeRuntime struct{ *life }

func (r lifeRuntime) Create(ctx context.Context, id container.ID, _ string, lease time.Time) error {
	return r.call(ctx, func() error {
		b := r.containers[id]
		if b != nil && !b.removed {
			return nil
		}
		if b == nil {
			b = &fakeContainer{}
			r.containers[id] = b
		}
		if b.starts > 0 && !r.reused[id] {
			r.t.Errorf("%v is made again after it was started", id)
		}
		b.state, b.lease, b.term, b.removed = container.Created, lease, time.Until(lease), false
		b.creates++
		r.emit(id)
		return nil
	})
}

func (r lifeRuntime) Start(ctx context.Context, id container.ID) error {
	return r.call(ctx, func() error {
		b := r.containers[id]
		if b == nil || b.removed {
			return fmt.Errorf("no container %v", id)
		}
		if b.silent {
			return errFault
		}
		if b.state == container.Created {
			b.state = container.Running
			b.starts++
			r.emit(id)
		}
		return nil
	})
}

func (r lifeRuntime) Signal(ctx context.Context, id container.ID, s container.Signal) error {
	signal := s.Number
	return r.call(ctx, func() error {
		b := r.containers[id]
		if b != nil && b.silent {
			return errFault
		}
		if s.Plain && b.state != container.Running {
			return errors.New("nothing runs")
		}
		if b == nil || b.state != container.Running || s.Early && len(b.early) > 0 {
			return nil
		}
		if s.Plain {
			b.plain = append(b.plain, s)
			return nil
		}
		if s.Early {
			if n := r.notices[id.OfWorker()]; n.Reason != run.NoticeTimeout && n.Reason != run.NoticeGPUMemory {
				r.t.Errorf("%v gets its early signal with the notice %+v", id, n)
			}
			b.early = append(b.early, s)
		} else {
			b.stops = append(b.stops, s)
		}
		b.signals = append(b.signals, signal)
		exit := &container.Exit{Signal: signal}
		if b.exits != nil {
			exit = b.exits(signal)
		}
		if exit != nil {
			r.end(id, exit)
		}
		return nil
	})
}

func (r lifeRuntime) Kill(ctx context.Context, id container.ID) error {
	if err := r.listen(ctx, id); err != nil {
		return err
	}
	return r.call(ctx, func() error {
		b := r.containers[id]
		if b != nil && b.undying {
			return errFault
		}
		if b != nil && b.silent {
			b.silent, b.unknown, b.state = false, false, container.Lost
			r.emit(id)
			return errFault // the shim has not answered
		}
		r.end(id, &container.Exit{Signal: 9})
		return nil
	})
}

func (r lifeRuntime) Switch(ctx context.Context, id container.ID, o container.SwitchOrder) error {
	return r.call(ctx, func() error {
		b := r.containers[id]
		if b == nil || b.state != container.Running {
			return errFault
		}
		s := &b.switched
		if o.Number <= s.Ordered {
			return nil
		}
		s.Ordered, s.Problem = o.Number, ""
		switch {
		case o.Pause() && b.awake:
			s.Problem = "it does not come by"
		case o.Pause():
			s.Done, s.Means, b.cores = o.Number, container.Cooperative, nil
		default:
			core, err := strconv.Atoi(o.Cores)
			if err != nil {
				r.t.Errorf("%v goes on with cores %q", id, o.Cores)
			}
			for other, c := range r.containers {
				if other != id && c.state == container.Running && slices.Contains(c.cores, core) {
					r.t.Errorf("%v goes on with core %d, which %v has", id, core, other)
				}
			}
			s.Done, b.cores = o.Number, []int{core}
		}
		r.emit(id)
		return nil
	})
}

func (r lifeRuntime) Save(ctx context.Context, id container.ID, o container.SaveOrder) error {
	return r.call(ctx, func() error {
		b := r.containers[id]
		if b == nil || b.state != container.Running || b.save.Dir == o.Dir {
			return nil
		}
		b.save = container.Saving{Dir: o.Dir, Problem: b.unsaved}
		if b.unsaved == "" && !b.slow {
			if err := os.Mkdir(o.Dir, 0o700); err != nil {
				r.t.Errorf("%v is saved to %s: %v", id, o.Dir, err)
			}
			r.end(id, &container.Exit{Signal: 9, Saved: true})
		}
		r.emit(id)
		return nil
	})
}

func (r lifeRuntime) Renew(ctx context.Context, id container.ID, lease time.Time) error {
	if err := r.listen(ctx, id); err != nil {
		return err
	}
	return r.call(ctx, func() error {
		if b := r.containers[id]; b != nil {
			if b.refuses || b.silent {
				return errFault
			}
			b.lease = lease
		}
		return nil
	})
}

func (r lifeRuntime) Extend(ctx context.Context, id container.ID, lease time.Time) error {
	return r.call(ctx, func() error {
		if b := r.containers[id]; b != nil && !b.lease.IsZero() && lease.After(b.lease) {
			if b.refuses || b.silent {
				return errFault
			}
			b.lease = lease
		}
		return nil
	})
}

func (r lifeRuntime) Remove(ctx context.Context, id container.ID) error {
	return r.call(ctx, func() error {
		if b := r.containers[id]; b != nil && !b.removed {
			if b.state != container.Exited && b.state != container.Lost {
				return container.ErrLive
			}
			if a := r.allocs[id]; a != nil && (a.result == nil && !a.gone) && !r.reused[id] {
				r.t.Errorf("%v is removed before its result is known", id)
			}
			b.removed = true
		}
		return nil
	})
}

func (r lifeRuntime) List(ctx context.Context) ([]container.Status, error) {
	var out []container.Status
	return out, r.call(ctx, func() error {
		for id, b := range r.containers {
			if b.removed {
				continue
			}
			s := container.Status{ID: id, State: b.state, Pid: b.pid, Exit: b.exit,
				Switch: b.switched, Save: b.save, Extern: b.extern}
			if b.silent {
				s.Silent = "its shim, process 7, has not answered since 12:00:00"
			}
			if b.unknown {
				s.State = container.Silent
			}
			out = append(out, s)
		}
		return nil
	})
}

func (r lifeRuntime) ContainerOf(pid int) (container.ID, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, ok := r.owners[pid]
	return id, ok
}

func (r lifeRuntime) Changes() <-chan container.ID { return r.changes }

type lifeBundles struct{ *life }

func (l lifeBundles) Build(ctx context.Context, id container.ID, _ *api.Alloc, cores []int, _ []model.GPU) (string,
	error) {
	l.mu.Lock()
	building := l.building
	l.mu.Unlock()
	if building != nil {
		<-building
	}
	return "dir", l.call(ctx, func() error {
		if b := l.containers[id]; b == nil {
			l.containers[id] = &fakeContainer{removed: true}
		}
		if l.unbuildable != nil {
			return l.unbuildable
		}
		l.containers[id].cores = cores
		return nil
	})
}

func (l lifeBundles) Owner(a *api.Alloc) (model.Identity, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return a.Owner, l.noUsers
}

func (l lifeBundles) Notice(id container.ID, n container.Notice) error {
	return l.call(context.Background(), func() error { l.notices[id] = n; return nil })
}

func (l lifeBundles) Withdraw(id container.ID, _ string) error {
	return l.call(context.Background(), func() error { delete(l.notices, id); return nil })
}

func (l lifeBundles) Retire(id container.ID) error {
	return l.call(context.Background(), func() error { l.retired[id] = true; return nil })
}

func (l lifeBundles) Progress(id container.ID) *progress.Source {
	from := &progress.Source{Path: cmp.Or(l.progressOf[id], l.progress), Policies: true}
	if l.stop10 {
		from.Stop = &jobspec.ArrayStop{Metric: "loss", AtStep: 10}
	}
	return from
}

func (l lifeBundles) Findings(id container.ID) ([]container.Finding, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.findings[id], nil
}

type lifeJournal struct{ *life }

func (l lifeJournal) Append(records ...journal.Record) error {
	return l.call(context.Background(), func() error {
		if l.full {
			return errFault
		}
		return l.journal.Append(records...)
	})
}

func (l lifeJournal) Entry(id string) (journal.Entry, bool) { return l.journal.Entry(id) }
func (l lifeJournal) Entries() []journal.Entry              { return l.journal.Entries() }

type lifeGPUs struct{ *life }

func (l lifeGPUs) Inventory(context.Context) (gpu.Inventory, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hung != nil {
		return gpu.Inventory{}, l.hung
	}
	return gpu.Inventory{Devices: append([]gpu.Device(nil), l.world.gpus...)}, nil
}

func (l lifeGPUs) Processes(_ context.Context, uuid string) ([]int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.onGPU[uuid], nil
}

func (l lifeGPUs) Usage(_ context.Context, uuids ...string) ([]gpu.Use, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.usageCalls++
	if l.hung != nil {
		return nil, l.hung
	}
	list := make([]gpu.Use, len(uuids))
	for i, uuid := range uuids {
		if l.usage != nil {
			list[i] = l.usage(uuid)
			continue
		}
		for _, pid := range l.onGPU[uuid] {
			p := gpu.Process{PID: pid, Memory: gpu.Unknown}
			if used, ok := l.used[pid]; ok {
				p.Memory = used
			}
			list[i].Processes = append(list[i].Processes, p)
		}
	}
	return list, nil
}

func (l lifeGPUs) Close() error { return nil }

// usedNow says that a tenth of the processor time was the system's, and a MiB for each second of it.
func (l *life) usedNow(id container.ID) (container.Used, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cpu == nil {
		return container.Used{}, os.ErrNotExist
	}
	cpu := l.cpu(id)
	return container.Used{CPU: cpu, System: cpu / 10, Memory: int64(cpu.Seconds()) << 20}, nil
}
