package noded

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/progress"
)

// sample reads the progress of everything that runs and hands the newest of each on.
func (a *Agent) sampleProgress(ctx context.Context) error {
	tick := time.NewTicker(sampleInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		if samples := a.readProgress(); len(samples) > 0 {
			a.out.putSamples(samples)
		}
	}
}

func (a *Agent) readProgress() []api.Sample {
	a.mu.Lock()
	var running []container.ID
	for id, w := range a.workers {
		if w.Actual == container.Running {
			running = append(running, id)
		}
	}
	a.mu.Unlock()
	var samples []api.Sample
	for _, id := range running {
		samples = append(samples, a.newProgress(id)...)
		a.queueFindings(id)
	}
	return samples
}

// progressOf reads what a container has reported since the last time; none is no error.
func (a *Agent) newProgress(id container.ID) []api.Sample {
	a.mu.Lock()
	w := a.workers[id]
	if w == nil {
		a.mu.Unlock()
		return nil
	}
	tail, from := w.tail, w.source
	desired := w.Desired
	a.mu.Unlock()
	if from == nil {
		from = a.Bundles.Progress(id)
		if from != nil && desired != nil && desired.Spec != nil && desired.Spec.Array != nil {
			from.Stop = desired.Spec.Array.Stop
		}
	}
	line, next, err := a.readTail(w, tail, from)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		a.Log.Debug("progress file cannot be read", "job", id.Job, "alloc", id.String(), "err", err)
	}
	a.mu.Lock()
	w.tail = next
	if desired != nil { // before it is known what is wanted, something may be missing from it
		w.source = from
	}
	if line != nil {
		a.queueStepRate(id, w, desired, *line.Step)
	}
	a.mu.Unlock()
	if line == nil {
		return nil
	}
	return []api.Sample{{
		Job: cluster.JobID(id.Job), Attempt: id.Attempt, Worker: id.Worker, Step: *line.Step, Saved: line.Saved, Metrics: line.Metrics,
		Reached: next.Reached,
	}}
}

// progressTime is how long a progress file may take to be read. The user's may be on a server that does not answer.
const readPatience = 2 * time.Second

var errSlowRead = errors.New("it takes long to be read")

// progressRead is a read of a progress file, and what it has come to once it is done.
type progressRead struct {
	done    chan struct{}
	overdue bool // it has been waited for
	line    *progress.Line
	next    progress.Tail
	err     error
}

// readTail reads on from a tail. What takes too long is left to itself, and taken up when it has come to something: neither another worker's
// progress nor the end of this one waits for it.
func (a *Agent) readTail(w *worker, tail progress.Tail, from *progress.Source) (*progress.Line, progress.Tail, error) {
	if from == nil {
		return nil, tail, nil
	}
	a.mu.Lock()
	r := w.read
	if r == nil {
		r = &progressRead{done: make(chan struct{})}
		w.read = r
		go func() {
			defer close(r.done)
			r.line, r.next, r.err = tail.Read(from)
		}()
	}
	patience := readPatience
	if r.overdue {
		patience = 0
	}
	a.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
		a.mu.Lock()
		defer a.mu.Unlock()
		r.overdue = true
		return nil, tail, errSlowRead
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.read == r {
		w.read = nil
	}
	return r.line, r.next, r.err
}

// paced hands on how fast an attempt is, if that matters for its job. The agent's mutex is held.
func (a *Agent) queueStepRate(id container.ID, w *worker, desired *api.Alloc, step int64) {
	if desired == nil || desired.Spec == nil || desired.Group >= len(desired.Spec.Groups) || desired.Spec.Groups[desired.Group].Elastic == nil {
		return
	}
	after := time.Duration(cluster.RateAfter(desired.Spec.Groups[desired.Group].Elastic)) * time.Millisecond
	if rate, known := w.rate.Measure(step, w.tail.Written, after); known {
		a.out.putFinding(cluster.WorkerReport{
			Job: cluster.JobID(id.Job), Attempt: id.Attempt, Worker: id.Worker, State: cluster.WorkerRunning, Rate: rate,
		})
	}
}

// findingsOf hands on what log policies have found since the last time. After a restart of this daemon everything is told again; the
// controllers take each policy once.
func (a *Agent) queueFindings(id container.ID) {
	a.mu.Lock()
	w := a.workers[id]
	look := w != nil && w.source != nil && w.source.Policies
	a.mu.Unlock()
	if !look {
		return
	}
	list, err := a.Bundles.Findings(id)
	if err != nil {
		a.Log.Warn("findings of log policies cannot be read", "job", id.Job, "alloc", id.String(), "err", err)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock() // whoever finds nothing new knows by it that all of it is in the outbox: the worker's end comes after
	from := min(w.findingsQueued, len(list))
	w.findingsQueued = max(w.findingsQueued, len(list))
	for _, one := range list[from:] {
		a.out.putFinding(cluster.WorkerReport{
			Job: cluster.JobID(id.Job), Attempt: id.Attempt, Worker: id.Worker, State: cluster.WorkerRunning, Policy: one.Policy, Message: one.Line,
		})
	}
}
