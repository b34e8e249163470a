package state

import (
	"iter"

	"github.com/rota-hpc/rota/controld/fsm/limits"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// HasLimits reports whether the configuration limits the jobs of any account, user or queue.
func (v *View) HasLimits() bool { return v.limited }

// BoundsOf returns the limits that count a job, nil for none.
func (v *View) BoundsOf(j *model.Job) []cluster.Bound {
	if !v.limited {
		return nil
	}
	return v.config.Bounds(j.Account, j.Owner.User, j.Queue)
}

// LimitUses yields the counts of the owners of limits that have jobs, in no particular order.
func (v *View) LimitUses() iter.Seq[*limits.Use] { return v.limitUses.Values() }

// OverLimit returns the limit that keeps a job from starting at some places, the zero reason if
// none does.
func (s *State) OverLimit(j *model.Job, places []model.Place) model.Reason {
	bounds := s.v.BoundsOf(j)
	if len(bounds) == 0 {
		return model.Reason{}
	}
	need, nodes := limits.NeedOf(j), limits.NodesOf(places)
	for i := range bounds {
		b := &bounds[i]
		if why := limits.Exceeded(b, s.v.limitUses.Of(b), &need, nodes, s.v.at); why.Code != model.ReasonNone {
			return why
		}
	}
	return model.Reason{}
}

// TooMany returns the limit on unfinished jobs that new jobs would exceed, the zero reason if none
// does.
func (s *State) TooMany(jobs []*model.Job) model.Reason {
	if !s.v.limited {
		return model.Reason{}
	}
	more := map[cluster.Owner]int64{}
	for _, j := range jobs {
		bounds := s.v.BoundsOf(j)
		for i := range bounds {
			b := &bounds[i]
			more[b.Owner] += limits.PartOf(j).Submitted
			if why := limits.TooMany(b, s.v.limitUses.Of(b), more[b.Owner]); why.Code != model.ReasonNone {
				return why
			}
		}
	}
	return model.Reason{}
}

// updateLimits keeps the counts in step with a job that has changed.
func (s *State) updateLimits(old, next *model.Job) {
	if s.v.limited && next.Bounded != model.Unbounded {
		s.v.limitUses.Move(s.v.BoundsOf(next), old, next, s.epoch)
	}
}

// boundedBy says which limits count a job.
func (v *View) boundedBy(j *model.Job) model.Bounded {
	if !v.limited {
		return model.Unbounded
	}
	kind := model.Unbounded
	for _, b := range v.BoundsOf(j) {
		if b.Owner.Kind <= cluster.WholeQueue {
			return model.BoundedInQueue
		}
		kind = model.BoundedByOwner
	}
	return kind
}

// rebind follows a change of the configuration: it makes the counts anew. Unfinished jobs that
// other limits count than before, or whose queue has other nodes, are stored again, so that their
// groups are right.
func (s *State) rebind() {
	limited, nodes := s.v.config.HasLimits(), s.v.config.NodesByQueue()
	if !limited && !s.v.limited && nodes == nil && s.v.queueNodes == nil {
		return
	}
	s.v.limited, s.v.queueNodes, s.v.limitUses = limited, nodes, limits.Table{}
	var changed []*model.Job
	for j := range s.v.jobs.Values() {
		if !j.State.Final() && (j.Bounded != s.v.boundedBy(j) || j.Within() != nodes[j.Queue]) {
			changed = append(changed, j)
		}
	}
	for _, j := range changed {
		next := *j
		s.store(j, &next)
	}
	s.v.limitUses = s.limitUsesAnew()
}

// limitUsesAnew returns the counts made anew from the jobs.
func (s *State) limitUsesAnew() (t limits.Table) {
	if !s.v.limited {
		return t
	}
	for j := range s.v.jobs.Values() {
		if !j.State.Final() {
			t.Move(s.v.BoundsOf(j), nil, j, s.epoch)
		}
	}
	return t
}

// checkLimits compares the counts with ones made anew.
func (s *State) checkLimits() error {
	want := s.limitUsesAnew()
	return s.v.limitUses.Check(&want)
}
