package jobs

import (
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/lifecycle"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
)

// EndedTasks says which children have just ended, and how.
type EndedTasks struct {
	Parent model.JobID
	Tasks  ranges.Ranges
	Well   bool
	Pruned bool // early stopping cancelled them
}

// NoteEndedTasks notes tasks whose counterparts in other arrays may start, or are dropped.
func (s *Store) NoteEndedTasks(e EndedTasks) {
	if len(e.Tasks) > 0 && len(s.state.DependentsOf(e.Parent)) > 0 {
		s.ended = append(s.ended, e)
	}
}

// matchCounterparts lets go, or drops, the elements of arrays that follow others element by
// element.
func (s *Store) matchCounterparts() {
	for len(s.ended) > 0 {
		e := s.ended[0]
		s.ended = s.ended[1:]
		target := s.view.Job(e.Parent)
		for _, id := range slices.Clone(s.state.DependentsOf(e.Parent)) {
			j := s.view.Job(id)
			for i := range j.Dependencies {
				if n := &j.Dependencies[i]; n.Type == model.NeedAfterCorr && slices.Contains(n.Jobs, e.Parent) {
					s.releaseCounterparts(j, n, lifecycle.Counterparts(target, j, e.Tasks), e)
					break
				}
			}
		}
	}
	s.ended = nil
}

// releaseCounterparts makes children ready whose counterparts have all ended well, or drops them. The
// counterpart of a pruned task is pruned too.
func (s *Store) releaseCounterparts(j *model.Job, n *model.OpenDependency, tasks ranges.Ranges, e EndedTasks) {
	tasks = tasks.Both(j.Children.Waiting)
	for i := range j.Dependencies {
		if all := &j.Dependencies[i]; e.Well && all.Type == model.NeedAfterCorr {
			tasks = s.allWell(j, all, tasks)
		}
	}
	switch {
	case len(tasks) == 0:
	case e.Well:
		next, f := CopyParent(j)
		f.Ready = f.Ready.With(tasks)
		s.Put(next)
	default:
		s.DropTasks(j, tasks, model.Unsatisfiable(n, n.Jobs[0], s.view.NameOf(n.Jobs[0])), e.Pruned)
	}
}

// allWell returns the children whose counterparts in every job of a dependency have ended well.
func (s *Store) allWell(j *model.Job, n *model.OpenDependency, tasks ranges.Ranges) ranges.Ranges {
	for _, id := range n.Jobs {
		target := s.view.Job(id)
		var well ranges.Ranges
		for n := range lifecycle.Counterparts(j, target, tasks).All() {
			if s.view.Progress(id + model.JobID(n)).Well {
				well = append(well, ranges.Range{First: n, Last: n})
			}
		}
		tasks = lifecycle.Counterparts(target, j, well.With(nil))
	}
	return tasks
}
