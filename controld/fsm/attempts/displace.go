package attempts

import (
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// maxDisplaced bounds the record of a job's displacements: no policy asks about more.
const maxDisplaced = 32

// displaced notes that an attempt has ended for another job's sake, if that is the cause. When the
// other job no longer waits, its room is offered to the displaced job.
func (m *Manager) displaced(j *model.Job, cause model.Cause) {
	a := &j.Attempts[len(j.Attempts)-1]
	switch cause {
	case model.CauseTE, model.CauseReclaim, model.CauseOrder:
	case model.CauseMigrate: // there is room elsewhere, which is his before others look for it
		j.OwnRoomFirst = a.Stop.Resize == nil
		return
	default:
		return
	}
	m.state.Learn().StopDuration(j.Queue, a.Ended.At-a.Stop.At)
	m.recordDisplacement(j)
	j.Reason = model.Reason{Code: model.ReasonPreempted, For: a.Stop.For, Text: causeText[cause]}
	j.OwnRoomFirst = a.Stop.For != 0 && !m.WantsRoom(a.Stop.For)
}

// recordDisplacement remembers that a job had to make room for another now.
func (m *Manager) recordDisplacement(j *model.Job) {
	over := m.view.At() - model.DisplacedFor
	kept := slices.DeleteFunc(slices.Clone(j.Displaced), func(t model.Instant) bool { return t <= over })
	j.Displaced = append(kept[max(0, len(kept)+1-maxDisplaced):], m.view.At())
}

// causeText says in words why a job was displaced.
var causeText = map[model.Cause]string{
	model.CauseTE:      "a trial-and-error job took its room",
	model.CauseReclaim: "an account took back what it deserves",
	model.CauseOrder:   "a job that has had less took its turn",
}

// WantsRoom reports whether a job still waits for room that is made for it.
func (m *Manager) WantsRoom(id model.JobID) bool { return model.WantsRoom(m.view.Job(id)) }
