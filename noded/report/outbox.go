// Package report brings the states of workers, rows of steps and samples of progress to the
// controllers. An [Outbox] keeps them until they are confirmed, and a [Sender] sends one batch at a
// time. Each has a lock of its own or none. Neither interprets the reports.
package report

import (
	"maps"
	"slices"
	"sync"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
)

// Most is the maximum number of workers in one report, well below the limit of one log entry.
const Most = 512

// Outbox holds reports that the controllers have not confirmed yet. Of each worker it holds only
// the newest message of each kind.
type Outbox struct {
	mu      sync.Mutex
	states  map[rowKey]model.WorkerReport
	others  map[rowKey]model.WorkerReport // messages beside the states of workers
	samples map[container.ID]api.Sample
	steps   []model.StepReport // that have ended, of each job in the order of their rows
	ready   chan struct{}      // holds one value when the outbox is not empty
}

// rowKey names a message: a later one with the same key replaces it.
type rowKey struct {
	id   container.ID
	kind string // see News
}

// NewOutbox returns an empty outbox.
func NewOutbox() *Outbox {
	return &Outbox{states: map[rowKey]model.WorkerReport{}, others: map[rowKey]model.WorkerReport{},
		samples: map[container.ID]api.Sample{}, ready: make(chan struct{}, 1)}
}

// Put adds a message about a worker, in place of an earlier one of its kind.
func (o *Outbox) Put(id container.ID, n News) {
	r := model.WorkerReport{Job: model.JobID(id.Job), Attempt: id.Attempt, Worker: id.Worker, State: model.WorkerRunning}
	n.fill(&r)
	o.mu.Lock()
	defer o.mu.Unlock()
	key := rowKey{id, n.kind()}
	o.rowsOf(key)[key] = r
	o.notify()
}

// rowsOf returns the rows among which a message is.
func (o *Outbox) rowsOf(key rowKey) map[rowKey]model.WorkerReport {
	if key.kind == "" {
		return o.states
	}
	return o.others
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

// batch is the content of one request.
type batch struct {
	workers []model.WorkerReport
	keys    []rowKey // of workers, in the same order; a part of a batch has none
	samples []api.Sample
	steps   []model.StepReport
}

// empty reports whether nothing of it has to arrive.
func (b *batch) empty() bool { return len(b.workers)+len(b.steps) == 0 }

// states returns the rows with the states of workers.
func (b *batch) states() (list []model.WorkerReport) {
	for i, key := range b.keys {
		if key.kind == "" {
			list = append(list, b.workers[i])
		}
	}
	return list
}

// nextBatch returns the next batch to send. Workers and steps stay in the outbox until they are
// confirmed.
func (o *Outbox) nextBatch() batch {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := batch{steps: slices.Clone(o.steps[:min(len(o.steps), Most)])}
	add := func(key rowKey, r model.WorkerReport) {
		b.keys, b.workers = append(b.keys, key), append(b.workers, r)
	}
	// 1. A message comes before the end of its worker, which it may explain.
	for key, r := range o.others {
		add(key, r)
	}
	// 2. A state waits for the steps of its attempt: after the end of a worker they are known no more.
	later := map[container.ID]bool{}
	for i := range o.steps[len(b.steps):] {
		later[StepOf(&o.steps[len(b.steps)+i])] = true
	}
	for key, r := range o.states {
		if len(b.workers) >= Most {
			break
		}
		if !later[container.ID{Job: key.id.Job, Attempt: key.id.Attempt}] {
			add(key, r)
		}
	}
	// 3. Samples are sent once.
	b.samples = slices.Collect(maps.Values(o.samples))
	clear(o.samples)
	return b
}

// Pending returns the reports about workers that are not confirmed yet.
func (o *Outbox) Pending() []model.WorkerReport {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.AppendSeq(slices.Collect(maps.Values(o.others)), maps.Values(o.states))
}

// dropConfirmed drops confirmed reports, unless a newer one has replaced them.
func (o *Outbox) dropConfirmed(b batch) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.steps = o.steps[len(b.steps):] // they are added at the end only
	for i, key := range b.keys {
		if rows := o.rowsOf(key); rows[key] == b.workers[i] {
			delete(rows, key)
		}
	}
	if len(o.states)+len(o.others)+len(o.steps) > 0 {
		o.notify()
	}
}

// WorkerOf returns the worker of a row.
func WorkerOf(r model.WorkerReport) container.ID {
	return container.ID{Job: int64(r.Job), Attempt: r.Attempt, Worker: r.Worker}
}

// StepOf returns the worker that has started the steps of a row: the first of its attempt.
func StepOf(r *model.StepReport) container.ID {
	return container.ID{Job: int64(r.Job), Attempt: r.Attempt}
}
