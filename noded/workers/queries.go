package workers

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/measure"
	"github.com/rota-hpc/rota/noded/reconcile"
)

var _ measure.Node = (*Table)(nil)

// Workers implements [measure.Node].
func (t *Table) Workers() []reconcile.Worker {
	h, unlock := t.lock()
	defer unlock()
	all := make([]reconcile.Worker, 0, len(h.workers))
	for _, w := range h.workers {
		all = append(all, w.Worker)
	}
	return all
}

// Worker implements [measure.Node].
func (t *Table) Worker(id container.ID) (reconcile.Worker, bool) {
	h, unlock := t.lock()
	defer unlock()
	if w := h.workers[id]; w != nil {
		return w.Worker, true
	}
	return reconcile.Worker{}, false
}

// SetExcess implements [measure.Node].
func (t *Table) SetExcess(id container.ID, e reconcile.Excess) {
	h, unlock := t.lock()
	defer unlock()
	w := h.workers[id]
	if w == nil {
		return
	}
	if !w.judged {
		w.judged, w.Warned = true, w.recovered // the last daemon may have written a notice
	}
	w.Excess = e
	h.reconcile(w)
}

// SetMeasures implements [measure.Node].
func (t *Table) SetMeasures(id container.ID, m *journal.Measures) bool {
	h, unlock := t.lock()
	defer unlock()
	w := h.workers[id]
	if w == nil || w.Entry.Final != nil {
		return false
	}
	w.Entry.Measures = m
	return !w.Kept
}

// Desired returns the controllers' wish for a worker, nil if unknown.
func (t *Table) Desired(id container.ID) *api.Alloc {
	w, _ := t.Worker(id)
	return w.Desired
}

// Live reports whether a container may still write output: it runs, or is about to.
func (t *Table) Live(id container.ID) bool {
	w, known := t.Worker(id)
	return known && w.Entry.Final == nil && !reconcile.Ended(w.Actual)
}

// Stopping reports whether this daemon stops, so that the error of an action says nothing about its
// container.
func (t *Table) Stopping() bool {
	h, unlock := t.lock()
	defer unlock()
	return h.ctx.Err() != nil
}

// RunsHere reports whether a process belongs to a container that has not ended, or is a server of
// MPS, which is in none.
func (t *Table) RunsHere(pid int) bool {
	id, ok := t.Runtime.ContainerOf(pid)
	if !ok {
		return t.Serves != nil && t.Serves(pid)
	}
	w, known := t.Worker(id.OfWorker())
	return known && w.Exists() && w.Entry.Final == nil
}

// NeedsFolder reports whether a checkpoint folder belongs to a worker here, or is one that such a
// worker may start with.
func (t *Table) NeedsFolder(id container.ID) bool {
	h, unlock := t.lock()
	defer unlock()
	for other, w := range h.workers {
		if other.Job == id.Job && other.Worker == id.Worker && (other.Attempt == id.Attempt || !w.Entry.Started) &&
			(w.Exists() || w.busy || w.Desired != nil) {
			return true
		}
	}
	return false
}

// MayChangeFolder reports whether an attempt of this worker has processes here, so that its checkpoint
// folder may change, or that is not known yet.
func (t *Table) MayChangeFolder(id container.ID) bool {
	h, unlock := t.lock()
	defer unlock()
	if !h.desiredKnown {
		return true // this daemon has just started
	}
	for other, w := range h.workers {
		if other.Job == id.Job && other.Worker == id.Worker && (w.Exists() || w.busy) {
			return true
		}
	}
	return false
}

// AddrOf returns the address of a node's daemon if a job of this node runs there too, or has its
// checkpoint there; else "".
func (t *Table) AddrOf(node string) string {
	h, unlock := t.lock()
	defer unlock()
	for _, w := range h.workers {
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

// SilentShims says which shims do not answer, for rota nodes; "" if all do.
func (t *Table) SilentShims() string {
	h, unlock := t.lock()
	defer unlock()
	return h.silentShims
}

// Status describes this node's work in one line.
func (t *Table) Status() string {
	h, unlock := t.lock()
	defer unlock()
	running := 0
	for _, w := range h.workers {
		if w.Exists() {
			running++
		}
	}
	text := fmt.Sprintf("%d workers", running)
	if running == 1 {
		text = "1 worker"
	}
	if !h.desiredKnown {
		return "no controller has answered yet, " + text
	}
	return "registered, " + text
}
