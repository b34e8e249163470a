package noded

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/progress"
	"github.com/rota-hpc/rota/noded/report"
)

// sampleProgress reads the progress of all running workers, every sampleInterval, and queues it for
// a report.
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
			a.out.PutSamples(samples, false)
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
		a.recordMeasures(id)
	}
	return samples
}

// newProgress returns the newest progress that a container has written since the last call, or what
// was wrong with it; nil if there is none.
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
		a.logOf(id).Debug("progress file cannot be read", "err", err)
	}
	a.mu.Lock()
	w.tail = next
	if desired != nil { // the allocation may add to the source, so that it is not kept without one
		w.source = from
	}
	if line != nil {
		w.step = max(w.step, *line.Step)
		a.queueStepRate(id, w, desired, *line.Step)
		a.queueClass(id, w, desired, line)
		w.reportStep(*line.Step, next.Written)
	}
	if next.Problem != tail.Problem && next.Problem != "" {
		a.logOf(id).Warn("the job's report of its progress is bad; what is bad of it is ignored", "problem", next.Problem)
	}
	a.mu.Unlock()
	if line == nil && (next.Problem == "" || next == tail) {
		return nil
	}
	sample := api.Sample{Job: model.JobID(id.Job), Attempt: id.Attempt, Worker: id.Worker, Reached: next.Reached,
		Problem: next.Problem}
	if line != nil {
		sample.Step, sample.Saved, sample.Metrics = *line.Step, line.Saved, line.Metrics
	}
	return []api.Sample{sample}
}

// readPatience is how long reading a progress file may take. A file of the user's may be on a
// server that does not answer.
const readPatience = 2 * time.Second

var errSlowRead = errors.New("reading it takes too long")

// progressRead is a read of a progress file, with its result once it is done.
type progressRead struct {
	done    chan struct{}
	overdue bool // readPatience has passed
	line    *progress.Line
	next    progress.Tail
	err     error
}

// readTail reads a progress file from where tail ends. A read that takes too long goes on in the
// background, and its result is returned by a later call: it delays neither other workers' progress
// nor the end of this one.
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

// queueStepRate queues the step rate of an attempt for a report, if its job may be resized or moved
// for it. The agent's mutex is held.
func (a *Agent) queueStepRate(id container.ID, w *worker, desired *api.Alloc, step int64) {
	if desired == nil || desired.Spec == nil || desired.Group >= len(desired.Spec.Groups) {
		return
	}
	ms, counts := model.RateAfterOf(desired.Spec, desired.Group)
	if !counts {
		return
	}
	after := time.Duration(ms) * time.Millisecond
	if rate, known := w.rate.Measure(step, w.tail.Written, after); known {
		r := report.Of(id, model.WorkerRunning)
		r.Rate = rate
		a.out.PutFinding(r)
	}
}

// queueClass queues the progress class of an attempt for a report when it has changed. Worker 0 is
// evaluated. The agent's mutex is held.
func (a *Agent) queueClass(id container.ID, w *worker, desired *api.Alloc, line *progress.Line) {
	if desired == nil || id.Worker != 0 {
		return
	}
	watched := desired.Spec.Watched(desired.Group)
	value, reported := line.Metrics[watched.Metric]
	if watched.Metric == "" || !reported {
		return
	}
	if class, changed := w.class.Report(value, watched.Goal == "max", time.Now(), a.origins.Of(id.Job)); changed {
		r := report.Of(id, model.WorkerRunning)
		r.Class = class
		a.out.PutFinding(r)
	}
}

// queueFindings queues what log policies have found since the last call. After a restart of this
// daemon all findings are reported again; the controllers take each policy once.
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
		a.logOf(id).Warn("findings of log policies cannot be read", "err", err)
		return
	}
	a.mu.Lock()
	// If a caller finds nothing new, all findings are in the outbox before the worker's end.
	defer a.mu.Unlock()
	from := min(w.findingsQueued, len(list))
	w.findingsQueued = max(w.findingsQueued, len(list))
	for _, one := range list[from:] {
		r := report.Of(id, model.WorkerRunning)
		r.Policy, r.Message = one.Policy, one.Line
		a.out.PutFinding(r)
	}
}
