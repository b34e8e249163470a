package fsm

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// endedTasks says which children have just ended, and how.
type endedTasks struct {
	record  model.JobID
	members model.Ranges
	well    bool
}

func (s *State) noteEndedTasks(record model.JobID, members model.Ranges, well bool) {
	if len(members) > 0 && len(s.dependentsOf(record)) > 0 {
		s.ended = append(s.ended, endedTasks{record, members, well})
	}
}

// matchCounterparts lets go, or drops, the elements of arrays that follow others element by element.
func (s *State) matchCounterparts() {
	for len(s.ended) > 0 {
		e := s.ended[0]
		s.ended = s.ended[1:]
		target := s.v.Job(e.record)
		for _, id := range slices.Clone(s.dependentsOf(e.record)) {
			j := s.v.Job(id)
			for i := range j.Dependencies {
				if n := &j.Dependencies[i]; n.Type == model.NeedAfterCorr && slices.Contains(n.Jobs, e.record) {
					s.releaseCounterparts(j, n, counterparts(target, j, e.members), e.well)
					break
				}
			}
		}
	}
	s.ended = nil
}

// releaseCounterparts makes children ready whose counterparts have all ended well, or drops them.
func (s *State) releaseCounterparts(j *model.Job, n *model.OpenDependency, members model.Ranges, well bool) {
	members = members.Both(j.Children.Waiting)
	for i := range j.Dependencies {
		if all := &j.Dependencies[i]; well && all.Type == model.NeedAfterCorr {
			members = s.allWell(j, all, members)
		}
	}
	switch {
	case len(members) == 0:
	case well:
		next, f := copyParent(j)
		f.Ready = f.Ready.With(members)
		s.put(next)
	default:
		s.dropTasks(j, members, model.Unsatisfiable(n, n.Jobs[0]))
	}
}

// allWell returns the children whose counterparts in every job of a dependency have ended well.
func (s *State) allWell(j *model.Job, n *model.OpenDependency, members model.Ranges) model.Ranges {
	for _, id := range n.Jobs {
		target := s.v.Job(id)
		var well model.Ranges
		for m := range counterparts(j, target, members).All() {
			if s.fate(id + model.JobID(m)).well {
				well = append(well, model.Range{First: m, Last: m})
			}
		}
		members = counterparts(target, j, well.With(nil))
	}
	return members
}

// counterparts returns the children of to that have the indices of some children of from.
func counterparts(from, to *model.Job, members model.Ranges) model.Ranges {
	a, b := from.Spec.Array, to.Spec.Array
	if a == b || a.Indices == b.Indices && from.Children.Size == to.Children.Size {
		return members
	}
	x, y := a.Elements(), b.Elements()
	var out model.Ranges
	for m := range members.All() {
		if k := y.Ordinal(x.Index(m - 1)); k >= 0 {
			out = append(out, model.Range{First: k + 1, Last: k + 1})
		}
	}
	return out.With(nil)
}

// checkCounterparts refuses a dependency element by element on jobs that are no arrays, or that lack
// the counterpart of an element.
func (r *resolver) checkCounterparts(j *model.Job, n *model.OpenDependency) error {
	for _, id := range n.Jobs {
		target := r.job(id)
		if target == nil || target.Children == nil || target.Spec.Array == nil {
			return &model.SpecError{Text: fmt.Sprintf("job %d is no array in the queue: use afterok", id)}
		}
		all := model.Span(1, j.Children.Size)
		if back := counterparts(target, j, counterparts(j, target, all)); back.Len() < j.Children.Size {
			first := all.Without(back)[0].First
			return &model.SpecError{Text: fmt.Sprintf("job %d has no element %d", id, j.Spec.Array.Index(first-1))}
		}
	}
	return nil
}

// noteAlreadyEnded notes which elements had ended before an array that follows them was submitted.
func (r *resolver) noteAlreadyEnded(n *model.OpenDependency) {
	for _, id := range n.Jobs {
		target := r.s.v.Job(id)
		if target == nil {
			continue
		}
		var well, ill model.Ranges
		for m := 1; m <= target.Children.Size; m++ {
			switch f := r.fate(id + model.JobID(m)); {
			case f.well:
				well = append(well, model.Range{First: m, Last: m})
			case f.ended:
				ill = append(ill, model.Range{First: m, Last: m})
			}
		}
		r.s.noteEndedTasks(id, ill.With(nil), false)
		r.s.noteEndedTasks(id, well.With(nil), true)
	}
}
