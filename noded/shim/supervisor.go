package shim

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api/clock"
	"github.com/rota-hpc/rota/jobspec/lossy"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/shim/jobsocket"
	"github.com/rota-hpc/rota/noded/shim/lifecycle"
	"github.com/rota-hpc/rota/noded/shim/output"
	"github.com/rota-hpc/rota/noded/shim/session"
)

// supervisor looks after one worker: its container, or one for each of its tasks. Its fields belong
// to the goroutine of run, except for those that a mutex guards.
type supervisor struct {
	lifecycle.Phase
	dir       string
	settings  container.Settings
	tasks     []*task
	lossTold  int64            // bytes of lost output that daemons were told of
	shared    *sharedResources // nil with a single task
	lease     *lease
	listener  net.Listener
	state     container.State
	expired   bool // the lease has ended
	early     bool // the main tasks were told that the time limit comes
	isHungUp  bool
	job       *jobsocket.Socket
	io        *session.Server
	switching switching
	memory    gpuMemory
	image     image
	killAt    <-chan time.Time
	trimming  atomic.Bool // the progress files are being trimmed
	allEnded  atomic.Bool // no task runs any more
	orders    chan request
	ended     chan *task // tasks whose container has ended
	overdue   chan *task // tasks that were asked to stop and have used up their time

	mu      sync.Mutex
	clients []client
}

// client is one connection of a daemon.
type client struct {
	conn  net.Conn
	lines *bufio.Reader
}

func (c client) send(a container.Answer) error {
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_ = c.conn.SetWriteDeadline(time.Now().Add(sendPatience)) // a daemon that stands still reads nothing
	if _, err = c.conn.Write(append(b, '\n')); err != nil {
		c.conn.Close() // a part of an answer is none
	}
	return err
}

type request struct {
	container.Order
	from client
}

func newSupervisor(order container.Order) (*supervisor, error) {
	settings, err := container.ReadSettings(order.Dir)
	if err != nil {
		return nil, err
	}
	l, err := newLease(order.Lease)
	if err != nil {
		return nil, err
	}
	sup := &supervisor{
		Phase: lifecycle.Phase{Success: settings.Success}, dir: order.Dir, settings: settings,
		tasks: tasksOf(order.Dir, settings), lease: l, orders: make(chan request), job: jobsocket.New(),
		io:     session.NewServer(settings),
		memory: newGPUMemory(), image: newImage(settings.Restore),
	}
	if settings.Restore != nil && settings.Several() {
		return nil, errors.New("a worker of several tasks cannot be restored from an image: CRIU restores one container")
	}
	if settings.IO != nil && (settings.Restore != nil || settings.Several()) {
		return nil, container.Final(errors.New("only a worker with one task that is not restored from an image can have " +
			"its own input and output"))
	}
	l.watch(func() { sup.forceEnd(sup.leaseGrace() + loopPatience) })
	sup.ended, sup.overdue = make(chan *task, len(sup.tasks)), make(chan *task, len(sup.tasks))
	return sup, nil
}

// create creates everything up to the command, which waits for its start.
func (sup *supervisor) create() error {
	self, err := container.FindProcess(os.Getpid())
	if err != nil {
		return fmt.Errorf("find own process: %w", err)
	}
	if err := errors.Join(container.ReserveExit(sup.dir, len(sup.settings.Tasks)),
		container.WriteProcess(sup.dir, self)); err != nil {
		return err
	}
	if sup.settings.Several() {
		if sup.shared, err = newSharedResources(sup.dir, sup.settings); err != nil {
			return err
		}
	}
	if err := sup.createTasks(); err != nil {
		return err
	}
	if err = sup.io.Listen(sup.dir); err != nil {
		return err
	}
	if sup.listener, err = container.ListenSocket(sup.dir); err != nil {
		return err
	}
	sup.state = container.Created
	return nil
}

// createTasks creates every container. They share an IPC namespace, like processes of one machine.
func (sup *supervisor) createTasks() error {
	scanner, err := output.NewScanner(sup.dir, sup.settings)
	if err != nil {
		return err
	}
	limit, ipc := output.NewThrottle(sup.settings.OutputRate), sup.settings.IPC
	for _, t := range sup.tasks {
		if err := sup.job.Listen(t.dir, t.user); err != nil {
			return err
		}
		if err := t.create(scanner, limit, ipc, sup.settings.Restore, sup.io.Own); err != nil {
			if sup.shared != nil {
				err = fmt.Errorf("task %s: %w", t.Name, err)
			}
			return err
		}
		if ipc == "" && sup.shared != nil {
			ipc = fmt.Sprintf("/proc/%d/ns/ipc", t.container.pid)
		}
	}
	for _, t := range sup.tasks {
		go func() {
			<-t.container.ended
			sup.ended <- t
		}()
	}
	return nil
}

// discard removes what a failed create has made.
func (sup *supervisor) discard() {
	for _, t := range sup.tasks {
		if t.container != nil {
			t.container.discard()
		}
		_ = container.EndProgress(t.dir) // the daemon removes what is left
	}
	if sup.shared != nil {
		_ = sup.shared.remove() // the daemon sweeps what is left
	}
	_ = container.RemoveSocket(sup.dir) // the daemon's next try does the same
	sup.io.Close()
	_ = container.RemoveIO(sup.dir) // the same
	_ = container.RemoveProcess(sup.dir)
}

func (sup *supervisor) acceptClients() {
	for {
		conn, err := sup.listener.Accept()
		if err != nil {
			return
		}
		sup.addClient(client{conn, bufio.NewReader(conn)})
	}
}

// addClient reads the orders of a daemon from now on.
func (sup *supervisor) addClient(c client) {
	sup.mu.Lock()
	sup.clients = append(sup.clients, c)
	sup.mu.Unlock()
	go func() {
		for {
			line, err := c.lines.ReadBytes('\n')
			var o container.Order
			if err != nil || json.Unmarshal(line, &o) != nil {
				c.conn.Close()
				return
			}
			if o.Op == container.OpKill {
				sup.forceEnd(loopPatience)
			}
			sup.orders <- request{o, c}
		}
	}()
}

// A progress file lies on the machine's disk, and is not needed once it has been read.
const (
	progressMax  = 64 << 20 // bytes after which it is emptied
	trimInterval = 5 * time.Second
)

// trimProgress keeps the progress files of the tasks from filling the disk.
func (sup *supervisor) trimProgress() {
	for _, t := range sup.tasks {
		path := container.ProgressPath(t.dir)
		if info, err := os.Lstat(path); err == nil && info.Size() > progressMax {
			t.readFinished()
			_ = os.Truncate(path, 0) // the next tick tries again
		}
	}
}

// run carries out orders until everything has ended and the exit record is on disk.
func (sup *supervisor) run() error {
	tick := time.NewTicker(trimInterval)
	defer tick.Stop()
	for !sup.advanceTasks() {
		select {
		case <-tick.C:
			sup.trimBeside()
			sup.announceLoss()
		case r := <-sup.orders:
			sup.carryOutAndAnswer(r)
		case <-sup.lease.ended:
			sup.stopExpired()
		case r := <-sup.io.Execs:
			r.Reply(sup.execute(r.Exec))
		case <-sup.io.Extern.News:
			sup.announce()
		case <-sup.io.HangUp:
			sup.hungUp()
		case said := <-sup.job.Sayings:
			sup.hear(said)
		case <-sup.switching.due:
			sup.switching.due = nil
			sup.switchOverdue()
		case m := <-sup.memory.moves:
			sup.memoryMoved(m)
		case <-sup.killAt:
			sup.killAt = nil
			sup.killAll()
		case t := <-sup.overdue:
			_ = t.container.kill() // it may have ended by itself
		case err := <-sup.image.over:
			sup.criuEnded(err)
		case t := <-sup.ended:
			sup.taskEnded(t)
		}
	}
	return sup.finish()
}

// taskEnded notes the end of a task.
func (sup *supervisor) taskEnded(t *task) {
	switch {
	case sup.image.phase.atWork():
		sup.image.held = t // first it must be known whether CRIU has ended it
	case t.State == container.Created && sup.NoMoreStarts:
		// it was killed before its start: finish records that it never ran
	default:
		t.recordEnd()
		// a worker that lost a task before its start cannot run
		sup.NoMoreStarts = sup.NoMoreStarts || sup.state == container.Created
	}
}

// advanceTasks starts and stops the tasks that are due. It reports whether no more is left to do.
func (sup *supervisor) advanceTasks() bool {
	for sup.state == container.Running || sup.NoMoreStarts {
		m := lifecycle.Next(sup.taskStates(), sup.Phase)
		for _, i := range m.Stop {
			sup.tasks[i].stopForOthers(sup.overdue)
		}
		for _, i := range m.Start {
			sup.tasks[i].start()
		}
		if len(m.Start) == 0 {
			return m.Done
		}
	}
	return false
}

// taskStates returns what is known of each task.
func (sup *supervisor) taskStates() []*lifecycle.TaskState {
	list := make([]*lifecycle.TaskState, len(sup.tasks))
	for i, t := range sup.tasks {
		list[i] = &t.TaskState
	}
	return list
}

func (sup *supervisor) carryOutAndAnswer(r request) {
	err := sup.carryOut(r.Order)
	a := sup.answer()
	if err != nil {
		a = container.Answer{Error: err.Error()}
	}
	_ = r.from.send(a) // a daemon that is gone asks again
}

func (sup *supervisor) answer() container.Answer {
	return container.Answer{State: sup.state, Pid: sup.tasks[0].container.pid, Switch: sup.switching.Switching,
		Save: sup.image.save, Extern: sup.io.Extern.Spent(), Lost: sup.lostOutput()}
}

// lostOutput returns the output of all tasks that could not be written by now.
func (sup *supervisor) lostOutput() (sum lossy.Loss) {
	for _, t := range sup.tasks {
		sum.Add(t.logs.Lost())
	}
	return sum
}

// announceLoss tells daemons of lost output: of the first, and when it has doubled.
func (sup *supervisor) announceLoss() {
	if n := sup.lostOutput().Bytes; n > 0 && n >= 2*sup.lossTold {
		sup.lossTold = n
		sup.announce()
	}
}

func (sup *supervisor) carryOut(o container.Order) error {
	switch o.Op {
	case container.OpStatus:
		return nil
	case container.OpStart:
		sup.startOrRestore()
		return nil
	case container.OpSave:
		return sup.save(*o.Save)
	case container.OpKill:
		sup.killAll()
		return nil
	case container.OpSwitch:
		return sup.switchTo(*o.Switch)
	case container.OpSignal:
		if o.Early {
			return sup.signalEarly(unix.Signal(o.Signal), o.To)
		}
		defer sup.wake()
		sup.AskedBy = o.Signal
		return sup.signalTasks(func(t *task) unix.Signal { return sup.stopSignal(t, unix.Signal(o.Signal)) }, o.To)
	case container.OpPlainSignal:
		return sup.signalMain(unix.Signal(o.Signal), o.To)
	case container.OpRenew:
		return sup.lease.renew(o.Lease)
	case container.OpExtend:
		return sup.lease.extend(o.Lease)
	}
	return fmt.Errorf("unknown order %q for this shim", o.Op)
}

// stopSignal returns the signal that asks one task to stop when the worker gets s. A signal for the
// main tasks only, such as one to save their state, does not reach the others: they get their own
// signals. If s is the one that ends the leader, each main task gets its own signal too.
func (sup *supervisor) stopSignal(t *task, s unix.Signal) unix.Signal {
	if sup.shared == nil {
		return s
	}
	if leader := lifecycle.LeaderOf(sup.taskStates()); !t.IsMain() || leader != nil && s == leader.StopSignal() {
		return t.StopSignal()
	}
	return s
}

// signalTasks asks the worker to stop: it signals the tasks that the sidecars are there for. The
// sidecars follow when these have ended.
func (sup *supervisor) signalTasks(which func(*task) unix.Signal, to string) error {
	sup.image.cancel()
	sup.Stopping = sup.shared != nil
	sup.noteAsked()
	var errs []error
	for _, t := range sup.tasks {
		if sup.shared == nil || t.State == container.Running && !t.Sidecar && t.Hook != "poststop" {
			errs = append(errs, t.container.stop(which(t), to))
		}
	}
	return errors.Join(errs...)
}

// noteAsked notes for each task that has not ended that the worker is asked to stop.
func (sup *supervisor) noteAsked() {
	for _, t := range sup.tasks {
		select {
		case <-t.container.ended:
		default:
			t.Asked = true
		}
	}
}

// signalEarly tells the main tasks that the time limit comes. They are not asked to stop, and are told
// once: a daemon that was killed before it noted that it has told them asks again.
func (sup *supervisor) signalEarly(s unix.Signal, to string) error {
	if sup.early {
		return nil
	}
	err := sup.signalMain(s, to)
	if errors.Is(err, errNothingRuns) {
		err = nil
	}
	sup.early = err == nil
	return err
}

// errNothingRuns is the error for a signal that no task gets.
var errNothingRuns = errors.New("no main task of the worker is running")

// signalMain passes a signal on to the main tasks that run. They are not asked to stop.
func (sup *supervisor) signalMain(s unix.Signal, to string) error {
	errs := []error{errNothingRuns}
	for _, t := range sup.tasks {
		if t.IsMain() && t.State == container.Running {
			errs = append(errs, t.container.signal(s, to))
		}
	}
	if len(errs) > 1 {
		errs = errs[1:]
	}
	return errors.Join(errs...)
}

// killAll ends everything at once.
func (sup *supervisor) killAll() {
	sup.NoMoreStarts = true
	sup.noteAsked()
	sup.memory.abandon()
	sup.image.cancel()
	for _, t := range sup.tasks {
		if t.State != container.Exited {
			_ = t.container.kill() // it may have ended by itself
		}
	}
	sup.thaw() // frozen processes do not die
}

// defaultLeaseGrace is the time between signal and kill if the settings have none.
const defaultLeaseGrace = 10 * time.Second

// stopExpired stops the worker because its lease was not renewed: the controllers may be about to
// start it on another node. It gets a notice and a signal, and is killed after the lease grace.
func (sup *supervisor) stopExpired() {
	if sup.expired {
		return
	}
	sup.expired = true
	if sup.state != container.Running {
		sup.killAll() // none of the user's programs has started
		return
	}
	grace := sup.leaseGrace()
	sup.killAt = time.After(grace)
	notice := container.Notice{
		Reason: "lease", Deadline: time.Now().Add(grace).UTC().Format(time.RFC3339Nano), Attempt: sup.settings.ID.Attempt,
		Signal: unix.SignalName(sup.tasks[0].StopSignal()),
	}
	_ = bounded(noticePatience, func() error { return writeNotice(sup.dir, notice) }) // the stop goes on without it
	sup.NoMoreStarts = true
	_ = sup.signalTasks((*task).StopSignal, "") // a task that cannot be signalled is killed
	sup.wake()
}

// finish writes the exit record and removes what is left.
func (sup *supervisor) finish() error {
	var errs []error
	for _, t := range sup.tasks {
		if t.State != container.Exited {
			errs = append(errs, t.endUnstarted())
		}
	}
	sup.allEnded.Store(true)
	sup.job.Close()
	sup.memory.abandon()
	sup.io.Extern.Await()
	exit := sup.exitRecord()
	exit.Finished = sup.saidFinished()
	exit.Extern = sup.io.Extern.Spent() // a part of the whole: it is in the same cgroup
	switch {
	case sup.shared == nil:
	case sup.shared.place && !sup.NoMoreStarts: // it has ended by itself
		errs = append(errs, sup.shared.leave())
	default:
		errs = append(errs, sup.shared.remove())
	}
	sup.io.AwaitRead()
	errs = append(errs, container.WriteExit(sup.dir, exit))
	sup.listener.Close()
	err := errors.Join(append(errs, container.RemoveSocket(sup.dir))...)
	sup.mu.Lock()
	for _, c := range sup.clients {
		_ = c.send(container.Answer{Exited: true}) // the end of this process says the same
	}
	sup.mu.Unlock()
	sup.io.Linger()
	return errors.Join(err, container.RemoveIO(sup.dir))
}

// exitRecord returns the record of the worker, made from the ends of its tasks.
func (sup *supervisor) exitRecord() container.Exit {
	if sup.shared == nil {
		e := sup.tasks[0].Exit
		e.Unbegun = !sup.tasks[0].Executed
		e.Why = sup.memory.lost
		if e.Why == "" && sup.image.phase == lost {
			e.Why = sup.image.why
		}
		if e.Why == "" && (e.Code != 0 || e.Signal != 0) {
			e.Why = sup.hungUpFor()
		}
		if sup.image.phase == saved {
			e.Saved, e.OOM, e.Own, e.Killed = true, false, false, ""
		}
		e.Lease = sup.expired && !e.Own
		if sup.image.phase == unrestored {
			e.NotRestored, e.Why = true, sup.image.why
		}
		return e
	}
	cgroup := sup.shared.cgroup
	out := container.Exit{Ended: clock.Wall().UnixMilli(), Unbegun: true,
		PeakMem: peakMemory(cgroup.Path("memory"), cgroup.Path(""))}
	for _, t := range sup.tasks {
		e := t.Exit
		out.UserMS, out.SystemMS = out.UserMS+e.UserMS, out.SystemMS+e.SystemMS
		lost := out.Lost()
		lost.Add(e.Lost())
		out.SetLost(lost)
		out.PeakMem = max(out.PeakMem, e.PeakMem) // which is that of the whole worker, if it is known
		out.Unbegun = out.Unbegun && !t.Executed
		if e.OOM && !out.OOM {
			out.OOM, out.Killed = true, e.Killed
			if len(sup.tasks) > 1 {
				out.Killed = fmt.Sprintf("task %s: %s", t.Name, e.Killed)
			}
		}
		out.Tasks = append(out.Tasks, container.TaskExit{
			Name: t.Name, Begun: t.State == container.Exited, Code: e.Code, Signal: e.Signal, OOM: e.OOM,
		})
	}
	countTime(&out, sup.shared.path)
	worst, by := lifecycle.ExitOf(sup.taskStates(), sup.Phase)
	out.Code, out.Signal, out.Own = worst.Code, worst.Signal, worst.Own
	out.Lease = sup.expired && !out.Own
	switch {
	case sup.memory.lost != "":
		out.Why = sup.memory.lost
	case sup.isHungUp && (out.Code != 0 || out.Signal != 0):
		out.Why = sup.hungUpFor()
	case by != "":
		out.Why = fmt.Sprintf("its %s ended with %s", by, exitText(worst))
	}
	return out
}

func exitText(e container.Exit) string {
	if e.Signal != 0 {
		return unix.SignalName(unix.Signal(e.Signal))
	}
	return fmt.Sprintf("exit code %d", e.Code)
}
