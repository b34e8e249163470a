// Package terminal connects this process's terminal, or its standard input and output, with a program
// that runs elsewhere.
package terminal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/stream"
)

// DetachKeys are what a person types to leave a terminal whose program goes on: Ctrl-P, then Ctrl-Q.
const DetachKeys = "\x10\x11"

// ErrDetached is the error when a person has typed [DetachKeys].
var ErrDetached = errors.New("detached")

// ErrLost is the error when the connection to the program is lost and does not come back.
var ErrLost = errors.New("the connection to the program is lost")

// Options say what is connected.
type Options struct {
	// Open opens the stream. from is how much of the output was received, see [stream.Frame.Counts].
	Open func(ctx context.Context, from int64) (*stream.Conn, error)
	// Retry is how long a lost connection is opened again; 0: never.
	Retry time.Duration
	// Terminal: the program has a terminal. This process's is then in raw mode, and its keys are the
	// program's. Otherwise signals of this process are sent on.
	Terminal bool
	// Detach: [DetachKeys] end it, and the program goes on.
	Detach bool
}

// Size returns the size of this process's terminal, or the usual one if it has none.
func Size(env *command.Env) api.TerminalSize {
	for _, f := range []any{env.Stdin, env.Stdout, env.Stderr} {
		if file, ok := f.(*os.File); ok {
			if columns, rows, err := term.GetSize(int(file.Fd())); err == nil && rows > 0 && columns > 0 {
				return api.TerminalSize{Rows: uint16(rows), Columns: uint16(columns)}
			}
		}
	}
	return api.TerminalSize{Rows: 24, Columns: 80}
}

// Resume has this process's terminal be raw again: the shell has changed that while the process was stopped.
func Resume(env *command.Env) {
	if in, ok := env.Stdin.(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		_, _ = term.MakeRaw(int(in.Fd())) // a terminal that is gone is noticed where it is read
	}
}

// Interactive reports whether standard input and output are a terminal.
func Interactive(env *command.Env) bool {
	in, ok := env.Stdin.(*os.File)
	return ok && term.IsTerminal(int(in.Fd())) && env.IsTerminal(env.Stdout)
}

// Run connects until the program has ended, and returns how. The error is [ErrDetached], [ErrLost], what
// the controllers say, or the cause of the end of ctx.
func Run(ctx context.Context, env *command.Env, o Options) (stream.StepEnd, error) {
	restore := func() {}
	if in, ok := env.Stdin.(*os.File); ok && o.Terminal && term.IsTerminal(int(in.Fd())) {
		state, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return stream.StepEnd{}, fmt.Errorf("set the terminal to raw mode: %w", err)
		}
		restore = func() { _ = term.Restore(int(in.Fd()), state) } // the terminal may be gone
	}
	defer restore()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	r := &run{env: env, Options: o, input: stream.NewInput(0), end: end}
	defer r.input.Close()
	stop := r.passSignals(ctx)
	defer stop()
	go r.copyInput()
	return r.connect(ctx)
}

// run is one connection of a terminal, over as many streams as it takes.
type run struct {
	Options
	env   *command.Env
	input *stream.Input
	end   context.CancelCauseFunc
	at    int64 // offset in the output

	mu   sync.Mutex
	conn *stream.Conn // nil: there is none now
}

// send sends a frame, if there is a connection.
func (r *run) send(f stream.Frame) {
	r.mu.Lock()
	c := r.conn
	r.mu.Unlock()
	if c != nil {
		_ = c.Write(f) // of a lost connection the reader hears
	}
}

func (r *run) setConn(c *stream.Conn) {
	r.mu.Lock()
	r.conn = c
	r.mu.Unlock()
}

// passSignals sends signals of this process, and sizes of its terminal, to the program. In raw mode keys
// make no signals: those that come are from elsewhere, and end the connection as a closed terminal does.
func (r *run) passSignals(ctx context.Context) (stop func()) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case s := <-signals:
				n := s.(syscall.Signal)
				switch {
				case n == syscall.SIGWINCH:
					r.sendSize()
				case n == syscall.SIGCONT:
					if r.Terminal {
						Resume(r.env)
						r.sendSize()
					}
				case r.Terminal && (n == syscall.SIGTERM || n == syscall.SIGHUP):
					r.end(fmt.Errorf("%w: this process got %s", ErrLost, unix.SignalName(n)))
				default:
					r.send(stream.Frame{Kind: stream.Signal, Task: stream.AllTasks, Data: []byte(unix.SignalName(n))})
				}
			}
		}
	}()
	return func() { signal.Stop(signals) }
}

func (r *run) sendSize() {
	if r.Terminal {
		size := Size(r.env)
		r.send(stream.Size(stream.AllTasks, size.Rows, size.Columns))
	}
}

// copyInput sends standard input until it ends or the detach keys come.
func (r *run) copyInput() {
	b := make([]byte, 32<<10)
	var keys detachScanner
	for {
		n, err := r.env.Stdin.Read(b)
		text, left := b[:n], false
		if r.Detach {
			text, left = keys.scan(text)
		}
		if _, werr := r.input.Write(text); werr != nil {
			return
		}
		switch {
		case left:
			r.end(ErrDetached)
			return
		case errors.Is(err, io.EOF) || n == 0 && err == nil:
			r.input.End()
			return
		case err != nil: // the terminal is gone
			if r.Terminal {
				r.end(fmt.Errorf("%w: read the terminal: %w", ErrLost, err))
			}
			r.input.End()
			return
		}
	}
}

// connect opens streams and reads them until the program has ended.
func (r *run) connect(ctx context.Context) (stream.StepEnd, error) {
	var lost time.Time
	for {
		c, err := r.Open(ctx, r.at)
		var how *stream.StepEnd
		if err == nil {
			lost = time.Time{}
			how, err = r.read(ctx, c)
		}
		var refused *api.Problem
		switch {
		case how != nil:
			return *how, nil
		case ctx.Err() != nil:
			return stream.StepEnd{}, context.Cause(ctx)
		case errors.As(err, &refused) && refused.Status < 500, !isConnection(err):
			return stream.StepEnd{}, err
		}
		if lost.IsZero() {
			lost = time.Now()
			if r.Retry > 0 {
				r.env.Notef("the connection is lost; trying to reconnect for %v", r.Retry)
			}
		}
		if time.Since(lost) >= r.Retry {
			if refused != nil {
				return stream.StepEnd{}, err
			}
			return stream.StepEnd{}, fmt.Errorf("%w: %w", ErrLost, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// outputError is an error of this process's output.
type outputError struct{ error }

// isConnection reports whether another stream may help.
func isConnection(err error) bool {
	var out outputError
	return !errors.As(err, &out)
}

// ackEvery is how many bytes of output are acknowledged together, if more follows.
const ackEvery = 64 << 10

// read shows what comes over a stream until that ends.
func (r *run) read(ctx context.Context, c *stream.Conn) (*stream.StepEnd, error) {
	defer context.AfterFunc(ctx, func() { _ = c.Close() })() // the read below ends
	defer func() { _ = c.Close() }()                         // the same
	defer r.setConn(nil)
	resumed, acked := false, r.at
	for {
		f, err := c.Read()
		if err != nil {
			return nil, err
		}
		r.at += f.Counts()
		switch f.Kind {
		case stream.Begun:
			var b api.AttachBegun
			if json.Unmarshal(f.Data, &b) == nil {
				r.at, acked = b.From, b.From
			}
			r.setConn(c)
			r.sendSize()
		case stream.Ack:
			taken, err := f.Offset()
			if err == nil && !resumed {
				err = r.input.Resume(c, taken)
			} else if err == nil {
				err = r.input.Taken(taken)
			}
			if err != nil {
				return nil, err
			}
			resumed = true
		case stream.Stdout, stream.Stderr:
			to := r.env.Stdout
			if f.Kind == stream.Stderr {
				to = r.env.Stderr
			}
			if _, err := to.Write(f.Data); err != nil {
				return nil, outputError{err}
			}
		case stream.Message:
			r.env.Notef("%s", bytes.TrimSpace(f.Data))
		case stream.End:
			_ = c.Write(stream.Number(r.at)) // the program has ended all the same
			how := &stream.StepEnd{}
			if err := json.Unmarshal(f.Data, how); err != nil {
				return nil, outputError{fmt.Errorf("cannot read how the program ended: %w", err)}
			}
			return how, nil
		}
		if r.at-acked >= ackEvery || f.Counts() > 0 && len(f.Data) < 4096 {
			_ = c.Write(stream.Number(r.at)) // of a lost connection the next read tells
			acked = r.at
		}
	}
}

// detachScanner finds [DetachKeys] in what is typed.
type detachScanner struct{ held bool }

// scan returns what goes to the program, and whether the keys were typed. The first key is held back
// until the next one is known.
func (d *detachScanner) scan(b []byte) ([]byte, bool) {
	var out []byte
	for _, key := range b {
		switch {
		case d.held && key == DetachKeys[1]:
			return out, true
		case d.held:
			d.held = false
			out = append(out, DetachKeys[0])
		}
		if key == DetachKeys[0] {
			d.held = true
		} else {
			out = append(out, key)
		}
	}
	return out, false
}

// Code returns the exit code for how a program has ended, as srun has it.
func Code(e stream.StepTaskExit) int {
	switch {
	case e.OOM:
		return exit.OutOfMemory
	case e.Signal != 0:
		return 128 + e.Signal
	}
	return e.Code
}
