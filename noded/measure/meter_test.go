package measure

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/journal"
	"github.com/rota-hpc/rota/noded/progress"
	"github.com/rota-hpc/rota/noded/reconcile"
	"github.com/rota-hpc/rota/noded/report"
)

// fakeNode is a node with fixed workers. It implements Node.
type fakeNode struct {
	workers []reconcile.Worker
	excess  map[container.ID]reconcile.Excess
}

func (n *fakeNode) Workers() []reconcile.Worker { return slices.Clone(n.workers) }

func (n *fakeNode) Worker(id container.ID) (reconcile.Worker, bool) {
	for _, w := range n.workers {
		if w.ID == id {
			return w, true
		}
	}
	return reconcile.Worker{}, false
}

func (n *fakeNode) SetExcess(id container.ID, e reconcile.Excess) {
	if n.excess == nil {
		n.excess = map[container.ID]reconcile.Excess{}
	}
	n.excess[id] = e
}

func (n *fakeNode) SetMeasures(container.ID, *journal.Measures) bool { return true }

// reads are bundles whose progress is in one place.
type reads struct {
	Bundles
	from *progress.Source
}

func (r reads) Progress(container.ID) *progress.Source { return r.from }

// wid returns the first worker of a job.
func wid(job int64) container.ID { return container.ID{Job: job, Attempt: 1} }

// running returns a running worker of a job with an allocation; nil: unknown.
func running(job int64, d *api.Alloc) reconcile.Worker {
	return reconcile.Worker{ID: wid(job), Facts: reconcile.Facts{Actual: container.Running, Desired: d}}
}

// meterOf returns a Meter of a node with these workers.
func meterOf(c Config, workers ...reconcile.Worker) *Meter {
	c.Node, c.Outbox, c.Log = &fakeNode{workers: workers}, report.NewOutbox(), slog.New(slog.DiscardHandler)
	return New(c)
}

// TestAGoneWorkerIsForgotten notices measurements that stay after their worker, so that a later
// worker of the same id would begin with them.
func TestAGoneWorkerIsForgotten(t *testing.T) {
	m := meterOf(Config{Bundles: reads{}}, running(1, nil), running(2, nil))
	for job := range int64(2) {
		m.NewProgress(wid(job + 1))
	}
	if len(m.workers) != 2 {
		t.Fatalf("%d workers are measured", len(m.workers))
	}
	m.Forget(wid(1))
	if m.workers[wid(1)] != nil || m.workers[wid(2)] == nil {
		t.Errorf("after Forget these are left: %v", m.workers)
	}
	measured(m.workers).of(wid(3)) // a measurement that ended after Forget
	m.readProgress()
	if m.workers[wid(3)] != nil || len(m.workers) != 2 {
		t.Errorf("a round later these are left: %v", m.workers)
	}
}
