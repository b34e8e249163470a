// Package judge decides which tasks of an array with a stop block have lost, from what they have
// reported. The leader and the simulator both call it.
//
// A task has lost as soon as as many others as the block keeps are known to be better. Then it
// cannot be among the best any more, whatever the others still report.
package judge

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/jobspec"
)

// Losers returns the tasks of an array that have lost by the values that tasks reported at the step
// of its stop block. Tasks that have ended or are about to stop are left out.
func Losers(v *state.View, array *model.Job, values map[int]float64) (lost ranges.Ranges) {
	stop := array.Spec.Array.Stop
	rule, err := jobspec.ParseKeep(stop.Keep)
	if err != nil {
		return nil // Validate would not have let it in
	}
	keep := rule.Of(array.Children.Size)
	for rank, task := range Ranked(values, stop.Goal) {
		if j := v.Job(array.TaskID(task)); rank >= keep && j != nil && !j.State.Final() && !Stopping(j) {
			lost = append(lost, ranges.Range{First: task, Last: task})
		}
	}
	return lost.With(nil)
}

// Stopping reports whether a job's attempt has been told to stop.
func Stopping(j *model.Job) bool {
	a := j.Live()
	return a != nil && a.Stop != nil
}

// Ranked returns tasks with their values from the best. The least value comes first, or the
// greatest with goal max; of equal values the lower number comes first.
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
