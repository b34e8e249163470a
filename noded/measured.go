package noded

import (
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/reconcile"
)

// measuredNode is the agent as package measure needs it. It implements [measure.Node].
type measuredNode struct{ *Agent }

// Workers implements [measure.Node].
func (n measuredNode) Workers() []reconcile.Worker {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := make([]reconcile.Worker, 0, len(n.workers))
	for _, w := range n.workers {
		all = append(all, w.Worker)
	}
	return all
}

// Worker implements [measure.Node].
func (n measuredNode) Worker(id container.ID) (reconcile.Worker, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if w := n.workers[id]; w != nil {
		return w.Worker, true
	}
	return reconcile.Worker{}, false
}

// SetExcess implements [measure.Node].
func (n measuredNode) SetExcess(id container.ID, e reconcile.Excess) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := n.workers[id]
	if w == nil {
		return
	}
	if !w.judged {
		w.judged, w.Warned = true, w.recovered // the last daemon may have written a notice
	}
	w.Excess = e
	n.reconcile(w)
}

// SetMeasures implements [measure.Node].
func (n measuredNode) SetMeasures(id container.ID, m *journal.Measures) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := n.workers[id]
	if w == nil || w.Entry.Final != nil {
		return false
	}
	w.Entry.Measures = m
	return !w.Kept
}

// runsHere reports whether a process belongs to a container that has not ended, or is a
// server of MPS, which is in none.
func (a *Agent) runsHere(pid int) bool {
	id, ok := a.Runtime.ContainerOf(pid)
	if !ok {
		return a.Serves != nil && a.Serves(pid)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.workers[id.OfWorker()]
	return w != nil && w.Exists() && w.Entry.Final == nil
}

// containerOf returns the container of a process.
func (a *Agent) containerOf(pid int) (container.ID, bool) { return a.Runtime.ContainerOf(pid) }
