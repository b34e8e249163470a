package introspect

import (
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// rotate has units pause whose time is over, for those that have had less service.
func (s *sharing) rotate(node int, n *shared) {
	if len(n.leaving) > 0 || n.busy || s.promised(node) {
		return
	}
	free := s.Room.Free(node).Active
	active := slices.Clone(n.active)
	for _, u := range n.suspended {
		if slices.ContainsFunc(u.nodes, func(at int) bool { return at != node }) {
			continue // a gang on several nodes goes on when all of them have room
		}
		needs := needsOn(u, node)
		if needs.Within(free) {
			free = free.Minus(needs)
			continue
		}
		victims, gain := s.due(active, u, needs.Minus(free))
		if victims == nil || s.anyLimited(u) && !ofOneAccount(u.runs[0].Job, victims) {
			continue
		}
		for _, v := range victims {
			s.suspend(n, v, model.CauseSlice, u.id())
			active = slices.DeleteFunc(active, func(o *unit) bool { return o == v })
		}
		free = free.Plus(gain).Minus(needs)
	}
}

// promised reports whether others leave room on a node to a job that waits.
func (s *sharing) promised(node int) bool {
	name := s.View.Nodes()[node].Name
	for _, r := range s.Holders {
		if r.ForPreemptor && slices.ContainsFunc(r.Claims, func(c model.Claim) bool { return c.Node == name }) {
			return true
		}
	}
	return false
}

// due picks units that have had their time and more service than another one, so that what they give
// back covers what it lacks: those first that have had the most. It also wakes the cycle when the
// time of the next one is over.
func (s *sharing) due(active []*unit, u *unit, lacks model.Vector) (victims []*unit, gain model.Vector) {
	for _, v := range slices.Backward(active) {
		if v.rank < u.rank {
			continue
		}
		if over := s.overAt(v, u); over > s.Now {
			s.WakeAt(over)
			continue
		}
		victims, gain = append(victims, v), gain.Plus(freed(v))
		if lacks.Within(gain) {
			return victims, gain
		}
	}
	return nil, model.Vector{}
}

// overAt returns when a unit has had its time, and more service than another one. Turns of all
// nodes end at whole multiples of [Tunables.TurnsEvery], or in the first cycle after it.
func (s *sharing) overAt(v, u *unit) model.Instant {
	over := model.Instant(0)
	for _, run := range v.runs {
		a := run.Attempt
		over = max(over, a.ActiveSince()+model.SliceMS, s.measuredBy(a))
	}
	if left := v.runs[0].Attempt.TurnIn(u.turn - v.turn + 1); left > 0 {
		over = max(over, s.Now+left)
	}
	every := Limits.TurnsEvery
	return (over + every - 1) / every * every
}

// freed is what a unit on one node gives back when it pauses.
func freed(u *unit) (gain model.Vector) {
	for _, run := range u.runs {
		for i := range run.Attempt.Workers {
			gain = gain.Plus(run.Job.FreedBySuspension(run.Attempt, i).Active)
		}
	}
	return gain
}
