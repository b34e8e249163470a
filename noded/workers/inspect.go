package workers

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/reconcile"
)

// listInterval is the time between two inspections of all containers, in case a change was missed.
const listInterval = reconcile.LookAgain

// Watch inspects all containers after each change, and every listInterval, until ctx ends.
func (t *Table) Watch(ctx context.Context) error {
	tick := time.NewTicker(listInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case answer := <-t.questions:
			// The watchdog asks if this loop turns and the lock is free: a goroutine that never gives
			// the lock back would stop everything.
			_, unlock := t.lock()
			unlock()
			close(answer)
			continue
		case <-t.Runtime.Changes():
		case <-tick.C:
		}
		t.drainChanges()
		if err := t.inspectAll(ctx); err != nil && ctx.Err() == nil {
			t.Log.Error("cannot list containers", "err", err)
		}
	}
}

// Alive returns nil once the loop of Watch has answered. Otherwise it returns an error when ctx ends.
func (t *Table) Alive(ctx context.Context) error {
	answer := make(chan struct{})
	select {
	case t.questions <- answer:
	case <-ctx.Done():
		return fmt.Errorf("the loop that watches containers has stopped: %w", context.Cause(ctx))
	}
	select {
	case <-answer:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the state of the workers stays locked: %w", context.Cause(ctx))
	}
}

// drainChanges drops the changes that the next inspection will show.
func (t *Table) drainChanges() {
	for {
		select {
		case <-t.Runtime.Changes():
		default:
			return
		}
	}
}

// inspectAll lists all containers, updates the facts, and reconciles every worker. The list is made
// without the lock, so it may be older than an action that ran meanwhile. Each step below guards
// against that.
func (t *Table) inspectAll(ctx context.Context) error {
	// 1. List. began and mark say which changes came before the list.
	t.mu.Lock()
	began := t.changes
	t.mu.Unlock()
	mark := t.markSteps()
	all, err := t.Runtime.List(ctx)
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	// 2. Open the job sockets of live containers, and close the others. Those of kept containers are
	// closed: the controllers may know another job by the same id, and no process may speak for it.
	for _, s := range all {
		if reconcile.Lives(s.State) && !t.isKept(s.ID) {
			t.OpenSocket(s.ID) // the last daemon may have made it
		} else {
			t.CloseSocket(s.ID)
		}
	}
	h, unlock := t.lock()
	defer unlock()
	// 3. Take over states. A container only moves forward, so an older state changes nothing.
	seen := make(map[container.ID]bool, len(all))
	var parts []container.Status // of steps
	for _, s := range all {
		if s.ID.Step > 0 {
			parts = append(parts, s)
			continue
		}
		seen[s.ID] = true
		w := h.of(s.ID)
		if w.OlderThan(s) {
			h.setStatus(w, s)
		}
		w.Pid, w.Extern, w.Lost, w.Silent = s.Pid, s.Extern, s.Lost, s.Silent
	}
	// 4. A container that is not listed is gone, unless an action may have made it after the list.
	for id, w := range h.workers {
		if !seen[id] && !w.busy && w.changedAt <= began && w.Actual != "" {
			h.setStatus(w, container.Status{ID: id})
		}
	}
	h.noteSteps(mark, parts)
	h.noteSilent(all)
	// 5. Decide for each worker.
	for _, w := range h.workers {
		h.recoverSteps(w)
		h.reconcile(w)
	}
	return nil
}

// setStatus takes over the state of a container.
func (h held) setStatus(w *worker, s container.Status) {
	w.Actual, w.Exit, w.LostReason, w.Switch, w.Save = s.State, s.Exit, s.Why, s.Switch, s.Save
	h.markChanged(w)
}

// isKept reports whether a container goes on although the controllers do not know it.
func (t *Table) isKept(id container.ID) bool {
	h, unlock := t.lock()
	defer unlock()
	w := h.workers[id.OfWorker()]
	return w != nil && w.Kept
}

// OpenSocket lets the processes of a container ask the controllers. The job can work without that,
// so an error is only logged.
func (t *Table) OpenSocket(id container.ID) {
	if t.Sockets == nil {
		return
	}
	if err := t.Sockets.Open(id); err != nil {
		t.logOf(id).Warn("commands do not work in this job", "err", err)
	}
}

// CloseSocket closes the socket of OpenSocket.
func (t *Table) CloseSocket(id container.ID) {
	if t.Sockets != nil {
		t.Sockets.Close(id)
	}
}

// silentNamed is how many containers with a silent shim a notice names.
const silentNamed = 3

// noteSilent notes which shims do not answer. Their jobs go on: a shim may be slow because its machine
// is.
func (h held) noteSilent(all []container.Status) {
	var named []string
	n := 0
	for _, s := range all {
		if s.Silent == "" || reconcile.Ended(s.State) {
			continue
		}
		if n++; n <= silentNamed {
			named = append(named, model.SilentNotice(s.ID.String(), strings.ReplaceAll(s.Silent, "; ", ", ")))
		}
	}
	text := strings.Join(named, "; ")
	if n > silentNamed {
		text += fmt.Sprintf("; and %d more", n-silentNamed)
	}
	if text != "" {
		text += model.SilentAdvice
	}
	if text != "" && text != h.silentShims {
		h.Log.Warn("shims do not answer", "which", text)
	}
	h.silentShims = text
}
