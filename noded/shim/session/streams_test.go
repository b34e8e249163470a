package session

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/noded/container"
)

// piped is a program of a session, from its side.
type piped struct{ stdin, stdout, stderr *os.File }

// addPiped adds a program with pipes to a session.
func addPiped(t *testing.T, s *Session, task uint32) *piped {
	t.Helper()
	var ours, theirs []*os.File
	for i := range 3 {
		r, w, err := os.Pipe()
		check(t, err)
		if i == 0 {
			r, w = w, r
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	t.Cleanup(func() { CloseAll(ours); CloseAll(theirs) })
	s.AddTask(task, ours)
	return &piped{theirs[0], theirs[1], theirs[2]}
}

// attached attaches a reader to a session, from an offset on.
func attached(t *testing.T, s *Session, from int64) (*stream.Conn, chan error) {
	t.Helper()
	ours, theirs := pair(t)
	check(t, ours.SetDeadline(time.Now().Add(20*time.Second)))
	done := make(chan error, 1)
	go func() { done <- s.Attach(stream.New(theirs), from) }()
	return stream.New(ours), done
}

// until reads frames up to one of a kind, which it returns with all output before it.
func until(t *testing.T, c *stream.Conn, kind stream.Kind) (last stream.Frame, output string, counts int64) {
	t.Helper()
	for {
		f, err := c.Read()
		if err != nil {
			t.Fatalf("before a frame of kind %c: %v, after %q", kind, err, output)
		}
		counts += f.Counts()
		if f.Kind == kind {
			return f, output, counts
		}
		if f.Kind == stream.Stdout || f.Kind == stream.Stderr {
			output += string(f.Data)
		}
	}
}

// TestAProgramAndItsReader passes input and output between two programs and two connections, of which the first is
// lost. It notices what is lost, doubled, or given to another program, and an end that is not told.
func TestAProgramAndItsReader(t *testing.T) {
	var signals []string
	s := New(false, func(task uint32, n unix.Signal) { signals = append(signals, unix.SignalName(n)) })
	first, second := addPiped(t, s, 0), addPiped(t, s, 1)
	s.Begin()
	s.Begin() // once
	reader, lost := attached(t, s, 0)
	check(t, reader.Write(stream.Frame{Kind: stream.Stdin, Task: 0, Data: []byte("for one")}))
	check(t, reader.Write(stream.Frame{Kind: stream.Stdin, Task: stream.AllTasks, Data: []byte("|all")}))
	check(t, reader.Write(stream.Frame{Kind: stream.Signal, Task: stream.AllTasks, Data: []byte("SIGUSR1")}))
	for of, want := range map[*piped]string{first: "for one|all", second: "|all"} {
		b := make([]byte, len(want))
		if _, err := io.ReadFull(of.stdin, b); err != nil || string(b) != want {
			t.Errorf("a program reads %q, %v", b, err)
		}
	}
	_, err := first.stdout.WriteString("out")
	check(t, err)
	at, taken := int64(0), int64(0)
	for at == 0 || taken != 11 { // what programs have taken is said
		f, err := reader.Read()
		check(t, err)
		at += f.Counts()
		switch f.Kind {
		case stream.Ack:
			taken, err = f.Offset()
			check(t, err)
		case stream.Stdout:
			if string(f.Data) != "out" || f.Task != 0 {
				t.Errorf("task %d writes %q", f.Task, f.Data)
			}
		}
	}
	check(t, reader.Write(stream.Number(at)))
	check(t, reader.Close())
	<-lost
	if len(signals) != 1 || signals[0] != "SIGUSR1" {
		t.Errorf("signals %v", signals)
	}
	_, err = second.stderr.WriteString("err")
	check(t, err)
	reader, over := attached(t, s, at)
	check(t, reader.Write(stream.Frame{Kind: stream.StdinEnd, Task: stream.AllTasks}))
	for _, of := range []*piped{first, second} {
		if b, err := io.ReadAll(of.stdin); err != nil || len(b) != 0 {
			t.Errorf("at the end of its input a program reads %q, %v", b, err)
		}
		check(t, of.stdout.Close())
		check(t, of.stderr.Close())
	}
	s.TaskEnded(1, stream.StepTaskExit{Code: 3})
	exit, output, more := until(t, reader, stream.Exit)
	at += more
	if output != "err" || exit.Task != 1 || !strings.Contains(string(exit.Data), `"code":3`) {
		t.Errorf("%q, task %d ends by %s", output, exit.Task, exit.Data)
	}
	go s.End(stream.StepEnd{StepTaskExit: stream.StepTaskExit{Code: 3}}, "a word")
	end, output, more := until(t, reader, stream.End)
	at += more
	var how stream.StepEnd
	if check(t, json.Unmarshal(end.Data, &how)); how.Code != 3 || output != "[rota: a word]\n" {
		t.Errorf("it ends by %s, after %q", end.Data, output)
	}
	check(t, reader.Write(stream.Number(at)))
	if _, err := reader.Read(); err == nil {
		t.Error("something follows the end")
	}
	<-over
	select {
	case <-s.read:
	case <-time.After(20 * time.Second):
		t.Error("what was read is waited for")
	}
}

// TestTheEndOfInputOfATerminal: a terminal's programs read Ctrl-D, and those of pipes nothing more.
func TestTheEndOfInputOfATerminal(t *testing.T) {
	r, w, err := os.Pipe()
	check(t, err)
	s := New(false, nil)
	p := &ioTask{stdin: w, terminal: true}
	s.closeInput(p)
	b := make([]byte, 9)
	if n, err := r.Read(b); n != 1 || b[0] != 4 || err != nil || p.stdin == nil {
		t.Errorf("it reads %v, %v", b[:n], err)
	}
	p.terminal = false
	s.closeInput(p)
	if n, err := r.Read(b); !errors.Is(err, io.EOF) || p.stdin != nil {
		t.Errorf("then %v, %v", b[:n], err)
	}
	s.closeInput(p) // once more is nothing
	how := stream.StepEnd{Why: strings.Repeat("x", stream.MaxData)}
	s.Begin()
	if s.End(how, ""); len(s.kept) != 1 || !strings.Contains(string(s.kept[0].Data), "too long to be reported") {
		t.Errorf("a reason of %d bytes: %d frames", len(how.Why), len(s.kept))
	}
}

// TestOutputAfterTheEnd: what comes late is taken until nothing has come for a while.
func TestOutputAfterTheEnd(t *testing.T) {
	s := New(false, nil)
	p := addPiped(t, s, 0)
	s.Begin()
	begin := time.Now()
	ended := make(chan struct{})
	go func() { s.End(stream.StepEnd{}, ""); close(ended) }()
	time.Sleep(OutputPatience / 4)
	_, err := p.stdout.WriteString("late")
	check(t, err)
	select {
	case <-ended: // another process may hold the pipe
	case <-time.After(20 * time.Second):
		t.Fatal("the end waits for a pipe that stays open")
	}
	if took := time.Since(begin); took < OutputPatience {
		t.Errorf("it was waited for %v", took)
	}
	if len(s.kept) != 2 || string(s.kept[0].Data) != "late" || !s.ended {
		t.Errorf("%d frames are kept", len(s.kept))
	}
}

// sendFiles sends a message with descriptors, as rota-init does.
func sendFiles(t *testing.T, to *os.File, text string, files ...*os.File) {
	t.Helper()
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	check(t, unix.Sendmsg(int(to.Fd()), []byte(text), unix.UnixRights(fds...), nil, 0))
}

// TestFilesOfRanks: a rank with pipes has three, and one with a terminal one; others are closed, and the next counts.
func TestFilesOfRanks(t *testing.T) {
	for _, c := range []struct {
		text  string
		files int
		task  uint32
		fits  bool
	}{
		{`{"rank":2}`, 3, 2, true}, {`{"rank":3,"terminal":true}`, 1, 3, true}, {`{"rank":2}`, 2, 0, false},
		{`{"rank":2}`, 1, 0, false}, {`{"rank":3,"terminal":true}`, 3, 0, false}, {`garbage`, 3, 0, false},
	} {
		ours, theirs, err := SocketForFiles()
		check(t, err)
		s := New(false, nil)
		r, w, err := os.Pipe()
		check(t, err)
		sendFiles(t, theirs, c.text, []*os.File{r, r, r}[:c.files]...)
		sendFiles(t, theirs, `{"rank":9}`, r, r, r)
		check(t, errors.Join(theirs.Close(), r.Close()))
		ReceiveRanks(ours, s)
		if n := len(s.tasks); s.tasks[9] == nil || (n == 2) != c.fits || c.fits && (s.tasks[c.task] == nil ||
			s.tasks[c.task].terminal != (c.files == 1) || len(s.tasks[c.task].files) != c.files) {
			t.Errorf("%s with %d files: %d ranks", c.text, c.files, n)
		}
		select {
		case <-s.known:
		default:
			t.Errorf("%s: ranks are still waited for", c.text)
		}
		s.HangUp()
		for _, p := range s.of(stream.AllTasks) {
			p.output.Wait()
		}
		if _, err := w.Write([]byte("x")); !errors.Is(err, unix.EPIPE) {
			t.Errorf("%s with %d files: a descriptor stays open: %v", c.text, c.files, err)
		}
		w.Close()
	}
	ours, theirs, err := SocketForFiles()
	check(t, err)
	check(t, theirs.Close())
	if text, files, err := ReceiveFiles(ours); text != nil || files != nil || err != nil {
		t.Errorf("at the end: %q, %v, %v", text, files, err)
	}
	check(t, ours.Close())
}

// TestWhatIsWaitedForAtTheEnd: the record waits for output that was not read, the process for its readers, each for
// its time, and for nothing once all was read.
func TestWhatIsWaitedForAtTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		read, reader, drop bool
		await, linger      time.Duration
	}{
		"it was read":            {read: true},
		"none reads":             {await: 2 * time.Second, linger: time.Minute},
		"it may be dropped":      {drop: true},
		"one reads, then is off": {reader: true, await: 2 * time.Second, linger: 89 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := NewServer(container.Settings{IO: &container.IO{Drop: c.drop}})
			o.Own.put(stream.Frame{Kind: stream.End})
			if c.reader {
				o.Own.reader = &stream.Conn{}
			}
			if c.read {
				check(t, o.Own.acknowledge(o.Own.to))
			}
			begin := time.Now()
			o.AwaitRead()
			if took := time.Since(begin); took != c.await {
				t.Errorf("%s: the record waits %v", name, took)
			}
			begin = time.Now()
			time.AfterFunc(30*time.Second, func() {
				o.Own.mu.Lock()
				o.Own.reader = nil
				o.Own.mu.Unlock()
			})
			o.Linger()
			if took := time.Since(begin); took < c.linger || took > c.linger+2*time.Second {
				t.Errorf("%s: it stays %v, not %v", name, took, c.linger)
			}
			if err := o.serveExec(nil, container.Exec{}); !errors.Is(err, ErrEnded) {
				t.Errorf("%s: a process is started: %v", name, err)
			}
		})
	}
}

// TestWhatASocketAnswers: to what cannot be read, and to a reader where there is nothing to read.
func TestWhatASocketAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		own     bool
		request any
		says    string
	}{
		"output that goes to files": {false, container.IORequest{Attach: &container.IOAttach{}}, "goes to files"},
		"nothing":                   {true, container.IORequest{}, ""},
	} {
		o := NewServer(container.Settings{})
		if c.own {
			o.Own = New(false, nil)
		}
		ours, theirs := net.Pipe()
		go o.serve(theirs)
		check(t, ours.SetDeadline(time.Now().Add(20*time.Second)))
		conn := stream.New(ours)
		check(t, conn.WriteJSON(stream.Request, stream.AllTasks, c.request))
		f, err := conn.Read()
		var end stream.StepEnd
		if err != nil || f.Kind != stream.End || json.Unmarshal(f.Data, &end) != nil || end.Code != 125 ||
			!strings.Contains(end.Why, c.says) || end.Why == "" {
			t.Errorf("%s: %c %s, %v", name, f.Kind, f.Data, err)
		}
		ours.Close()
	}
}
