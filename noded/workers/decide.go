package workers

import (
	"context"
	"errors"
	"time"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/reconcile"
	"github.com/rota-hpc/rota/noded/retry"
	"github.com/rota-hpc/rota/noded/run"
)

// reconcile decides which action is due for one worker and starts it. It is called after every change
// of a fact, so it must be cheap and harmless to repeat.
func (h held) reconcile(w *worker) {
	// 1. One action at a time: the end of the running one calls reconcile again.
	if w.busy && w.cancel != nil && (w.Desired == nil || w.Desired.Stop != nil) {
		w.cancel() // it must not delay the next action
	}
	if w.busy || h.ctx == nil || h.ctx.Err() != nil {
		return
	}
	// 2. Complete the facts that depend on other workers or on the clock, and queue changed states.
	w.Blocked = w.Actual == "" && w.Desired != nil && !w.Journaled && (h.olderAttemptRuns(w.ID) || h.keepsAny())
	h.queueReport(w)
	h.queueSwitch(w)
	h.queueLoss(w)
	w.DesiredUnknown = !h.desiredKnown
	w.StepsRun = h.outlived(w)
	w.LeaseOver = h.leaseOver(w)
	// 3. Decide. Without an action, forget the worker or come back at the time that Next names.
	now := time.Now()
	s, again := reconcile.Next(&w.Facts, now)
	w.waiting = w.Blocked || w.coresShort
	if s.Kind == reconcile.None {
		w.resetRetries(reconcile.None)
		if w.Idle() {
			again = time.Time{}
			delete(h.workers, w.ID)
			h.Meter.Forget(w.ID)
		}
		h.wakeAt(w, again)
		return
	}
	// 4. Act now, or after the delay of a repeated action.
	if s.Kind != w.lastKind {
		w.resetRetries(s.Kind)
	}
	if now.Before(w.notBefore) {
		h.wakeAt(w, w.notBefore)
		return
	}
	h.startAction(w, s)
}

// olderAttemptRuns reports whether an earlier attempt of the job still has processes here. Two
// attempts never run at the same time.
func (h held) olderAttemptRuns(id container.ID) bool {
	for other, w := range h.workers {
		if other.Job == id.Job && other.Attempt < id.Attempt && (w.Exists() || w.busy) {
			return true
		}
	}
	return false
}

// keepsAny reports whether a kept container still runs, or an action on one.
func (h held) keepsAny() bool {
	for _, w := range h.workers {
		if w.Kept && (w.Exists() || w.busy) {
			return true
		}
	}
	return false
}

// retryWaiting reconciles the workers that wait for an earlier attempt or for cores.
func (h held) retryWaiting() {
	for _, w := range h.workers {
		if w.waiting {
			w.notBefore = time.Time{}
			h.reconcile(w)
		}
	}
}

// wakeAt reconciles the worker again at an instant. The zero time only cancels.
func (h held) wakeAt(w *worker, at time.Time) {
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
	if at.IsZero() {
		return
	}
	t := h.Table
	w.timer = time.AfterFunc(time.Until(at), func() {
		h, unlock := t.lock()
		defer unlock()
		if h.workers[w.ID] == w { // the worker may have been dropped meanwhile
			h.reconcile(w)
		}
	})
}

// startAction runs an action in a goroutine of its own, with a copy of the facts. Actions wait for
// a slot. Creations have slots of their own, because they may hang on a file server that a job
// names.
func (h held) startAction(w *worker, s reconcile.Action) {
	w.busy = true
	h.wakeAt(w, time.Time{})
	t, f, ctx, slots := h.Table, w.Facts, h.ctx, h.slots
	switch s.Kind {
	case reconcile.Create:
		slots = h.createSlots
	case reconcile.Fetch:
		slots = nil // copies have a bound of their own, and a folder that is here needs no copy
		ctx, w.cancel = context.WithCancel(ctx)
	}
	h.actions.Go(func() {
		if slots == nil {
			done, err := t.Runner.Do(ctx, w.ID, &f, s)
			t.finishAction(w, s, done, err)
			return
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			t.mu.Lock()
			w.busy = false
			t.mu.Unlock()
			return
		}
		done, err := t.Runner.Do(ctx, w.ID, &f, s)
		<-slots
		t.finishAction(w, s, done, err)
	})
}

// finishAction applies the outcome of an action and reconciles the worker again. After a success
// the workers that wait for cores or for an earlier attempt get another try: this action may have
// freed them.
func (t *Table) finishAction(w *worker, s reconcile.Action, done run.Change, err error) {
	h, unlock := t.lock()
	defer unlock()
	// 1. The worker is free for another action.
	w.busy = false
	if w.cancel != nil {
		w.cancel()
		w.cancel = nil
	}
	// 2. Apply the change of the facts. It counts as newer than an inspection that is under way.
	h.markChanged(w)
	if done != nil {
		done(&w.Facts)
	}
	// 3. Slow down repeated actions, and decide again.
	w.delayRepeat(s.Kind, err)
	if err != nil && !errors.Is(err, run.ErrNoCores) && h.ctx.Err() == nil {
		h.logOf(w.ID).Warn("an action failed; trying again", "action", string(s.Kind), "in", w.delay, "err", err)
	}
	w.coresShort = errors.Is(err, run.ErrNoCores)
	h.reconcile(w)
	if err == nil {
		h.retryWaiting()
	}
}

// delayRepeat delays an action that would be repeated at once, because it failed or has no effect
// yet. The delay doubles from [retry.Min] to [retry.Max].
func (w *worker) delayRepeat(o reconcile.Kind, err error) {
	if err == nil && o != reconcile.Kill && o != reconcile.Leave {
		w.resetRetries(o)
		return
	}
	w.Tries++
	w.delay = min(max(2*w.delay, retry.Min), retry.Max)
	w.notBefore = time.Now().Add(w.delay)
}

// resetRetries forgets the failures of the last action; o is the present one.
func (w *worker) resetRetries(o reconcile.Kind) {
	w.lastKind, w.delay, w.notBefore, w.Tries = o, 0, time.Time{}, 0
}
