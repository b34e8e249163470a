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

// keeper looks after one container. Its fields belong to the goroutine in run, except where a mutex guards them.
type keeper struct {
	dir      string
	settings container.Settings
	box      *box
	logs     *logs
	lease    *lease
	listener net.Listener
	state    container.State
	expired  bool
	killAt   <-chan time.Time
	orders   chan request

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
	end := order.Lease
	if settings.NoLease {
		end = 0
	}
	l, err := newLease(end)
	if err != nil {
		return nil, err
	}
	return &keeper{dir: order.Dir, settings: settings, lease: l, orders: make(chan request)}, nil
}

// create makes everything up to the command, which waits for its start.
func (k *keeper) create() error {
	self, err := container.FindProcess(os.Getpid())
	if err != nil {
		return fmt.Errorf("find own process: %w", err)
	}
	if err := errors.Join(container.ReserveExit(k.dir), container.WriteProcess(k.dir, self)); err != nil {
		return err
	}
	if k.logs, err = openLogs(k.dir, k.settings); err != nil {
		return err
	}
	if err = k.makeBox(); err != nil {
		return err
	}
	if k.listener, err = listen(k.dir); err != nil {
		return err
	}
	k.state = container.Created
	return nil
}

// makeBox makes the container and looks whether it shows only what its user may see.
func (k *keeper) makeBox() error {
	g, err := openGuards(k.settings.Guards, k.settings.User)
	if err != nil {
		return err
	}
	defer g.close()
	if k.box, err = newBox(k.dir, k.settings, k.logs); err != nil {
		return err
	}
	return g.verify(k.box.pid)
}

// discard takes back what a failed create has done.
func (k *keeper) discard() {
	if k.box != nil {
		k.box.discard()
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

// run carries out orders until the container has ended and its record is on disk.
func (k *keeper) run() error {
	for {
		select {
		case r := <-k.orders:
			k.reply(r)
		case <-k.lease.ended:
			k.expire()
		case <-k.killAt:
			k.killAt = nil
			_ = k.box.kill() // it has ended by itself
		case <-k.box.ended:
			return k.finish()
		}
	}
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
	return container.Answer{State: k.state, Pid: k.box.pid}
}

func (k *keeper) carryOut(o container.Order) error {
	switch o.Op {
	case container.OpStatus:
		return nil
	case container.OpStart:
		return k.start()
	case container.OpKill:
		return k.box.kill()
	case container.OpSignal:
		return k.box.signal(unix.Signal(o.Signal))
	case container.OpRenew:
		if k.settings.NoLease {
			return nil
		}
		return k.lease.set(o.Lease)
	}
	return fmt.Errorf("order %q is not known to this shim", o.Op)
}

func (k *keeper) start() error {
	if k.state == container.Running {
		return nil
	}
	if err := k.box.start(); err != nil {
		return err
	}
	k.state = container.Running
	return nil
}

// expire stops the container because nobody has renewed its lease: somewhere else it may be about to run again.
func (k *keeper) expire() {
	if k.expired {
		return
	}
	k.expired = true
	if k.state != container.Running {
		_ = k.box.kill() // nothing of the user's runs yet
		return
	}
	grace := time.Duration(k.settings.LeaseGrace) * time.Millisecond
	if grace == 0 {
		grace = 10 * time.Second
	}
	s := unix.Signal(k.settings.KillSignal)
	if s == 0 {
		s = unix.SIGTERM
	}
	deadline := time.Now().Add(grace).UTC().Format(time.RFC3339Nano)
	_ = container.WriteNotice(k.dir, container.Notice{
		Reason: "lease", Deadline: deadline, Attempt: k.settings.ID.Attempt, Signal: unix.SignalName(s),
	}) // the stop goes on without it
	_ = k.box.signal(s)
	k.killAt = time.After(grace)
}

// finish leaves the exit record and tears down what is left.
func (k *keeper) finish() error {
	exit := k.box.exit()
	exit.Lease = k.expired
	k.logs.drain(2 * time.Second)
	exit.LogLost = k.logs.lost.Load()
	err := errors.Join(k.box.destroy(), container.WriteExit(k.dir, exit))
	k.listener.Close()
	err = errors.Join(err, container.RemoveSocket(k.dir))
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.clients {
		_ = c.send(container.Answer{Exited: true}) // the end of this process says the same
	}
	return err
}
