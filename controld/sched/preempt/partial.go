package preempt

import (
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/elastic"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/jobspec"
)

// # What an elastic job may lose
//
// An elastic job can lose nothing, workers beyond its least, or all its room. A job that gives up
// workers is stopped and started again once, however many leave. So the first worker costs its
// whole grace and all unsaved work, and further workers cost nothing more. The partial and the full
// preemption are both candidates while the search lasts. Each excludes the other.

// OfferPartial adds the surplus of elastic jobs to the candidates, for the searches of one
// question, and their reluctance to the question. It returns the former number of candidates. The
// caller passes it to [Candidates.Withdraw] when it is done. If the gang needs whole nodes or GPUs
// are shared, jobs leave whole.
func (m *Preemptor) OfferPartial(q *Question, reluctance func(*Candidate) int) (before int) {
	r, g := m.All(), q.Gang
	before = len(r.List)
	if m.state.Room.Sharing() || g.Request.Exclusive || slices.ContainsFunc(g.More,
		func(p fit.Component) bool { return p.Request.Exclusive }) {
		return before
	}
	// A gang may need workers of one job on several nodes: then it is settled beforehand which leave.
	settled := g.Size() > 1
	for _, f := range Unchanged(m.Elastic) {
		if f.Job.Class != jobspec.BE || f.Surplus() == 0 {
			continue
		}
		// The new entry is a copy of the job's whole entry, with the surplus as its room. Each excludes
		// the other.
		i := slices.IndexFunc(r.List[:before], func(v Candidate) bool { return v.Job.ID == f.Job.ID })
		if i < 0 || r.List[i].Taken {
			continue
		}
		v := r.List[i]
		v.Surplus, v.alternative, v.Rooms = f, int32(i)+1, f.SurplusOn(settled)
		if f.Terms.Signal { // the others go on, and lose nothing
			v.Unsaved = 0
		}
		v.Score = r.priceOf(&v, f.Request().Times(f.Surplus()).Active)
		degree := reluctance(&v)
		if degree < 0 {
			continue
		}
		r.List[i].alternative = int32(len(r.List)) + 1
		for _, s := range v.Rooms {
			r.On[s.Node] = append(slices.Clip(r.On[s.Node]), int32(len(r.List)))
		}
		r.List, q.Reluctance = append(r.List, v), append(q.Reluctance, int8(degree))
	}
	return before
}

// Withdraw takes away the candidates that [Preemptor.OfferPartial] added after so many.
func (r *Candidates) Withdraw(before int) {
	for i := before; i < len(r.List); i++ {
		v := &r.List[i]
		r.List[v.alternative-1].alternative = 0
		for _, s := range v.Rooms {
			r.On[s.Node] = slices.DeleteFunc(slices.Clone(r.On[s.Node]), func(k int32) bool { return int(k) >= before })
		}
	}
	clear(r.List[before:])
	r.List = r.List[:before]
}

// leaving counts the workers of a partial preemption that the job has on a node.
func (v *Candidate) leaving(node int) int {
	room, n := v.At(node), 0
	for room != (model.Request{}) && fit.Covers(room, v.Surplus.Request().Times(n+1)) {
		n++
	}
	return n
}

// LeavingWorkers is the workers that elastic jobs of a set give up, by candidate. Workers are
// numbered from the first elastic worker of their job.
type LeavingWorkers map[int32][]int

// ChooseWorkers names the workers that elastic jobs of a set give up. Other victims come first; the
// elastic jobs cover the rest, rounded up to a legal size of each job. The caller must lift the
// same claims as for the search.
func (m *Preemptor) ChooseWorkers(q *Question, set *Set) LeavingWorkers {
	r := m.All()
	partial := map[int32]*elastic.RunningJob{} // copies: the jobs themselves stay as they are
	for _, i := range set.Candidates {
		if f := r.List[i].Surplus; f != nil {
			try := *f
			partial[i] = &try
		}
	}
	if len(partial) == 0 {
		return nil
	}
	// On each node: what the claim lacks when all whole victims have left is taken from the elastic
	// jobs, worker by worker.
	for _, c := range set.Claims {
		have := m.state.Room.AvailableTo(c.Node, &q.Gang.Component).Plus(q.draining(r, c.Node))
		missing := c.Room.Minus(have)
		for _, i := range set.Candidates {
			if v := &r.List[i]; v.Surplus == nil {
				missing = missing.Minus(v.At(c.Node))
			}
		}
		missing.Resident.Cores = 0
		for _, i := range set.Candidates {
			f := partial[i]
			if f == nil {
				continue
			}
			for n := r.List[i].leaving(c.Node); n > 0 && missing.Positive() != (model.Request{}) && f.DropOn(c.Node); n-- {
				missing = missing.Minus(f.Request())
			}
		}
	}
	workers := LeavingWorkers{}
	for i, f := range partial {
		f.DropOdd()
		workers[i] = f.Leave
	}
	return workers
}

// ResizeFor asks an elastic job to give up some workers for another job.
func (m *Preemptor) ResizeFor(v *Candidate, workers []int, beneficiary model.JobID) {
	f, r := v.Surplus, m.All()
	f.Leave = workers
	for _, i := range f.Leave {
		r.drain(estimate.NodeResources{Node: f.Nodes[i], Room: f.Request()}, m.state.Now+model.Instant(v.Grace))
	}
	r.List[v.alternative-1].Taken = true
	r.Asked[beneficiary] = m.state.Now
	f.Resize(m.state, beneficiary)
}

// DropPartial removes partial entries from a set if the same job leaves whole. A job on several
// nodes may have entered the set both ways.
func (r *Candidates) DropPartial(set *Set) {
	set.Candidates = slices.DeleteFunc(set.Candidates, func(i int32) bool {
		v := &r.List[i]
		return (v.Surplus != nil || v.Pauses) && slices.Contains(set.Candidates, v.alternative-1)
	})
}
