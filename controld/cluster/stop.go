package cluster

import (
	"cmp"

	"github.com/rota-hpc/rota/jobspec"
)

// stopStrength orders causes of a stop: one in progress is replaced only by a stronger one. Being lost outranks having failed, because
// the rest of a gang fails when one of its nodes is lost, and that must not count against its user.
var stopStrength = map[Cause]int{
	CauseGrow: 1, CauseShrink: 1, CauseMigrate: 1,
	CauseDrain: 2, CauseOrder: 2, CauseReclaim: 2, CauseTE: 2, CauseRequeue: 2,
	CauseCompleted: 3, CauseFailed: 3, CauseOOM: 3, CauseLaunch: 3,
	CauseLease: 4, CauseNodeLost: 4, CauseTimeout: 4,
	CauseCancelled: 5,
}

// stop asks an attempt to stop. A stop that replaces a weaker one keeps its clock: the kill never comes later than announced.
func (s *State) stop(j *Job, a *Attempt, ask Stop) {
	signal, grace := stopSignalAndGrace(j.Spec, j.group(), ask.Cause)
	ask.Signal = cmp.Or(ask.Signal, signal)
	ask.At, ask.KillAt = s.v.at, s.v.at.after(grace)
	if a.Stop != nil {
		s.cancelResize(j, a, false)
		ask.At, ask.KillAt = a.Stop.At, min(a.Stop.KillAt, ask.KillAt)
	}
	a.Stop = &ask
	j.State = Completing
	s.touch(a)
	s.emitFor(EventStopping, j, ask.Cause)
}

// stopSignalAndGrace returns the signal and the grace with which a job is stopped for a cause.
func stopSignalAndGrace(spec *jobspec.Job, g *jobspec.Group, cause Cause) (signal string, grace jobspec.Seconds) {
	t := mainTask(g)
	signal, grace = cmp.Or(t.KillSignal, "SIGTERM"), cmp.Or(t.KillTimeout, defaultGrace)
	switch cause {
	case CauseLease:
		return signal, leaseGrace
	case CauseTE, CauseReclaim, CauseOrder, CauseShrink, CauseGrow, CauseMigrate, CauseDrain, CauseRequeue:
		signal, grace = "SIGTERM", defaultGrace
		if t.Launch != nil && t.Launch.Type == "slurm" {
			signal = "SIGUSR1"
		}
		if p := spec.Preemption; p != nil {
			signal, grace = cmp.Or(p.Signal, signal), cmp.Or(p.GracePeriod, grace)
		}
	}
	return signal, max(0, grace)
}
