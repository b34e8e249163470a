package introspect

import (
	"math/bits"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// rotate has units pause whose time is over, for units that have had less service. The algorithm is
// least attained service, as in Gandiva's time slicing (Xiao et al., 2018). It costs O(suspended x
// active) units.
func (s *Sharing) rotate(node int, n *shared) {
	if len(n.leaving) > 0 || n.busy || s.promised(node) {
		return
	}
	free, open := s.state.Room.Free(node).Active, s.state.Room.FreeGPUs(node)
	// free and open are the room left by the units before: all turns of a node are planned
	// together.
	active := slices.Clone(n.active)
	for _, u := range n.suspended {
		if slices.ContainsFunc(u.nodes, func(at int) bool { return at != node }) {
			continue // a gang on several nodes goes on when all of them have room
		}
		needs, own := needsOn(u, node), s.ownGPUs(u, node)
		lacks := needs.Minus(free)
		if own != 0 {
			lacks.GPUs = wholeGPUs(own &^ open)
		}
		if lacks.Within(model.Vector{}) {
			free, open = free.Minus(needs), open&^own
			continue
		}
		victims, gain := s.due(active, u, lacks, own&^open)
		if victims == nil || s.anyLimited(u) && !ofOneAccount(u.runs[0].Job, victims) {
			continue
		}
		for _, v := range victims {
			open |= heldGPUs(v)
			s.suspend(n, v, model.CauseSlice, u.id())
			active = slices.DeleteFunc(active, func(o *unit) bool { return o == v })
		}
		free, open = free.Plus(gain).Minus(needs), open&^own
	}
}

// ownGPUs returns the GPUs of a node that a suspended unit must have to go on, by bit; 0: any will do.
func (s *Sharing) ownGPUs(u *unit, node int) (own uint64) {
	if !s.state.View.Nodes()[node].PinsGPUs {
		return 0
	}
	for i, at := range u.nodes {
		if at == node {
			own |= bitsOf(u.runs[0].Attempt.Workers[i].Had)
		}
	}
	return own
}

// heldGPUs returns the GPUs of a unit on one node, by bit.
func heldGPUs(u *unit) (held uint64) {
	for _, run := range u.runs {
		for i := range run.Attempt.Workers {
			held |= bitsOf(run.Attempt.Workers[i].GPUs)
		}
	}
	return held
}

func bitsOf(gpus []int) (mask uint64) {
	for _, g := range gpus {
		mask |= 1 << g
	}
	return mask
}

// wholeGPUs counts the GPUs of a mask in the unit of [model.Vector].
func wholeGPUs(mask uint64) int64 { return int64(bits.OnesCount64(mask)) * model.WholeGPU }

// promised reports whether others leave room on a node to a job that waits.
func (s *Sharing) promised(node int) bool {
	name := s.state.View.Nodes()[node].Name
	for _, r := range s.state.Holders {
		if r.ForPreemptor && slices.ContainsFunc(r.Claims, func(c model.Claim) bool { return c.Node == name }) {
			return true
		}
	}
	return false
}

// due picks units that have had their time and more service than a suspended one, until they give
// back all that it lacks. Units with the most service are picked first. If the suspended unit must
// have certain GPUs, own, only these count. It also wakes the cycle when the time of the next one
// is over.
func (s *Sharing) due(active []*unit, u *unit, lacks model.Vector, own uint64) (victims []*unit, gain model.Vector) {
	for _, v := range slices.Backward(active) {
		held := heldGPUs(v)
		if v.rank < u.rank || own != 0 && held&own == 0 {
			continue
		}
		if over := s.overAt(v, u); over > s.state.Now {
			s.state.WakeAt(over)
			continue
		}
		back := freed(v)
		if own != 0 {
			back.GPUs = wholeGPUs(held & own)
		}
		victims, gain = append(victims, v), gain.Plus(back)
		if lacks.Within(gain) {
			return victims, gain
		}
	}
	return nil, model.Vector{}
}

// overAt returns when a unit has had its time, and more service than another one. Turns of all
// nodes end at whole multiples of [Tunables.TurnsEvery], or in the first cycle after it.
func (s *Sharing) overAt(v, u *unit) model.Instant {
	over := model.Instant(0)
	for _, run := range v.runs {
		a := run.Attempt
		over = max(over, a.ActiveSince()+model.SliceMS, s.measuredBy(a))
	}
	if left := v.runs[0].Attempt.TurnIn(u.turn - v.turn + 1); left > 0 {
		over = max(over, s.state.Now+left)
	}
	every := Limits.TurnsEvery
	return (over + every - 1) / every * every
}

// freed is the room that a unit on one node gives back when it pauses.
func freed(u *unit) (gain model.Vector) {
	for _, run := range u.runs {
		for i := range run.Attempt.Workers {
			gain = gain.Plus(run.Job.FreedBySuspension(run.Attempt, i).Active)
		}
	}
	return gain
}
