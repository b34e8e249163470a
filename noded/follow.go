package noded

import (
	"context"
	"errors"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/noded/container"
)

// follow registers the node and then keeps up with what the controllers want of it.
func (a *Agent) follow(ctx context.Context) error {
	wait := backoff{}
	registered := false
	for ctx.Err() == nil {
		if !registered || a.inventoryChanged() {
			if err := a.register(ctx); err != nil {
				if errors.Is(err, errNobody) {
					wait = backoff{} // somebody may turn up at any moment
				}
				a.complain(ctx, "cannot register with the controllers", err, wait.next(ctx))
				continue
			}
			registered = true
		}
		err := a.poll(ctx)
		if err == nil {
			wait = backoff{}
			continue
		}
		var p *api.Problem
		if errors.As(err, &p) && (p.Code == api.CodeNotFound || p.Code == api.CodeWrongState) {
			registered = false // the controllers do not know this node, or know it from before a reboot
		}
		a.complain(ctx, "no word from the controllers; what runs goes on until its lease ends", err, wait.next(ctx))
	}
	return context.Cause(ctx)
}

func (a *Agent) complain(ctx context.Context, what string, err error, again time.Duration) {
	if errors.Is(err, errNobody) {
		a.Log.Debug(what, "err", err)
	} else if ctx.Err() == nil {
		a.Log.Warn(what, "err", err, "waited", again)
	}
}

// backoff waits longer each time.
type backoff struct{ delay time.Duration }

// next waits, and returns for how long.
func (b *backoff) next(ctx context.Context) time.Duration {
	b.delay = min(max(2*b.delay, retryFirst), retryMost/2)
	t := time.NewTimer(b.delay)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return b.delay
}

// poll asks once what should run here, and has it so.
func (a *Agent) poll(ctx context.Context) error {
	a.mu.Lock()
	after := a.index
	a.mu.Unlock()
	sent := present()
	ctx, cancel := context.WithTimeout(ctx, pollWait+15*time.Second)
	defer cancel()
	answer, err := a.Control.Allocs(ctx, a.Node.Name, a.Node.BootID, after, pollWait)
	if err != nil {
		return err
	}
	if answer.LeaseMS <= 0 {
		return errors.New("the leader could not confirm that it still leads")
	}
	a.want(answer, sent, time.Now())
	return nil
}

// want takes in an answer that a quorum stands behind.
func (a *Agent) want(n *api.NodeAllocs, sent moment, received time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n.Index < a.index {
		a.Log.Warn("the controllers answered from an older state; ignored", "index", n.Index, "seen", a.index)
		return
	}
	a.index, a.heard = n.Index, true
	term := time.Duration(n.LeaseMS) * time.Millisecond
	a.lease = lease{sent, term}
	wanted := make(map[container.ID]bool, len(n.Allocs))
	for i := range n.Allocs {
		d := &n.Allocs[i]
		id := container.ID{Job: int64(d.Job), Attempt: d.Attempt, Worker: d.Worker}
		wanted[id] = true
		a.worker(id).want(d, received, int64(n.Now))
	}
	for id, w := range a.workers {
		if !wanted[id] {
			w.Desired, w.KillAt = nil, time.Time{}
		} else if w.Acked {
			w.sent, w.Acked = "", false // it is still asked for: say again what became of it
		}
		a.advance(w)
	}
	a.renewAll(term)
}

// want is what the controllers ask for one worker. A stop's deadline is on the log's clock and is turned into one on this machine's;
// once set it only ever moves forward, because a stronger stop may shorten the grace and nothing lengthens it.
func (w *worker) want(d *api.Alloc, received time.Time, now int64) {
	w.Desired = d
	if d.Stop == nil {
		w.KillAt = time.Time{}
		return
	}
	at := received.Add(time.Duration(int64(d.Stop.KillAt)-now) * time.Millisecond)
	if w.KillAt.IsZero() || at.Before(w.KillAt) {
		w.KillAt = at
	}
}

// moment is a point in time on two clocks, one of which stands still while the machine sleeps.
type moment struct {
	awake time.Time // monotonic
	boot  int64     // nanoseconds of CLOCK_BOOTTIME
}

func present() moment { return moment{time.Now(), container.BootTime()} }

// slept is for how long the machine has slept since m.
func (m moment) slept() time.Duration {
	return max(0, time.Duration(container.BootTime()-m.boot)-time.Since(m.awake))
}

// lease is a confirmed lease: its length counts from when it was asked for, asleep or awake, because so does whoever gave it.
type lease struct {
	asked moment
	term  time.Duration
}

// end is when it ends, on the clock that runs while the machine is awake; zero if there was none.
func (l lease) end() time.Time {
	if l.term == 0 {
		return time.Time{}
	}
	return l.asked.awake.Add(l.term - l.asked.slept())
}

// renewAll passes a confirmed lease on to every shim that is to go on and whose own is getting old. What the answer did not list is
// left to run out. The mutex is held.
func (a *Agent) renewAll(term time.Duration) {
	l, end := a.lease, a.lease.end()
	for _, w := range a.workers {
		lives := rank(w.Actual) == 1 || rank(w.Actual) == 2
		if lives && w.Desired != nil && end.Sub(w.lease) >= term/10 {
			w.lease = end
			a.steps.Go(func() { a.renew(w, l) })
		}
	}
}

// renew passes a lease on to one shim. Each has its own time: one that hangs must not cost the others theirs.
func (a *Agent) renew(w *worker, l lease) {
	ctx, cancel := context.WithTimeout(a.ctx, stepTimeout)
	defer cancel()
	if err := a.Runtime.Renew(ctx, w.id, l.end()); err != nil && ctx.Err() == nil {
		a.Log.Warn("cannot renew a lease", "job", w.id.Job, "alloc", w.id.String(), "err", err)
		a.mu.Lock()
		w.lease = time.Time{} // at the next answer
		a.mu.Unlock()
	}
}

// register puts the node's inventory into the log. One at a time does, so that none that is older arrives after a newer one.
func (a *Agent) register(ctx context.Context) error {
	select {
	case a.registering <- struct{}{}:
		defer func() { <-a.registering }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	a.mu.Lock()
	node := a.Node
	node.GPUs = a.healthNow()
	a.stale = false
	a.mu.Unlock()
	if _, err := a.Control.Register(ctx, node.Name, api.RegisterRequest{Node: node}); err != nil {
		a.mu.Lock()
		a.stale = true
		a.mu.Unlock()
		return err
	}
	a.Log.Info("registered", "node", node.Name, "cores", node.Cores, "gpus", len(node.GPUs))
	return nil
}

func (a *Agent) inventoryChanged() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stale
}
