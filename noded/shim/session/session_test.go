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

// TestOutputThatIsGone notices a reader that is not told that it cannot go on where it has stopped.
func TestOutputThatIsGone(t *testing.T) {
	o := NewServer(container.Settings{IO: &container.IO{}})
	o.Own.put(stream.Frame{Kind: stream.Stdout, Data: []byte("hello")})
	if err := o.Own.acknowledge(o.Own.to); err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	go o.serve(theirs)
	if err := ours.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	c := stream.New(ours)
	defer c.Close()
	r := container.IORequest{Attach: &container.IOAttach{From: 1}}
	if err := c.WriteJSON(stream.Request, stream.AllTasks, r); err != nil {
		t.Fatal(err)
	}
	f, err := c.Read()
	if err != nil || f.Kind != stream.End {
		t.Fatalf("%+v, %v", f, err)
	}
	var end stream.StepEnd
	if err := json.Unmarshal(f.Data, &end); err != nil || !strings.Contains(end.Why, "the output is kept from byte") {
		t.Errorf("%+v, %v", end, err)
	}
	if _, err := c.Read(); !errors.Is(err, io.EOF) {
		t.Errorf("behind that: %v", err)
	}
}

// TestOutputIsForgottenByWholeFrames notices a connection that ends because a reader has acknowledged a part of
// a frame, and one that goes on although it has acknowledged what was never written.
func TestOutputIsForgottenByWholeFrames(t *testing.T) {
	s := New(false, nil)
	one := stream.Frame{Kind: stream.Stdout, Data: []byte("hello")}
	for range 3 {
		s.put(one)
	}
	size := one.Counts()
	for _, c := range []struct{ ack, from int64 }{
		{-1, 0}, {size - 1, 0}, {size, size}, {2*size + 1, 2 * size}, {size, 2 * size}, {3*size - 1, 2 * size},
		{3 * size, 3 * size},
	} {
		if err := s.acknowledge(c.ack); err != nil || s.from != c.from {
			t.Errorf("byte %d: it is kept from %d, not %d: %v", c.ack, s.from, c.from, err)
		}
	}
	if err := s.acknowledge(3*size + 1); err == nil {
		t.Error("what was never written is acknowledged")
	}
}

// TestRoomForOutput fills a session up to its bound, to the byte. It notices a program that waits too early or never,
// output that is dropped though it is read, and a program that waits for ever.
func TestRoomForOutput(t *testing.T) {
	out := func(n int) stream.Frame { return stream.Frame{Kind: stream.Stdout, Data: make([]byte, n)} }
	for _, c := range []struct {
		name           string
		drop, read     bool
		before         int // what the first frame costs less than is kept
		kind           stream.Kind
		waits, dropped bool
	}{
		{"a byte is left", false, false, 1, stream.Stdout, false, false},
		{"it is full", false, false, 0, stream.Stdout, true, false},
		{"full of errors", false, false, 0, stream.Stderr, true, false},
		{"it is full, and an exit comes", false, false, 0, stream.Exit, false, false},
		{"none reads, and it may be dropped", true, false, 0, stream.Stdout, false, true},
		{"a byte is left, and it may be dropped", true, false, 1, stream.Stdout, false, false},
		{"one reads, and it may be dropped", true, true, 0, stream.Stdout, true, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := New(c.drop, nil)
			if c.read {
				s.reader = &stream.Conn{}
			}
			s.put(out(outputKept - frameCost - c.before))
			done := make(chan struct{})
			go func() {
				s.put(stream.Frame{Kind: c.kind, Data: []byte("x")})
				close(done)
			}()
			synctest.Wait()
			waits := true
			select {
			case <-done:
				waits = false
			default:
			}
			if waits != c.waits || (len(s.kept) == 1) != (waits || c.dropped) || (s.from > 0) != c.dropped {
				t.Errorf("%s: it waits %t, %d frames are kept from %d", c.name, waits, len(s.kept), s.from)
			}
			if waits {
				if err := s.acknowledge(s.to); err != nil {
					t.Error(err)
				}
				<-done
				if len(s.kept) != 1 || s.cost != 1+frameCost {
					t.Errorf("%s: then %d frames are kept, at %d bytes", c.name, len(s.kept), s.cost)
				}
			}
		})
	}
	for _, c := range []struct {
		closed, ended bool
		kind          stream.Kind
		kept          int
	}{
		{false, false, stream.Stdout, 1}, {true, false, stream.Stdout, 0}, {false, true, stream.Stdout, 1}, // the end itself
		{true, false, stream.Exit, 1}, {false, true, stream.Message, 2}, {true, false, stream.Stderr, 0},
	} {
		s := New(false, nil)
		if s.closed = c.closed; c.ended {
			s.put(stream.Frame{Kind: stream.End})
		}
		if s.put(stream.Frame{Kind: c.kind, Data: []byte("x")}); len(s.kept) != c.kept {
			t.Errorf("%+v: %d frames are kept", c, len(s.kept))
		}
	}
}

// TestWhereAReaderGoesOn: at the end, at a frame, at the first that is left if others may be dropped; not within one.
func TestWhereAReaderGoesOn(t *testing.T) {
	size := stream.Frame{Kind: stream.Stdout, Data: []byte("hello")}.Counts()
	for _, c := range []struct {
		drop bool
		from int64
		at   int64 // -1: it is refused
	}{
		{false, -1, 3 * size}, {false, 0, -1}, {true, 0, size}, {false, size, size}, {true, size, size},
		{false, size + 1, -1}, {true, size + 1, -1}, {true, size - 1, size}, {false, 2 * size, 2 * size},
		{false, 3 * size, 3 * size}, {false, 3*size + 1, -1}, {true, 3*size + 1, -1},
	} {
		s := New(c.drop, nil)
		for range 3 {
			s.put(stream.Frame{Kind: stream.Stdout, Data: []byte("hello")})
		}
		if err := s.acknowledge(size); err != nil {
			t.Fatal(err)
		}
		left := 0
		s.left = func() { left++ }
		s.queue, s.queued = []stream.Frame{{}}, 5
		ours, theirs := net.Pipe()
		done := make(chan error, 1)
		go func() { done <- s.Attach(stream.New(theirs), c.from) }()
		if c.at < 0 {
			if err := <-done; !errors.Is(err, errNotKept) || s.reader != nil || left != 0 || s.from != size {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		reader := stream.New(ours)
		f, err := reader.Read()
		var begun container.IOBegun
		if err != nil || f.Kind != stream.Begun || json.Unmarshal(f.Data, &begun) != nil || begun.From != c.at {
			t.Errorf("%+v: %+v, %v", c, f, err)
		}
		if !s.connected() {
			t.Errorf("%+v: no reader is connected", c)
		}
		_ = reader.Close()
		if err := <-done; err == nil || s.connected() || left != 1 || s.queue != nil || s.queued != 0 || s.from != c.at {
			t.Errorf("%+v: %v, left %d times, kept from %d", c, err, left, s.from)
		}
	}
}

// TestRoomForInput sends input up to its bound, to the byte. What a program has taken makes room.
func TestRoomForInput(t *testing.T) {
	s := New(false, nil)
	c, other := &stream.Conn{}, &stream.Conn{}
	s.reader = c
	in := func(n int) stream.Frame { return stream.Frame{Kind: stream.Stdin, Data: make([]byte, n)} }
	if err := errors.Join(s.take(c, in(stream.MaxUnread-1)), s.take(c, in(1))); err != nil {
		t.Errorf("it has room: %v", err)
	}
	if f, ok := s.nextInput(); !ok || len(f.Data) != stream.MaxUnread-1 || s.taken != stream.MaxUnread-1 || s.queued != 1 {
		t.Errorf("%d bytes, %t, %d were taken", len(f.Data), ok, s.taken)
	}
	if err := s.take(c, in(stream.MaxUnread-1)); err != nil {
		t.Errorf("what was taken makes no room: %v", err)
	}
	if err := s.take(c, in(1)); err == nil {
		t.Error("a byte more than there is room for")
	}
	if err := s.take(other, in(0)); err == nil {
		t.Error("what is not the reader sends input")
	}
	s.closed = true
	for range 2 { // what has come is given before the end
		if _, ok := s.nextInput(); !ok {
			t.Error("input is lost at the end")
		}
	}
	if _, ok := s.nextInput(); ok {
		t.Error("input comes after the end")
	}
	s = New(false, nil)
	if s.ended = true; len(s.queue) != 0 {
		t.Error("no input has come")
	}
	if _, ok := s.nextInput(); ok {
		t.Error("input comes after the last frame")
	}
	var to uint32
	var signal unix.Signal
	s.signal = func(task uint32, n unix.Signal) { to, signal = task, n }
	if err := s.take(c, stream.Frame{Kind: stream.Signal, Task: 3, Data: []byte("SIGINT")}); err != nil || to != 3 ||
		signal != unix.SIGINT {
		t.Errorf("task %d gets %v, %v", to, signal, err)
	}
	for _, f := range []stream.Frame{{Kind: stream.Signal, Data: []byte("NONE")}, {Kind: stream.Window, Data: []byte("x")},
		{Kind: stream.Ack, Data: []byte("x")}, stream.Number(1)} {
		if err := s.take(c, f); err == nil {
			t.Errorf("%+v is taken", f)
		}
	}
	if err := s.take(c, stream.Frame{Kind: 250}); err != nil {
		t.Errorf("a kind of a later release: %v", err)
	}
}

// TestTheSizeOfATerminal: it is told to the terminal of a task or of all, and to one that comes later.
func TestTheSizeOfATerminal(t *testing.T) {
	terminal := func() *os.File {
		f, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	rows := func(f *os.File) uint16 {
		raw, err := f.SyscallConn()
		check(t, err)
		var size *unix.Winsize
		check(t, raw.Control(func(fd uintptr) { size, err = unix.IoctlGetWinsize(int(fd), unix.TIOCGWINSZ) }))
		check(t, err)
		return size.Row
	}
	for _, c := range []struct {
		to          uint32
		first, last uint16
	}{{1, 24, 0}, {2, 0, 24}, {stream.AllTasks, 24, 24}, {3, 0, 0}} {
		s := New(false, nil)
		first, last := terminal(), terminal()
		s.AddTask(1, []*os.File{first})
		if err := s.take(nil, stream.Size(c.to, 24, 80)); err != nil {
			t.Error(err)
		}
		s.AddTask(2, []*os.File{last})
		if rows(first) != c.first || rows(last) != c.last {
			t.Errorf("told to %d: %d and %d rows", c.to, rows(first), rows(last))
		}
		s.HangUp()
	}
}

// TestNotesForAReader notices a line of this process's own that is lost, or that goes to another task than the first.
func TestNotesForAReader(t *testing.T) {
	session := New(false, nil)
	session.tasks[3], session.tasks[2] = &ioTask{}, &ioTask{terminal: true}
	session.Note("")
	session.Note("x")
	if len(session.kept) != 1 || session.kept[0].Kind != stream.Stdout || session.kept[0].Task != 2 ||
		string(session.kept[0].Data) != "[rota: x]\r\n" {
		t.Errorf("a terminal gets %+v", session.kept)
	}
}
