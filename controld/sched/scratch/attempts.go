package scratch

import (
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
)

// never is when an attempt without a time limit is taken to end: after every attempt that has one.
const Never = cluster.Instant(1) << 62

// day is a day in ms.
const Day = 24 * 60 * 60 * 1000

// usualGraceMS is the grace period of a job that declares none, in ms. It is what the daemon on the
// node grants then.
const usualGraceMS = 30_000

// Stays reports whether the room of a worker is kept although its attempt is being stopped: an
// elastic job goes on there with another number of workers.
func Stays(a *cluster.Attempt, worker int) bool {
	return a.Stop != nil && a.Stop.Resize != nil && !slices.Contains(a.Stop.Resize.Leave, worker)
}

// AnyFinal reports whether a worker of an attempt has ended.
func AnyFinal(a *cluster.Attempt) bool {
	return slices.ContainsFunc(a.Workers, func(w cluster.Worker) bool { return w.State.Final() })
}

// LimitEnd returns when an attempt that runs reaches the job's time limit; false if it does not run
// yet or has no limit.
func LimitEnd(j *cluster.Job, a *cluster.Attempt) (cluster.Instant, bool) {
	if j.Limit <= 0 || a.Started == (cluster.Stamp{}) {
		return 0, false
	}
	return a.Started.At + cluster.Instant(j.Limit)*1000, true
}

// RanFor returns how long an attempt has run until now, in ms, without the grace period after it
// was asked to stop.
func RanFor(a *cluster.Attempt, now cluster.Instant) int64 {
	if a.Started.At == 0 {
		return 0
	}
	until := now
	if a.Stop != nil {
		until = a.Stop.At
	} else if a.Ended.At != 0 {
		until = a.Ended.At
	}
	return int64(until - a.Started.At)
}

// AttainedService returns the service that a job has had by all its attempts, as
// [cluster.Job.Attained] counts it.
func AttainedService(j *cluster.Job, a *cluster.Attempt, now cluster.Instant) int64 {
	return j.Attained() + j.ServiceOf(int64(now-a.Assigned.At))
}

// GraceOf returns how long a job may take to leave, in ms, by what it declares.
func GraceOf(j *cluster.Job) int64 {
	if p := j.Spec.Preemption; p != nil && p.GracePeriod > 0 {
		return int64(p.GracePeriod) * 1000
	}
	return usualGraceMS
}

// BrokenOf returns how much of broken GPUs a job holds on a node, in thousandths of a GPU; if the
// job is being stopped, with workers that leave.
func BrokenOf(run *cluster.Run, n *cluster.Node) (held int64) {
	for i := range run.Attempt.Workers {
		w := &run.Attempt.Workers[i]
		if w.Node != n.Name || w.State.Final() || run.Stopping && Stays(run.Attempt, i) {
			continue
		}
		held += BrokenIn(w, n, run.Job.RequestOf(i))
	}
	return held
}

// BrokenIn returns how much of broken GPUs a worker holds on its node, in thousandths of a GPU, if
// it has asked for so much.
func BrokenIn(w *cluster.Worker, n *cluster.Node, asked cluster.Request) (held int64) {
	for _, g := range w.GPUs {
		if !n.GPUs[g].Healthy {
			held += min(cluster.WholeGPU, asked.Active.GPUs)
		}
	}
	return held
}
