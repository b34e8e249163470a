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

// pool starts shims, some of them ahead of need.
type pool struct {
	cfg   Config
	image *os.File // a sealed copy of rota-shim in memory: libcontainer need not copy itself for each container

	mu     sync.Mutex
	closed bool
	ready  chan *shimProcess
}

func newPool(cfg Config) *pool {
	p := &pool{cfg: cfg, ready: make(chan *shimProcess, cfg.Warm)}
	p.image, _ = sealedCopy(cfg.ShimPath) // without it the file itself is run
	for range cfg.Warm {
		go p.refill()
	}
	return p
}

// take returns a waiting shim, or starts one. One that has been killed while it waited, as the kernel may do when memory runs out, is of no use.
func (p *pool) take() (*shimProcess, error) {
	for {
		select {
		case s := <-p.ready:
			go p.refill()
			select {
			case <-s.done:
				s.conn.Close()
			default:
				return s, nil
			}
		default:
			return p.spawn()
		}
	}
}

func (p *pool) refill() {
	s, err := p.spawn()
	if err != nil {
		return // whoever needs one will see the same error
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		select {
		case p.ready <- s:
			return
		default:
		}
	}
	s.conn.Close()
}

func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for {
		select {
		case s := <-p.ready:
			s.conn.Close()
			<-s.done
		default:
			return
		}
	}
}

// spawn starts a shim in a session of its own, so that nothing that happens to the daemon reaches it.
func (p *pool) spawn() (*shimProcess, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
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
		_ = cmd.Wait() // how a shim ends is told by the exit record
		close(s.done)
	}()
	return s, err
}

// command runs a shim that gets its order from a socket. The copy in memory is named as the daemon's own descriptor, not as the child's: between fork
// and exec the runtime moves descriptors about in the child, sometimes onto the number of that copy.
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

func socketPair() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	ours := os.NewFile(uintptr(fds[0]), "shim")
	defer ours.Close()
	theirs := os.NewFile(uintptr(fds[1]), "shim")
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn, theirs, nil
}

// sealedCopy copies a program into memory where nobody can change it.
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
	_, err = io.Copy(f, from)
	if err == nil {
		err = f.Chmod(0o511)
	}
	if err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
