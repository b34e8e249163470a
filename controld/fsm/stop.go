package fsm

import (
	"cmp"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// stopStrength orders causes of a stop: one in progress is replaced only by a stronger one. Being lost outranks having failed, because
// the rest of a gang fails when one of its nodes is lost, and that must not count against its user.
var stopStrength = map[model.Cause]int{
	model.CauseGrow: 1, model.CauseShrink: 1, model.CauseMigrate: 1,
	model.CauseDrain: 2, model.CauseOrder: 2, model.CauseReclaim: 2, model.CauseTE: 2, model.CauseRequeue: 2,
	model.CauseCompleted: 3, model.CauseFailed: 3, model.CauseOOM: 3, model.CauseLaunch: 3,
	model.CauseLease: 4, model.CauseNodeLost: 4, model.CauseTimeout: 4,
	model.CauseCancelled: 5,
}

// outranks reports whether a stop for a cause replaces the stop in progress, nil if there is none.
func outranks(cause model.Cause, stop *model.Stop) bool {
	return stop == nil || stopStrength[stop.Cause] < stopStrength[cause]
}

// stop asks an attempt to stop. A stop that replaces a weaker one keeps its clock: the kill never comes later than announced.
func (s *State) stop(j *model.Job, a *model.Attempt, ask model.Stop) {
	signal, grace := stopSignalAndGrace(j.Spec, j.GroupSpec(), ask.Cause)
	ask.Signal = cmp.Or(ask.Signal, signal)
	ask.At, ask.KillAt = s.v.at, s.v.at.After(grace)
	if a.Stop != nil {
		s.cancelResize(j, a, false)
		ask.At, ask.KillAt = a.Stop.At, min(a.Stop.KillAt, ask.KillAt)
	}
	a.Stop = &ask
	j.State = model.Completing
	s.touch(a)
	s.emitFor(model.EventStopping, j, ask.Cause)
}

// stopSignalAndGrace returns the signal and the grace with which a job is stopped for a cause.
func stopSignalAndGrace(spec *jobspec.Job, g *jobspec.Group, cause model.Cause) (signal string, grace jobspec.Seconds) {
	t := mainTask(g)
	signal, grace = cmp.Or(t.KillSignal, "SIGTERM"), cmp.Or(t.KillTimeout, model.DefaultGrace)
	switch cause {
	case model.CauseLease:
		return signal, model.LeaseGrace
	case model.CauseTE, model.CauseReclaim, model.CauseOrder, model.CauseShrink, model.CauseGrow, model.CauseMigrate, model.CauseDrain, model.CauseRequeue:
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
