package stream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// buffer is a connection that never ends and keeps what is written.
type buffer struct {
	bytes.Buffer
	from io.Reader
}

func (b *buffer) Read(p []byte) (int, error) { return b.from.Read(p) }
func (b *buffer) Close() error               { return nil }

func frames() []Frame {
	exit, _ := JSON(Exit, 3, StepTaskExit{Signal: 9, OOM: true})
	end, _ := JSON(End, AllTasks, StepEnd{StepTaskExit: StepTaskExit{Code: 3}, Why: "its limit"})
	return []Frame{
		{Kind: Stdout, Task: 1, Data: []byte("hello")}, {Kind: StdinEnd, Task: AllTasks, Data: []byte{}},
		Size(2, 24, 80), Number(1 << 40), {Kind: Stdin, Data: bytes.Repeat([]byte("x"), MaxData)}, exit, end,
	}
}

func TestFramesArriveAsTheyWereSent(t *testing.T) {
	var sent buffer
	out := New(&sent)
	for _, f := range frames() {
		if err := out.Write(f); err != nil {
			t.Fatal(err)
		}
		if err := out.Write(Frame{Kind: Ping, Task: AllTasks}); err != nil {
			t.Fatal(err)
		}
	}
	for name, r := range map[string]io.Reader{"at once": bytes.NewReader(sent.Bytes()),
		"in bytes": iotest.OneByteReader(bytes.NewReader(sent.Bytes()))} {
		in := New(&buffer{from: r})
		for _, want := range frames() {
			if got, err := in.Read(); err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: %q %d %d bytes, %v", name, got.Kind, got.Task, len(got.Data), err)
			}
		}
		if f, err := in.Read(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: behind the last: %+v, %v", name, f, err)
		}
	}
	if rows, columns, err := Size(2, 24, 80).Window(); rows != 24 || columns != 80 || err != nil {
		t.Errorf("%d x %d, %v", rows, columns, err)
	}
	if n, err := Number(1 << 40).Offset(); n != 1<<40 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

func TestTheWireFormat(t *testing.T) {
	got := Frame{Kind: Stdout, Task: 258, Data: []byte("hi")}.AppendTo(nil)
	if want := "o\x00\x00\x01\x02\x00\x00\x00\x02hi"; string(got) != want {
		t.Errorf("%q", got)
	}
}

func TestWhatCannotBeAFrame(t *testing.T) {
	for text, want := range map[string]string{
		"o\x00\x00\x00\x00\x00\x01\x00\x01":     "at most 65536 are allowed",
		"o\x00\x00\x00\x00\xff\xff\xff\xff":     "at most 65536 are allowed",
		"o\x00\x00":                             "unexpected EOF",
		"o\x00\x00\x00\x00\x00\x00\x00\x05":     "unexpected EOF",
		"o\x00\x00\x00\x00\x00\x00\x00\x05word": "unexpected EOF",
	} {
		if f, err := New(&buffer{from: strings.NewReader(text)}).Read(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v", text, f, err)
		}
	}
	if err := New(&buffer{}).Write(Frame{Kind: Stdout, Data: make([]byte, MaxData+1)}); err == nil {
		t.Error("a frame that is too long is sent")
	}
	if _, err := JSON(End, 0, StepEnd{Why: strings.Repeat("x", MaxData)}); err == nil {
		t.Error("a value that is too long has a frame")
	}
	for _, f := range []Frame{{Kind: Ack}, {Kind: Ack, Data: bytes.Repeat([]byte{0xff}, 8)},
		{Kind: Window, Data: make([]byte, 8)}} {
		if n, err := f.Offset(); err == nil {
			t.Errorf("%+v: offset %d", f, n)
		}
	}
	if rows, _, err := (Frame{Kind: Window, Data: []byte{1}}).Window(); err == nil {
		t.Errorf("%d rows", rows)
	}
}

func TestADeadEndIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, theirs) }() // it takes everything and says nothing
		c := New(ours)
		c.KeepAlive(t.Context())
		begun := time.Now()
		_, err := c.Read()
		if took := time.Since(begun); !errors.Is(err, ErrSilent) || took > 30*time.Second || took < maxSilence {
			t.Errorf("after %v: %v", took, err)
		}
		theirs.Close()
	})
}

// TestAStoppedEndIsWaitedFor notices a process that is stopped and taken for dead, and one that does not
// hear that this end is there.
func TestAStoppedEndIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		c, other := New(ours), New(theirs)
		ctx, end := context.WithCancel(t.Context())
		c.Announce(ctx)
		time.AfterFunc(time.Hour, func() { // until then it neither reads nor writes
			other.KeepAlive(ctx)
			var heard sync.WaitGroup
			heard.Go(func() {
				if f, err := other.Read(); err == nil || errors.Is(err, ErrSilent) {
					t.Errorf("it hears %+v, %v", f, err)
				}
			})
			time.Sleep(time.Hour)
			_ = other.Write(Frame{Kind: Stdout})
			time.Sleep(time.Second)
			end()
			heard.Wait()
		})
		if f, err := c.Read(); err != nil || f.Kind != Stdout {
			t.Errorf("%+v, %v", f, err)
		}
		if _, err := c.Read(); err == nil {
			t.Error("it outlives its context")
		}
	})
}

// TestARelaySpeaksForAStoppedProcess notices a stopped process that another machine believes dead,
// an end that is not heard there, and lost frames.
func TestARelaySpeaksForAStoppedProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		other := New(theirs)
		other.KeepAlive(t.Context())
		near := Relay(t.Context(), ours)
		var heard sync.WaitGroup
		heard.Go(func() {
			if f, err := other.Read(); err != nil || string(f.Data) != "go on" {
				t.Errorf("it hears %+v, %v", f, err)
			}
			if f, err := other.Read(); err == nil || errors.Is(err, ErrSilent) {
				t.Errorf("at the end it hears %+v, %v", f, err)
			}
		})
		time.Sleep(10 * time.Minute) // the process neither reads nor writes
		process := New(near)
		heard.Go(func() {
			if f, err := process.Read(); err != nil || string(f.Data) != "output" {
				t.Errorf("the process hears %+v, %v", f, err)
			}
			_ = process.Close()
		})
		if err := process.Write(Frame{Kind: Stdin, Data: []byte("go on")}); err != nil {
			t.Error(err)
		}
		if err := other.Write(Frame{Kind: Stdout, Data: []byte("output")}); err != nil {
			t.Error(err)
		}
		heard.Wait()
	})
}

func TestALiveConnectionStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		ours, theirs := New(a), New(b)
		ctx, end := context.WithCancel(t.Context())
		ours.KeepAlive(ctx)
		theirs.KeepAlive(ctx)
		time.AfterFunc(10*time.Minute, func() { _ = theirs.Write(Frame{Kind: Stdout}) })
		var heard sync.WaitGroup
		heard.Go(func() {
			if f, err := theirs.Read(); err == nil {
				t.Errorf("it hears %+v", f)
			}
		})
		if f, err := ours.Read(); err != nil || f.Kind != Stdout {
			t.Errorf("%+v, %v", f, err)
		}
		time.Sleep(10 * time.Minute) // one that is not read for long is none that is silent
		end()
		if _, err := ours.Read(); err == nil || errors.Is(err, ErrSilent) {
			t.Errorf("behind the end of its context: %v", err)
		}
		heard.Wait()
	})
}

// A program takes input in portions while connections are lost in the middle of frames.
func TestInputArrivesOnceOverLostConnections(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	want := make([]byte, 3<<20)
	for i := range want {
		want[i] = byte(random.Uint32())
	}
	in := NewInput(7)
	go func() {
		_, _ = in.Write(want) // what arrives tells
		in.End()
	}()
	var got []byte
	for ended := false; !ended; {
		near, far := net.Pipe()
		cut := &cutting{Conn: far, left: 200_000 + random.IntN(800_000)}
		ours, theirs := New(near), New(cut)
		done := make(chan struct{})
		go func() { // the sender's side of the connection
			defer close(done)
			for first := true; ; first = false {
				f, err := ours.Read()
				if err != nil {
					return
				}
				n, err := f.Offset()
				if first && err == nil {
					err = in.Resume(ours, n)
				} else if err == nil {
					err = in.Taken(n)
				}
				if err != nil {
					t.Error(err)
				}
			}
		}()
		acks := make(chan int, 1000) // the end of programs reads whatever it has to write
		go func() {
			for n := range acks {
				_ = theirs.Write(Number(int64(n)))
			}
		}()
		const before = 77 // of another sender
		acks <- before + len(got)
		unread := 0
		for {
			f, err := theirs.Read()
			if err != nil {
				break
			}
			if f.Task != 7 {
				t.Fatalf("task %d", f.Task)
			}
			if f.Kind == StdinEnd {
				ended = true
				break
			}
			got = append(got, f.Data...)
			if unread += len(f.Data); unread > MaxUnread {
				t.Fatalf("%d bytes are on their way", unread)
			}
			if random.IntN(3) == 0 {
				acks <- before + len(got)
				unread = 0
			} else if unread > MaxUnread/2 {
				break // a connection that takes nothing more
			}
		}
		close(acks)
		theirs.Close()
		ours.Close()
		<-done
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes have arrived of %d, or they are others", len(got), len(want))
	}
	if err := in.Taken(int64(len(want)) + 78); err == nil {
		t.Error("more is acknowledged than was sent")
	}
	in.Close()
	if _, err := in.Write([]byte("x")); err == nil {
		t.Error("it is written to after its end")
	}
}

// cutting is a connection that breaks when so many bytes were read.
type cutting struct {
	net.Conn
	left int
}

func (c *cutting) Read(b []byte) (int, error) {
	if c.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.Conn.Read(b[:min(len(b), c.left)])
	c.left -= n
	return n, err
}

func FuzzFrames(f *testing.F) {
	for _, one := range frames() {
		f.Add(one.AppendTo(nil))
	}
	f.Add([]byte("o\x00\x00\x00\x00\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := New(&buffer{from: bytes.NewReader(b)})
		var again []byte
		for {
			frame, err := c.Read()
			if err != nil {
				break
			}
			if len(frame.Data) > MaxData {
				t.Fatalf("%d bytes", len(frame.Data))
			}
			if _, err := frame.Offset(); (err == nil) != (frame.Kind == Ack && len(frame.Data) == 8 && frame.Data[0] < 0x80) {
				t.Fatalf("%+v: %v", frame, err)
			}
			again = frame.AppendTo(again)
		}
		// what was read are the first frames of what was sent, without those that only keep it alive
		rest := b
		for len(again) > 0 {
			n := headBytes + int(rest[5])<<24 + int(rest[6])<<16 + int(rest[7])<<8 + int(rest[8])
			if Kind(rest[0]) != Ping {
				if !bytes.HasPrefix(again, rest[:n]) {
					t.Fatalf("%q is not %q", again, rest[:n])
				}
				again = again[n:]
			}
			rest = rest[n:]
		}
	})
}
