package noded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/reconcile"
	"github.com/rota-hpc/rota/noded/retry"
)

// followControllers registers the node and then applies the allocations of the controllers until
// ctx ends. Each answer renews the lease of the node's containers.
func (a *Agent) followControllers(ctx context.Context) error {
	wait := retry.Backoff{}
	registered := false
	for ctx.Err() == nil {
		if !registered || a.gpus.NeedRegistration() || a.noticeChanged() {
			if err := a.register(ctx); err != nil {
				if errors.Is(err, errNoController) {
					wait = retry.Backoff{} // a controller may be found at any moment
				}
				a.logRetry(ctx, "cannot register with the controllers", err, wait.Sleep(ctx))
				continue
			}
			registered = true
		}
		err := a.pollAllocs(ctx)
		if err == nil {
			wait = retry.Backoff{}
			continue
		}
		if otherGeneration(err) {
			err = a.followGeneration(ctx)
			if err == nil {
				continue
			}
		}
		if unsettled(err) {
			a.Log.Debug("the controllers wait until a majority of the nodes follows their generation")
			wait.Sleep(ctx)
			continue
		}
		var p *api.Problem
		if errors.As(err, &p) && (p.Code == api.CodeNotFound || p.Code == api.CodeWrongState) {
			registered = false // the controllers do not know this node, or know it from before a reboot
		}
		if errors.Is(err, errWentBack) {
			a.Log.Warn("registering again", "reason", err)
			registered = false
			continue
		}
		a.logRetry(ctx, "the controllers do not answer; containers go on until their lease ends", err, wait.Sleep(ctx))
	}
	return context.Cause(ctx)
}

func (a *Agent) logRetry(ctx context.Context, what string, err error, again time.Duration) {
	if errors.Is(err, errNoController) {
		a.Log.Debug(what, "err", err)
	} else if ctx.Err() == nil {
		a.Log.Warn(what, "err", err, "waited", again)
	}
}

// pollAllocs asks the controllers once for this node's allocations and applies the answer.
func (a *Agent) pollAllocs(ctx context.Context) error {
	a.mu.Lock()
	after := a.index
	a.mu.Unlock()
	sent := currentMoment()
	ctx, cancel := context.WithTimeout(ctx, pollWait+pollMargin)
	defer cancel()
	answer, err := a.Control.Allocs(ctx, a.Node.Name, a.Node.BootID, after, pollWait, a.echo())
	if err != nil {
		return err
	}
	if answer.LeaseMS <= 0 {
		return errors.New("the controller could not confirm that it is still the leader")
	}
	if own := a.Lineage.Current(); cmp.Or(answer.Generation, "0") != own.String() {
		return fmt.Errorf("the controller answers for generation %s of the cluster, and this node follows %s: the answer "+
			"does not count", answer.Generation, own)
	}
	return a.applyAllocs(answer, sent, time.Now())
}

// errWentBack says that the controllers' state is older than one that they have confirmed before: it
// was restored, or is that of a new cluster.
var errWentBack = errors.New("the state of the controllers went back")

// applyAllocs applies an answer that a quorum of the controllers confirmed.
func (a *Agent) applyAllocs(n *api.NodeAllocs, sent moment, received time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.noteAnswer(n); err != nil {
		return err
	}
	if n.Index < a.index {
		// A leader answers only once it has all that was ever confirmed, so this is no old answer.
		err := fmt.Errorf("%w to index %d, after %d", errWentBack, n.Index, a.index)
		a.keepAll(err.Error() + ": what runs here goes on until its leases end")
		a.index, a.desiredKnown = 0, false
		return err
	}
	a.index, a.desiredKnown = n.Index, true
	term := time.Duration(n.LeaseMS) * time.Millisecond
	a.heard = received
	a.lease = lease{sent, term} // what renewLeases passes on
	wanted := make(map[container.ID]bool, len(n.Allocs))
	for i := range n.Allocs {
		d := &n.Allocs[i]
		id := container.ID{Job: int64(d.Job), Attempt: d.Attempt, Worker: d.Worker}
		wanted[id] = true
		w := a.workerOf(id)
		w.Unread = ""
		if !w.keep(d) {
			w.setDesired(d, received, int64(n.Now))
			a.recoverSteps(w)
		}
	}
	for i := range n.Unread {
		wanted[a.cannotRead(&n.Unread[i], received, int64(n.Now))] = true
	}
	for id, w := range a.workers {
		if w.Kept {
			w.keep(nil)
		} else if !wanted[id] {
			w.Desired, w.KillAt, w.Unread = nil, time.Time{}, ""
		} else if w.Confirmed {
			w.lastReported, w.Confirmed = "", false // it is still asked for: report its result again
		}
		a.reconcile(w)
	}
	a.renewLeases(term)
	return nil
}

// cannotRead notes that what the controllers say of a worker cannot be read, and returns the worker's id. A
// container that exists goes on by what was read of it before, and obeys a stop that can be read. One
// that does not exist is not made. The mutex is held.
func (a *Agent) cannotRead(u *api.UnreadAlloc, received time.Time, now int64) container.ID {
	id := container.ID{Job: int64(u.Job), Attempt: u.Attempt, Worker: u.Worker}
	w := a.workerOf(id)
	if why := reconcile.Message(u.Err); w.Unread != why {
		w.Unread = why
		a.Log.Error("cannot read what the controllers say of a worker: is this node's version older than theirs?",
			"worker", id.String(), "err", why)
	}
	if w.Desired != nil && u.Stop != nil {
		d := *w.Desired
		d.Stop = u.Stop
		w.setDesired(&d, received, now)
	}
	return id
}

// noticeFor is how long at least rota nodes says that a node has met another state.
const noticeFor = 10 * time.Minute

// keepAll has every container go on until its lease ends, which the present controllers do not
// renew: they may know nothing of it, or take another job for it. Until then this node starts
// nothing. The mutex is held.
func (a *Agent) keepAll(notice string) {
	a.notice, a.noticeAt = notice, time.Now()
	for _, w := range a.workers {
		w.Kept = true
	}
	a.keepOnDisk()
}

// keepsAny reports whether a kept container still runs. The mutex is held.
func (a *Agent) keepsAny() bool {
	for _, w := range a.workers {
		if w.Kept && (w.Exists() || w.busy) {
			return true
		}
	}
	return false
}

// keep reports whether a worker is kept, in spite of what the controllers say under its id. A kept
// worker that they ordered at the same instant for the same user is the same one, and is kept no
// more. Of any other the result is of no interest to them.
func (w *worker) keep(d *api.Alloc) bool {
	if w.Kept && d != nil && w.keptUnseen {
		w.Kept = false
	}
	if w.Kept && d != nil && w.Desired != nil && d.Start == w.Desired.Start && d.Owner.UID == w.Desired.Owner.UID {
		w.Kept = false
	}
	if w.Kept {
		w.Desired, w.KillAt, w.Confirmed = nil, time.Time{}, true
	}
	return w.Kept
}

// noticeChanged reports whether this node has to register again because of its notice, which ends
// when nothing is kept any more.
func (a *Agent) noticeChanged() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.notice != "" && time.Since(a.noticeAt) > noticeFor && !a.keepsAny() {
		a.notice = ""
	}
	return a.noticeText() != a.noticed
}

// setDesired stores what the controllers want for one worker. The deadline of a stop is converted
// from the log's clock to this machine's. It only ever moves forward: a stronger stop may shorten
// the grace period, and nothing lengthens it.
func (w *worker) setDesired(d *api.Alloc, received time.Time, now int64) {
	w.Desired = d
	if d.Early != nil {
		w.LimitAt = received.Add(time.Duration(int64(d.Early.Limit)-now) * time.Millisecond)
	}
	if d.Stop == nil {
		w.KillAt = time.Time{}
		return
	}
	at := received.Add(time.Duration(int64(d.Stop.KillAt)-now) * time.Millisecond)
	if w.KillAt.IsZero() || at.Before(w.KillAt) {
		w.KillAt = at
	}
}

// register puts the node's inventory into the log. Registrations run one after the other, so that
// an older inventory never overwrites a newer one.
func (a *Agent) register(ctx context.Context) error {
	select {
	case a.registering <- struct{}{}:
		defer func() { <-a.registering }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	node := a.Node
	node.GPUs = a.gpus.ForRegistration()
	a.mu.Lock()
	node.Notice = a.noticeText()
	a.mu.Unlock()
	if _, err := a.Control.Register(ctx, node.Name, api.RegisterRequest{Node: node}); err != nil {
		a.gpus.SetUnregistered()
		return err
	}
	a.mu.Lock()
	a.noticed = node.Notice
	a.mu.Unlock()
	a.Log.Info("registered", "node", node.Name, "cores", node.Cores, "gpus", len(node.GPUs))
	return nil
}

// registerNow registers the node at once, because the end of the worker, which frees the GPU, is
// reported next.
func (a *Agent) registerNow(ctx context.Context) {
	if err := a.register(ctx); err != nil {
		a.logRetry(ctx, "cannot register an unhealthy GPU; it will be tried again", err, 0)
	}
}

// addrOf returns where the daemon of a node answers on which a job of this node runs too, or has its
// checkpoint, "" if there is none.
func (a *Agent) addrOf(node string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.workers {
		if w.Desired == nil {
			continue
		}
		for _, m := range w.Desired.Members {
			if m.Name == node {
				return m.Addr
			}
		}
		if c := w.Desired.Checkpoint; c != nil && c.Node == node {
			return c.Addr
		}
	}
	return ""
}
