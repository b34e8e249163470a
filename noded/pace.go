package noded

import (
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/noded/container"
)

// pace measures how fast an attempt of an elastic job makes progress: what its policy compares with other numbers of workers. It is told
// once an attempt, since it goes into the log. After a restart of this daemon it is measured again, and the controllers keep the first.
type pace struct {
	step  int64     // of the first line that was read
	since time.Time // when that was written; zero: there was none
	told  bool
}

// take notes a line that was written at some time, and returns how fast the attempt is, in steps in 1,000 s, once it has made progress for so
// long.
func (p *pace) take(step int64, written time.Time, after time.Duration) (rate int64, known bool) {
	switch {
	case p.told:
		return 0, false
	case p.since.IsZero() || step < p.step || written.Before(p.since):
		p.step, p.since = step, written
		return 0, false
	case written.Sub(p.since) < after || step == p.step:
		return 0, false
	}
	p.told = true
	return max(1, (step-p.step)*1_000_000/written.Sub(p.since).Milliseconds()), true
}

// paced hands on how fast an attempt is, if that matters for its job. The agent's mutex is held.
func (a *Agent) paced(id container.ID, w *worker, desired *api.Alloc, step int64) {
	if desired == nil || desired.Spec == nil || desired.Group >= len(desired.Spec.Groups) || desired.Spec.Groups[desired.Group].Elastic == nil {
		return
	}
	after := time.Duration(cluster.RateAfter(desired.Spec.Groups[desired.Group].Elastic)) * time.Millisecond
	if rate, known := w.pace.take(step, w.tail.written, after); known {
		a.out.putFinding(cluster.WorkerReport{
			Job: cluster.JobID(id.Job), Attempt: id.Attempt, Worker: id.Worker, State: cluster.WorkerRunning, Rate: rate,
		})
	}
}
