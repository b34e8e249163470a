package lifecycle

import (
	"cmp"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// StopsRest reports whether trouble in one worker makes the others stop. Once a stop was asked for,
// how workers end is its consequence, unless a lease ran out.
func StopsRest(a *model.Attempt, trouble model.Cause) bool {
	if trouble == "" || a.Stop == nil {
		return trouble != ""
	}
	return trouble == model.CauseLease && Outranks(trouble, a.Stop)
}

// StrongerCause returns the stronger of two causes, the first of equal ones.
func StrongerCause(a, b model.Cause) model.Cause {
	if strength[b] > strength[a] {
		return b
	}
	return a
}

// strength orders causes of a stop: one in progress is replaced only by a stronger one. Being lost
// outranks having failed. The rest of a gang fails when one of its nodes is lost, and that must not
// count against its user.
var strength = map[model.Cause]int{
	model.CauseGrow: 1, model.CauseShrink: 1, model.CauseMigrate: 1,
	model.CauseDrain: 2, model.CauseOrder: 2, model.CauseReclaim: 2, model.CauseTE: 2, model.CauseRequeue: 2,
	model.CauseCompleted: 3, model.CauseFailed: 3, model.CauseOOM: 3, model.CauseLaunch: 3,
	model.CauseLease: 4, model.CauseNodeLost: 4, model.CauseTimeout: 4,
	model.CauseCancelled: 5,
}

// Outranks reports whether a stop for a cause replaces the stop in progress, nil if there is none.
func Outranks(cause model.Cause, stop *model.Stop) bool {
	return stop == nil || strength[stop.Cause] < strength[cause]
}

// Yields reports whether a job that is stopped for a cause makes room, and has its grace period to
// save its work.
func Yields(cause model.Cause) bool {
	switch cause {
	case model.CauseTE, model.CauseReclaim, model.CauseOrder, model.CauseShrink, model.CauseGrow, model.CauseMigrate,
		model.CauseDrain:
		return true
	}
	return false
}

// StopSignalAndGrace returns the signal and the grace with which a job is stopped for a cause.
func StopSignalAndGrace(spec *jobspec.Job, g *jobspec.Group, cause model.Cause) (signal string, grace jobspec.Seconds) {
	t := mainTask(g)
	signal, grace = cmp.Or(t.KillSignal, "SIGTERM"), cmp.Or(t.KillTimeout, model.DefaultGrace)
	if cause == model.CauseLease {
		return signal, model.LeaseGrace
	}
	if Yields(cause) || cause == model.CauseRequeue {
		signal, grace = "SIGTERM", model.DefaultGrace
		if t.Launch != nil && t.Launch.Type == "slurm" {
			signal = "SIGUSR1"
		}
		if p := spec.Preemption; p != nil {
			signal, grace = cmp.Or(p.Signal, signal), cmp.Or(p.GracePeriod, grace)
		}
	}
	return signal, max(0, grace)
}

// mainTask returns the task that stands for a group: the leader of its main tasks.
func mainTask(g *jobspec.Group) *jobspec.Task {
	var first *jobspec.Task
	for i := range g.Tasks {
		t := &g.Tasks[i]
		switch {
		case t.Lifecycle != nil:
		case t.Leader != nil && *t.Leader:
			return t
		case first == nil:
			first = t
		}
	}
	if first == nil {
		return &g.Tasks[0]
	}
	return first
}

// IgnoresFailure reports whether the failure of a worker leaves the others alone. A cause from
// outside the program never does.
func IgnoresFailure(j *model.Job, a *model.Attempt, worker int) bool {
	g := &j.Spec.Groups[j.GroupOf(worker)]
	return g.OnWorkerFailure == model.OnFailureIgnore && a.Workers[worker].Trouble() == model.CauseFailed
}
