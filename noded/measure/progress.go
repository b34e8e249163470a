package measure

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

// sampleProgress reads the progress of all running workers, every [Interval], and queues it for a
// report.
func (m *Meter) sampleProgress(ctx context.Context) error {
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		if samples := m.readProgress(); len(samples) > 0 {
			m.Outbox.PutSamples(samples, false)
		}
		m.recordMeasures()
	}
}

// readProgress returns the new progress of all running workers, and queues new findings.
func (m *Meter) readProgress() (samples []api.Sample) {
	all := m.Node.Workers()
	m.prune(all)
	for _, w := range all {
		if w.Actual == container.Running {
			samples = append(samples, m.NewProgress(w.ID)...)
			m.QueueFindings(w.ID)
		}
	}
	return samples
}

// NewProgress returns a worker's newest progress since the last call, or the fault of its file; nil
// if there is none.
func (m *Meter) NewProgress(id container.ID) []api.Sample {
	facts, known := m.Node.Worker(id)
	if !known {
		return nil
	}
	desired := facts.Desired
	// 1. Read on from where the last reading ended. The file may hang, so the lock is free meanwhile.
	workers, unlock := m.lock()
	w := workers.of(id)
	tail, from := w.tail, w.source
	unlock()
	if from == nil {
		from = m.Bundles.Progress(id)
		if from != nil && desired != nil && desired.Spec != nil && desired.Spec.Array != nil {
			from.Stop = desired.Spec.Array.Stop
		}
	}
	line, next, err := m.readTail(w, tail, from)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		m.logOf(id).Debug("progress file cannot be read", "err", err)
	}
	// 2. Note the step, and derive rates and the class of progress from it.
	m.mu.Lock()
	w.tail = next
	if desired != nil { // the allocation may add to the source, so that it is not kept without one
		w.source = from
	}
	if line != nil {
		w.step = max(w.step, *line.Step)
		m.queueStepRate(id, w, desired, *line.Step)
		m.queueClass(id, w, desired, line)
		w.rates.reportStep(facts.Entry.Measures, *line.Step, next.Written)
	}
	m.mu.Unlock()
	if next.Problem != tail.Problem && next.Problem != "" {
		m.logOf(id).Warn("the job's progress file has bad lines, which are ignored", "problem", next.Problem)
	}
	// 3. Return it as a sample.
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

// ReachedTotal reports whether a worker has reported the last of the steps that its job says it has.
func (m *Meter) ReachedTotal(id container.ID, d *api.Alloc) bool {
	total := d.Spec.Watched(d.Group).Total
	workers, unlock := m.lock()
	defer unlock()
	w := workers[id]
	return total > 0 && w != nil && w.step >= total
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
// background, and a later call returns its result. So it delays neither the progress of other workers
// nor the end of this one.
func (m *Meter) readTail(w *worker, tail progress.Tail, from *progress.Source) (*progress.Line, progress.Tail, error) {
	if from == nil {
		return nil, tail, nil
	}
	m.mu.Lock()
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
	m.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-r.done:
	case <-timer.C:
		m.mu.Lock()
		defer m.mu.Unlock()
		r.overdue = true
		return nil, tail, errSlowRead
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.read == r {
		w.read = nil
	}
	return r.line, r.next, r.err
}

// queueStepRate queues the step rate of an attempt for a report, if its job may be resized or moved
// for it.
func (m *Meter) queueStepRate(id container.ID, w *worker, desired *api.Alloc, step int64) {
	if desired == nil || desired.Spec == nil || desired.Group >= len(desired.Spec.Groups) {
		return
	}
	ms, counts := model.RateAfterOf(desired.Spec, desired.Group)
	if !counts {
		return
	}
	after := time.Duration(ms) * time.Millisecond
	if rate, known := w.rate.Measure(step, w.tail.Written, after); known {
		m.Outbox.Put(id, report.Rate(rate))
	}
}

// queueClass queues the progress class of an attempt for a report when it has changed. Worker 0 is
// evaluated.
func (m *Meter) queueClass(id container.ID, w *worker, desired *api.Alloc, line *progress.Line) {
	if desired == nil || id.Worker != 0 {
		return
	}
	watched := desired.Spec.Watched(desired.Group)
	value, reported := line.Metrics[watched.Metric]
	if watched.Metric == "" || !reported {
		return
	}
	if class, changed := w.class.Report(value, watched.Goal == "max", time.Now(), m.origins.Of(id.Job)); changed {
		m.Outbox.Put(id, report.Class(class))
	}
}

// QueueFindings queues the findings of log policies since the last call. After a restart of this
// daemon all findings are reported again; the controllers take each policy once.
func (m *Meter) QueueFindings(id container.ID) {
	workers, unlock := m.lock()
	w := workers[id]
	look := w != nil && w.source != nil && w.source.Policies
	unlock()
	if !look {
		return
	}
	list, err := m.Bundles.Findings(id)
	if err != nil {
		m.logOf(id).Warn("findings of log policies cannot be read", "err", err)
		return
	}
	m.mu.Lock()
	// If a caller finds nothing new, all findings are in the outbox before the worker's end.
	defer m.mu.Unlock()
	from := min(w.findings, len(list))
	w.findings = max(w.findings, len(list))
	for _, one := range list[from:] {
		m.Outbox.Put(id, report.Finding(one))
	}
}
