package model

import (
	"slices"
)

// Succeeded reports whether an attempt has come to what its group calls success, whatever becomes
// of the workers that still run. In a gang of several groups those that say leader or any speak for
// all, so that servers need not end by themselves.
func Succeeded(j *Job, a *Attempt) bool { return succeeded(j, a, (*Worker).Succeeded) }

// SucceededUnasked reports whether an attempt has succeeded by workers that ended before they were asked
// to stop.
func SucceededUnasked(j *Job, a *Attempt) bool {
	return succeeded(j, a, func(w *Worker) bool { return w.Succeeded() && (w.Own || a.Stop == nil) })
}

// succeeded is [Succeeded] for what is called the success of a worker.
func succeeded(j *Job, a *Attempt, ok func(*Worker) bool) bool {
	parts := j.Parts
	if len(parts) == 0 {
		parts = []Part{{Group: j.GroupIndex(), Workers: len(a.Workers)}}
	}
	workers, decided := a.Workers[:a.Staying()], false
	for i, p := range parts {
		decides := j.Spec.Groups[p.Group].Decides()
		if len(parts) > 1 && j.Spec.RunsStepsOfFirst(i) {
			decides = "" // it has no program that could succeed
		}
		switch decides {
		case SuccessLeader:
			decided = true
			if !ok(&workers[0]) {
				return false
			}
		case SuccessAny:
			decided = true
			if !slices.ContainsFunc(workers[:min(p.Workers, len(workers))], func(w Worker) bool { return ok(&w) }) {
				return false
			}
		}
		workers = workers[min(p.Workers, len(workers)):]
	}
	return decided || !slices.ContainsFunc(a.Workers[:a.Staying()], func(w Worker) bool { return !ok(&w) })
}

// Whose success is a group's, and what a worker's failure means for the others.
const (
	SuccessAll       = "all"
	SuccessLeader    = "leader"
	SuccessAny       = "any"
	OnFailureRestart = "restart_group"
	OnFailureIgnore  = "ignore"
)
