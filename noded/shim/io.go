package shim

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/opencontainers/runc/libcontainer"
	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/oci/launch"
)

// # Input and output
//
// The shim has a socket at which the node daemon reads and writes what processes write and read. It is
// there for a worker whose settings ask for that, and for processes that are started beside its ranks.
// Each of both is a session (session.go). The daemon only passes frames on, so that it can be restarted:
// a worker's session waits for the next connection. That of another process is hung up with its
// connection.

// Bounds of the IO socket.
const (
	maxExecs       = 64               // processes that are started beside the ranks at a time
	requestTimeout = 10 * time.Second // for the first frame of a connection
	// unreadPatience is how long the end of a worker waits for its output to be read before it is recorded,
	// comingPatience the same where a reader is on its way, and lingerTime how long this process then stays for a
	// reader that is not connected.
	unreadPatience = 2 * time.Second
	comingPatience = 15 * time.Second
	lingerTime     = time.Minute
)

// ioServer answers at the IO socket.
type ioServer struct {
	listener net.Listener
	own      *session // of the ranks; nil: their output goes to files
	execs    chan execRequest
	hangUp   chan struct{} // no reader was connected for too long
	over     chan struct{} // closed when no more processes are started
	patience time.Duration // with output that was not read
	extern   externUse     // what processes beside the ranks use

	mu     sync.Mutex
	beside []*session // of processes beside the ranks
	timer  *time.Timer
}

// execRequest asks the supervisor to start a process.
type execRequest struct {
	container.Exec
	answer chan execAnswer
}

type execAnswer struct {
	session *session
	err     error
}

func newIOServer(s container.Settings) *ioServer {
	o := &ioServer{execs: make(chan execRequest), hangUp: make(chan struct{}, 1), over: make(chan struct{}),
		patience: unreadPatience, extern: externUse{news: make(chan struct{}, 1)}}
	if s.IO != nil {
		o.own = newSession(s.IO.Drop, nil)
		if after := time.Duration(s.IO.HangUpMS) * time.Millisecond; after > 0 {
			o.own.left = func() { o.hangUpAfter(after) }
			o.hangUpAfter(after) // it may never come
			o.own.awaited, o.patience = true, max(unreadPatience, min(after, comingPatience))
		}
	}
	return o
}

// hangUpAfter has the worker hung up unless a reader is connected by then.
func (o *ioServer) hangUpAfter(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.timer != nil {
		o.timer.Stop()
	}
	o.timer = time.AfterFunc(d, func() {
		if !o.own.connected() {
			select {
			case o.hangUp <- struct{}{}:
			default:
			}
		}
	})
}

// listen opens the socket.
func (o *ioServer) listen(dir string) error {
	l, err := container.ListenIO(dir)
	if err != nil {
		return err
	}
	o.listener = l
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go o.serve(conn)
		}
	}()
	return nil
}

// serve answers a connection.
func (o *ioServer) serve(conn net.Conn) {
	c := stream.New(conn)
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(requestTimeout)) // a socket can have one
	r, err := container.ReadIORequest(c)
	_ = conn.SetReadDeadline(time.Time{})
	switch {
	case err != nil:
	case r.Exec != nil:
		err = o.serveExec(c, *r.Exec)
	case o.own == nil:
		err = errors.New("the output of this worker goes to files, and it takes no input")
	default:
		if err = o.own.attach(c, r.Attach.From); !errors.Is(err, errNotKept) {
			err = nil // its reader is gone
		}
	}
	if err != nil { // its reader may be gone
		_ = c.WriteJSON(stream.End, stream.AllTasks, stream.StepEnd{StepTaskExit: stream.StepTaskExit{Code: 125},
			Why: err.Error()})
	}
}

// serveExec starts a process and stays with it.
func (o *ioServer) serveExec(c *stream.Conn, e container.Exec) error {
	r := execRequest{e, make(chan execAnswer, 1)}
	select {
	case o.execs <- r:
	case <-o.over:
		return errWorkerEnded
	}
	a := <-r.answer
	if a.err != nil {
		return a.err
	}
	_ = a.session.attach(c, 0) // it has ended, or its reader is gone
	a.session.hangUp()
	a.session.signal(stream.AllTasks, unix.SIGHUP)
	o.mu.Lock()
	o.beside = slices.DeleteFunc(o.beside, func(s *session) bool { return s == a.session })
	o.mu.Unlock()
	return nil
}

var errWorkerEnded = errors.New("the worker has ended")

// execute starts a process in a container of the worker.
func (sup *supervisor) execute(e container.Exec) (*session, error) {
	t, err := sup.taskFor(e.Task)
	s := &sup.switching
	switch {
	case err != nil:
		return nil, err
	case sup.state != container.Running || t.state == container.Created:
		return nil, errors.New("its command has not started yet")
	case t.state != container.Running:
		return nil, errWorkerEnded
	case s.Ordered%2 == 1 || s.Done != s.Ordered:
		return nil, errors.New("it is suspended: no process runs in it until it goes on")
	case sup.saving.busy:
		return nil, errors.New("it is being saved")
	case sup.io.processes() >= maxExecs:
		return nil, fmt.Errorf("%d processes were started in it already, as many as can be at a time", maxExecs)
	}
	session, err := t.container.execute(e, &sup.io.extern)
	if err != nil {
		return nil, fmt.Errorf("start a process in it: %w", err)
	}
	sup.io.mu.Lock()
	sup.io.beside = append(sup.io.beside, session)
	sup.io.mu.Unlock()
	return session, nil
}

// taskFor returns the task of a name, or the leader.
func (sup *supervisor) taskFor(name string) (*task, error) {
	leader := leaderOf(sup.taskStates())
	for _, t := range sup.tasks {
		if t.Name == name || name == "" && &t.taskState == leader {
			return t, nil
		}
	}
	return nil, fmt.Errorf("the worker has no task %q", name)
}

// processes returns how many processes beside the ranks have a reader.
func (o *ioServer) processes() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.beside)
}

// hungUp stops the worker because no reader came back.
func (sup *supervisor) hungUp() {
	sup.isHungUp = true
	sup.io.own.hangUp()
	if sup.state != container.Running {
		sup.killAll()
		return
	}
	_ = sup.signalTasks(func(*task) unix.Signal { return unix.SIGHUP }, "") // one that cannot be signalled is killed
	sup.wake()
	if sup.killAt == nil {
		sup.killAt = time.After(time.Duration(cmp.Or(sup.tasks[0].KillTimeout, defaultKillTimeout)) * time.Millisecond)
	}
}

// hungUpFor returns why the worker was stopped, "" if it was not hung up.
func (sup *supervisor) hungUpFor() string {
	if !sup.isHungUp {
		return ""
	}
	return fmt.Sprintf("its terminal was closed: nothing was attached to it for %v",
		jobspec.Seconds(sup.settings.IO.HangUpMS/1000))
}

// sessions lists those that have something to be read.
func (o *ioServer) sessions() []*session {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := slices.Clone(o.beside)
	if o.own != nil {
		list = append(list, o.own)
	}
	return list
}

// others lists the sessions of processes beside the ranks.
func (o *ioServer) others() []*session {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.beside)
}

// awaitRead waits for a while until the output of a worker that has ended was read.
func (o *ioServer) awaitRead() {
	close(o.over)
	late := time.After(o.patience)
	for _, s := range o.sessions() {
		if s.over(0) {
			continue
		}
		select {
		case <-s.read:
		case <-late:
			return
		}
	}
}

// linger waits for readers: for those that are connected until they have read everything, and for a
// while for one that may come back.
func (o *ioServer) linger() {
	gone := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for _, s := range o.sessions() {
		for !s.over(time.Since(gone)) {
			select {
			case <-s.read:
			case <-tick.C:
				if s.connected() {
					gone = time.Now()
				}
			}
		}
	}
	o.close()
}

// close takes no more connections.
func (o *ioServer) close() {
	if o.listener != nil {
		_ = o.listener.Close() // the process ends
	}
}

// over reports whether a session is not waited for any more: it was read, or it is without a reader for
// too long.
func (s *session) over(gone time.Duration) bool {
	select {
	case <-s.read:
		return true
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reader == nil && (s.drop && !s.awaited || s.closed || gone >= lingerTime)
}

// execute starts a process beside the ranks, see [container.Exec].
func (c *runcContainer) execute(e container.Exec, use *externUse) (*session, error) {
	spec, err := readSpec(c.dir)
	if err != nil {
		return nil, err
	}
	p, err := newProcess(spec.Process)
	if err != nil {
		return nil, err
	}
	what, err := json.Marshal(launch.Exec{Args: e.Args, Env: e.Env, Dir: e.Dir})
	if err != nil {
		return nil, err
	}
	p.Init, p.Cwd, p.Args = false, "/", []string{launch.InitFile, "exec"}
	p.Env = append(slices.Clone(spec.Process.Env), launch.ExecEnv+"="+string(what))
	files, err := c.startWithFiles(p, e.Terminal)
	if err != nil {
		return nil, err
	}
	s := newSession(false, func(_ uint32, n unix.Signal) { _ = p.Signal(n) }) // it may have ended
	s.addTask(0, files)
	s.begin()
	pid, _ := p.Pid() // it was started
	ended := use.begin(pid)
	go func() {
		state, _ := p.Wait() // the state says it
		ended(state)
		exit := exitOf(state)
		s.taskEnded(0, exit)
		s.end(stream.StepEnd{StepTaskExit: exit}, "")
	}()
	return s, nil
}

// startWithFiles starts a process with a terminal, or with pipes, and returns this end of them.
func (c *runcContainer) startWithFiles(p *libcontainer.Process, terminal *container.Terminal) ([]*os.File, error) {
	if terminal == nil {
		var ours, theirs []*os.File
		defer func() { closeAll(theirs) }()
		for i := range 3 {
			r, w, err := os.Pipe()
			if err != nil {
				closeAll(ours)
				return nil, err
			}
			if i == 0 {
				r, w = w, r
			}
			ours, theirs = append(ours, r), append(theirs, w)
		}
		p.Stdin, p.Stdout, p.Stderr = theirs[0], theirs[1], theirs[2]
		if err := c.inner.Start(p); err != nil {
			closeAll(ours)
			return nil, err
		}
		return ours, nil
	}
	ours, theirs, err := socketForFiles()
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	defer theirs.Close()
	p.ConsoleSocket, p.ConsoleWidth, p.ConsoleHeight = theirs, terminal.Columns, terminal.Rows
	if err := c.inner.Start(p); err != nil {
		return nil, err
	}
	_ = theirs.Close() // so that the end of the process is the end of what comes
	_, files, err := receiveFiles(ours)
	if err != nil || len(files) != 1 {
		closeAll(files)
		return nil, errors.Join(err, errors.New("its terminal did not come"), p.Signal(unix.SIGKILL))
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // what is closed already
	}
}

// exitOf returns how a process has ended.
func exitOf(state *os.ProcessState) stream.StepTaskExit {
	if state == nil {
		return stream.StepTaskExit{Signal: sigKill}
	}
	status, _ := state.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return stream.StepTaskExit{Signal: int(status.Signal())}
	}
	return stream.StepTaskExit{Code: status.ExitStatus()}
}

// socketForFiles returns the two ends of a socket for messages with descriptors.
func socketForFiles() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "files"), os.NewFile(uintptr(fds[1]), "files"), nil
}

// maxFiles is how many descriptors come with one message.
const maxFiles = 3

// receiveFiles waits for a message with descriptors. No text and no file is the end.
func receiveFiles(socket *os.File) (text []byte, files []*os.File, err error) {
	text, rights := make([]byte, 4096), make([]byte, unix.CmsgSpace(4*maxFiles))
	n, m := 0, 0
	for {
		n, m, _, _, err = unix.Recvmsg(int(socket.Fd()), text, rights, unix.MSG_CMSG_CLOEXEC)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil || n == 0 {
		return nil, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:m])
	if err != nil {
		return nil, nil, err
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue // another kind of message
		}
		for _, fd := range fds {
			if err := unix.SetNonblock(fd, true); err != nil {
				return nil, nil, errors.Join(err, unix.Close(fd))
			}
			files = append(files, os.NewFile(uintptr(fd), "task"))
		}
	}
	return text[:n], files, nil
}

// receiveRanks takes what the ranks read and write from rota-init.
func receiveRanks(socket *os.File, s *session) {
	defer s.begin()
	defer socket.Close()
	for {
		text, files, err := receiveFiles(socket)
		if err != nil || text == nil {
			return
		}
		var of launch.Files
		want := map[bool]int{true: 1, false: 3}
		if json.Unmarshal(text, &of) != nil || len(files) != want[of.Terminal] {
			closeAll(files)
			continue
		}
		s.addTask(uint32(of.Rank), files)
	}
}
