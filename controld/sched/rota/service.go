package rota

import (
	"github.com/rota-hpc/rota/controld/model"
)

// # What a job counts for
//
// What a job has had says how long it will go on, as a rule of thumb: for as long again. Where the
// cluster's history knows how long jobs of the same user and name ran, it counts for half. A job
// that has had little but is of a kind that takes long counts as if it had had more, and leaves for
// others sooner. A job that has had much but is of a kind that is about to end counts as if it had
// had less.

// serviceOf returns the service that decides a job's turn after it has had so much: the middle
// between that and what it takes by the history to bring one of its kind to its end. Wide gangs
// count for what they have had: what protects them is about that.
func (t *rotaPolicy) serviceOf(j *model.Job, attained int64) int64 {
	if j.Width() >= model.WideGPUs {
		return attained
	}
	ran := j.RuntimeOf(attained)
	if left, known := t.View.Statistics().PredictRemaining(j, ran); known {
		return j.ServiceOf((ran + left) / 2)
	}
	return attained
}

// served is what the first job of a kind in a queue counts for that has had nothing: so does the
// next one, mostly.
type served struct {
	job     *model.Job
	service int64
}

// serviceOf is rotaPolicy.serviceOf for jobs of one group, which differ by what they have had and
// by name.
func (s *served) serviceOf(t *rotaPolicy, j *model.Job) int64 {
	if j.Attained() > 0 {
		return t.serviceOf(j, j.Attained())
	}
	if s.job == nil || s.job.Spec.Name != j.Spec.Name {
		*s = served{j, t.serviceOf(j, 0)}
	}
	return s.service
}

// serviceLevel returns the level and the service that a waiting best-effort job counts for. A job
// counts as new that has waited for long beside what it has run, and for as long as it would have
// run for what it counts for: the history delays no job for longer.
func (t *rotaPolicy) serviceLevel(j *model.Job, like *served) (level int, service int64) {
	if j.OwnRoomFirst {
		return model.LevelOwnRoom, 0
	}
	service = like.serviceOf(t, j)
	level = j.ServiceLevelAt(service)
	if level > 0 && t.aged(j) && int64(t.Now-j.Eligible) >= j.RuntimeOf(service) {
		return 0, 0
	}
	return level, service
}
