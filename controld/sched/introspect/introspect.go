package introspect

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/policy"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Add puts the phases of this package beside those of a policy, as far as the configuration and the
// state ask for them.
func Add(t *scratch.State, rules *policy.Rules) {
	shares := t.View.Config().Shares()
	if !shares && !t.View.AnySuspended() {
		return
	}
	order := rules.Order
	if order == nil {
		order = &queue.Order{State: t}
	}
	s := &sharing{State: t, order: order}
	rules.Resume = s.resume
	if shares && t.May(steering.Slicing) {
		rules.TakeTurns = s.takeTurns
	}
}

// sharing is what jobs share in one cycle.
type sharing struct {
	*scratch.State
	order *queue.Order
	nodes map[int]*shared // by position; nil until it is needed
	spare *fit.Room       // see besideTE
}

// unit is an attempt that can be suspended.
type unit struct {
	run   *estimate.LiveAttempt
	turn  int64 // see [model.Switching.Turn]
	nodes []int // of its workers, by number
}

// shared is one node that units are on.
type shared struct {
	active    []*unit // that run, and are on no other node
	suspended []*unit // some may be on other nodes too
	leaving   []*unit // that have been told to pause
	busy      bool    // a unit is about to go on
}

// survey lists the units on every node.
func (s *sharing) survey() map[int]*shared {
	if s.nodes != nil {
		return s.nodes
	}
	s.nodes = map[int]*shared{}
	for run := range s.View.LiveAttempts() {
		if run.Job.CanSuspend() {
			s.enter(run)
		}
	}
	for _, n := range s.nodes {
		slices.SortFunc(n.suspended, next)
		slices.SortFunc(n.active, next)
	}
	return s.nodes
}

func (s *sharing) enter(run *estimate.LiveAttempt) {
	a := run.Attempt
	u := &unit{run: run, turn: a.Turn(s.Now)}
	for i := range a.Workers {
		_, node := s.View.Node(a.Workers[i].Node)
		u.nodes = append(u.nodes, node)
	}
	for i, node := range u.nodes {
		if slices.Contains(u.nodes[:i], node) || node < 0 {
			continue
		}
		n := s.nodes[node]
		if n == nil {
			n = &shared{}
			s.nodes[node] = n
		}
		switch {
		case a.Stop != nil:
		case a.Suspended():
			n.suspended = append(n.suspended, u)
		case a.Suspending():
			n.leaving = append(n.leaving, u)
		case a.Resuming():
			n.busy = true
		case a.Started.At != 0 && len(run.Holds) == 1 && !a.AnyFinal() && s.View.CanSuspend(run.Job):
			n.active = append(n.active, u)
		}
	}
}

// next orders units: the higher class first, then the one that has had the least service.
func next(a, b *unit) int {
	return cmp.Or(cmp.Compare(queue.ClassRank(a.run.Job.Class), queue.ClassRank(b.run.Job.Class)),
		cmp.Compare(a.turn, b.turn), cmp.Compare(a.run.Job.ID, b.run.Job.ID))
}

// resume has suspended units go on where there is room, those first that have had the least
// service, before other jobs of their class start. What others leave for a waiting job is not theirs,
// nor what an account is entitled to; what is kept for blocked heads is.
func (s *sharing) resume() {
	if !s.View.AnySuspended() {
		return
	}
	defer s.collect()
	defer s.Room.WaiveIf(func(r *model.Reservation) bool { return !r.ForPreemptor && !r.Guaranteed })()
	s.spare = s.besideTE()
	for node := range s.View.Nodes() {
		n := s.survey()[node]
		if n == nil {
			continue
		}
		n.suspended = slices.DeleteFunc(n.suspended, func(u *unit) bool {
			if u.nodes[0] == node && s.mayGoOn(u) && s.goOn(u) {
				n.busy = true
				return true
			}
			return false
		})
	}
}

// besideTE returns the room that the trial-and-error jobs leave that wait and find room, nil if there
// are none: it is what best-effort units may take.
func (s *sharing) besideTE() (room *fit.Room) {
	for at, head := range s.View.QueueHeads() {
		if head.Held || !head.TE {
			continue
		}
		for k, j := range s.View.QueueGroupAt(at).Jobs {
			if k == maxAdmitted {
				break
			}
			if s.AwaitsVictims(j.ID) || !s.order.Startable(j) {
				continue
			}
			if room == nil {
				room = s.Room.Copy()
			}
			g := s.Gang(j)
			spots, ok := room.Place(&g)
			if !ok {
				break
			}
			room.Take(&g, spots)
		}
	}
	return room
}

// collect keeps what is free for units that paused for another job and have waited for as long as a
// blocked head does until it gets a reservation: jobs that start past them would keep them from going
// on, and they cannot go on elsewhere. It holds for this cycle, and is found again by the next.
func (s *sharing) collect() {
	for node := range s.View.Nodes() {
		n := s.survey()[node]
		if n == nil {
			continue
		}
		for _, u := range n.suspended {
			last := u.run.Attempt.Switch
			if u.nodes[0] != node || !last.Cause.Preempts() {
				continue
			}
			due := last.Since + model.Instant(s.Policy.ReserveAfterMS)
			if s.WakeAt(due); due > s.Now {
				continue
			}
			r := &model.Reservation{Job: u.run.Job.ID, At: due, Until: s.Now + 1}
			for i, at := range u.nodes {
				if at >= 0 && !slices.Contains(u.nodes[:i], at) {
					needs := s.needsOn(u, at).Active
					needs.Memory = 0 // it has kept that
					r.Claims = append(r.Claims, model.Claim{Node: s.View.Nodes()[at].Name, Resources: needs})
				}
			}
			s.Room.Claim(r)
		}
	}
}

// mayGoOn reports whether a unit leaves to others on its nodes what units pause for.
func (s *sharing) mayGoOn(u *unit) bool {
	for _, node := range u.nodes {
		var kept model.Vector
		n := s.nodes[node]
		for _, o := range n.suspended {
			coming, any := n.comingFor(o, node)
			switch {
			case !any:
			case o == u:
				return false // it waits for the rest
			default:
				kept = kept.Plus(s.needsOn(o, node).Active.Minus(coming).Positive())
			}
		}
		if !s.needsOn(u, node).Active.Plus(kept).Within(s.Room.Free(node).Active) {
			return false
		}
	}
	return true
}

// comingFor returns what comes free on a node of units that pause for another one.
func (n *shared) comingFor(u *unit, node int) (coming model.Vector, any bool) {
	for _, o := range n.leaving {
		if o.run.Attempt.Switch.For != u.run.Job.ID {
			continue
		}
		any = true
		for _, r := range o.run.Releases {
			if r.Node == node {
				coming = coming.Plus(r.Room.Active)
			}
		}
	}
	return coming, any
}

// needsOn is what a unit needs on a node to run.
func (s *sharing) needsOn(u *unit, node int) (needs model.Request) {
	for i, at := range u.nodes {
		if at == node && !u.run.Attempt.Workers[i].State.Final() {
			needs = needs.Plus(u.run.Job.RequestOf(i))
		}
	}
	return needs
}

// goOn plans that a unit goes on, if it finds room.
func (s *sharing) goOn(u *unit) bool {
	j, a := u.run.Job, u.run.Attempt
	workers := make([]fit.Suspended, 0, len(a.Workers))
	at := make([]int, 0, len(a.Workers))
	for i := range a.Workers {
		if !a.Workers[i].State.Final() {
			workers = append(workers, fit.Suspended{Node: u.nodes[i], Keeps: j.Holds(a, i), Needs: j.RequestOf(i)})
			at = append(at, i)
		}
	}
	if s.spare != nil && queue.ClassRank(j.Class) > 0 {
		if _, ok := s.spare.Resume(workers); !ok {
			return false
		}
	}
	found, ok := s.Room.Resume(workers)
	if !ok {
		return false
	}
	gpus := make([][]int, len(a.Workers))
	for k, i := range at {
		gpus[i] = found[k]
	}
	s.Act(fsm.Action{Resume: &fsm.ResumeJob{Job: j.ID, Attempt: a.N, GPUs: gpus}})
	s.Revision++
	return true
}

// suspend plans that a unit pauses for a job.
func (s *sharing) suspend(u *unit, beneficiary model.JobID) {
	j := u.run.Job
	s.Act(fsm.Action{Suspend: &fsm.SuspendJob{Job: j.ID, Attempt: u.run.Number, Cause: model.CauseSlice, For: beneficiary}})
	s.Stopping[j.ID] = beneficiary
}
