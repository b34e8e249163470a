package jobs

import (
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// simple is a job of one worker in its first attempt, as most are, in one piece of memory instead
// of three.
type simple struct {
	job      model.Job
	attempts [1]model.Attempt
	workers  [1]model.Worker
}

// CopyToChange copies a job and its live attempt to be changed and put back.
func CopyToChange(j *model.Job) (*model.Job, *model.Attempt) {
	if len(j.Attempts) == 1 && len(j.Attempts[0].Workers) == 1 {
		d := &simple{*j, [1]model.Attempt{j.Attempts[0]}, [1]model.Worker{j.Attempts[0].Workers[0]}}
		d.job.Attempts, d.attempts[0].Workers = d.attempts[:], d.workers[:]
		return &d.job, &d.attempts[0]
	}
	next := *j
	next.Attempts = slices.Clone(j.Attempts)
	a := &next.Attempts[len(next.Attempts)-1]
	a.Workers = slices.Clone(a.Workers)
	return &next, a
}

// CopyWithAttempt copies a job to be changed and stored, with one more attempt of so many workers.
func CopyWithAttempt(j *model.Job, workers int) (*model.Job, *model.Attempt) {
	if len(j.Attempts) == 0 && workers == 1 {
		d := &simple{job: *j}
		d.job.Attempts, d.attempts[0].Workers = d.attempts[:], d.workers[:]
		return &d.job, &d.attempts[0]
	}
	next := *j
	kept := j.Attempts[max(0, len(j.Attempts)+1-model.MaxAttemptsKept):]
	next.Attempts = append(slices.Clip(slices.Clone(kept)), model.Attempt{Workers: make([]model.Worker, workers)})
	return &next, &next.Attempts[len(kept)]
}

// CopyParent copies a parent job and its family to be changed and put back.
func CopyParent(j *model.Job) (*model.Job, *model.Children) {
	next, f := *j, *j.Children
	next.Children = &f
	return &next, &f
}
