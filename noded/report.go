package noded

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/noded/container"
)

const (
	reportMax      = 512 // workers in one report: well below what the controllers accept in one entry
	sampleInterval = 2 * time.Second
)

// outbox holds what the controllers have not confirmed: of each worker only the newest state, since a later one implies the earlier.
type outbox struct {
	mu       sync.Mutex
	workers  map[container.ID]cluster.WorkerReport
	findings map[findingKey]cluster.WorkerReport // what is said once of a worker: of its log policies, and how fast it is
	samples  map[container.ID]api.Sample
	ready    chan struct{} // has room for one token: something is there
}

// finding is one policy that has found something in one worker's output; "": how fast the worker is.
type findingKey struct {
	id     container.ID
	policy string
}

func newOutbox() outbox {
	return outbox{workers: map[container.ID]cluster.WorkerReport{}, findings: map[findingKey]cluster.WorkerReport{}, samples: map[container.ID]api.Sample{}, ready: make(chan struct{}, 1)}
}

func (o *outbox) putReport(id container.ID, r cluster.WorkerReport) {
	o.mu.Lock()
	o.workers[id] = r
	o.mu.Unlock()
	o.notify()
}

func (o *outbox) putFinding(r cluster.WorkerReport) {
	o.mu.Lock()
	o.findings[findingKey{workerID(r), r.Policy}] = r
	o.mu.Unlock()
	o.notify()
}

func (o *outbox) putSamples(s []api.Sample) {
	o.mu.Lock()
	for _, one := range s {
		o.samples[container.ID{Job: int64(one.Job), Attempt: one.Attempt, Worker: one.Worker}] = one
	}
	o.mu.Unlock()
	o.notify()
}

// putBack returns samples that could not be sent, unless there are newer ones.
func (o *outbox) putBack(samples []api.Sample) {
	o.mu.Lock()
	for _, one := range samples {
		id := container.ID{Job: int64(one.Job), Attempt: one.Attempt, Worker: one.Worker}
		if _, newer := o.samples[id]; !newer {
			o.samples[id] = one
		}
	}
	o.mu.Unlock()
	o.notify()
}

func (o *outbox) notify() {
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// batch returns what is to be sent next. It stays in the outbox until it is confirmed.
func (o *outbox) batch() (workers []cluster.WorkerReport, samples []api.Sample) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.findings { // ahead of the ends of the same workers: what was found says what these mean
		workers = append(workers, r)
	}
	for _, r := range o.workers {
		if len(workers) >= reportMax {
			break
		}
		workers = append(workers, r)
	}
	for _, one := range o.samples {
		samples = append(samples, one)
	}
	clear(o.samples) // chatter: not worth sending again
	return workers, samples
}

// confirm drops what was sent, unless there is something newer, and returns it.
func (o *outbox) confirm(sent []cluster.WorkerReport) {
	o.mu.Lock()
	for _, r := range sent {
		if id := workerID(r); r.Policy != "" || r.Rate != 0 {
			delete(o.findings, findingKey{id, r.Policy})
		} else if o.workers[id] == r {
			delete(o.workers, id)
		}
	}
	more := len(o.workers)+len(o.findings) > 0
	o.mu.Unlock()
	if more {
		o.notify()
	}
}

func workerID(r cluster.WorkerReport) container.ID {
	return container.ID{Job: int64(r.Job), Attempt: r.Attempt, Worker: r.Worker}
}

// tell puts what the worker has reached into the outbox, if that is news. The mutex is held.
func (a *Agent) queueReport(w *worker) {
	state := reportableState(w.facts)
	if state == "" || state == w.lastReported {
		return
	}
	w.lastReported = state
	if w.Entry.Final != nil {
		a.out.putReport(w.id, *w.Entry.Final)
		return
	}
	a.out.putReport(w.id, cluster.WorkerReport{Job: cluster.JobID(w.id.Job), Attempt: w.id.Attempt, Worker: w.id.Worker, State: state})
}

// report sends what is in the outbox, one batch at a time, so that reports of one worker arrive in order.
func (a *Agent) sendReports(ctx context.Context) error {
	var wait backoff // of samples alone
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-a.out.ready:
		}
		workers, samples := a.out.batch()
		if len(workers)+len(samples) == 0 {
			continue
		}
		if len(workers) == 0 {
			a.sendSamples(ctx, samples, &wait)
			continue
		}
		if a.deliverReports(ctx, workers, samples) {
			a.out.confirm(workers)
			a.markConfirmed(workers)
		}
	}
}

// chat sends samples once. Those that an array waits for go back into the outbox when that fails, where newer ones take their place and
// reports of workers overtake them.
func (a *Agent) sendSamples(ctx context.Context, samples []api.Sample, wait *backoff) {
	sending, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	_, err := a.Control.Report(sending, a.Node.Name, api.ReportRequest{BootID: a.Node.BootID, Samples: samples})
	if err == nil {
		*wait = backoff{}
		return
	}
	if samples = awaitedSamples(samples); len(samples) > 0 {
		a.logRetry(ctx, "cannot report progress to the controllers; it will be repeated", err, wait.sleep(ctx))
		a.out.putBack(samples)
	}
}

// awaited keeps the samples that something depends on; the rest is chatter.
func awaitedSamples(samples []api.Sample) []api.Sample {
	return slices.DeleteFunc(samples, func(s api.Sample) bool { return s.Reached == nil })
}

// deliver sends one batch of workers until it is confirmed or ctx ends, and tells which.
func (a *Agent) deliverReports(ctx context.Context, workers []cluster.WorkerReport, samples []api.Sample) bool {
	var wait backoff
	for ctx.Err() == nil {
		sending, cancel := context.WithTimeout(ctx, 15*time.Second)
		_, err := a.Control.Report(sending, a.Node.Name, api.ReportRequest{BootID: a.Node.BootID, Workers: workers, Samples: samples})
		cancel()
		if err == nil {
			return true
		}
		samples = awaitedSamples(samples)
		a.logRetry(ctx, "cannot report to the controllers; it will be repeated", err, wait.sleep(ctx))
	}
	return false
}

// confirmed notes which results the controllers have.
func (a *Agent) markConfirmed(workers []cluster.WorkerReport) {
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
