package queue

import (
	"iter"

	"github.com/rota-hpc/rota/controld/fsm/groups"
	"github.com/rota-hpc/rota/controld/model"
)

// FrontScan finds the first jobs of accounts, or of leaves of the account tree, by the fronts of
// their groups alone. That is possible where the first job of a group may start and only its sort
// key counts. Where blocked jobs are sought, its shape must also be known not to fit. All other
// groups have to be looked at, so that a plan does not depend on it.
type FrontScan struct {
	order *Order
	seen  *Frontier // nil: jobs are sought whether they fit or not
	// where the key of a group's first job goes; nil: a limit applies, so the group has to be
	// looked at
	keyFor func(*groups.Group) *Key
	known  []leafKey // the same, by the number of the leaf
	apart  idSet     // jobs that do not stand in line as their groups do, and some others
}

// leafKey is a front scan's data about a leaf.
type leafKey struct {
	met   bool
	first *Key
}

// NewFrontScan returns a front scan. keyFor says where the key of a group's first job goes; nil if
// the group has to be looked at. With seen, only blocked jobs are sought.
func NewFrontScan(o *Order, seen *Frontier, keyFor func(*groups.Group) *Key) *FrontScan {
	q := &FrontScan{order: o, seen: seen, keyFor: keyFor}
	for id := range o.State.Holders {
		q.apart.add(id)
	}
	for id := range o.State.Late {
		q.apart.add(id)
	}
	for id := range o.State.Started {
		q.apart.add(id)
	}
	return q
}

// Groups yields the groups that have to be looked at, and handles the others by their fronts.
func (q *FrontScan) Groups() iter.Seq[*groups.Group] {
	return func(yield func(*groups.Group) bool) {
		for at, front := range q.order.State.View.QueueHeads() {
			if !front.Held && !q.does(at, front) && !yield(q.order.State.View.QueueGroupAt(at)) {
				return
			}
		}
	}
}

// does handles a group by its front, and reports whether that was enough.
func (q *FrontScan) does(at int64, f *groups.Head) bool {
	if q.order.FullScan || !f.Plain || f.Eligible > q.order.State.Now || q.seen != nil &&
		!q.seen.knownToFail(int(f.Shape)) || q.apart.has(f.Job) && q.standsApart(f.Job) || f.TE && q.order.TeLimited {
		return false
	}
	if f.Bounded {
		g := q.order.State.View.QueueGroupAt(at)
		if q.order.State.GroupOverLimit(g) {
			return true // so that none of its jobs stands in line
		}
		if q.order.State.OverLimit(g.Jobs[0]).Code != model.ReasonNone {
			return false
		}
	}
	first := q.firstAt(at, f)
	if first == nil {
		return false
	}
	k := Key{class: 1, first: 1, priority: f.Priority, Job: f.Job}
	if f.TE {
		k.class = 0
	}
	first.Keep(k)
	q.order.Fronts++
	return true
}

// firstAt returns the key of the first job of a group's account or leaf, nil if the group has to be
// looked at.
func (q *FrontScan) firstAt(at int64, f *groups.Head) *Key {
	for int(f.Leaf) >= len(q.known) {
		q.known = append(q.known, make([]leafKey, max(64, len(q.known)))...)
	}
	o := &q.known[f.Leaf]
	if !o.met {
		*o = leafKey{true, q.keyFor(q.order.State.View.QueueGroupAt(at))}
	}
	return o.first
}

// standsApart reports whether a job has started, is given up, or holds a reservation.
func (q *FrontScan) standsApart(id model.JobID) bool {
	return q.order.State.Started[id] > 0 || q.order.State.Late[id] || q.order.State.Holders[id] != nil
}

// idSet is a set of a few ids. It may have others, but hardly any.
type idSet [16]uint64

func (s *idSet) add(id model.JobID) { s[uint64(id)/64%16] |= 1 << (uint64(id) % 64) }

func (s *idSet) has(id model.JobID) bool { return s[uint64(id)/64%16]&(1<<(uint64(id)%64)) != 0 }
