package preempt

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// WastePart bounds how much a job that saves its state loses by being displaced. Its loss is one in
// so many parts, at most, of the time for which it held its room within a day.
const WastePart = 5

// Wasteful reports whether a job that saves its state would have lost too much if it were displaced
// now. Two things count as lost: work since the last save, and restarts after the job was displaced
// or moved. Both are compared with the time for which it held its room within a day. A job that
// never saves is not judged: losing all its work makes it dear already. The cycle looks again when
// the job has saved.
func Wasteful(t *scratch.State, j *model.Job) bool {
	if j.Spec.Checkpoint == nil {
		return false
	}
	var held, lost int64
	from, again := t.Now-scratch.Day, false
	// Add up over the attempts of the last day. Each adds the time that it held its room, its
	// restart after a displacement, and its unsaved work. The live attempt counts as if it left
	// now.
	for i := range j.Attempts {
		a := &j.Attempts[i]
		displaced := a.Cause.Preempts() || a.Cause == model.CauseMigrate
		end := a.Ended.At
		if end == 0 {
			end, displaced = t.Now, true
		}
		if end > from {
			held += int64(end - max(a.Assigned.At, from))
			if again {
				lost += restartOf(a, from, end)
			}
			if displaced {
				lost += UnsavedMS(j, a, t.Now)
			}
		}
		again = displaced
	}
	if lost*WastePart <= held {
		return false
	}
	t.WakeAt(savedBy(t, j, lost*WastePart-held))
	return true
}

// savedBy returns when a job will have saved its state, or held its room for so many ms more.
func savedBy(t *scratch.State, j *model.Job, missing int64) model.Instant {
	every := model.Instant(j.Spec.Checkpoint.Interval) * 1000
	if a := j.Live(); every > 0 && a != nil && a.Started.At != 0 {
		return t.Now + every - (t.Now-a.Started.At)%every
	}
	return t.Now + model.Instant(missing)
}

// restartOf returns for how long an attempt held its room before it ran, in ms, as far as that was
// later than an instant.
func restartOf(a *model.Attempt, from, end model.Instant) int64 {
	began := a.Started.At
	if began == 0 {
		began = end
	}
	return max(0, int64(began-max(a.Assigned.At, from)))
}

// UnsavedMS returns for how long an attempt has run since its last save, in ms, until now or until
// it was asked to leave.
func UnsavedMS(j *model.Job, a *model.Attempt, now model.Instant) int64 {
	if a.Started.At == 0 || j.Spec.Checkpoint.Interval == 0 {
		return 0 // it saves when it is asked to leave
	}
	until := now
	if a.Stop != nil {
		until = a.Stop.At
	}
	return int64(a.Clock(until)-a.Started.At) % (int64(j.Spec.Checkpoint.Interval) * 1000)
}
