package state

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/grid"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/controld/model/trust"
)

// AddNode adds a node that has registered for the first time.
func (s *State) AddNode(n *model.Node) error {
	if len(s.v.nodes) >= model.MaxNodes {
		return &model.LimitError{What: "the number of nodes", Asked: int64(len(s.v.nodes) + 1), Max: model.MaxNodes}
	}
	s.fresh(n)
	at, _ := s.v.position(n.Name)
	for i := int64(len(s.v.nodes)); i > int64(at); i-- {
		h, _ := s.v.holdings.Get(i - 1)
		s.v.holdings.Set(i, h)
	}
	s.v.holdings.Set(int64(at), &holding{modified: s.v.index, freed: s.v.at})
	s.v.nodes = slices.Insert(slices.Clone(s.v.nodes), at, n)
	s.ownGrid().Insert(at, s.v.nodes)
	s.v.nodeSets.Update(at, nil, s.v.nodes, s.epoch)
	s.restock(nil, n)
	s.touched.node(n.Name)
	if at < len(s.v.nodes)-1 && !s.v.runs.Empty() {
		s.rebuildRuns()
	}
	s.Emit(model.Event{Type: model.EventNodeUp, Node: n.Name})
	return nil
}

// ReplaceNode stores a node that was there before.
func (s *State) ReplaceNode(i int, n *model.Node) {
	old := s.v.nodes[i]
	s.v.nodes = slices.Clone(s.v.nodes)
	s.v.nodes[i] = n
	s.v.nodeSets.Update(i, old, s.v.nodes, s.epoch)
	s.restock(old, n)
	s.touched.node(n.Name)
	if len(s.v.models) > 0 && !sameModels(old, n) {
		s.rebuildRuns()
	}
	s.ownGrid().Replace(i, s.v.nodes, s.heldOn(i))
}

// RunsWorkers reports whether a node has workers that have not ended.
func (v *View) RunsWorkers(i int) bool {
	name := v.nodes[i].Name
	return slices.ContainsFunc(v.HeldOn(i), func(h HeldWorker) bool {
		a := v.Job(h.Job).Live()
		return a != nil && slices.ContainsFunc(a.Workers, func(w model.Worker) bool {
			return w.Node == name && !w.State.Final()
		})
	})
}

// CanSuspend reports whether a job's attempt in progress can be suspended. The job must be able to
// pause, and so must all nodes that still run its workers.
func (v *View) CanSuspend(j *model.Job) bool {
	a := j.Live()
	if a == nil || !j.CanSuspend() || a.Late() {
		return false
	}
	for i := range a.Workers {
		if w := &a.Workers[i]; !w.State.Final() {
			if n, _ := v.Node(w.Node); n == nil || !n.Suspends {
				return false
			}
		}
	}
	return true
}

// AnySuspends reports whether any node can suspend jobs.
func (v *View) AnySuspends() bool {
	return slices.ContainsFunc(v.nodes, func(n *model.Node) bool { return n.Suspends })
}

// CheckHeld refuses an inventory of the same boot that lacks resources which workers hold. GPUs are
// known by their index, and room in use cannot vanish. A broken GPU stays in its place, marked
// unhealthy.
func (s *State) CheckHeld(i int, n *model.Node) error {
	old := s.v.nodes[i]
	var used model.Vector
	for _, held := range s.heldOn(i) {
		used = used.Plus(held.Request.Resident)
		used.Cores += held.Request.Active.Cores
		for _, g := range held.GPUs {
			if g >= len(n.GPUs) || n.GPUs[g].UUID != old.GPUs[g].UUID {
				return &model.InventoryError{Node: n.Name, Text: fmt.Sprintf("GPU %d (%s) is in use, but missing at its index", g,
					old.GPUs[g].UUID)}
			}
		}
	}
	if !used.Within(grid.Capacity(n)) {
		return &model.InventoryError{Node: n.Name, Text: "the node has fewer cores or less memory than its jobs hold"}
	}
	return nil
}

// TrimHistory drops the finished jobs with a Seq of at most upTo, oldest first.
func (s *State) TrimHistory(upTo int64) {
	for seq := s.v.trimmed + 1; seq <= min(upTo, s.v.lastSeq); seq++ {
		if j, ok := s.v.finished.Get(seq); ok {
			s.v.finished.Drop(seq)
			s.v.jobs.Drop(int64(j.ID))
			s.updateBytes(j, nil) // before its scripts are forgotten
			s.texts.Drop(j)
			s.names.Forget(j)
			s.changedJobs.add(j.ID)
			s.touched.job(j.ID)
			s.v.njobs -= j.Weight()
		}
		s.v.trimmed = seq
	}
}

// SetRecovery replaces how the present generation began.
func (s *State) SetRecovery(r *generation.Recovery) { s.v.recovery = r }

// SkipIDs leaves out job ids, up to one.
func (s *State) SkipIDs(to model.JobID) { s.v.lastJob = max(s.v.lastJob, to) }

// SetTrust replaces what is known of the cluster's members.
func (s *State) SetTrust(t *trust.Trust) { s.v.trust = t }

// SetConfig replaces the configuration.
func (s *State) SetConfig(c *cluster.Config) {
	// A shorter lease is one for what is told of it. Earlier leases keep the old length, because
	// their nodes may never hear of the new one.
	if old := s.v.config.LeaseSpan(); old > c.LeaseSpan() && s.v.anyLive() {
		s.v.leasedUntil = max(s.v.leasedUntil, s.v.at+old)
	}
	// Kinds of a version are in the log once it was raised: it never goes back, whatever order
	// proposals come in.
	c.Version = max(c.Version, s.v.config.Version)
	s.v.config = c
	if s.touched.everything(); !slices.Equal(modelsIn(s.v.config), s.v.models) {
		s.rebuildRuns()
	}
	s.rebind()
}
