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
	told chan struct{}     // closed when the end of the step was written
	quit context.CancelFunc
}

// linger is how long a client that was told the end may take to close its connection. It is not
// closed before: what the client has sent meanwhile would have the kernel drop the end.
const linger = 5 * time.Second

// newClient reads and writes a connection until it ends, or ctx does.
func newClient(ctx context.Context, conn *stream.Conn, room int) *client {
	ctx, quit := context.WithCancel(ctx)
	c := &client{conn: conn, out: make(chan stream.Frame, room), in: make(chan stream.Frame), gone: make(chan struct{}),
		told: make(chan struct{}), quit: quit}
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
				close(c.told)
				var end context.CancelFunc
				ctx, end = context.WithTimeout(ctx, linger)
				defer end()
				<-ctx.Done()
				c.close()
				return
			}
		case <-ctx.Done():
			c.close()
			return
		}
	}
}

// refuse tells the client why there is no step.
func (c *client) refuse(why error) {
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
