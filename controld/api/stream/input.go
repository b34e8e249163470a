package stream

import (
	"errors"
	"fmt"
	"sync"
)

// MaxUnread is how many bytes of input may be on their way to programs that have not read them. The
// rest is held back at its source, so that signals are never behind it.
const MaxUnread = 256 << 10

// Input sends what programs read. It keeps what they have not taken yet, and sends it again over
// another connection when one was lost. Its methods may be called from several goroutines.
type Input struct {
	task uint32

	mu      sync.Mutex
	room    sync.Cond // signalled when something was taken, or Close was called
	conn    *Conn     // nil: there is none now
	taken   int64     // bytes that programs have taken
	pending []byte    // sent, and not taken yet
	ended   bool      // no more follows
	begun   bool      // Resume was called
	closed  bool
}

// NewInput returns the input of a task, or of [AllTasks].
func NewInput(task uint32) *Input {
	in := &Input{task: task}
	in.room.L = &in.mu
	return in
}

// Resume goes on over a connection whose other end has taken so many bytes: it sends the others
// again. The first time, what was taken before was of another sender. An error says that what is missing
// is not known any more.
func (in *Input) Resume(c *Conn, taken int64) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.begun {
		in.begun, in.taken = true, taken
	}
	if err := in.drop(taken); err != nil {
		return err
	}
	in.conn = c
	in.send(in.pending)
	if in.ended {
		_ = c.Write(Frame{Kind: StdinEnd, Task: in.task}) // of a lost connection its reader hears
	}
	return nil
}

// Taken notes a frame of kind Ack.
func (in *Input) Taken(offset int64) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.drop(offset)
}

// drop drops what was taken.
func (in *Input) drop(offset int64) error {
	n := offset - in.taken
	if n < 0 || n > int64(len(in.pending)) {
		return &offsetError{offset, in.taken, in.taken + int64(len(in.pending))}
	}
	in.pending = append(in.pending[:0], in.pending[n:]...)
	in.taken = offset
	in.room.Broadcast()
	return nil
}

// send sends bytes over the connection. An error is dropped: the reader of the connection hears of
// it, and the bytes are still pending.
func (in *Input) send(b []byte) {
	for len(b) > 0 && in.conn != nil {
		n := min(len(b), MaxData)
		if in.conn.Write(Frame{Kind: Stdin, Task: in.task, Data: b[:n]}) != nil {
			in.conn = nil
		}
		b = b[n:]
	}
}

// Write implements io.Writer. It waits while too much is on its way; without a connection too. After
// Close it takes no more.
func (in *Input) Write(b []byte) (int, error) {
	done := 0
	in.mu.Lock()
	defer in.mu.Unlock()
	for done < len(b) {
		for len(in.pending) >= MaxUnread && !in.closed {
			in.room.Wait()
		}
		if in.closed {
			return done, errInputClosed
		}
		n := min(len(b)-done, MaxUnread-len(in.pending))
		in.pending = append(in.pending, b[done:done+n]...)
		in.send(b[done : done+n])
		done += n
	}
	return done, nil
}

// End says that no more follows.
func (in *Input) End() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.ended = true; in.conn != nil {
		_ = in.conn.Write(Frame{Kind: StdinEnd, Task: in.task}) // it is sent again over the next connection
	}
}

// Close has Write wait no longer.
func (in *Input) Close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed, in.conn = true, nil
	in.room.Broadcast()
}

var errInputClosed = errors.New("the program is no longer connected")

// offsetError is the error of an acknowledgement of what was never sent, or is not kept any more.
type offsetError struct{ got, from, to int64 }

// Error implements error.
func (e *offsetError) Error() string {
	return fmt.Sprintf("byte %d was acknowledged, but only bytes %d to %d are unacknowledged", e.got, e.from, e.to)
}
