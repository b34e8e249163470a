package scratch

import (
	"iter"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
)

// Never is when an attempt without a time limit is taken to end: after every attempt that has one.
const Never = model.Instant(1) << 62

// Day is a day in ms.
const Day = 24 * 60 * 60 * 1000

// usualGraceMS is the grace period of a job that declares none, in ms. The node's daemon grants the
// same time then.
const usualGraceMS = 30_000

// Stays reports whether a worker's room is kept although its attempt is being stopped, because an
// elastic job goes on there in another size.
func Stays(a *model.Attempt, worker int) bool {
	if a.Shrinking() {
		return !a.Workers[worker].Leaving
	}
	return a.Stop != nil && a.Stop.Resize != nil && !slices.Contains(a.Stop.Resize.Leave, worker)
}

// Leaving yields the workers of an attempt that free their room when it ends, and the positions of
// their nodes.
func (t *State) Leaving(a *model.Attempt) iter.Seq2[int, int] {
	return func(yield func(worker, node int) bool) {
		for i := range a.Workers {
			w := &a.Workers[i]
			if _, n := t.View.Node(w.Node); n >= 0 && !w.State.Final() && !Stays(a, i) && !yield(i, n) {
				return
			}
		}
	}
}

// Returns reports whether a leaving job gets its room back, because the job that it leaves for is
// gone. Only trial-and-error jobs come before it then.
func (t *State) Returns(run *estimate.LiveAttempt) bool {
	s := run.Attempt.Stop
	if s == nil {
		return false // it is being suspended
	}
	switch s.Cause {
	case model.CauseTE, model.CauseReclaim, model.CauseOrder:
		return s.For != 0 && s.Resize == nil && !run.Job.Spec.RunsOnce() && !model.WantsRoom(t.View.Job(s.For))
	}
	return false
}

// LimitEnd returns when an attempt that runs reaches the job's time limit; false if it does not run
// yet, is suspended or has no limit.
func LimitEnd(j *model.Job, a *model.Attempt) (model.Instant, bool) {
	if j.Limit <= 0 || a.Started == (model.Stamp{}) || a.Suspended() {
		return 0, false
	}
	return a.Started.At + model.Instant(j.Limit)*1000, true
}

// RanFor returns how long an attempt has run until now, in ms, without the grace period after it
// was asked to stop.
func RanFor(a *model.Attempt, now model.Instant) int64 {
	if a.Started.At == 0 {
		return 0
	}
	until := now
	if a.Stop != nil {
		until = a.Stop.At
	} else if a.Ended.At != 0 {
		until = a.Ended.At
	}
	return int64(a.Clock(until) - a.Started.At)
}

// RanInAll returns how long all attempts of a job have run until now, in ms: see [RanFor].
func RanInAll(j *model.Job, now model.Instant) (ms int64) {
	for i := range j.Attempts {
		ms += RanFor(&j.Attempts[i], now)
	}
	return ms
}

// AttainedService returns the service that a job has had by all its attempts, as
// [model.Job.Attained] counts it.
func AttainedService(j *model.Job, a *model.Attempt, now model.Instant) int64 {
	return j.Attained() + j.ServiceOf(int64(a.Clock(now)-a.ChargedFrom()))
}

// GraceOf returns the declared time that a job may take to leave, in ms.
func GraceOf(j *model.Job) int64 {
	if p := j.Spec.Preemption; p != nil && p.GracePeriod > 0 {
		return int64(p.GracePeriod) * 1000
	}
	return usualGraceMS
}

// BrokenOf returns how much of broken GPUs a job holds on a node, in thousandths of a GPU. If the
// job is being stopped, only workers that leave count.
func BrokenOf(run *estimate.LiveAttempt, n *model.Node) (held int64) {
	for i := range run.Attempt.Workers {
		w := &run.Attempt.Workers[i]
		if w.Node != n.Name || w.State.Final() || run.Stopping && Stays(run.Attempt, i) {
			continue
		}
		held += BrokenIn(w, n, run.Job.RequestOf(i))
	}
	return held
}

// BrokenIn returns the broken part of a worker's GPUs on its node, in thousandths of a GPU.
func BrokenIn(w *model.Worker, n *model.Node, asked model.Request) (held int64) {
	for _, g := range w.GPUs {
		if !n.GPUs[g].Healthy {
			held += min(model.WholeGPU, asked.Active.GPUs)
		}
	}
	return held
}
