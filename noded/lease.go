package noded

import (
	"context"
	"time"

	"github.com/rota-hpc/rota/noded/container"
)

// moment is a point in time on two clocks, one of which stands still while the machine sleeps.
type moment struct {
	awake time.Time // monotonic
	boot  int64     // nanoseconds of CLOCK_BOOTTIME
}

func currentMoment() moment { return moment{time.Now(), container.BootTime()} }

// slept is for how long the machine has slept since m.
func (m moment) slept() time.Duration {
	return max(0, time.Duration(container.BootTime()-m.boot)-time.Since(m.awake))
}

// lease is a confirmed lease: its length counts from when it was asked for, asleep or awake, because so does whoever gave it.
type lease struct {
	askedAt moment
	term    time.Duration
}

// end is when it ends, on the clock that runs while the machine is awake; zero if there was none.
func (l lease) end() time.Time {
	if l.term == 0 {
		return time.Time{}
	}
	return l.askedAt.awake.Add(l.term - l.askedAt.slept())
}

// renewAll passes a confirmed lease on to every shim that is to go on and whose own is getting old. What the answer did not list is
// left to run out. The mutex is held.
func (a *Agent) renewLeases(term time.Duration) {
	l, end := a.lease, a.lease.end()
	for _, w := range a.workers {
		lives := stateOrder(w.Actual) == 1 || stateOrder(w.Actual) == 2
		if lives && w.Desired != nil && end.Sub(w.lease) >= term/10 {
			w.lease = end
			a.steps.Go(func() { a.renewLease(w, l) })
		}
	}
}

// renew passes a lease on to one shim. Each has its own time: one that hangs must not cost the others theirs.
func (a *Agent) renewLease(w *worker, l lease) {
	ctx, cancel := context.WithTimeout(a.ctx, stepTimeout)
	defer cancel()
	if err := a.Runtime.Renew(ctx, w.id, l.end()); err != nil && ctx.Err() == nil {
		a.Log.Warn("cannot renew a lease", "job", w.id.Job, "alloc", w.id.String(), "err", err)
		a.mu.Lock()
		w.lease = time.Time{} // at the next answer
		a.mu.Unlock()
	}
}

