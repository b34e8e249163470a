package preempt

import (
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// # Suspension in place of preemption
//
// A job that can pause can lose nothing, all its room but its memory, or all its room. If it
// pauses, it gives its GPUs back within [model.PauseWithin] and loses no work. So that costs less
// than a stop, but its memory stays. Both are candidates, and each excludes the other: which of
// them is in the cheapest set says whether the job is suspended or stopped. Where GPUs are shared,
// and where a job needs nodes for itself, jobs are stopped.

// MayPause reports whether an attempt can be suspended now. The job and all its nodes must be able
// to, all its workers must run, and no other switch may be under way. An elastic job gives up
// workers instead.
func MayPause(t *scratch.State, run *estimate.LiveAttempt) bool {
	a := run.Attempt
	if run.Stopping || run.Paused || run.Job.State != model.Running || a.AnyFinal() || a.Switch != nil && !a.Switched() {
		return false
	}
	_, elastic := run.Job.Elastic()
	return !elastic && t.View.CanSuspend(run.Job)
}

// PauseCosts returns within how many ms a job has paused, as far as is known beforehand: it takes no
// longer than it would to leave.
func PauseCosts(grace int64) int64 { return min(grace, model.PauseWithin) }

// offerPauses adds to the candidates what jobs that can pause give back when they do.
func (r *Candidates) offerPauses(t *scratch.State) {
	for i := range len(r.List) {
		if v := &r.List[i]; v.canPause && MayPause(t, v.run) {
			p := *v
			p.Pauses, p.alternative, p.once, p.Rooms = true, int32(i)+1, false, freedBy(v.Rooms)
			v.alternative = int32(len(r.List)) + 1
			r.List = append(r.List, p)
		}
	}
}

// freedBy is what comes free of rooms when the job that holds them pauses.
func freedBy(rooms []estimate.NodeResources) []estimate.NodeResources {
	rooms = slices.Clone(rooms)
	for i := range rooms {
		rooms[i].Room = rooms[i].Room.Minus(rooms[i].Room.Suspended())
	}
	return rooms
}

// Undisturbed returns since when a job holds its room without having given it to another job.
func (v *Candidate) Undisturbed() model.Instant { return max(v.Since, v.resumed) }

// ResumedAt returns when an attempt was told to go on that had paused for another job, 0 if it was
// not. When jobs take turns that is no disturbance.
func ResumedAt(a *model.Attempt) model.Instant {
	if s := a.Switch; s != nil && s.Number > 0 && s.Number%2 == 0 && s.Cause.Preempts() {
		return s.At
	}
	return 0
}
