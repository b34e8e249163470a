// Package groups keeps pending jobs in groups that are alike for scheduling, so a cycle looks at
// groups and not at jobs. The groups follow from the jobs and are in no snapshot.
package groups

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/table"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Group is the pending jobs that are alike for scheduling, with the held ones and those not yet
// eligible.
type Group struct {
	Head    Head // of the oldest job; first, because most cycles read no more of a group
	Key     model.GroupKey
	Number  int // of Key.Shape: small, and the same in all groups of a view with this shape
	Leaf    int // likewise of the account and the user
	Req     model.Request
	Workers int
	Jobs    []*model.Job // oldest first, that is by id

	slot  int64  // its number
	epoch uint64 // at which the group was last replaced
	array uint64 // at which Jobs got an array of its own
}

// View is the groups at one moment.
type View struct {
	groups  table.Table[*Group]
	heads   table.Table[Head] // of groups, at the same numbers
	elastic int               // groups whose first job is elastic
}

// Groups is the groups by number.
func (v *View) Groups() *table.Table[*Group] { return &v.groups }

// Heads is the heads of the groups, at the numbers of their groups.
func (v *View) Heads() *table.Table[Head] { return &v.heads }

// ElasticHeads counts the groups whose first job is elastic.
func (v *View) ElasticHeads() int { return v.elastic }

// Queue keeps the groups in step with the jobs. It writes the present view and nothing else does.
type Queue struct {
	now       *View
	epoch     uint64 // raised by View: a group with an older one is shared with a view
	shared    bool   // arrays of jobs are another queue's too
	shapes    numbers[model.Shape]
	leaves    numbers[model.Association]
	slots     map[model.GroupKey]int64 // of the groups
	freeSlots []int64
	nextSlot  int64
	moves     map[model.GroupKey]*moves // what is to be done to groups; empty between commands
	moved     []model.GroupKey          // the keys of moves, and perhaps others, in order
	touched   []*Group                  // groups whose heads may be outdated; empty between commands
}

// New returns the empty queue that writes a view.
func New(now *View) *Queue {
	return &Queue{now: now, epoch: 1, slots: map[model.GroupKey]int64{}}
}

// forkedEpoch is above every epoch that a live queue reaches, so that a fork owns nothing at first.
const forkedEpoch = 1 << 62

// Fork returns a queue that goes on from now, a copy of another queue's view. Unchanged parts stay
// shared with that queue.
func Fork(now *View) *Queue {
	q := &Queue{now: now, epoch: forkedEpoch, shared: true, slots: map[model.GroupKey]int64{}}
	for slot, g := range now.groups.From(0) {
		q.slots[g.Key] = slot
		q.nextSlot = slot + 1
		q.shapes.adopt(g.Key.Shape, g.Number)
		q.leaves.adopt(g.Key.Association(), g.Leaf)
	}
	q.shapes.fill()
	q.leaves.fill()
	return q
}

// View returns the groups as they are now, which no later change of the queue shows in.
func (q *Queue) View() View {
	q.epoch++
	return View{groups: q.now.groups.View(), heads: q.now.heads.View(), elastic: q.now.elastic}
}

// Find returns the group with a key, or nil.
func (q *Queue) Find(k model.GroupKey) *Group {
	slot, known := q.slots[k]
	if !known {
		return nil
	}
	g, _ := q.now.groups.Get(slot)
	return g
}

// KeyOf returns the key of a pending job's group.
func KeyOf(j *model.Job) model.GroupKey {
	k := model.GroupKey{Account: j.Account, User: j.Owner.User, Class: j.Class, Priority: int(j.Priority),
		Shape: model.ShapeOf(j), Held: model.IsSetAside(j), Level: j.ServiceLevel(),
		Licenses: jobspec.LicenseText(j.Spec.Licenses)}
	if j.Bounded == model.BoundedInQueue {
		k.Queue = j.Queue
	}
	return k
}

// Update keeps the groups in step with a job that has changed from old, nil if it is new, to next.
// It reports whether next is in a group that was not there before.
func (q *Queue) Update(old, next *model.Job) (begun bool) {
	was, is := old != nil && old.StillToStart(), next.StillToStart()
	if was && is && KeyOf(old) == KeyOf(next) {
		q.requeue(next)
		return false
	}
	if was {
		q.dequeue(old)
	}
	before := len(q.slots)
	if is {
		q.enqueue(next)
	}
	return len(q.slots) > before
}

func findJob(jobs []*model.Job, id model.JobID) (int, bool) {
	return slices.BinarySearchFunc(jobs, id, func(j *model.Job, id model.JobID) int { return cmp.Compare(j.ID, id) })
}

// ownGroup returns the group with a key ready to be written, but for the elements of its array.
func (q *Queue) ownGroup(k model.GroupKey) *Group {
	slot, ok := q.slots[k]
	if !ok {
		slot = q.newSlot()
		q.slots[k] = slot
	}
	g, _ := q.now.groups.Get(slot)
	switch {
	case g == nil:
		g = &Group{
			Key: k, slot: slot, Number: q.shapes.use(k.Shape), Leaf: q.leaves.use(k.Association()), Req: k.Shape.Request,
			Workers: k.Shape.Total(), epoch: q.epoch,
		}
	case g.epoch != q.epoch:
		next := *g
		next.epoch = q.epoch
		if q.shared {
			next.Jobs = slices.Clip(next.Jobs)
		}
		g = &next
	default:
		q.touchGroup(g)
		return g
	}
	q.now.groups.Set(slot, g)
	q.touchGroup(g)
	return g
}

// ownArray gives the group an array that no view shares, once an epoch.
func (q *Queue) ownArray(g *Group) {
	if g.array == q.epoch {
		return
	}
	g.Jobs, g.array = slices.Clone(g.Jobs), q.epoch
}

// touchGroup notes a group whose jobs are about to change.
func (q *Queue) touchGroup(g *Group) {
	if n := len(q.touched); n == 0 || q.touched[n-1] != g {
		q.touched = append(q.touched, g)
	}
}

func (q *Queue) newSlot() int64 {
	if n := len(q.freeSlots); n > 0 {
		slot := q.freeSlots[n-1]
		q.freeSlots = q.freeSlots[:n-1]
		return slot
	}
	q.nextSlot++
	return q.nextSlot - 1
}

func (q *Queue) dropGroup(g *Group) {
	k, slot := g.Key, g.slot
	q.countElastic(g, false)
	g.Head, g.Jobs = Head{}, nil
	q.now.groups.Drop(slot)
	q.now.heads.Drop(slot)
	delete(q.slots, k)
	q.shapes.leave(k.Shape)
	q.leaves.leave(k.Association())
	q.freeSlots = append(q.freeSlots, slot)
}
