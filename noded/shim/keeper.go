package shim

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

// keeper looks after one worker: its container, or one for each of its tasks. Its fields belong to the goroutine in run, except where a
// mutex guards them.
type keeper struct {
	dir      string
	settings container.Settings
	tasks    []*task
	parent   *parent // nil with a single task
	lease    *lease
	listener net.Listener
	state    container.State
	stopping bool // it was asked to stop
	over     bool // it was killed, or its lease has ended: nothing begins any more
	expired  bool
	killAt   <-chan time.Time
	orders   chan request
	ends     chan *task // whose container has ended
	late     chan *task // that were told to go and have had their time

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
	_, err = c.conn.Write(append(b, '\n'))
	return err
}

type request struct {
	container.Order
	from client
}

func newKeeper(order container.Order) (*keeper, error) {
	settings, err := container.ReadSettings(order.Dir)
	if err != nil {
		return nil, err
	}
	l, err := newLease(order.Lease)
	if err != nil {
		return nil, err
	}
	k := &keeper{dir: order.Dir, settings: settings, lease: l, orders: make(chan request)}
	k.tasks = tasksOf(order.Dir, settings)
	k.ends, k.late = make(chan *task, len(k.tasks)), make(chan *task, len(k.tasks))
	return k, nil
}

// create makes everything up to the command, which waits for its start.
func (k *keeper) create() error {
	self, err := container.FindProcess(os.Getpid())
	if err != nil {
		return fmt.Errorf("find own process: %w", err)
	}
	if err := errors.Join(container.ReserveExit(k.dir, len(k.settings.Tasks)), container.WriteProcess(k.dir, self)); err != nil {
		return err
	}
	if len(k.settings.Tasks) > 0 {
		if k.parent, err = newParent(k.dir, k.settings); err != nil {
			return err
		}
	}
	if err := k.makeTasks(); err != nil {
		return err
	}
	if k.listener, err = listen(k.dir); err != nil {
		return err
	}
	k.state = container.Created
	return nil
}

// makeTasks makes every container. All of them talk to each other as processes of one machine do.
func (k *keeper) makeTasks() error {
	find, err := newFinder(k.dir, k.settings)
	if err != nil {
		return err
	}
	ipc := ""
	for _, t := range k.tasks {
		if err := t.make(k, find, ipc); err != nil {
			if k.parent != nil {
				err = fmt.Errorf("task %s: %w", t.Name, err)
			}
			return err
		}
		if ipc == "" {
			ipc = fmt.Sprintf("/proc/%d/ns/ipc", t.box.pid)
		}
	}
	for _, t := range k.tasks {
		go func() {
			<-t.box.ended
			k.ends <- t
		}()
	}
	return nil
}

// discard takes back what a failed create has done.
func (k *keeper) discard() {
	for _, t := range k.tasks {
		if t.box != nil {
			t.box.discard()
		}
	}
	if k.parent != nil {
		_ = k.parent.remove() // the daemon sweeps what is left
	}
	_ = container.RemoveSocket(k.dir) // the daemon's next try does the same
	_ = container.RemoveProcess(k.dir)
}

func listen(dir string) (net.Listener, error) {
	if err := container.RemoveSocket(dir); err != nil {
		return nil, err
	}
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	old := unix.Umask(0o177)
	defer unix.Umask(old)
	l, err := net.Listen("unix", container.SocketAddress(d))
	if err != nil {
		return nil, fmt.Errorf("listen for the node daemon: %w", err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // the address means nothing once d is closed
	return l, nil
}

func (k *keeper) accept() {
	for {
		conn, err := k.listener.Accept()
		if err != nil {
			return
		}
		k.join(client{conn, bufio.NewReader(conn)})
	}
}

// join reads a daemon's orders from now on.
func (k *keeper) join(c client) {
	k.mu.Lock()
	k.clients = append(k.clients, c)
	k.mu.Unlock()
	go func() {
		for {
			line, err := c.lines.ReadBytes('\n')
			var o container.Order
			if err != nil || json.Unmarshal(line, &o) != nil {
				c.conn.Close()
				return
			}
			k.orders <- request{o, c}
		}
	}()
}

// A progress file lies on the machine's disk and nothing of it is needed once it has been read.
const (
	progressMost  = 64 << 20 // bytes after which it begins anew
	progressEvery = 5 * time.Second
)

// trim keeps the progress files of the tasks from filling the disk.
func (k *keeper) trim() {
	for _, t := range k.tasks {
		path := container.ProgressPath(t.dir)
		if info, err := os.Lstat(path); err == nil && info.Size() > progressMost {
			_ = os.Truncate(path, 0) // the next look tries again
		}
	}
}

// run carries out orders until everything has ended and the record of it is on disk.
func (k *keeper) run() error {
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for !k.advance() {
		select {
		case <-tick.C:
			k.trim()
		case r := <-k.orders:
			k.reply(r)
		case <-k.lease.ended:
			k.expire()
		case <-k.killAt:
			k.killAt = nil
			k.killAll()
		case t := <-k.late:
			_ = t.box.kill() // it has ended by itself
		case t := <-k.ends:
			t.end()
			k.over = k.over || k.state == container.Created // nothing of the worker can be whole any more
		}
	}
	return k.finish()
}

// advance does what is due about the tasks, and reports whether nothing is left to do.
func (k *keeper) advance() bool {
	for k.state == container.Running || k.over {
		list := make([]member, len(k.tasks))
		for i, t := range k.tasks {
			list[i] = t.member
		}
		m := next(list, order{success: k.settings.Success, stop: k.stopping, over: k.over})
		for _, i := range m.stop {
			k.tasks[i].dismiss(k.late)
		}
		for _, i := range m.start {
			k.tasks[i].start()
		}
		if len(m.start) == 0 {
			return m.done
		}
	}
	return false
}

func (k *keeper) reply(r request) {
	err := k.carryOut(r.Order)
	a := k.answer()
	if err != nil {
		a = container.Answer{Error: err.Error()}
	}
	_ = r.from.send(a) // a daemon that is gone asks again
}

func (k *keeper) answer() container.Answer {
	return container.Answer{State: k.state, Pid: k.tasks[0].box.pid}
}

func (k *keeper) carryOut(o container.Order) error {
	switch o.Op {
	case container.OpStatus:
		return nil
	case container.OpStart:
		k.state = container.Running // the tasks whose turn it is begin at once
		return nil
	case container.OpKill:
		k.killAll()
		return nil
	case container.OpSignal:
		return k.signal(func(t *task) unix.Signal { return k.ask(t, unix.Signal(o.Signal)) })
	case container.OpRenew:
		return k.lease.set(o.Lease)
	}
	return fmt.Errorf("order %q is not known to this shim", o.Op)
}

// ask is the signal that asks one task to stop when the worker gets s. A signal that means something to the main tasks, such as one to save
// what they have, means nothing to others; and where it is the one that ends the leader, each main task has its own.
func (k *keeper) ask(t *task, s unix.Signal) unix.Signal {
	if k.parent == nil {
		return s
	}
	list := make([]member, len(k.tasks))
	for i, t := range k.tasks {
		list[i] = t.member
	}
	if leader := leaderOf(list); !t.main() || leader >= 0 && s == k.tasks[leader].killSignal() {
		return t.killSignal()
	}
	return s
}

// signal asks the worker to stop: those of its tasks that the others are there for. The rest follow when these have ended.
func (k *keeper) signal(which func(*task) unix.Signal) error {
	k.stopping = k.parent != nil
	var errs []error
	for _, t := range k.tasks {
		if k.parent == nil || t.state == container.Running && !t.Sidecar && t.Hook != "poststop" {
			errs = append(errs, t.box.signal(which(t)))
		}
	}
	return errors.Join(errs...)
}

// killAll ends everything at once.
func (k *keeper) killAll() {
	k.over = true
	for _, t := range k.tasks {
		if t.state != container.Exited {
			_ = t.box.kill() // it has ended by itself
		}
	}
}

// expire stops the worker because nobody has renewed its lease: somewhere else it may be about to run again.
func (k *keeper) expire() {
	if k.expired {
		return
	}
	k.expired = true
	if k.state != container.Running {
		k.killAll() // nothing of the user's runs yet
		return
	}
	grace := time.Duration(k.settings.LeaseGrace) * time.Millisecond
	if grace == 0 {
		grace = 10 * time.Second
	}
	deadline := time.Now().Add(grace).UTC().Format(time.RFC3339Nano)
	_ = container.WriteNotice(k.dir, container.Notice{
		Reason: "lease", Deadline: deadline, Attempt: k.settings.ID.Attempt, Signal: unix.SignalName(k.tasks[0].killSignal()),
	}) // the stop goes on without it
	k.over = true
	_ = k.signal((*task).killSignal) // what does not hear it is killed
	k.killAt = time.After(grace)
}

// finish leaves the exit record and tears down what is left.
func (k *keeper) finish() error {
	var errs []error
	for _, t := range k.tasks {
		if t.state != container.Exited {
			errs = append(errs, t.never())
		}
	}
	exit := k.record()
	if k.parent != nil {
		errs = append(errs, k.parent.remove())
	}
	errs = append(errs, container.WriteExit(k.dir, exit))
	k.listener.Close()
	err := errors.Join(append(errs, container.RemoveSocket(k.dir))...)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.clients {
		_ = c.send(container.Answer{Exited: true}) // the end of this process says the same
	}
	return err
}

// record is what the ends of the tasks come to.
func (k *keeper) record() container.Exit {
	if k.parent == nil {
		e := k.tasks[0].exit
		e.Lease = k.expired
		return e
	}
	var list []member
	out := container.Exit{Ended: time.Now().UnixMilli(), Lease: k.expired, PeakMem: k.parent.peak()}
	for _, t := range k.tasks {
		list = append(list, t.member)
		e := t.exit
		out.UserMS, out.SystemMS, out.LogLost = out.UserMS+e.UserMS, out.SystemMS+e.SystemMS, out.LogLost+e.LogLost
		out.Tasks = append(out.Tasks, container.TaskExit{
			Name: t.Name, Begun: t.state == container.Exited, Code: e.Code, Signal: e.Signal, OOM: e.OOM,
		})
	}
	worst, by := sum(list, k.settings.Success)
	out.Code, out.Signal, out.OOM = worst.Code, worst.Signal, worst.OOM
	if by != "" {
		out.Why = fmt.Sprintf("its %s ended with %s", by, ending(worst))
	}
	return out
}

func ending(e container.Exit) string {
	if e.Signal != 0 {
		return unix.SignalName(unix.Signal(e.Signal))
	}
	return fmt.Sprintf("exit code %d", e.Code)
}
