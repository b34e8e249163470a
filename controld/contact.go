package controld

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/cluster"
)

// contacts remembers when each node was last heard of. It is volatile: a new leader gives every node its full time again.
type contacts struct {
	mu    sync.Mutex
	began time.Time            // of leadership
	last  map[string]time.Time // by node
	back  chan struct{}        // has one element when a node was heard of that may be down
}

func (c *contacts) restart(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began, c.last, c.back = now, map[string]time.Time{}, make(chan struct{}, 1)
}

// heard notes that a node spoke. Down says that the state has it as down.
func (c *contacts) heard(node string, now time.Time, down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil { // this controller has never led
		return
	}
	c.last[node] = now
	if down {
		c.wake()
	}
}

// nudge makes watchNodes look again.
func (c *contacts) nudge() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wake()
}

// wake is called with mu held.
func (c *contacts) wake() {
	select {
	case c.back <- struct{}{}:
	default:
	}
}

// of returns when a node was last heard of, or when this controller began to lead.
func (c *contacts) of(node string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.last[node]; ok {
		return at
	}
	return c.began
}

// seen is of, but zero if the node was never heard of by this controller.
func (c *contacts) seen(node string) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last[node]
}

func (c *contacts) returned() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.back
}

// watchNodes marks nodes down that were silent for too long, and up when they speak again.
func (d *daemon) watchNodes(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next, err := d.judgeNodes(ctx, time.Now())
		if err != nil {
			return err
		}
		timer.Reset(next)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
		case <-d.contacts.returned():
		}
	}
}

// judgeNodes proposes what has changed and returns when to look again.
func (d *daemon) judgeNodes(ctx context.Context, now time.Time) (time.Duration, error) {
	v := d.machine.view.Load()
	silence := time.Duration(v.Config().NodeDownMS) * time.Millisecond
	next := silence
	for _, n := range v.Nodes() {
		quiet := now.Sub(d.contacts.of(n.Name))
		want := n.State
		switch {
		case n.State != cluster.NodeDown && quiet > silence: // a drained one too: what it runs may have to run elsewhere
			want = cluster.NodeDown
		case n.State == cluster.NodeDown && quiet <= silence && !d.contacts.seen(n.Name).IsZero():
			want = cluster.NodeUp
		case n.State != cluster.NodeDown:
			next = min(next, silence-quiet+time.Millisecond)
		}
		if want == n.State {
			continue
		}
		if err := d.setNode(ctx, n, want, quiet); err != nil {
			return 0, err
		}
	}
	return next, nil
}

func (d *daemon) setNode(ctx context.Context, n *cluster.Node, to cluster.NodeState, quiet time.Duration) error {
	c := cluster.SetNodeState{Node: n.Name, BootID: n.BootID, State: to}
	if to == cluster.NodeDown {
		c.Reason = fmt.Sprintf("not heard of for %d s", int(quiet.Seconds()))
	}
	_, _, err := d.propose(ctx, c)
	if err == nil {
		d.log.Info("node is "+string(to), "node", n.Name, "reason", c.Reason)
		return nil
	}
	if lostLead(err) || ctx.Err() != nil {
		return err
	}
	d.log.Warn("node state not changed", "node", n.Name, "to", to, "error", err) // it has registered anew meanwhile
	return nil
}

// samples keeps the newest progress of running jobs. It is volatile.
type samples struct {
	mu   sync.Mutex
	last map[cluster.JobID]progress
}

type progress struct {
	attempt     int
	step, saved int64
	metrics     map[string]float64 // of the newest step
}

// maxSamples bounds the memory of samples; beyond it everything is forgotten and comes anew within seconds.
const maxSamples = 200_000

func (s *samples) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = map[cluster.JobID]progress{}
}

// put keeps a sample unless it is older than what is known: the slowest worker does not count, the newest step does.
func (s *samples) put(id cluster.JobID, p progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || len(s.last) >= maxSamples {
		s.last = map[cluster.JobID]progress{}
	}
	old := s.last[id]
	if p.attempt < old.attempt {
		return
	}
	if p.attempt == old.attempt {
		if p.step < old.step || len(p.metrics) == 0 {
			p.metrics = old.metrics
		}
		p.step, p.saved = max(p.step, old.step), max(p.saved, old.saved)
	}
	s.last[id] = p
}

func (s *samples) of(id cluster.JobID) progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[id]
}
