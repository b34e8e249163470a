package state

import (
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// ownHolding returns a node's holding ready to be written.
func (s *State) ownHolding(i int) *holding {
	old, _ := s.v.holdings.Get(int64(i))
	if old.epoch == s.epoch {
		old.modified = s.v.index
		return old
	}
	next := &holding{workers: slices.Clone(old.workers), ports: slices.Clone(old.ports), modified: s.v.index,
		freed: old.freed, epoch: s.epoch}
	s.v.holdings.Set(int64(i), next)
	return next
}

// FreedAt returns since when the free room on the node at a position has been free. That is when a
// worker last gave room back, or when the node came. Cycles decide by it, so it is in the snapshot:
// a replica that was restored must decide as the others do.
func (v *View) FreedAt(node int) model.Instant {
	h, _ := v.holdings.Get(int64(node))
	return h.freed
}

// TouchNode notes that what a node should know has changed.
func (s *State) TouchNode(i int) {
	old, _ := s.v.holdings.Get(int64(i))
	switch {
	case old.modified == s.v.index:
		return
	case old.epoch == s.epoch:
		old.modified = s.v.index
		return
	}
	next := *old
	next.modified = s.v.index
	s.v.holdings.Set(int64(i), &next)
}

// TouchNodesOf notes that what the nodes of an attempt should do has changed.
func (s *State) TouchNodesOf(a *model.Attempt) {
	for i := range a.Workers {
		if w := &a.Workers[i]; !w.State.Final() {
			_, at := s.v.Node(w.Node)
			s.TouchNode(at)
		}
	}
}

// HeldWorker is a worker of a live attempt that has room on a node.
type HeldWorker struct {
	Job    model.JobID
	Worker int
}

// HeldOn returns the workers that have room on the node at a position, by job and worker.
func (v *View) HeldOn(node int) []HeldWorker {
	h, _ := v.holdings.Get(int64(node))
	return slices.Clone(h.workers)
}
