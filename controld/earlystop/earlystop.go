// Package earlystop decides which running tasks of an array to cancel because others are better.
//
// An array whose job file has stop { metric, at_step, keep } keeps its best k tasks by the metric
// at that step. Gandiva calls such jobs multi-jobs. A task is cancelled as soon as k others are
// known to be better. From then on it cannot be among the best, whatever the others still report.
// So no task is cancelled wrongly, even if tasks run one after the other. A new leader only knows
// later reports, so it cancels later but never wrongly.
package earlystop

import (
	"cmp"
	"slices"
	"sync"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/earlystop/judge"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
)

// Arrays holds the reports of tasks in arrays with a stop block. It is volatile. The zero value
// belongs to a controller that has never led, and keeps nothing.
type Arrays struct {
	mu     sync.Mutex
	values map[model.JobID]map[int]float64 // by array job and task
	due    chan struct{}                   // has one element after a report
}

// maxArrays bounds the number of arrays with reports. Beyond it, all reports are dropped.
const maxArrays = 10_000

// Clear drops every report, when this controller becomes the leader.
func (a *Arrays) Clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.values, a.due = map[model.JobID]map[int]float64{}, make(chan struct{}, 1)
}

// Due delivers after a report that matters.
func (a *Arrays) Due() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.due
}

// Report records a sample of a job that may be an array task. Once a node has seen the step, each
// of its samples includes the value. So a lost sample or a lost leader loses nothing.
func (a *Arrays) Report(j *model.Job, s *api.Sample) {
	if j.Parent == 0 || j.Spec.Array == nil || j.Spec.Array.Stop == nil {
		return
	}
	if s.Reached != nil {
		a.put(j.Parent, j.TaskNumber, s.Reached.Value)
		return
	}
	if s.Step < j.Spec.Array.Stop.AtStep {
		return
	}
	if value, ok := s.Metrics[j.Spec.Array.Stop.Metric]; ok {
		a.put(j.Parent, j.TaskNumber, value)
	}
}

// put stores a task's first value at or after the step.
func (a *Arrays) put(array model.JobID, task int, value float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.values == nil || value != value { // this controller has never led, or the metric is not finite
		return
	}
	tasks := a.values[array]
	if tasks == nil {
		if len(a.values) >= maxArrays {
			clear(a.values)
		}
		tasks = map[int]float64{}
		a.values[array] = tasks
	}
	if _, known := tasks[task]; known {
		return
	}
	tasks[task] = value
	select {
	case a.due <- struct{}{}:
	default:
	}
}

// Losers returns, for each array, the tasks that can no longer be among the best. It drops arrays
// that have ended.
func (a *Arrays) Losers(v *state.View) []fsm.Target {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []fsm.Target
	for id, values := range a.values {
		array := v.Job(id)
		if array == nil || array.State.Final() || array.Spec.Array == nil || array.Spec.Array.Stop == nil {
			delete(a.values, id)
			continue
		}
		if lost := judge.Losers(v, array, values); len(lost) > 0 {
			out = append(out, fsm.Target{ID: id, Tasks: lost})
		}
	}
	slices.SortFunc(out, func(a, b fsm.Target) int { return cmp.Compare(a.ID, b.ID) })
	return out
}
