package cluster

import (
	"cmp"
	"slices"
)

// groupKey returns the key of a pending job's group.
func groupKey(j *Job) GroupKey {
	return GroupKey{Account: j.Account, User: j.Owner.User, Class: j.Class, Priority: j.Priority, Shape: ShapeOf(j), Held: isSetAside(j), Level: j.Level()}
}

// isSetAside reports whether a waiting job cannot start whatever room there is.
func isSetAside(j *Job) bool {
	return j.Hold != NotHeld || j.Blocked() || j.Family != nil && len(j.ready()) == 0
}

// PerNode returns how many workers of a job may share a node, at least 1.
func PerNode(j *Job) int { return max(1, j.group().MaxWorkersPerNode) }

// queue keeps the groups of pending jobs in step with a job that has changed from old to next.
func (s *State) queue(old, next *Job) {
	was, is := old != nil && old.waits(), next.waits()
	if was && is && groupKey(old) == groupKey(next) {
		s.requeue(next)
		return
	}
	if was {
		s.dequeue(old)
	}
	if is {
		s.enqueue(next)
	}
}

func findJob(jobs []*Job, id JobID) (int, bool) {
	return slices.BinarySearchFunc(jobs, id, func(j *Job, id JobID) int { return cmp.Compare(j.ID, id) })
}

// ownGroup returns the group with a key ready to be written, but for the elements of its array.
func (s *State) ownGroup(k GroupKey) *Group {
	slot, ok := s.slots[k]
	if !ok {
		slot = s.newSlot()
		s.slots[k] = slot
	}
	g, _ := s.v.groups.get(slot)
	switch {
	case g == nil:
		s.keepNodeSets(k.Shape)
		g = &Group{
			Key: k, slot: slot, Number: s.shapes.use(k.Shape), Leaf: s.leaves.use(k.Leaf()), Req: k.Shape.Request, Workers: k.Shape.Total(), epoch: s.epoch,
		}
	case g.epoch != s.epoch:
		next := *g
		next.epoch = s.epoch
		if s.sharesArrays {
			next.Jobs = slices.Clip(next.Jobs)
		}
		g = &next
	default:
		s.touchGroup(g)
		return g
	}
	s.v.groups.set(slot, g)
	s.touchGroup(g)
	return g
}

// ownArray gives the group an array that no view shares, once an epoch.
func (s *State) ownArray(g *Group) {
	if g.array == s.epoch {
		return
	}
	g.Jobs, g.array = slices.Clone(g.Jobs), s.epoch
}

// touchGroup notes a group whose jobs are about to change.
func (s *State) touchGroup(g *Group) {
	if n := len(s.touchedGroups); n == 0 || s.touchedGroups[n-1] != g {
		s.touchedGroups = append(s.touchedGroups, g)
	}
}

func (s *State) newSlot() int64 {
	if n := len(s.freeSlots); n > 0 {
		slot := s.freeSlots[n-1]
		s.freeSlots = s.freeSlots[:n-1]
		return slot
	}
	s.nextSlot++
	return s.nextSlot - 1
}

func (s *State) dropGroup(g *Group) {
	k, slot := g.Key, g.slot
	s.countElastic(g, false)
	g.Front, g.Jobs = Front{}, nil
	s.v.groups.drop(slot)
	s.v.fronts.drop(slot)
	delete(s.slots, k)
	s.shapes.leave(k.Shape)
	s.leaves.leave(k.Leaf())
	s.freeSlots = append(s.freeSlots, slot)
}
