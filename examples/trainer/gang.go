package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"time"
)

// gang is one worker's place among its peers. Worker 0 collects the shards of every step, adds them
// in shard order and sends the sum back. This star is enough for a model of this size, and keeps
// the order of additions in one place.
type gang struct {
	rank, world int
	peers       []*peer // of worker 0: by rank, [0] nil; of the others: worker 0 alone
}

type peer struct {
	net.Conn
	r *bufio.Reader
}

// connectPatience is how long workers wait for each other at the start.
const connectPatience = 2 * time.Minute

// join connects the gang. token must be the same in every worker, so that a worker of an older
// attempt cannot slip in.
func join(ctx context.Context, rank, world int, addr, token string) (*gang, error) {
	g := &gang{rank: rank, world: world}
	if world == 1 {
		return g, nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	if rank == 0 {
		return g, g.gather(ctx, addr, token)
	}
	return g, g.reach(ctx, addr, token)
}

// gather accepts every other worker once.
func (g *gang) gather(ctx context.Context, addr, token string) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("worker 0 listens for its gang: %w", err)
	}
	defer context.AfterFunc(ctx, func() { l.Close() })()
	defer l.Close()
	g.peers = make([]*peer, g.world)
	for missing := g.world - 1; missing > 0; {
		c, err := l.Accept()
		if err != nil {
			g.close()
			return fmt.Errorf("%d of %d workers have not connected: %w", missing, g.world, errors.Join(context.Cause(ctx), err))
		}
		p := &peer{c, bufio.NewReaderSize(c, 1<<16)}
		deadlineErr := c.SetDeadline(time.Now().Add(5 * time.Second))
		rank, err := readHello(p.r, token)
		if errors.Join(err, deadlineErr) != nil || rank <= 0 || rank >= g.world || g.peers[rank] != nil {
			c.Close() // a stranger, or a worker of another attempt
			continue
		}
		_ = c.SetDeadline(time.Time{}) // the next read says so if the connection is gone
		g.peers[rank] = p
		missing--
	}
	return nil
}

// reach dials worker 0 until it listens.
func (g *gang) reach(ctx context.Context, addr, token string) error {
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err == nil {
			g.peers = []*peer{{c, bufio.NewReaderSize(c, 1<<16)}}
			return writeFrame(c, frameHello, uint64(g.rank), []byte(token))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("worker 0 at %s cannot be reached: %w", addr, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (g *gang) close() {
	for _, p := range g.peers {
		if p != nil {
			p.Close()
		}
	}
}

// Frames: kind, a number, a length, and that many bytes.
const (
	frameHello byte = iota + 1 // rank; token
	frameStart                 // steps done; weights
	frameShard                 // what the sender was asked to do; loss and derivatives of its shards in order
	frameSum                   // what the gang does after this step; loss and derivatives of the batch
)

// maxFrame bounds a frame: a sum of maxWeights for each of 1,024 shards is more than any worker sends.
const maxFrame = 1 << 30

func writeFrame(w io.Writer, kind byte, n uint64, body []byte) error {
	b := append([]byte{kind}, binary.LittleEndian.AppendUint64(nil, n)...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(body)))
	_, err := w.Write(append(b, body...))
	return err
}

func readFrame(r io.Reader, kind byte) (uint64, []byte, error) {
	var head [13]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.LittleEndian.Uint32(head[9:])
	if head[0] != kind || size > maxFrame {
		return 0, nil, fmt.Errorf("frame of kind %d with %d bytes where kind %d belongs", head[0], size, kind)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, nil, fmt.Errorf("frame cut short: %w", err)
	}
	return binary.LittleEndian.Uint64(head[1:]), body, nil
}

func readHello(r io.Reader, token string) (int, error) {
	rank, got, err := readFrame(io.LimitReader(r, 4096), frameHello)
	if err == nil && string(got) != token {
		err = errors.New("hello from another attempt")
	}
	return int(rank), err
}

// start gives every worker the weights and the step of worker 0, which alone reads checkpoints. So
// workers need not share a disk.
func (g *gang) start(steps int, weights []float64) (int, error) {
	if g.world == 1 {
		return steps, nil
	}
	if g.rank != 0 {
		n, body, err := readFrame(g.peers[0].r, frameStart)
		if err != nil {
			return 0, fmt.Errorf("worker 0 sent no weights: %w", err)
		}
		if len(body) != 8*len(weights) {
			return 0, fmt.Errorf("worker 0 has %d weights, but this worker has %d: their flags differ", len(body)/8,
				len(weights))
		}
		copy(weights, readFloats(body))
		return int(n), nil
	}
	for rank, p := range g.peers[1:] {
		if err := writeFrame(p, frameStart, uint64(steps), appendFloats(nil, weights)); err != nil {
			return 0, fmt.Errorf("send weights to worker %d: %w", rank+1, err)
		}
	}
	return steps, nil
}

// mine returns the shards that a rank computes: a run of neighbours, so that ranks in order give
// shards in order.
func mine(rank, world, shards int) (from, to int) {
	return rank * shards / world, (rank + 1) * shards / world
}

// demand is what a worker was asked to do after a step: to stop, and the last order to pause or to
// go on.
type demand struct {
	stop   bool
	number int
}

func (d demand) encode() uint64 { return uint64(d.number)<<1 | bit(d.stop) }

func decodeDemand(n uint64) demand { return demand{n&1 == 1, int(n >> 1)} }

// with returns what a gang does of which workers were asked different things.
func (d demand) with(o demand) demand { return demand{d.stop || o.stop, max(d.number, o.number)} }

// reduce exchanges one step: own shards in, the sum of all out. asked is what this worker was asked
// to do; the second result is what the gang does, the same in every worker.
func (g *gang) reduce(own []gradient, size int, asked demand) (gradient, demand, error) {
	if g.world == 1 {
		return sum(own), asked, nil
	}
	if g.rank != 0 {
		return g.send(own, size, asked)
	}
	all := own
	for rank := 1; rank < g.world; rank++ {
		theirs, body, err := readFrame(g.peers[rank].r, frameShard)
		if err != nil {
			return gradient{}, demand{}, fmt.Errorf("worker %d is lost: %w", rank, err)
		}
		asked = asked.with(decodeDemand(theirs))
		more, err := readGradients(body, size)
		if err != nil {
			return gradient{}, demand{}, fmt.Errorf("worker %d: %w", rank, err)
		}
		all = append(all, more...)
	}
	total := sum(all)
	body := appendGradients(nil, []gradient{total})
	for rank := 1; rank < g.world; rank++ {
		if err := writeFrame(g.peers[rank], frameSum, asked.encode(), body); err != nil {
			return gradient{}, demand{}, fmt.Errorf("worker %d is lost: %w", rank, err)
		}
	}
	return total, asked, nil
}

func (g *gang) send(own []gradient, size int, asked demand) (gradient, demand, error) {
	if err := writeFrame(g.peers[0], frameShard, asked.encode(), appendGradients(nil, own)); err != nil {
		return gradient{}, demand{}, fmt.Errorf("worker 0 is lost: %w", err)
	}
	agreed, body, err := readFrame(g.peers[0].r, frameSum)
	if err != nil {
		return gradient{}, demand{}, fmt.Errorf("worker 0 is lost: %w", err)
	}
	total, err := readGradients(body, size)
	if err != nil || len(total) != 1 {
		return gradient{}, demand{}, fmt.Errorf("worker 0 sent %d sums: %w", len(total), err)
	}
	return total[0], decodeDemand(agreed), nil
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func appendGradients(b []byte, gs []gradient) []byte {
	for _, g := range gs {
		b = appendFloats(b, []float64{g.loss})
		b = appendFloats(b, g.d)
	}
	return b
}

func readGradients(b []byte, size int) ([]gradient, error) {
	one := 8 * (size + 1)
	if len(b)%one != 0 {
		return nil, fmt.Errorf("%d bytes are not a whole number of gradients of %d", len(b), one)
	}
	var gs []gradient
	for ; len(b) > 0; b = b[one:] {
		f := readFloats(b[:one])
		gs = append(gs, gradient{f[0], f[1:]})
	}
	return gs, nil
}

func appendFloats(b []byte, fs []float64) []byte {
	for _, f := range fs {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(f))
	}
	return b
}

func readFloats(b []byte) []float64 {
	fs := make([]float64, len(b)/8)
	for i := range fs {
		fs[i] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:]))
	}
	return fs
}
