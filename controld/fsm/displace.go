package fsm

import (
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
)

// Bounds of the record of a job's displacements: those of a day, and no more than any policy asks
// about.
const (
	maxDisplaced = 32
)

// displaced notes that an attempt has ended for another job's sake, if that is the cause. When the
// other job no longer waits, its room is offered to the displaced job.
func (m *Machine) displaced(j *model.Job, cause model.Cause) {
	a := &j.Attempts[len(j.Attempts)-1]
	switch cause {
	case model.CauseTE, model.CauseReclaim, model.CauseOrder:
	case model.CauseMigrate: // there is room elsewhere, which is his before others look for it
		j.OwnRoomFirst = a.Stop.Resize == nil
		return
	default:
		return
	}
	m.s.Learn().StopDuration(j.Queue, a.Ended.At-a.Stop.At)
	m.recordDisplacement(j)
	j.Reason = model.Reason{Code: model.ReasonPreempted, For: a.Stop.For, Text: causeText[cause]}
	j.OwnRoomFirst = a.Stop.For != 0 && !m.wantsRoom(a.Stop.For)
}

// recordDisplacement remembers that a job had to make room for another now.
func (m *Machine) recordDisplacement(j *model.Job) {
	over := m.v.At() - model.DisplacedFor
	kept := slices.DeleteFunc(slices.Clone(j.Displaced), func(t model.Instant) bool { return t <= over })
	j.Displaced = append(kept[max(0, len(kept)+1-maxDisplaced):], m.v.At())
}

// causeText says in words why a job was displaced.
var causeText = map[model.Cause]string{
	model.CauseTE:      "a trial-and-error job took its room",
	model.CauseReclaim: "an account took back what it deserves",
	model.CauseOrder:   "a job that has had less took its turn",
}

// wantsRoom reports whether a job still waits for room that is made for it.
func (m *Machine) wantsRoom(id model.JobID) bool { return model.WantsRoom(m.v.Job(id)) }

// emitFor is emitJob for consequences of an attempt's stop: the event names the job that it was
// stopped for, and its cost.
func (m *Machine) emitFor(t model.EventType, j *model.Job, cause model.Cause) {
	e := state.JobEvent(t, j, cause)
	if n := len(j.Attempts); n > 0 {
		if t == model.EventEnded {
			e.Text = j.Attempts[n-1].Killed()
		}
		lost := j.LostBy(n-1, m.v.At())
		leave := model.Leave{Lost: lost.Total()}
		if s := j.Attempts[n-1].Stop; s != nil {
			e.For, leave.User, leave.Account = s.For, s.ForUser, s.ForAccount
		}
		if leave != (model.Leave{}) {
			e.Leave = &leave
		}
	}
	m.s.Emit(e)
}
