// Package earlystop decides which tasks of an array to cancel while they run, because others are
// better.
//
// An array whose job file has stop { metric, at_step, keep } keeps its best k tasks by the metric
// at that step (Gandiva calls such jobs multi-jobs). A task is cancelled as soon as k others are
// known to be better, and not before: then it cannot be among the best any more, whatever the
// others still report. So no task is cancelled too early, tasks may run one after the other, and a
// new leader, which knows only what is reported from then on, cancels later but never wrongly.
package earlystop

import (
	"cmp"
	"slices"
	"sync"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Arrays has what the tasks of arrays with a stop block have reported. It is volatile. The zero
// value is that of a controller that has never led, and keeps nothing.
type Arrays struct {
	mu     sync.Mutex
	values map[model.JobID]map[int]float64 // by array job and task
	due    chan struct{}                   // has one element after a report
}

// maxArrays bounds the arrays whose reports are kept. Beyond it all are forgotten.
const maxArrays = 10_000

// Clear forgets every report, when this controller becomes the leader.
func (a *Arrays) Clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.values, a.due = map[model.JobID]map[int]float64{}, make(chan struct{}, 1)
}

// Due delivers after a report that counts.
func (a *Arrays) Due() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.due
}

// Report takes in a sample of a job that may be an array task. A node that has seen the step sends
// what came with it in each sample from then on: so nothing is lost with a sample, or with a
// leader.
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

// put keeps the first value that a task reports at the step or after it.
func (a *Arrays) put(array model.JobID, task int, value float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.values == nil || value != value { // this controller has never led, or the metric is no number
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

// Losers returns the tasks that cannot be among the best any more, of each array that has some. It
// forgets arrays that have ended.
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
		if lost := losersOf(v, array, values); len(lost) > 0 {
			out = append(out, fsm.Target{ID: id, Tasks: lost.With(nil)})
		}
	}
	slices.SortFunc(out, func(a, b fsm.Target) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

func losersOf(v *state.View, array *model.Job, values map[int]float64) (lost model.Ranges) {
	stop := array.Spec.Array.Stop
	rule, err := jobspec.ParseKeep(stop.Keep)
	if err != nil {
		return nil // Validate would not have let it in
	}
	keep := rule.Of(array.Children.Size)
	for rank, task := range Ranked(values, stop.Goal) {
		if j := v.Job(array.ID + model.JobID(task)); rank >= keep && j != nil && !j.State.Final() && !Stopping(j) {
			lost = append(lost, model.Range{First: task, Last: task})
		}
	}
	return lost
}

// Stopping reports whether a job's attempt has been told to stop.
func Stopping(j *model.Job) bool {
	a := j.Live()
	return a != nil && a.Stop != nil
}

// Ranked returns tasks with their values from the best: the least value first, or the greatest with
// goal max; the lower number first where values are equal.
func Ranked(values map[int]float64, goal string) []int {
	tasks := make([]int, 0, len(values))
	for task := range values {
		tasks = append(tasks, task)
	}
	slices.SortFunc(tasks, func(a, b int) int {
		d := cmp.Compare(values[a], values[b])
		if goal == "max" {
			d = -d
		}
		return cmp.Or(d, a-b)
	})
	return tasks
}
