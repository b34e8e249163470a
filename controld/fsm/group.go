package fsm

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// groupKey returns the key of a pending job's group.
func groupKey(j *model.Job) model.GroupKey {
	return model.GroupKey{Account: j.Account, User: j.Owner.User, Class: j.Class, Priority: j.Priority, Shape: model.ShapeOf(j), Held: model.IsSetAside(j), Level: j.ServiceLevel()}
}

// queue keeps the groups of pending jobs in step with a job that has changed from old to next.
func (s *State) queue(old, next *model.Job) {
	was, is := old != nil && old.StillToStart(), next.StillToStart()
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

func findJob(jobs []*model.Job, id model.JobID) (int, bool) {
	return slices.BinarySearchFunc(jobs, id, func(j *model.Job, id model.JobID) int { return cmp.Compare(j.ID, id) })
}

// ownGroup returns the group with a key ready to be written, but for the elements of its array.
func (s *State) ownGroup(k model.GroupKey) *QueueGroup {
	slot, ok := s.slots[k]
	if !ok {
		slot = s.newSlot()
		s.slots[k] = slot
	}
	g, _ := s.v.groups.Get(slot)
	switch {
	case g == nil:
		s.keepNodeSets(k.Shape)
		g = &QueueGroup{
			Key: k, slot: slot, Number: s.shapes.use(k.Shape), Leaf: s.leaves.use(k.Association()), Req: k.Shape.Request, Workers: k.Shape.Total(), epoch: s.epoch,
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
	s.v.groups.Set(slot, g)
	s.touchGroup(g)
	return g
}

// ownArray gives the group an array that no view shares, once an epoch.
func (s *State) ownArray(g *QueueGroup) {
	if g.array == s.epoch {
		return
	}
	g.Jobs, g.array = slices.Clone(g.Jobs), s.epoch
}

// touchGroup notes a group whose jobs are about to change.
func (s *State) touchGroup(g *QueueGroup) {
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

func (s *State) dropGroup(g *QueueGroup) {
	k, slot := g.Key, g.slot
	s.countElastic(g, false)
	g.Head, g.Jobs = QueueHead{}, nil
	s.v.groups.Drop(slot)
	s.v.fronts.Drop(slot)
	delete(s.slots, k)
	s.shapes.leave(k.Shape)
	s.leaves.leave(k.Association())
	s.freeSlots = append(s.freeSlots, slot)
}
