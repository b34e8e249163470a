package jobsteps

import (
	"context"
	"time"

	"github.com/rota-hpc/rota/controld/api/stream"
)

// client is the connection of a command that has asked for a step, or shows one.
type client struct {
	conn *stream.Conn
	out  chan stream.Frame // to it
	in   chan stream.Frame // from it
	gone chan struct{}     // closed when the connection has ended
	// told is closed when the end of the step was written, and an awaited client has said its last
	// words
	told    chan struct{}
	written chan struct{} // closed when the end of the step was written
	awaited bool
	quit    context.CancelFunc
}

// linger is how long a client that was told the end may take to close its connection. It is not
// closed before: what the client has sent meanwhile would have the kernel drop the end.
const linger = 5 * time.Second

// knowsEnd reports whether the end of the step was written to the client.
func (c *client) knowsEnd() bool {
	select {
	case <-c.written:
		return true
	default:
		return false
	}
}

// newClient reads and writes a connection until it ends, or ctx does.
//
// With awaited it has last words: it closes the connection when it has said them.
func newClient(ctx context.Context, conn *stream.Conn, room int, awaited bool) *client {
	ctx, quit := context.WithCancel(ctx)
	c := &client{conn: conn, out: make(chan stream.Frame, room), in: make(chan stream.Frame), gone: make(chan struct{}),
		told: make(chan struct{}), written: make(chan struct{}),
		quit: quit, awaited: awaited}
	go c.read(ctx)
	go c.write(ctx)
	return c
}

func (c *client) read(ctx context.Context) {
	defer close(c.gone)
	defer c.close()
	for {
		f, err := c.conn.Read()
		if err != nil {
			return
		}
		f.Data = append([]byte(nil), f.Data...)
		select {
		case c.in <- f:
		case <-c.told:
		case <-ctx.Done():
			return
		}
	}
}

func (c *client) write(ctx context.Context) {
	for {
		select {
		case f := <-c.out:
			if c.conn.Write(f) != nil {
				c.close()
				return
			}
			if f.Kind == stream.End {
				close(c.written)
				if !c.awaited {
					close(c.told)
				}
				var end context.CancelFunc
				ctx, end = context.WithTimeout(ctx, linger)
				defer end()
				select {
				case <-ctx.Done():
				case <-c.gone:
				}
				if c.awaited {
					close(c.told)
				}
				c.close()
				return
			}
		case <-ctx.Done():
			c.close()
			return
		}
	}
}

// refuse tells the client why there is no step. The client is not heard any more.
func (c *client) refuse(why error) {
	go func() {
		for {
			select {
			case <-c.in:
			case <-c.gone:
				return
			}
		}
	}()
	c.tellEnd(stream.StepEnd{StepTaskExit: stream.StepTaskExit{Code: 1}, Why: why.Error()})
}

// tellEnd tells the client how the step has ended.
func (c *client) tellEnd(how stream.StepEnd) {
	f, _ := stream.JSON(stream.End, stream.AllTasks, how) // numbers and a text
	select {
	case c.out <- f:
	case <-c.gone:
	}
}

func (c *client) close() {
	c.quit()
	_ = c.conn.Close() // it is read and written no more
}
