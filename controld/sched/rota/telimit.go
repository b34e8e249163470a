package rota

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// overTELimit reports whether a trial-and-error job's account has as many GPUs in such jobs as it
// may.
func (t *rotaPolicy) overTELimit(j *model.Job) bool {
	limit := t.Policy.TEAccountGPUs
	if limit <= 0 || j.Class != jobspec.TE {
		return false
	}
	if t.AwaitsVictims(j.ID) {
		return false // it was counted when the room was promised
	}
	if t.teHeld == nil {
		t.countAllTE()
	}
	return t.teHeld[j.Account]+j.Width() > limit*1000
}

// countAllTE counts the GPUs of trial-and-error jobs that run or have been promised room.
func (t *rotaPolicy) countAllTE() {
	t.teHeld = map[string]int64{}
	for o := range t.View.Live() {
		if o.Class == jobspec.TE {
			t.teHeld[o.Account] += o.Width()
		}
	}
	for id, r := range t.Holders {
		if o := t.View.Job(id); r.ForPreemptor && o.Class == jobspec.TE {
			t.teHeld[o.Account] += o.Width()
		}
	}
}

// countTE notes that a job has started or been promised room, once.
func (t *rotaPolicy) countTE(j *model.Job) {
	if t.teHeld != nil && j.Class == jobspec.TE && !t.AwaitsVictims(j.ID) {
		t.teHeld[j.Account] += j.Width()
	}
}
