package noded

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/reconcile"
)

const (
	reportMax      = 512 // workers in one report, well below what the controllers accept in one log entry
	sampleInterval = 2 * time.Second
	reportTimeout  = 15 * time.Second // of one request with a report; a healthy controller answers in milliseconds
)

// outbox holds what the controllers have not confirmed yet. Of each worker it holds only the newest
// state, because a later state implies the earlier ones.
type outbox struct {
	mu      sync.Mutex
	workers map[container.ID]model.WorkerReport
	// what is reported beside the state of a worker, the newest of each kind: see reportKind
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

func findingKeyOf(r *model.WorkerReport) findingKey { return findingKey{workerID(*r), reportKind(r)} }

// reportKind returns what a report is about; "" for the state of the worker.
func reportKind(r *model.WorkerReport) string {
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

func newOutbox() outbox {
	return outbox{workers: map[container.ID]model.WorkerReport{}, findings: map[findingKey]model.WorkerReport{},
		samples: map[container.ID]api.Sample{}, ready: make(chan struct{}, 1)}
}

func (o *outbox) putReport(r model.WorkerReport) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.workers[workerID(r)] = r
	o.notify()
}

func (o *outbox) putFinding(r model.WorkerReport) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.findings[findingKeyOf(&r)] = r
	o.notify()
}

// putSamples adds samples. With again they could not be sent before, and newer ones stay instead.
func (o *outbox) putSamples(samples []api.Sample, again bool) {
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

func (o *outbox) putStep(r model.StepReport) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.steps = append(o.steps, r)
	o.notify()
}

// notify wakes sendReports.
func (o *outbox) notify() {
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
func (o *outbox) nextBatch() batch {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := batch{steps: slices.Clone(o.steps[:min(len(o.steps), reportMax)])}
	later := map[container.ID]bool{}
	for i := range o.steps[len(b.steps):] {
		later[stepWorkerID(&o.steps[len(b.steps)+i])] = true
	}
	b.workers = slices.Collect(maps.Values(o.findings)) // before the ends of the same workers, which they explain
	for id, r := range o.workers {
		if len(b.workers) >= reportMax {
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

// dropConfirmed drops what was sent, unless there is something newer.
func (o *outbox) dropConfirmed(b batch) {
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

func workerID(r model.WorkerReport) container.ID {
	return container.ID{Job: int64(r.Job), Attempt: r.Attempt, Worker: r.Worker}
}

// queueReport puts the state of the worker into the outbox, if it was not reported yet. The mutex
// is held.
func (a *Agent) queueReport(w *worker) {
	state := reconcile.Reportable(&w.Facts)
	if state == "" || state == w.lastReported || w.Kept {
		return
	}
	w.lastReported = state
	if w.Entry.Final != nil {
		a.out.putReport(*w.Entry.Final)
		return
	}
	a.out.putReport(reportOf(w.ID, state))
}

// reportOf returns a report of the state of a worker.
func reportOf(id container.ID, state model.WorkerState) model.WorkerReport {
	return model.WorkerReport{Job: model.JobID(id.Job), Attempt: id.Attempt, Worker: id.Worker, State: state}
}

// sendReports sends what is in the outbox, one batch at a time, so that the reports of a worker
// arrive in order.
func (a *Agent) sendReports(ctx context.Context) error {
	var wait backoff // of samples alone
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-a.out.ready:
		}
		b := a.out.nextBatch()
		if b.empty() {
			if len(b.samples) > 0 {
				a.sendSamples(ctx, b.samples, &wait)
			}
			continue
		}
		if a.deliverReports(ctx, b) {
			a.out.dropConfirmed(b)
			a.stepsConfirmed(b.steps)
			a.markConfirmed(b.workers)
		}
	}
}

// sendSamples sends samples once. If that fails, those that an array waits for go back into the
// outbox, where newer ones replace them and reports of workers overtake them.
func (a *Agent) sendSamples(ctx context.Context, samples []api.Sample, wait *backoff) {
	err := a.sendReport(ctx, batch{samples: samples})
	if err == nil {
		*wait = backoff{}
		return
	}
	if samples = awaitedSamples(samples); len(samples) > 0 {
		a.logRetry(ctx, "cannot report progress to the controllers; it will be tried again", err, wait.sleep(ctx))
		a.out.putSamples(samples, true)
	}
}

// awaitedSamples returns the samples that an array waits for. The others are only for display.
func awaitedSamples(samples []api.Sample) []api.Sample {
	return slices.DeleteFunc(samples, func(s api.Sample) bool { return s.Reached == nil })
}

// deliverReports sends one batch until it is confirmed or ctx ends. It reports whether it was
// confirmed. If the controllers refuse it as invalid, it is sent in halves, and a single row that they
// refuse is dropped: it would be refused again, and hold up all others.
func (a *Agent) deliverReports(ctx context.Context, b batch) bool {
	var wait backoff
	for ctx.Err() == nil {
		err := a.sendReport(ctx, b)
		if err == nil {
			return true
		}
		b.samples = awaitedSamples(b.samples)
		if invalid(err) {
			first, second, more := b.halves()
			if more {
				return a.deliverReports(ctx, first) && a.deliverReports(ctx, second)
			}
			a.Log.Error("the controllers refuse a report, which is dropped", "workers", b.workers, "steps", b.steps,
				"samples", b.samples, "err", err)
			return true
		}
		a.logRetry(ctx, "cannot report to the controllers; it will be tried again", err, wait.sleep(ctx))
	}
	return false
}

// invalid reports whether the controllers would refuse the same request again.
func invalid(err error) bool {
	p, ok := errors.AsType[*api.Problem](err)
	return ok && (p.Status == http.StatusBadRequest || p.Status == http.StatusUnprocessableEntity ||
		p.Status == http.StatusRequestEntityTooLarge)
}

// halves divides a batch in the order in which it arrives: samples, steps, workers. It returns false
// if it has one row or none.
func (b *batch) halves() (first, second batch, ok bool) {
	n := len(b.samples) + len(b.steps) + len(b.workers)
	if n < 2 {
		return batch{}, batch{}, false
	}
	half := n / 2
	at := min(half, len(b.samples))
	first.samples, second.samples = b.samples[:at], b.samples[at:]
	half -= at
	at = min(half, len(b.steps))
	first.steps, second.steps = b.steps[:at], b.steps[at:]
	half -= at
	first.workers, second.workers = b.workers[:half], b.workers[half:]
	return first, second, true
}

// sendReport sends one report.
func (a *Agent) sendReport(ctx context.Context, b batch) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	resp, err := a.Control.Report(ctx, a.Node.Name,
		api.ReportRequest{BootID: a.Node.BootID, Workers: b.workers, Samples: b.samples, Steps: b.steps})
	if err == nil && resp != nil {
		for _, row := range resp.Refused {
			a.Log.Error("the controllers refuse a row of a report, which is not sent again", "row", row)
		}
	}
	return err
}

// markConfirmed notes which results the controllers have confirmed.
func (a *Agent) markConfirmed(workers []model.WorkerReport) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx.Err() != nil {
		return
	}
	for _, r := range workers {
		if w := a.workers[workerID(r)]; w != nil && r.State.Final() && r.Policy == "" {
			w.Confirmed = true
			a.reconcile(w)
		}
	}
}
