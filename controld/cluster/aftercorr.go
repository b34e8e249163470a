package cluster

import (
	"fmt"
	"slices"
)

// endedTasks says which children have just ended, and how.
type endedTasks struct {
	record  JobID
	members Ranges
	well    bool
}

func (s *State) noteEndedTasks(record JobID, members Ranges, well bool) {
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
			for i := range j.Needs {
				if n := &j.Needs[i]; n.Type == needAfterCorr && slices.Contains(n.Jobs, e.record) {
					s.releaseCounterparts(j, n, counterparts(target, j, e.members), e.well)
					break
				}
			}
		}
	}
	s.ended = nil
}

// releaseCounterparts makes children ready whose counterparts have all ended well, or drops them.
func (s *State) releaseCounterparts(j *Job, n *Need, members Ranges, well bool) {
	members = members.Both(j.Family.Waiting)
	for i := range j.Needs {
		if all := &j.Needs[i]; well && all.Type == needAfterCorr {
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
		s.dropTasks(j, members, unsatisfiable(n, n.Jobs[0]))
	}
}

// allWell returns the children whose counterparts in every job of a dependency have ended well.
func (s *State) allWell(j *Job, n *Need, members Ranges) Ranges {
	for _, id := range n.Jobs {
		target := s.v.Job(id)
		var well Ranges
		for m := range counterparts(j, target, members).All() {
			if s.fate(id + JobID(m)).well {
				well = append(well, Range{m, m})
			}
		}
		members = counterparts(target, j, well.With(nil))
	}
	return members
}

// counterparts returns the children of to that have the indices of some children of from.
func counterparts(from, to *Job, members Ranges) Ranges {
	a, b := from.Spec.Array, to.Spec.Array
	if a == b || a.Indices == b.Indices && from.Family.Size == to.Family.Size {
		return members
	}
	x, y := a.Elements(), b.Elements()
	var out Ranges
	for m := range members.All() {
		if k := y.Ordinal(x.Index(m - 1)); k >= 0 {
			out = append(out, Range{k + 1, k + 1})
		}
	}
	return out.With(nil)
}

// checkCounterparts refuses a dependency element by element where there are none, or where an element has no counterpart.
func (r *resolver) checkCounterparts(j *Job, n *Need) error {
	if n.Any {
		return &SpecError{"match is all: elements wait for all their counterparts"}
	}
	if j.Family == nil || j.Spec.Array == nil {
		return &SpecError{"only an array follows other arrays element by element: use afterok"}
	}
	if j.Spec.OnDependencyFailure == "hold" {
		return &SpecError{"elements cannot be held one by one: on_dependency_failure is cancel"}
	}
	for _, id := range n.Jobs {
		target := r.job(id)
		if target == nil || target.Family == nil || target.Spec.Array == nil {
			return &SpecError{fmt.Sprintf("job %d is no array in the queue: use afterok", id)}
		}
		all := Span(1, j.Family.Size)
		if back := counterparts(target, j, counterparts(j, target, all)); back.Len() < j.Family.Size {
			first := all.Without(back)[0].First
			return &SpecError{fmt.Sprintf("job %d has no element %d", id, j.Spec.Array.Index(first-1))}
		}
	}
	return nil
}

// noteAlreadyEnded notes which elements had ended before an array that follows them was submitted.
func (r *resolver) noteAlreadyEnded(n *Need) {
	for _, id := range n.Jobs {
		target := r.s.v.Job(id)
		if target == nil {
			continue
		}
		var well, ill Ranges
		for m := 1; m <= target.Family.Size; m++ {
			switch f := r.fate(id + JobID(m)); {
			case f.well:
				well = append(well, Range{m, m})
			case f.ended:
				ill = append(ill, Range{m, m})
			}
		}
		r.s.noteEndedTasks(id, ill.With(nil), false)
		r.s.noteEndedTasks(id, well.With(nil), true)
	}
}
