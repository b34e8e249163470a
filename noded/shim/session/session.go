// Package session is the input and output of processes that a person reads and writes.
//
// The shim has a socket at which the node daemon reads and writes what processes write and read. It is
// there for a worker whose settings ask for that, and for processes that are started beside its ranks.
// Each of both is a [Session]. The daemon only passes frames on, so that it can be restarted: a worker's
// session waits for the next connection. That of another process is hung up with its connection.
package session

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/noded/container"
)

// Bounds of what a session keeps.
const (
	outputKept  = 4 << 20 // bytes of output that were not acknowledged, from which on programs wait
	frameCost   = 64      // that a frame counts for beside its data
	outputChunk = 32 << 10
)

// endOfInput is what a terminal's programs read as the end of their input: Ctrl-D.
var endOfInput = []byte{4}

// Session is what some programs read and write: the ranks of a container, or a process that was started
// beside them. One connection at a time reads and writes it. Output is kept until it is acknowledged, so
// that a reader whose connection is lost goes on where it was.
type Session struct {
	drop    bool                             // see [container.IO.Drop]
	awaited bool                             // a reader is on its way, see [container.IO.HangUpMS]
	signal  func(task uint32, s unix.Signal) // signals a task, or all
	left    func()                           // the reader is gone
	read    chan struct{}                    // closed when all that there is was acknowledged
	known   chan struct{}                    // closed when all tasks are known
	begun   sync.Once
	output  sync.WaitGroup // of programs that is not at its end, and exits not told yet

	mu       sync.Mutex
	changed  sync.Cond // any of the following
	tasks    map[uint32]*ioTask
	window   stream.Frame // the last one of its kind
	kept     []keptFrame
	cost     int   // of what is kept
	from, to int64 // in the output: the first byte that is kept, and the next that comes
	ended    bool  // the last frame has come
	closed   bool  // hung up: what is written is dropped
	reader   *stream.Conn
	queue    []stream.Frame // input that no program has taken
	queued   int            // its bytes
	taken    int64          // bytes of input that programs have taken
}

// ioTask is a program of a session: one task of its frames.
type ioTask struct {
	stdin    *os.File // nil: it is closed
	terminal bool     // stdin is its terminal, which is read too
	files    []*os.File
	output   sync.WaitGroup
}

// keptFrame is a frame of the output, and where it is.
type keptFrame struct {
	at int64
	stream.Frame
}

// New returns a session without programs. drop is [container.IO.Drop], and signal signals a task, or all.
func New(drop bool, signal func(uint32, unix.Signal)) *Session {
	s := &Session{drop: drop, signal: signal, left: func() {}, read: make(chan struct{}), known: make(chan struct{}),
		tasks: map[uint32]*ioTask{}}
	s.changed.L = &s.mu
	return s
}

// SignalBy has signals of the reader passed on by a function: to one task, or to all.
func (s *Session) SignalBy(signal func(task uint32, n unix.Signal)) { s.signal = signal }

// AddTask adds a program that has a terminal, or pipes for its standard input, output and error.
func (s *Session) AddTask(task uint32, files []*os.File) {
	p := &ioTask{stdin: files[0], terminal: len(files) == 1, files: files}
	s.mu.Lock()
	s.tasks[task] = p
	window := s.window
	s.mu.Unlock()
	if rows, columns, err := window.Window(); err == nil && (window.Task == task || window.Task == stream.AllTasks) {
		p.resize(rows, columns)
	}
	copyOut := func(kind stream.Kind, f *os.File) {
		s.output.Add(1)
		p.output.Go(func() {
			defer s.output.Done()
			s.copyOutput(kind, task, f)
		})
	}
	if p.terminal {
		copyOut(stream.Stdout, files[0])
		return
	}
	copyOut(stream.Stdout, files[1])
	copyOut(stream.Stderr, files[2])
}

// Begin has the programs that were added read their input. No more follow.
func (s *Session) Begin() {
	s.begun.Do(func() {
		close(s.known)
		go s.copyInput()
	})
}

// copyOutput takes what a program writes until it has closed its end, or the session is hung up.
// When its end is not waited for any more, the read has deadlines. Late output is still taken then,
// until nothing has come for a while.
func (s *Session) copyOutput(kind stream.Kind, task uint32, from *os.File) {
	b := make([]byte, outputChunk)
	for last := false; ; {
		n, err := from.Read(b)
		if n > 0 {
			s.put(stream.Frame{Kind: kind, Task: task, Data: slices.Clone(b[:n])})
			last = false
		}
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded) && !last:
			last = true
			_ = from.SetReadDeadline(time.Now().Add(OutputPatience)) // a pipe or a terminal can have one
		default: // of a terminal whose programs have ended it is EIO
			return
		}
	}
}

// put appends a frame to the output. Those of programs wait for room.
func (s *Session) put(f stream.Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bounded := f.Kind == stream.Stdout || f.Kind == stream.Stderr
	for bounded && s.cost >= outputKept && !s.closed {
		if s.drop && s.reader == nil {
			s.dropTo(s.kept[0].at + s.kept[0].Counts())
			continue
		}
		s.changed.Wait()
	}
	if (s.closed || s.ended) && bounded {
		return
	}
	s.kept = append(s.kept, keptFrame{s.to, f})
	s.to += f.Counts()
	s.cost += len(f.Data) + frameCost
	s.ended = s.ended || f.Kind == stream.End
	s.changed.Broadcast()
}

// dropTo drops the frames before an offset.
func (s *Session) dropTo(offset int64) {
	n := 0
	for n < len(s.kept) && s.kept[n].at < offset {
		s.cost -= len(s.kept[n].Data) + frameCost
		n++
	}
	s.kept = slices.Delete(s.kept, 0, n)
	s.from = offset
	if s.ended && s.from == s.to {
		select {
		case <-s.read:
		default:
			close(s.read)
		}
	}
	s.changed.Broadcast()
}

// acknowledge notes that the reader has all frames that end before an offset.
func (s *Session) acknowledge(offset int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch i, whole := s.find(offset); {
	case offset > s.to:
		return fmt.Errorf("byte %d was acknowledged, but only %d were written", offset, s.to)
	case offset <= s.from:
		return nil
	case !whole:
		offset = s.kept[i-1].at
	}
	s.dropTo(offset)
	return nil
}

// find returns the index of the frame at an offset. No frame may begin there: then it is the end, or the
// result is false.
func (s *Session) find(offset int64) (int, bool) {
	i, ok := slices.BinarySearchFunc(s.kept, offset, func(k keptFrame, at int64) int { return cmp.Compare(k.at, at) })
	return i, ok || offset == s.to
}

// errNotKept is why a reader cannot go on where it has stopped.
var errNotKept = errors.New("it cannot be read from that position")

// Attach makes a connection the reader, from an offset of the output on, and returns when it has ended
// or has read everything.
func (s *Session) Attach(c *stream.Conn, from int64) error {
	s.mu.Lock()
	switch {
	case from < 0:
		from = s.to
	case from < s.from && s.drop:
		from = s.from
	}
	if _, ok := s.find(from); !ok {
		defer s.mu.Unlock()
		return fmt.Errorf("the output is kept from byte %d to %d, but no frame begins at %d: %w", s.from, s.to, from,
			errNotKept)
	}
	s.dropTo(from)
	if s.reader != nil {
		_ = s.reader.Close() // it hears that another one reads
	}
	s.reader = c
	s.dropInput()
	s.changed.Broadcast()
	s.mu.Unlock()
	go s.send(c, from)
	err := s.receive(c)
	s.mu.Lock()
	if s.reader == c {
		s.reader = nil
		s.left()
	}
	s.changed.Broadcast()
	s.mu.Unlock()
	return err
}

// dropInput drops what an earlier connection has sent and no program has taken. It is sent again.
func (s *Session) dropInput() { s.queue, s.queued = nil, 0 }

// send sends the output from an offset on, and how much input was taken, while c is the reader.
func (s *Session) send(c *stream.Conn, at int64) {
	told := int64(-1)
	if c.WriteJSON(stream.Begun, stream.AllTasks, container.IOBegun{From: at}) != nil {
		_ = c.Close() // receive ends
		return
	}
	for {
		f, ok := s.next(c, &at, &told)
		if !ok || c.Write(f) != nil {
			_ = c.Close() // receive ends
			return
		}
	}
}

// next waits for the next frame of a reader. It is false when c is the reader no more, or has
// acknowledged all.
func (s *Session) next(c *stream.Conn, at, told *int64) (stream.Frame, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch i, _ := s.find(*at); {
		case s.reader != c, s.ended && s.from == s.to:
			return stream.Frame{}, false
		case s.taken != *told:
			*told = s.taken
			return stream.Number(s.taken), true
		case i < len(s.kept):
			*at += s.kept[i].Counts()
			return s.kept[i].Frame, true
		}
		s.changed.Wait()
	}
}

// receive takes what the reader sends until its connection ends. It never waits for programs.
func (s *Session) receive(c *stream.Conn) error {
	for {
		f, err := c.Read()
		if err != nil {
			return err
		}
		if err := s.take(c, f); err != nil {
			return errors.Join(err, c.Close())
		}
	}
}

// take takes one frame of the reader. Kinds that this shim does not know are passed over.
func (s *Session) take(c *stream.Conn, f stream.Frame) error {
	switch f.Kind {
	case stream.Ack:
		offset, err := f.Offset()
		if err == nil {
			err = s.acknowledge(offset)
		}
		return err
	case stream.Stdin, stream.StdinEnd:
		return s.enqueue(c, f)
	case stream.Signal:
		n := unix.SignalNum(string(f.Data))
		if n == 0 { // not SIGTERM instead, as in a job file: no user has asked for the end of the programs
			return fmt.Errorf("unknown signal %q", f.Data)
		}
		s.signal(f.Task, n)
	case stream.Window:
		rows, columns, err := f.Window()
		if err != nil {
			return err
		}
		s.resize(f, rows, columns)
	}
	return nil
}

// resize tells terminals their size, those of tasks that come later too.
func (s *Session) resize(f stream.Frame, rows, columns uint16) {
	s.mu.Lock()
	s.window = stream.Size(f.Task, rows, columns)
	s.mu.Unlock()
	for _, p := range s.of(f.Task) {
		p.resize(rows, columns)
	}
}

// enqueue keeps input for the programs.
func (s *Session) enqueue(c *stream.Conn, f stream.Frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reader != c {
		return errors.New("another reader is connected")
	}
	if s.queued += len(f.Data); s.queued > stream.MaxUnread {
		return fmt.Errorf("more than %d bytes of input are waiting for the program", stream.MaxUnread)
	}
	f.Data = slices.Clone(f.Data)
	s.queue = append(s.queue, f)
	s.changed.Broadcast()
	return nil
}

// copyInput gives programs their input, in the order in which it came.
func (s *Session) copyInput() {
	for {
		f, ok := s.nextInput()
		if !ok {
			return
		}
		for _, p := range s.of(f.Task) {
			if f.Kind == stream.StdinEnd {
				s.closeInput(p)
			} else if p.stdin != nil {
				_, _ = p.stdin.Write(f.Data) // one that has ended reads no more
			}
		}
	}
}

// nextInput waits for input; false: no more comes. A chunk that it returns counts as taken. It is
// not sent again, whatever becomes of the connection.
func (s *Session) nextInput() (stream.Frame, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) == 0 {
		if s.closed || s.ended {
			return stream.Frame{}, false
		}
		s.changed.Wait()
	}
	f := s.queue[0]
	s.queue, s.queued = s.queue[1:], s.queued-len(f.Data)
	s.taken += int64(len(f.Data))
	s.changed.Broadcast()
	return f, true
}

// of returns the programs of a task, or of all.
func (s *Session) of(task uint32) []*ioTask {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*ioTask
	for n, p := range s.tasks {
		if task == n || task == stream.AllTasks {
			list = append(list, p)
		}
	}
	return list
}

// closeInput ends a program's input.
func (s *Session) closeInput(p *ioTask) {
	switch {
	case p.stdin == nil:
	case p.terminal:
		_, _ = p.stdin.Write(endOfInput) // one that has ended reads no more
	default:
		_ = p.stdin.Close() // the same
		p.stdin = nil
	}
}

// resize tells a terminal its size. The kernel signals its programs.
func (p *ioTask) resize(rows, columns uint16) {
	if !p.terminal {
		return
	}
	c, err := p.stdin.SyscallConn()
	if err == nil {
		_ = c.Control(func(fd uintptr) { // one that is closed has no size
			_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
		})
	}
}

// close closes the files of a program. The programs of its terminal are hung up.
func (p *ioTask) close() {
	for _, f := range p.files {
		_ = f.Close() // what is closed already
	}
}

// TaskEnded tells how a task has ended, once its output is at its end: another process may hold that
// open, which is not waited for.
func (s *Session) TaskEnded(task uint32, exit stream.StepTaskExit) {
	s.output.Go(func() {
		<-s.known
		for _, p := range s.of(task) {
			p.awaitOutput()
		}
		f, _ := stream.JSON(stream.Exit, task, exit) // two numbers
		s.put(f)
	})
}

// awaitOutput waits for the end of a program's output, see [Session.copyOutput].
func (p *ioTask) awaitOutput() {
	for _, f := range p.files {
		_ = f.SetReadDeadline(time.Now().Add(OutputPatience)) // pipes and terminals can have deadlines
	}
	p.output.Wait()
}

// End tells how all has ended, with a note unless that is empty, once the output is at its end, and closes the
// files.
func (s *Session) End(how stream.StepEnd, note string) {
	<-s.known
	for _, p := range s.of(stream.AllTasks) {
		p.awaitOutput()
		p.close()
	}
	s.output.Wait()
	s.Note(note)
	f, err := stream.JSON(stream.End, stream.AllTasks, how)
	if err != nil { // a reason of that length
		how.Why = "it is too long to be reported"
		f, _ = stream.JSON(stream.End, stream.AllTasks, how)
	}
	s.put(f)
}

// Note writes a line of this process's own into what its reader gets, as its first program's error output.
func (s *Session) Note(text string) {
	if text == "" {
		return
	}
	s.mu.Lock()
	first, kind, end := uint32(math.MaxUint32), stream.Stderr, "\n"
	for number, p := range s.tasks {
		if first = min(first, number); number == first && p.terminal {
			kind, end = stream.Stdout, "\r\n"
		}
	}
	none := len(s.tasks) == 0
	s.mu.Unlock()
	if !none {
		s.put(stream.Frame{Kind: kind, Task: first, Data: []byte("[rota: " + text + "]" + end)})
	}
}

// HangUp closes the terminals and the input of all programs. Their output from then on is dropped.
func (s *Session) HangUp() {
	s.mu.Lock()
	s.closed = true
	s.changed.Broadcast()
	s.mu.Unlock()
	for _, p := range s.of(stream.AllTasks) {
		p.close()
	}
}

// connected reports whether there is a reader.
func (s *Session) connected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reader != nil
}
