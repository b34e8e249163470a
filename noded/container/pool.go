package container

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// shimProcess is a running rota-shim that waits for its order on conn.
type shimProcess struct {
	process Process
	conn    net.Conn
	done    chan struct{} // closed when it has been reaped
}

// pool starts shims, some of them in advance.
type pool struct {
	cfg   Config
	group *shimGroup // nil: shims stay in the daemon's cgroup
	image *os.File   // a sealed copy of rota-shim in memory: libcontainer need not copy itself for each container

	mu       sync.Mutex
	closed   bool
	starting sync.WaitGroup // of those started in advance
	ready    chan *shimProcess
}

func newPool(cfg Config, group *shimGroup) *pool {
	p := &pool{cfg: cfg, group: group, ready: make(chan *shimProcess, cfg.Warm)}
	p.image, _ = sealedCopy(cfg.ShimPath) // without it the file itself is run
	for range cfg.Warm {
		p.startAnother()
	}
	return p
}

// startAnother starts a shim in advance, unless the pool is closed.
func (p *pool) startAnother() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.starting.Go(p.startAhead)
	}
}

// takeShim returns a waiting shim, or starts one. A shim that was killed while it waited, as the
// kernel may do when memory runs out, is skipped.
func (p *pool) takeShim() (*shimProcess, error) {
	for {
		select {
		case s := <-p.ready:
			p.startAnother()
			select {
			case <-s.done:
				s.conn.Close()
			default:
				return s, nil
			}
		default:
			return p.startShim()
		}
	}
}

func (p *pool) startAhead() {
	s, err := p.startShim()
	if err != nil {
		return // the next call of takeShim will see the same error
	}
	select {
	case p.ready <- s:
	default:
		s.end()
	}
}

// end ends a shim that has no order.
func (s *shimProcess) end() {
	s.conn.Close()
	<-s.done
}

// close ends the shims that wait, and removes their cgroup if no other runs.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.starting.Wait()
	for {
		select {
		case s := <-p.ready:
			s.end()
		default:
			p.group.remove()
			return
		}
	}
}

// startShim starts a shim in a session and a cgroup of its own. So neither signals to the daemon
// reach it nor the end of the daemon's service.
func (p *pool) startShim() (*shimProcess, error) {
	ours, theirs, err := SocketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	cmd := p.command(theirs)
	if err := cmd.Start(); err != nil {
		ours.Close()
		return nil, err
	}
	process, err := FindProcess(cmd.Process.Pid)
	s := &shimProcess{process: process, conn: ours, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // the exit record says how a shim ends
		close(s.done)
	}()
	if err == nil {
		err = p.group.add(cmd.Process.Pid)
	}
	if err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

// command runs a shim that gets its order from a socket. The copy in memory is named by the
// daemon's own descriptor, not by the child's. Between fork and exec the Go runtime moves
// descriptors in the child, sometimes onto the number of that copy.
func (p *pool) command(theirs *os.File) *exec.Cmd {
	cmd := exec.Command(p.cfg.ShimPath)
	if p.image != nil {
		cmd.Path = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), p.image.Fd())
	}
	cmd.Args = []string{"rota-shim"}
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// SocketPair returns two connected unix sockets: one for this process, and one to be inherited by a
// child.
func SocketPair() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, fmt.Errorf("make a socket: %w", err)
	}
	return conn, theirs, nil
}

// sealedCopy copies a program into memory, where no process can change it.
func sealedCopy(path string) (*os.File, error) {
	from, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	fd, err := unix.MemfdCreate("rota-shim", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "rota-shim")
	if _, err = io.Copy(f, from); err == nil {
		err = f.Chmod(0o511)
	}
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS,
			unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
