package jobsteps

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/noded/container"
)

// part is one node's part of a step.
type part struct {
	step  *step
	index int
	id    container.ID
	node  Node
	name  string // of the node

	// these belong to the goroutine of step.run
	offset int64 // of its output: read so far, by this client
	seen   int64 // the highest offset that any client has reached
	known  int64 // the client has acknowledged the output up to here
	acked  int64 // the shim was told to forget the output up to here
	ended  bool
	end    api.StepEnd
	lost   bool
	input  bool     // it takes input
	quiet  []uint32 // tasks here that read none
	ready  bool     // it has said how much of the input it has taken
	taken  int64    // the part has consumed the input up to here
	have   int64    // the part was sent the input up to here, or has taken it

	mu   sync.Mutex
	conn *stream.Conn // nil: there is none
	gen  int          // number of the connection; events of older ones are dropped
	from int64        // offset in the output at which the next connection begins
	kick chan struct{}
}

// event is news from a part: a frame, a broken connection (broken), or the loss of the part (lost).
type event struct {
	part   *part
	gen    int
	frame  stream.Frame
	offset int64 // in the output, behind the frame
	first  bool  // of its connection
	broken bool
	lost   string
}

// signal sends a signal to a part. A kill is repeated until the node has it or the step is over;
// any other signal is tried once.
func (p *part) signal(name string) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), askTime)
		err := p.node.Signal(ctx, p.id, name)
		cancel()
		if err == nil || errors.Is(err, container.ErrUnknown) {
			return
		}
		p.step.log.Warn("cannot signal a part of a step", "node", p.name, "signal", name, "err", err)
		if name != unix.SignalName(unix.SIGKILL) {
			return
		}
		select {
		case <-p.step.over:
			return
		case <-p.step.job.m.ctx.Done():
			return
		case <-time.After(retryMax):
		}
	}
}

func (p *part) generation() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gen
}

// write sends a frame to the part, if it is connected. It ignores errors: the reader of the same
// connection meets them too.
func (p *part) write(f stream.Frame) {
	p.mu.Lock()
	conn := p.conn
	p.mu.Unlock()
	if conn != nil {
		_ = conn.Write(f)
	}
}

// reopen makes follow read the part again, from an offset. Raising gen first means that events of
// the old connection, even those already on their way, count for nothing.
func (p *part) reopen(from int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gen++
	p.from = from
	if p.conn != nil {
		_ = p.conn.Close()
		p.conn = nil
	}
	select {
	case p.kick <- struct{}{}:
	default: // one kick is enough
	}
}

// follow keeps a connection to the part until ctx ends. It decides by the outcome of each
// connection how long to wait before the next one; a kick from reopen cuts every wait short.
func (p *part) follow(ctx context.Context) {
	var last time.Time // of the last try that succeeded
	delay := retryMin
	for ctx.Err() == nil {
		began := time.Now()
		if last.IsZero() {
			last = began
		}
		gen, ended, err := p.read(ctx)
		wait := time.Duration(0)
		switch {
		case ended: // nothing is left to read, unless a client goes back
			wait = time.Hour
		case p.generation() != gen: // reopened meanwhile: at once
			last, delay = time.Now(), retryMin
		case err == nil: // the node answers, so it is not lost
			last, delay, wait = time.Now(), retryMin, retryMin
		case errors.Is(err, container.ErrUnknown): // the node answers and has no such part
			p.say(ctx, event{gen: gen, lost: fmt.Sprintf("its part on node %s is lost", p.name)})
			wait = time.Hour
		case time.Since(last) > nodePatience: // the node does not answer any more
			p.say(ctx, event{gen: gen, lost: fmt.Sprintf("node %s is lost: %v", p.name, err)})
			wait = time.Hour
		default: // it may be restarting
			wait, delay = delay, min(2*delay, retryMax)
		}
		if wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-p.kick:
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
		}
	}
}

// say hands an event to the step. False: ctx has ended.
func (p *part) say(ctx context.Context, e event) bool {
	e.part = p
	select {
	case p.step.events <- e:
		return true
	case <-ctx.Done():
		return false
	}
}

// read reads the part over one connection, until that breaks or the part has ended. The error is
// nil if at least one frame came: the caller takes that as a sign of life.
func (p *part) read(ctx context.Context) (gen int, ended bool, err error) {
	p.mu.Lock()
	gen, offset := p.gen, p.from
	p.mu.Unlock()
	// ask bounds the request alone. The connection lives as long as life, which may be days.
	ask, cancel := context.WithTimeout(ctx, askTime)
	life, end := context.WithCancel(ctx)
	defer end()
	conn, err := p.node.Open(ask, life, p.id, offset)
	cancel()
	if err != nil {
		return gen, false, err
	}
	defer func() { _ = conn.Close() }() // it is read no more
	p.mu.Lock()
	if p.gen != gen { // reopen came while the connection was made
		p.mu.Unlock()
		return gen, false, nil
	}
	p.conn = conn
	p.mu.Unlock()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	for _, task := range p.quiet {
		_ = conn.Write(stream.Frame{Kind: stream.StdinEnd, Task: task}) // the reader below meets the error
	}
	heard := false
	for {
		f, err := conn.Read()
		if err != nil {
			if heard {
				err = nil
			}
			p.mu.Lock()
			broken := p.gen == gen
			if broken {
				p.conn = nil
			}
			p.mu.Unlock()
			if broken {
				p.say(ctx, event{gen: gen, broken: true})
			}
			return gen, false, err
		}
		offset += f.Counts()
		f.Data = append([]byte(nil), f.Data...) // Read reuses its buffer
		e := event{gen: gen, frame: f, offset: offset, first: !heard}
		heard = true
		if !p.deliver(ctx, e) {
			return gen, false, nil
		}
		// The frame is delivered: a connection that breaks from here on continues behind it.
		p.mu.Lock()
		if p.gen == gen {
			p.from = offset
		}
		p.mu.Unlock()
		if f.Kind == stream.End {
			// The shim records the end once all output is acknowledged, or after a while. So the
			// connection stays open for the acknowledgement, until the shim closes it.
			_, _ = conn.Read()
			return gen, true, nil
		}
	}
}

// deliver hands an event to the step. It gives up if the part was reopened: the step may wait for
// nothing but that, and would never take the event.
func (p *part) deliver(ctx context.Context, e event) bool {
	e.part = p
	for {
		if p.generation() != e.gen {
			return false
		}
		select {
		case p.step.events <- e:
			return true
		case <-p.kick: // reopen
		case <-ctx.Done():
			return false
		}
	}
}
