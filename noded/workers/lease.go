package workers

import (
	"context"
	"errors"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/follow"
	"github.com/rota-hpc/rota/noded/run"
)

// LeaseEnd returns when the lease of a container of an allocation ends that is created now; the zero
// time if it has none.
func (t *Table) LeaseEnd(of *api.Alloc) time.Time {
	if of.NoLease {
		return time.Time{}
	}
	h, unlock := t.lock()
	defer unlock()
	return h.lease.End()
}

// renewPart says when a shim's lease is old: when the confirmed one ends later by at least
// 1/renewPart of the term. So not every answer costs an order to every shim.
const renewPart = 10

// renewLeases passes a confirmed lease on to the shim of every container that is to go on and whose
// own lease is old. The leases of containers that the answer did not list are left to run out.
//
// Containers of a job that waits for its lost nodes have no lease. Their shims are told as often,
// because the answers carry the use of processes beside the ranks.
func (h held) renewLeases() {
	end := h.lease.End()
	for _, w := range h.workers {
		if !w.Exists() && w.Steps == 0 || w.Desired == nil || w.Kept {
			continue
		}
		l := h.lease
		if w.Desired.NoLease {
			l = follow.Lease{}
		}
		if end.Sub(w.lease) >= h.lease.Term/renewPart || w.leaseless != w.Desired.NoLease {
			w.lease, w.leaseless = end, w.Desired.NoLease
			h.passLease(w, l.End(), h.Runtime.Renew)
		}
	}
}

// Extend implements [follow.Node]. If this daemon has restarted since the last answer, all containers
// here go on: their shims know whether they have a lease.
func (t *Table) Extend(l follow.Lease, runOut map[container.ID]bool) {
	h, unlock := t.lock()
	defer unlock()
	h.lease = l
	end := l.End()
	for id, w := range h.workers {
		switch {
		case w.Kept || runOut[id]: // it must end with its lease
		case !w.Exists() && w.Steps == 0: // nothing of it runs
		case w.Desired == nil && h.desiredKnown: // the last answer did not list it
		case w.Desired != nil && w.Desired.NoLease:
		case end.Sub(w.lease) < l.Term/renewPart/2: // its lease is fresh enough
		default:
			w.lease = end
			h.passLease(w, end, h.Runtime.Extend)
		}
	}
}

// passLease passes the end of a lease on to the shims of a worker and of the steps beside it, in the
// background.
func (h held) passLease(
	w *worker, end time.Time, pass func(context.Context, container.ID, time.Time) error,
) {
	ids := h.Runner.LiveSteps(w.ID)
	if w.Exists() { // it may have ended before its steps
		ids = append(ids, w.ID)
	}
	t, ctx := h.Table, h.ctx
	h.actions.Go(func() { t.sendLease(ctx, w, ids, end, pass) })
}

// sendLease carries out passLease. Each call has its own timeout: a shim that hangs must not delay
// the others.
func (t *Table) sendLease(ctx context.Context, w *worker, ids []container.ID, end time.Time,
	pass func(context.Context, container.ID, time.Time) error,
) {
	ctx, cancel := context.WithTimeout(ctx, run.Timeout)
	defer cancel()
	var err error
	for _, id := range ids {
		lost := pass(ctx, id, end)
		if id.Step == 0 || !errors.Is(lost, container.ErrUnknown) { // else it has just ended
			err = errors.Join(err, lost)
		}
	}
	if err != nil && ctx.Err() == nil {
		t.logOf(w.ID).Warn("cannot renew a lease", "err", err)
		t.mu.Lock()
		w.lease, w.leaseless = time.Time{}, false // the next answer tries again
		t.mu.Unlock()
	}
}

// silentGrace is how long a container with a silent shim goes on after the end of its lease. A shim
// that wakes up meanwhile stops it in its own way.
const silentGrace = 10 * time.Second

// leaseOver reports whether this daemon has to end a container at the end of its lease, because its
// shim does not answer.
func (h held) leaseOver(w *worker) bool {
	end := h.lease.End()
	return w.Silent != "" && !end.IsZero() && time.Now().After(end.Add(silentGrace))
}
