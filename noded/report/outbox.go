// Package report brings the states of workers, rows of steps and samples of progress to the
// controllers. An [Outbox] keeps them until they are confirmed, and a [Sender] sends one batch at a time.
// Each has a lock of its own or none. Neither knows what a worker is about.
package report

import (
	"maps"
	"slices"
	"sync"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
)

// Most is how many workers one report has, well below what the controllers accept in one log entry.
const Most = 512

// Outbox holds what the controllers have not confirmed yet. Of each worker it holds only the newest
// state, because a later state implies the earlier ones.
type Outbox struct {
	mu      sync.Mutex
	workers map[container.ID]model.WorkerReport
	// what is reported beside the state of a worker, the newest of each kind: see kindOf
	findings map[findingKey]model.WorkerReport
	samples  map[container.ID]api.Sample
	steps    []model.StepReport // that have ended, of each job in the order of their rows
	ready    chan struct{}      // holds one value when the outbox is not empty
}

// findingKey names what is reported of a worker beside its state.
type findingKey struct {
	id   container.ID
	kind string
}

func findingKeyOf(r *model.WorkerReport) findingKey { return findingKey{WorkerOf(*r), kindOf(r)} }

// kindOf returns what a report is about; "" for the state of the worker.
func kindOf(r *model.WorkerReport) string {
	switch {
	case r.Policy != "":
		return "policy " + r.Policy
	case r.Rate != 0:
		return "rate"
	case r.Class != "":
		return "class"
	case r.Switch != 0:
		return "switch"
	case r.Profile != nil:
		return "profile"
	case r.Packed != nil:
		return "packed"
	}
	return ""
}

// NewOutbox returns an empty outbox.
func NewOutbox() *Outbox {
	return &Outbox{workers: map[container.ID]model.WorkerReport{}, findings: map[findingKey]model.WorkerReport{},
		samples: map[container.ID]api.Sample{}, ready: make(chan struct{}, 1)}
}

// PutState adds the state of a worker, in place of an earlier one.
func (o *Outbox) PutState(r model.WorkerReport) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.workers[WorkerOf(r)] = r
	o.notify()
}

// PutFinding adds a finding about a worker that is not its state, such as a rate.
func (o *Outbox) PutFinding(r model.WorkerReport) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.findings[findingKeyOf(&r)] = r
	o.notify()
}

// PutSamples adds samples. With again they could not be sent before, and newer ones stay instead.
func (o *Outbox) PutSamples(samples []api.Sample, again bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, one := range samples {
		id := container.ID{Job: int64(one.Job), Attempt: one.Attempt, Worker: one.Worker}
		if _, newer := o.samples[id]; !newer || !again {
			o.samples[id] = one
		}
	}
	o.notify()
}

// PutStep adds the row of a step that has ended.
func (o *Outbox) PutStep(r model.StepReport) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.steps = append(o.steps, r)
	o.notify()
}

// notify wakes the sender.
func (o *Outbox) notify() {
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// batch is what is sent at once.
type batch struct {
	workers []model.WorkerReport
	samples []api.Sample
	steps   []model.StepReport
}

// empty reports whether nothing of it has to arrive.
func (b *batch) empty() bool { return len(b.workers)+len(b.steps) == 0 }

// nextBatch returns what is to be sent next. Workers and steps stay in the outbox until they are
// confirmed. A worker waits for the steps of its attempt, which are known no more after its end.
func (o *Outbox) nextBatch() batch {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := batch{steps: slices.Clone(o.steps[:min(len(o.steps), Most)])}
	later := map[container.ID]bool{}
	for i := range o.steps[len(b.steps):] {
		later[StepOf(&o.steps[len(b.steps)+i])] = true
	}
	b.workers = slices.Collect(maps.Values(o.findings)) // before the ends of the same workers, which they explain
	for id, r := range o.workers {
		if len(b.workers) >= Most {
			break
		}
		if !later[container.ID{Job: id.Job, Attempt: id.Attempt}] {
			b.workers = append(b.workers, r)
		}
	}
	b.samples = slices.Collect(maps.Values(o.samples))
	clear(o.samples) // samples are not sent again
	return b
}

// Pending returns the reports about workers that are not confirmed yet.
func (o *Outbox) Pending() []model.WorkerReport {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.AppendSeq(slices.Collect(maps.Values(o.findings)), maps.Values(o.workers))
}

// dropConfirmed drops what was sent, unless there is something newer.
func (o *Outbox) dropConfirmed(b batch) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.steps = o.steps[len(b.steps):] // they are added at the end only
	for _, r := range b.workers {
		if key := findingKeyOf(&r); key.kind != "" {
			if o.findings[key] == r {
				delete(o.findings, key)
			}
		} else if id := key.id; o.workers[id] == r {
			delete(o.workers, id)
		}
	}
	if len(o.workers)+len(o.findings)+len(o.steps) > 0 {
		o.notify()
	}
}

// WorkerOf returns the worker of a report.
func WorkerOf(r model.WorkerReport) container.ID {
	return container.ID{Job: int64(r.Job), Attempt: r.Attempt, Worker: r.Worker}
}

// Of returns a report of the state of a worker.
func Of(id container.ID, state model.WorkerState) model.WorkerReport {
	return model.WorkerReport{Job: model.JobID(id.Job), Attempt: id.Attempt, Worker: id.Worker, State: state}
}

// StepOf returns the worker that has started the steps of a row: the first of its attempt.
func StepOf(r *model.StepReport) container.ID {
	return container.ID{Job: int64(r.Job), Attempt: r.Attempt}
}
