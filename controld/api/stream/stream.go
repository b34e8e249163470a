// Package stream carries what programs read and write between a person's command and the machines
// where they run: frames in both directions over one connection. Package api opens such connections over
// HTTP, daemons pass them on byte by byte, and the shim has them at its own socket.
package stream

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Protocol is the value of the header Upgrade of a request for a stream.
const Protocol = "rota-stream"

// Kind says what a frame is.
type Kind byte

// Frames to programs.
const (
	Stdin    Kind = 'i' // input
	StdinEnd Kind = 'e' // the end of the input
	Signal   Kind = 's' // the name of a signal, such as SIGINT
	Window   Kind = 'w' // the size of the terminal: rows and columns, two bytes each
	Lost     Kind = 'l' // output that the reader could not write, all until now: [lossy.Loss] in JSON
	Request  Kind = 'q' // what is asked for, in JSON: the first frame where no HTTP request comes before
)

// Frames from programs.
const (
	Stdout  Kind = 'o'
	Stderr  Kind = 'r'
	Exit    Kind = 'x' // how a task has ended: [StepTaskExit] in JSON
	Message Kind = 'm' // a line for people
	Begun   Kind = 'b' // what runs now, in JSON
	End     Kind = 'z' // how all has ended: [StepEnd] in JSON, the last frame
)

// Frames in both directions. They belong to no task.
const (
	// Ack says how much was received, in eight bytes. To programs: of their frames, see [Frame.Counts]; to a
	// step of those of one node, whose index is in place of the task.
	// From programs: of the input, in bytes; the first one says where the sender is to go on.
	Ack  Kind = 'a'
	Ping Kind = 'k' // keeps the connection alive, see [Conn.KeepAlive]
)

// AllTasks is the task of frames for all tasks.
const AllTasks = 0xFFFFFFFF

// MaxData is how many bytes the data of a frame may have.
const MaxData = 64 << 10

// Frame is one message. Numbers are sent with their highest byte first. The kind takes one byte,
// and the task and the length of the data four bytes each; the data follows.
type Frame struct {
	Kind Kind
	Task uint32
	Data []byte
}

const headBytes = 9

// Counts returns how many bytes the frame counts in the output of programs. Frames of the kinds
// Stdout, Stderr, Exit, Message and End count whole, others not at all. A reader that has lost its
// connection says how much it has received.
func (f Frame) Counts() int64 {
	switch f.Kind {
	case Stdout, Stderr, Exit, Message, End:
		return headBytes + int64(len(f.Data))
	}
	return 0
}

// AppendTo appends the frame as it is sent.
func (f Frame) AppendTo(b []byte) []byte {
	b = append(b, byte(f.Kind))
	b = binary.BigEndian.AppendUint32(b, f.Task)
	b = binary.BigEndian.AppendUint32(b, uint32(len(f.Data)))
	return append(b, f.Data...)
}

// StepTaskExit is how one task of a step has ended.
type StepTaskExit struct {
	Code   int  `json:"code"` // 0 to 255; meaningless if Signal is set
	Signal int  `json:"signal,omitempty"`
	OOM    bool `json:"oom,omitempty"`
}

// StepEnd is how a step has ended: by the highest code and signal of its tasks.
type StepEnd struct {
	StepTaskExit
	Why string `json:"why,omitempty"` // of one that did not end by itself, or could not be started
}

// Number returns a frame of kind Ack.
func Number(offset int64) Frame {
	return Frame{Kind: Ack, Task: AllTasks, Data: binary.BigEndian.AppendUint64(nil, uint64(offset))}
}

// Offset returns the number of a frame of kind Ack.
func (f Frame) Offset() (int64, error) {
	if f.Kind != Ack || len(f.Data) != 8 || f.Data[0]&0x80 != 0 {
		return 0, fmt.Errorf("frame %q with %d bytes of data has no offset", f.Kind, len(f.Data))
	}
	return int64(binary.BigEndian.Uint64(f.Data)), nil
}

// Size returns a frame of kind Window.
func Size(task uint32, rows, columns uint16) Frame {
	data := binary.BigEndian.AppendUint16(nil, rows)
	return Frame{Kind: Window, Task: task, Data: binary.BigEndian.AppendUint16(data, columns)}
}

// Window returns the size of a frame of kind Window.
func (f Frame) Window() (rows, columns uint16, err error) {
	if f.Kind != Window || len(f.Data) != 4 {
		return 0, 0, fmt.Errorf("frame %q with %d bytes of data has no size of a terminal", f.Kind, len(f.Data))
	}
	return binary.BigEndian.Uint16(f.Data), binary.BigEndian.Uint16(f.Data[2:]), nil
}

// JSON returns a frame whose data is a value in JSON. One that is too long is an error.
func JSON(kind Kind, task uint32, value any) (Frame, error) {
	data, err := json.Marshal(value)
	if err == nil && len(data) > MaxData {
		err = tooLong(kind, len(data))
	}
	return Frame{Kind: kind, Task: task, Data: data}, err
}

func tooLong(kind Kind, n int) error {
	return fmt.Errorf("frame %q has %d bytes of data; at most %d are allowed", kind, n, MaxData)
}

// Conn is a connection that carries frames. One goroutine may read and several may write. At the
// end of programs the reader must never wait for a write, because signals come that way while
// output is held back. The unread data is bounded, see [MaxUnread].
type Conn struct {
	conn   io.ReadWriteCloser
	in     *bufio.Reader
	data   []byte // of the frame that was read last
	closed chan struct{}
	once   sync.Once
	silent atomic.Bool  // it was closed because nothing came
	since  atomic.Int64 // when the read that waits began, in Unix nanoseconds; 0: none waits

	writing sync.Mutex
	out     []byte
}

// New returns a connection over conn, which it closes.
func New(conn io.ReadWriteCloser) *Conn {
	c := &Conn{conn: conn, closed: make(chan struct{})}
	c.in = bufio.NewReaderSize(waiter{c}, 16<<10)
	return c
}

// waiter reads from a connection, and notes since when it waits.
type waiter struct{ of *Conn }

// Read implements io.Reader.
func (w waiter) Read(b []byte) (int, error) {
	w.of.since.Store(time.Now().UnixNano())
	n, err := w.of.conn.Read(b)
	w.of.since.Store(0)
	return n, err
}

// Times of a connection that is kept alive: how often it sends something, and after how much
// silence it is closed. Silence is checked each pingInterval, so that a dead peer is noticed in 30
// s.
const (
	pingInterval = 5 * time.Second
	maxSilence   = 25 * time.Second
)

// ErrSilent is why a connection was closed over which nothing came.
var ErrSilent = errors.New("the other end of the connection has sent nothing for 25 s, so the connection is given up")

// KeepAlive lets both ends notice when the other one is gone. It sends frames that say that this
// end is alive, and closes the connection if no frame arrives during a read. Both ends call it, and
// not those that pass the stream on. The connection ends with ctx too.
func (c *Conn) KeepAlive(ctx context.Context) { c.keepAlive(ctx, true) }

// Announce is KeepAlive at an end that keeps a silent connection open. The other end is a process
// of this machine, which may be stopped for long, and which closes the connection itself.
func (c *Conn) Announce(ctx context.Context) { c.keepAlive(ctx, false) }

func (c *Conn) keepAlive(ctx context.Context, closes bool) {
	each := func(do func()) {
		tick := time.NewTicker(pingInterval)
		defer tick.Stop()
		for {
			select {
			case <-c.closed:
				return
			case <-ctx.Done():
				_ = c.Close() // its reader hears that it has ended
			case <-tick.C:
				do()
			}
		}
	}
	go each(func() { _ = c.Write(Frame{Kind: Ping, Task: AllTasks}) }) // the read fails too
	go each(func() {                                                   // a write may be blocked
		if since := c.since.Load(); closes && since != 0 && time.Since(time.Unix(0, since)) >= maxSilence {
			c.silent.Store(true)
			_ = c.Close() // the same
		}
	})
}

// Read returns the next frame. Its data is valid until the next call. The error is io.EOF if the
// connection ended between two frames.
func (c *Conn) Read() (Frame, error) {
	for {
		f, err := c.read()
		if err != nil && c.silent.Load() {
			err = ErrSilent
		}
		if err != nil || f.Kind != Ping {
			return f, err
		}
	}
}

func (c *Conn) read() (Frame, error) {
	var head [headBytes]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return Frame{}, err
	}
	f := Frame{Kind: Kind(head[0]), Task: binary.BigEndian.Uint32(head[1:])}
	n := binary.BigEndian.Uint32(head[5:])
	if n > MaxData {
		return Frame{}, tooLong(f.Kind, int(n))
	}
	if cap(c.data) < int(n) {
		c.data = make([]byte, n)
	}
	f.Data = c.data[:n]
	if _, err := io.ReadFull(c.in, f.Data); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, err
	}
	return f, nil
}

// Write sends a frame, and returns when the connection has taken it.
func (c *Conn) Write(f Frame) error {
	if len(f.Data) > MaxData {
		return tooLong(f.Kind, len(f.Data))
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	c.out = f.AppendTo(c.out[:0])
	_, err := c.conn.Write(c.out)
	return err
}

// WriteJSON sends a value in JSON as a frame.
func (c *Conn) WriteJSON(kind Kind, task uint32, value any) error {
	f, err := JSON(kind, task, value)
	if err != nil {
		return err
	}
	return c.Write(f)
}

// Join passes the frames of each of two connections on to the other one, until one ends, and closes
// both. Unread data at one end holds the other end back.
func Join(a, b *Conn) {
	var both sync.WaitGroup
	pass := func(to, from *Conn) {
		defer func() { _, _ = a.Close(), b.Close() }() // the other direction ends with it
		for {
			f, err := from.Read()
			if err != nil || to.Write(f) != nil {
				return
			}
		}
	}
	both.Go(func() { pass(a, b) })
	both.Go(func() { pass(b, a) })
	both.Wait()
}

// Relay returns a connection that stands for conn, which leads to another machine. It answers there
// on behalf of a process of this machine. So the other end goes on while the process is stopped,
// and hears that it is gone when the process has closed its own connection. It ends with ctx.
func Relay(ctx context.Context, conn io.ReadWriteCloser) io.ReadWriteCloser {
	near, far := net.Pipe()
	process, other := New(far), New(conn)
	process.Announce(ctx)
	other.KeepAlive(ctx)
	go Join(process, other)
	return near
}

// Close ends the connection at once.
func (c *Conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.conn.Close()
}
