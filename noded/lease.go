package noded

import (
	"context"
	"errors"
	"time"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/run"
)

// moment is a point in time on two clocks. One of them stands still while the machine is suspended.
type moment struct {
	awake time.Time // monotonic clock
	boot  int64     // CLOCK_BOOTTIME in nanoseconds
}

func currentMoment() moment { return moment{time.Now(), container.BootTime()} }

// slept returns how long the machine was suspended since m.
func (m moment) slept() time.Duration {
	return max(0, time.Duration(container.BootTime()-m.boot)-time.Since(m.awake))
}

// lease is a confirmed lease. Its term counts from the moment of the request, even while the
// machine is suspended, because the controllers count the same way.
type lease struct {
	askedAt moment
	term    time.Duration
}

// end returns when the lease ends, on the monotonic clock; the zero time if there is no lease.
func (l lease) end() time.Time {
	if l.term == 0 {
		return time.Time{}
	}
	return l.askedAt.awake.Add(l.term - l.askedAt.slept())
}

// renewPart says when a shim's lease is old: when the confirmed one ends later by at least
// 1/renewPart of the term. So not every answer costs an order to every shim.
const renewPart = 10

// renewLeases passes a confirmed lease on to the shim of every container that is to go on and whose
// own lease is old. The leases of containers that the answer did not list are left to run out.
// Containers of a job that waits for its lost nodes have no lease. Their shims are told so as often: what
// processes beside the ranks use comes with the answers. The mutex is held.
func (a *Agent) renewLeases(term time.Duration) {
	end := a.lease.end()
	for _, w := range a.workers {
		if !w.Exists() && w.Steps == 0 || w.Desired == nil || w.Kept {
			continue
		}
		l := a.lease
		if w.Desired.NoLease {
			l = lease{}
		}
		if end.Sub(w.lease) >= term/renewPart || w.leaseless != w.Desired.NoLease {
			w.lease, w.leaseless = end, w.Desired.NoLease
			ids := a.run.LiveSteps(w.ID)
			if w.Exists() { // it may have ended before its steps
				ids = append(ids, w.ID)
			}
			a.actions.Go(func() { a.passLease(w, ids, l.end(), a.Runtime.Renew) })
		}
	}
}

// passLease passes the end of a lease on to the shims of a worker and of the steps beside it. Each call has its
// own timeout: a shim that hangs must not delay the others.
func (a *Agent) passLease(
	w *worker, ids []container.ID, end time.Time, pass func(context.Context, container.ID, time.Time) error,
) {
	ctx, cancel := context.WithTimeout(a.ctx, run.Timeout)
	defer cancel()
	var err error
	for _, id := range ids {
		lost := pass(ctx, id, end)
		if id.Step == 0 || !errors.Is(lost, container.ErrUnknown) { // else it has just ended
			err = errors.Join(err, lost)
		}
	}
	if err != nil && ctx.Err() == nil {
		a.logOf(w.ID).Warn("cannot renew a lease", "err", err)
		a.mu.Lock()
		w.lease, w.leaseless = time.Time{}, false // the next answer tries again
		a.mu.Unlock()
	}
}
