package terminal

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/stream"
)

// TestDetachKeys notices keys that are lost, and ones that leave a terminal although they were not typed together.
func TestDetachKeys(t *testing.T) {
	for typed, want := range map[string]string{
		"abc": "abc", "a\x10\x11b": "a!", "a\x10|\x11b": "a!", "\x10b": "\x10b", "\x10|b": "\x10b", "\x10\x10\x11": "\x10!",
		"\x11\x10": "\x11", "\x10\x10b": "\x10\x10b",
	} {
		var d detachScanner
		var got strings.Builder
		for part := range strings.SplitSeq(typed, "|") {
			out, left := d.scan([]byte(part))
			if got.Write(out); left {
				got.WriteString("!")
				break
			}
		}
		if got.String() != want {
			t.Errorf("%q: %q, not %q", typed, got.String(), want)
		}
	}
}

// TestCode: exit codes are those of srun.
func TestCode(t *testing.T) {
	for e, want := range map[stream.StepTaskExit]int{{}: 0, {Code: 3}: 3, {Signal: 15}: 143, {Code: 1, Signal: 9}: 137,
		{Signal: 9, OOM: true}: exit.OutOfMemory} {
		if got := Code(e); got != want {
			t.Errorf("%+v: %d, not %d", e, got, want)
		}
	}
}

// far is the other end of a terminal's streams: serve answers each that is opened.
func far(t *testing.T, serve func(n int, from int64, c *stream.Conn)) func(context.Context, int64) (*stream.Conn,
	error) {
	t.Helper()
	n := 0
	return func(_ context.Context, from int64) (*stream.Conn, error) {
		ours, theirs, err := sockets()
		if err != nil {
			return nil, err
		}
		n++
		go func(n int) {
			c := stream.New(theirs)
			defer c.Close()
			serve(n, from, c)
		}(n)
		t.Cleanup(func() { theirs.Close() })
		return stream.New(ours), nil
	}
}

// sockets returns two ends of a connection that holds some of what is not read.
func sockets() (a, b net.Conn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "end")
		defer f.Close()
		if ends[i], err = net.FileConn(f); err != nil {
			return nil, nil, err
		}
	}
	return ends[0], ends[1], nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// next reads until a frame of a kind comes.
func next(t *testing.T, c *stream.Conn, kind stream.Kind) stream.Frame {
	for {
		f, err := c.Read()
		if err != nil {
			t.Errorf("before a frame %q: %v", kind, err)
			return f
		}
		if f.Kind == kind {
			return f
		}
	}
}

// TestAConnectionThatIsLost: output and input go on where they were, and the end of the program is acknowledged.
func TestAConnectionThatIsLost(t *testing.T) {
	one := stream.Frame{Kind: stream.Stdout, Data: []byte("one\n")}
	acked := make(chan int64, 1)
	input := strings.Repeat("0123456789", 20_000)
	var got bytes.Buffer   // of the input, by the program
	var serving sync.Mutex // connections follow each other
	open := far(t, func(n int, from int64, c *stream.Conn) {
		serving.Lock()
		defer serving.Unlock()
		if n == 1 {
			must(t, c.WriteJSON(stream.Begun, stream.AllTasks, api.AttachBegun{From: from}))
			must(t, c.Write(stream.Number(0)))
			must(t, c.Write(one))
			got.Write(next(t, c, stream.Stdin).Data)
			return
		}
		if from != one.Counts() {
			t.Errorf("it goes on from byte %d", from)
		}
		must(t, c.WriteJSON(stream.Begun, stream.AllTasks, api.AttachBegun{From: from}))
		must(t, c.Write(stream.Number(int64(got.Len()))))
		for got.Len() < len(input) {
			got.Write(next(t, c, stream.Stdin).Data)
			go func(n int) { _ = c.Write(stream.Number(int64(n))) }(got.Len())
		}
		next(t, c, stream.StdinEnd)
		end, err := stream.JSON(stream.End, stream.AllTasks, stream.StepEnd{StepTaskExit: stream.StepTaskExit{Code: 7}})
		must(t, err)
		for _, f := range []stream.Frame{{Kind: stream.Stderr, Data: []byte("two\n")}, end} {
			from += f.Counts()
			must(t, c.Write(f))
		}
		for {
			if n, err := next(t, c, stream.Ack).Offset(); err != nil || n == from {
				acked <- from - n
				return
			}
		}
	})
	var out, said bytes.Buffer
	env := &command.Env{Stdin: strings.NewReader(input), Stdout: &out, Stderr: &said}
	how, err := Run(t.Context(), env, Options{Open: open, Retry: time.Minute})
	if err != nil || how.Code != 7 || out.String() != "one\n" || !strings.HasSuffix(said.String(), "two\n") ||
		!strings.Contains(said.String(), "the connection is lost; trying to reconnect for 1m0s") {
		t.Errorf("%+v, %v, %q %q", how, err, out.String(), said.String())
	}
	left := <-acked
	serving.Lock()
	defer serving.Unlock()
	if left != 0 || got.String() != input {
		t.Errorf("%d bytes are not acknowledged, and %d of %d were read", left, got.Len(), len(input))
	}
}

// TestANodeThatDoesNotAnswer: what the controllers say of it is the error, at once.
func TestANodeThatDoesNotAnswer(t *testing.T) {
	down := &api.Problem{Status: 502, Code: api.CodeInternal, Detail: "job 7 is on node n1, which does not answer"}
	env := &command.Env{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard}
	_, err := Run(t.Context(), env, Options{Open: func(context.Context, int64) (*stream.Conn, error) {
		return nil, &api.UncertainError{Err: down}
	}})
	var p *api.Problem
	if !errors.As(err, &p) || p != down {
		t.Errorf("%v", err)
	}
	_, err = Run(t.Context(), env, Options{Open: far(t, func(int, int64, *stream.Conn) {})})
	if !errors.Is(err, ErrLost) {
		t.Errorf("a connection that is lost: %v", err)
	}
}

// TestATerminalThatWasStopped: behind fg the terminal is raw again, and the program hears its size. Ctrl-P Ctrl-Q
// leaves the program, and the terminal is as it was.
func TestATerminalThatWasStopped(t *testing.T) {
	master, tty, err := pty.Open()
	if err != nil {
		t.Skip("there are no terminals here: ", err)
	}
	defer master.Close()
	defer tty.Close()
	must(t, pty.Setsize(tty, &pty.Winsize{Rows: 31, Cols: 97}))
	state := func() *unix.Termios {
		s, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	before := state()
	raw := func() bool { return state().Lflag&unix.ICANON == 0 }
	var served sync.WaitGroup
	served.Add(1)
	open := far(t, func(_ int, _ int64, c *stream.Conn) {
		defer served.Done()
		must(t, c.WriteJSON(stream.Begun, stream.AllTasks, api.AttachBegun{}))
		if rows, columns, err := next(t, c, stream.Window).Window(); err != nil || rows != 31 || columns != 97 || !raw() {
			t.Errorf("at first: %d x %d, raw %v, %v", rows, columns, raw(), err)
		}
		must(t, unix.IoctlSetTermios(int(tty.Fd()), unix.TCSETS, before)) // as a shell does when it has stopped
		must(t, syscall.Kill(os.Getpid(), syscall.SIGCONT))
		if next(t, c, stream.Window); !raw() {
			t.Error("behind fg the terminal is not raw")
			return
		}
		must(t, c.Write(stream.Number(0)))
		_, err := master.WriteString("x")
		must(t, err)
		if f := next(t, c, stream.Stdin); string(f.Data) != "x" {
			t.Errorf("the program reads %q", f.Data)
		}
		_, err = master.WriteString(DetachKeys)
		must(t, err)
		for err == nil { // until it has left
			_, err = c.Read()
		}
	})
	env := &command.Env{Stdin: tty, Stdout: io.Discard, Stderr: io.Discard, Getenv: func(string) string { return "" }}
	if _, err := Run(t.Context(), env, Options{Open: open, Terminal: true, Detach: true}); !errors.Is(err, ErrDetached) {
		t.Errorf("it ends with %v", err)
	}
	served.Wait()
	if after := state(); *after != *before {
		t.Errorf("the terminal is left as %+v, and was %+v", after, before)
	}
}
