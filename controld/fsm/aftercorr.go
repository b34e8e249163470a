package fsm

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/lifecycle"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
)

// endedTasks says which children have just ended, and how.
type endedTasks struct {
	parent model.JobID
	tasks  ranges.Ranges
	well   bool
	pruned bool // early stopping cancelled them
}

func (m *Machine) noteEndedTasks(e endedTasks) {
	if len(e.tasks) > 0 && len(m.s.DependentsOf(e.parent)) > 0 {
		m.ended = append(m.ended, e)
	}
}

// matchCounterparts lets go, or drops, the elements of arrays that follow others element by
// element.
func (m *Machine) matchCounterparts() {
	for len(m.ended) > 0 {
		e := m.ended[0]
		m.ended = m.ended[1:]
		target := m.v.Job(e.parent)
		for _, id := range slices.Clone(m.s.DependentsOf(e.parent)) {
			j := m.v.Job(id)
			for i := range j.Dependencies {
				if n := &j.Dependencies[i]; n.Type == model.NeedAfterCorr && slices.Contains(n.Jobs, e.parent) {
					m.releaseCounterparts(j, n, lifecycle.Counterparts(target, j, e.tasks), e)
					break
				}
			}
		}
	}
	m.ended = nil
}

// releaseCounterparts makes children ready whose counterparts have all ended well, or drops them. The
// counterpart of a pruned task is pruned too.
func (m *Machine) releaseCounterparts(j *model.Job, n *model.OpenDependency, tasks ranges.Ranges, e endedTasks) {
	tasks = tasks.Both(j.Children.Waiting)
	for i := range j.Dependencies {
		if all := &j.Dependencies[i]; e.well && all.Type == model.NeedAfterCorr {
			tasks = m.allWell(j, all, tasks)
		}
	}
	switch {
	case len(tasks) == 0:
	case e.well:
		next, f := copyParent(j)
		f.Ready = f.Ready.With(tasks)
		m.put(next)
	default:
		m.dropTasks(j, tasks, model.Unsatisfiable(n, n.Jobs[0], m.v.NameOf(n.Jobs[0])), e.pruned)
	}
}

// allWell returns the children whose counterparts in every job of a dependency have ended well.
func (m *Machine) allWell(j *model.Job, n *model.OpenDependency, tasks ranges.Ranges) ranges.Ranges {
	for _, id := range n.Jobs {
		target := m.v.Job(id)
		var well ranges.Ranges
		for n := range lifecycle.Counterparts(j, target, tasks).All() {
			if m.v.Progress(id + model.JobID(n)).Well {
				well = append(well, ranges.Range{First: n, Last: n})
			}
		}
		tasks = lifecycle.Counterparts(target, j, well.With(nil))
	}
	return tasks
}

// checkCounterparts refuses a dependency element by element on jobs that are no arrays, or that
// lack the counterpart of an element.
func (r *resolver) checkCounterparts(j *model.Job, n *model.OpenDependency) error {
	for _, id := range n.Jobs {
		target := r.job(id)
		if target == nil || target.Children == nil || target.Spec.Array == nil {
			return &model.SpecError{Text: fmt.Sprintf("job %d is no array in the queue: use afterok", id)}
		}
		all := ranges.Span(1, j.Children.Size)
		if back := lifecycle.Counterparts(target, j, lifecycle.Counterparts(j, target, all)); back.Len() < j.Children.Size {
			first := all.Without(back)[0].First
			return &model.SpecError{Text: fmt.Sprintf("job %d has no element %d", id, j.Spec.Array.Index(first-1))}
		}
	}
	return nil
}

// noteAlreadyEnded notes which elements had ended before an array that follows them was submitted.
func (r *resolver) noteAlreadyEnded(n *model.OpenDependency) {
	for _, id := range n.Jobs {
		target := r.m.v.Job(id)
		if target == nil {
			continue
		}
		var well, ill ranges.Ranges
		for m := 1; m <= target.Children.Size; m++ {
			switch f := r.progress(target.TaskID(m)); {
			case f.Well:
				well = append(well, ranges.Range{First: m, Last: m})
			case f.Ended:
				ill = append(ill, ranges.Range{First: m, Last: m})
			}
		}
		pruned := target.Children.Pruned
		r.m.noteEndedTasks(endedTasks{parent: id, tasks: ill.With(nil).Without(pruned)})
		r.m.noteEndedTasks(endedTasks{parent: id, tasks: ill.With(nil).Both(pruned), pruned: true})
		r.m.noteEndedTasks(endedTasks{parent: id, tasks: well.With(nil), well: true})
	}
}
