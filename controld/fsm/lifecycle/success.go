package lifecycle

import (
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// Succeeded reports whether an attempt has come to what its group calls success, whatever becomes
// of the workers that still run. In a gang of several groups those that say leader or any speak for
// all, so that servers need not end by themselves.
func Succeeded(j *model.Job, a *model.Attempt) bool {
	return succeeded(j, a, (*model.Worker).Succeeded)
}

// SucceededUnasked reports whether an attempt has succeeded by workers that ended before they were asked
// to stop.
func SucceededUnasked(j *model.Job, a *model.Attempt) bool {
	return succeeded(j, a, func(w *model.Worker) bool { return w.Succeeded() && (w.Own || a.Stop == nil) })
}

// Said reports whether the workers whose success is the attempt's have said something, such as that they
// are finished. Where all workers must succeed, the first one speaks for them.
func Said(j *model.Job, a *model.Attempt, said func(*model.Worker) bool) bool {
	decided, all := decide(j, a, func(w *model.Worker) bool { return w.Succeeded() && said(w) })
	if !decided {
		return said(&a.Workers[0])
	}
	return all
}

// succeeded is [Succeeded] for what is called the success of a worker.
func succeeded(j *model.Job, a *model.Attempt, ok func(*model.Worker) bool) bool {
	decided, all := decide(j, a, ok)
	if !decided {
		return !slices.ContainsFunc(a.Workers[:a.Staying()], func(w model.Worker) bool { return !ok(&w) })
	}
	return all
}

// decide reports whether some workers speak for all, and whether each of those does what ok says.
func decide(j *model.Job, a *model.Attempt, ok func(*model.Worker) bool) (decided, all bool) {
	parts := j.Parts
	if len(parts) == 0 {
		parts = []model.Part{{Group: j.GroupIndex(), Workers: len(a.Workers)}}
	}
	workers := a.Workers[:a.Staying()]
	for i, p := range parts {
		decides := j.Spec.Groups[p.Group].Decides()
		if len(parts) > 1 && j.Spec.RunsStepsOfFirst(i) {
			decides = "" // it has no program that could succeed
		}
		switch decides {
		case model.SuccessLeader:
			decided = true
			if !ok(&workers[0]) {
				return true, false
			}
		case model.SuccessAny:
			decided = true
			if !slices.ContainsFunc(workers[:min(p.Workers, len(workers))], func(w model.Worker) bool { return ok(&w) }) {
				return true, false
			}
		}
		workers = workers[min(p.Workers, len(workers)):]
	}
	return decided, decided
}
