package introspect

import (
	"maps"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/scratch"
	"github.com/rota-hpc/rota/jobspec"
)

// # Moves
//
// Where jobs take turns on one node while another has fewer, one of them moves there: see
// [EvenOut]. It is told to leave with cause migrate, and room is kept for it on the other node.
// There it begins in free room or takes its turn. It must be able to save its state, and have run
// for several times as long as a move takes it.

// evenOut has jobs that take turns move to nodes where there are fewer.
func (s *Sharing) evenOut() {
	if !s.crowded() {
		return
	}
	e := &evening{state: s.state, sharing: s, ending: s.state.Ending(), moved: s.planned(),
		gangs: map[model.JobID]*movable{},
		sets:  map[setOnNode]bool{}}
	e.survey()
	// One move at a time: each changes the loads on which the next one depends.
	for range min(Limits.EvenPerCycle, s.movesLeft()-e.moved) {
		seat, to := EvenOut(e.sizes, e.seats, e.takes)
		if seat == nil {
			break
		}
		e.move(seat, to)
	}
	e.wake()
}

// crowded reports whether a movable job shares a node with a suspended job.
func (s *Sharing) crowded() bool {
	cfg := s.state.View.Config()
	for _, n := range s.survey() {
		if n != nil && len(n.suspended) > 0 && slices.ContainsFunc(slices.Concat(n.suspended, n.active),
			func(u *unit) bool { return joins(cfg, u.runs[0].Job) && cfg.SharingOf(u.runs[0].Job).Migrate }) {
			return true
		}
	}
	return false
}

// planned returns how many jobs move for their own sake by the plan so far.
func (s *Sharing) planned() (n int) {
	for _, a := range s.state.Actions {
		switch a := a.(type) {
		case *fsm.MoveJob:
			n++
		case *fsm.StopJob:
			if a.Cause == model.CauseMigrate && a.For == 0 {
				n++
			}
		}
	}
	return n
}

// evening is one run of evenOut: the loads of all nodes, with the moves that it has planned so far.
type evening struct {
	state   *scratch.State
	sharing *Sharing
	sizes   []int64
	seats   []Seat
	gangs   map[model.JobID]*movable // jobs that could move but for the time
	ending  map[model.JobID]bool     // jobs that the plan stops, resizes or moves
	sets    map[setOnNode]bool       // that have been counted: they take turns as one
	moved   int                      // jobs that move in this cycle
}

// movable is a job that may move.
type movable struct {
	run   *estimate.LiveAttempt
	since model.Instant // from then on
}

// survey lists the jobs of each node, present and coming.
func (e *evening) survey() {
	// 1. The size of each node; a node that is not up takes no job.
	for i, n := range e.state.View.Nodes() {
		size := int64(len(n.GPUs)) * model.WholeGPU
		if !e.state.Room.Up(i) {
			size = 0
		}
		e.sizes = append(e.sizes, size)
	}
	// 2. Jobs that are there, suspended ones included.
	for run := range e.state.View.LiveAttempts() {
		if run.Attempt.Stop == nil {
			e.sit(run)
		}
	}
	// 3. Jobs that this cycle starts.
	for _, a := range e.state.Actions {
		if a, ok := a.(*fsm.StartJob); ok {
			for k, p := range a.Places {
				e.expect(a.Job, p.Node, e.state.View.Job(a.Job).RequestOf(k).Active.GPUs)
			}
		}
	}
	// 4. Jobs that are on their way: they move, or others leave room for them.
	for _, r := range e.state.View.Reservations() {
		if e.state.View.Job(r.Job).Moving() && e.state.Holders[r.Job] == nil {
			e.expectReserved(r)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(e.state.Holders)) {
		e.expectReserved(e.state.Holders[id])
	}
}

// sit adds an attempt to the seats of its nodes. A set that shares a GPU takes one seat.
func (e *evening) sit(run *estimate.LiveAttempt) {
	j, a := run.Job, run.Attempt
	since, may := e.mayMove(run)
	if set := a.SetOf(); set != 0 {
		one := setOnNode{set, a.Workers[0].Node}
		if e.sets[one] {
			return
		}
		e.sets[one] = true
	}
	cost := int64(0)
	if may {
		cost = e.sharing.moveCost(j, a)
		e.gangs[j.ID] = &movable{run: run, since: since}
	}
	for i := range a.Workers {
		_, node := e.state.View.Node(a.Workers[i].Node)
		if node < 0 || a.Workers[i].State.Final() {
			continue
		}
		e.seats = append(e.seats, Seat{Job: j.ID, Account: j.Account, Node: node, Load: j.RequestOf(i).Active.GPUs,
			Class: a.Class, Since: e.state.Now - (a.Clock(e.state.Now) - a.ClassSince), Cost: cost,
			Stays: !may || since > e.state.Now})
	}
}

// expect adds a seat for a job that is on its way to a node. Such a job does not move again.
func (e *evening) expect(id model.JobID, name string, gpus int64) {
	if _, node := e.state.View.Node(name); node >= 0 && gpus > 0 {
		e.seats = append(e.seats, Seat{Job: id, Node: node, Load: gpus, Stays: true})
	}
}

// expectReserved adds a seat for a job at its reserved node: others leave room for it, or it moves
// there.
func (e *evening) expectReserved(r *model.Reservation) {
	j := e.state.View.Job(r.Job)
	if e.state.Started[r.Job] > 0 || !r.ForPreemptor && !j.Moving() && !j.OwnRoomFirst {
		return
	}
	for _, c := range r.Claims {
		e.expect(r.Job, c.Node, c.Resources.GPUs)
	}
}

// mayMove reports whether a job may move, and from when on. It must have run for many times as long
// as a move costs, and must not have moved a short while ago.
func (e *evening) mayMove(run *estimate.LiveAttempt) (since model.Instant, may bool) {
	j, a := run.Job, run.Attempt
	cfg := e.state.View.Config()
	_, elastic := j.Elastic()
	_, asked := e.state.Stopping[j.ID]
	switch {
	case !joins(cfg, j) || j.Class != jobspec.BE || !cfg.SharingOf(j).Migrate || elastic ||
		j.Spec.Checkpoint == nil || j.Spec.RunsOnce():
		return 0, false
	case asked || e.ending[j.ID] || a.Stop != nil || a.Suspending() || a.Resuming() || a.Started.At == 0 ||
		a.AnyFinal() || a.SetOf() != 0:
		return 0, false
	case e.sharing.movedEnough(j):
		return 0, false
	}
	worth := model.Instant(Limits.EvenWorth * e.sharing.moveCost(j, a))
	ran := model.Instant(scratch.RanFor(a, e.state.Now))
	return e.state.Now + max(Limits.EvenCoolDown, worth) - ran, true
}

// movedEnough reports whether a job has moved as often as it may in a day, or in vain. It wakes the
// cycle when that is forgotten.
func (s *Sharing) movedEnough(j *model.Job) bool {
	moves, vain, first := 0, false, model.Instant(0)
	for i := range j.Attempts {
		for _, t := range j.Attempts[i].Trials {
			if t.What != model.TrialMigrate || t.At <= s.state.Now-model.TrialMemory {
				continue
			}
			if moves == 0 || t.Undone {
				first = t.At
			}
			moves++
			vain = vain || t.Undone
		}
	}
	if !vain && moves < Limits.MovesPerDay {
		return false
	}
	s.state.WakeAt(first + model.TrialMemory)
	return true
}

// takes reports whether a job could begin on a node, in free room or with others pausing for it.
func (e *evening) takes(seat *Seat, node int) bool {
	j := e.gangs[seat.Job].run.Job
	load := seat.Load
	for i := range e.seats {
		if o := &e.seats[i]; o.Node == node {
			load += o.Load
		}
	}
	// The node must be allowed to take on so many jobs, and must have memory for one more, because
	// suspended jobs keep theirs.
	g := e.state.Gang(j)
	most := int64(e.state.View.Config().SharingOf(j).Oversubscribe)
	if load > most*e.sizes[node] || !e.state.Room.Usable(node, &g.Component, g.Exclude) ||
		e.state.Room.Claimant(node, j.ID) != 0 || g.Request.Resident.Memory > e.state.Room.Free(node).Resident.Memory {
		return false
	}
	// The job begins in free room, or others pause for it.
	_, free := e.state.Room.PlaceOn(&g, node)
	return free || e.sharing.pausing(j, node) != nil
}

// move tells a job to go on elsewhere, and keeps room for it there.
func (e *evening) move(seat *Seat, to int) {
	run := e.gangs[seat.Job].run
	e.sharing.sendTo(run.Job, run.Attempt, to)
	seat.Node, seat.Stays = to, true
	e.moved++
}

// wake has the cycle run again when jobs may move that do not yet, if any of them would.
func (e *evening) wake() {
	// Try again as if all jobs that must stay for some time yet could move now. If one would, the
	// cycle runs when the first of them may.
	for i := range e.seats {
		s := &e.seats[i]
		if m := e.gangs[s.Job]; m != nil && m.since > e.state.Now {
			s.Stays = false
		}
	}
	if s, _ := EvenOut(e.sizes, e.seats, e.takes); s != nil {
		for _, m := range e.gangs {
			e.state.WakeAt(m.since)
		}
	}
}

// weight returns the weight of a unit that goes on, in hundredths, 0 for the usual one: see
// [Weights].
//
// Weights of the jobs of an account change one at a time, when each goes on. Until all have changed
// it may get less than before, and not more. A job that leaves leaves the others too much or too
// little for one turn at most.
func (s *Sharing) weight(u *unit) int {
	j, a := u.runs[0].Job, u.runs[0].Attempt
	if !Limits.Weigh || len(u.runs) > 1 || slices.ContainsFunc(u.nodes, func(at int) bool { return at != u.nodes[0] }) {
		return 0 // a set, or a gang on several nodes
	}
	// 1. The jobs of the account that take turns on the node, this one first, and the weight that the
	// others have now.
	jobs := []Taker{{GPUs: needsOn(u, u.nodes[0]).GPUs, Class: a.Class}}
	others := int64(0)
	for _, id := range s.state.View.JobsOnNode(nil, u.nodes[0]) {
		o := s.state.View.LiveAttempt(id)
		if o == nil || id == j.ID || o.Job.Account != j.Account || !o.Job.CanSuspend() || o.Attempt.Stop != nil {
			continue
		}
		t := Taker{Class: o.Attempt.Class}
		for i := range o.Attempt.Workers {
			if w := &o.Attempt.Workers[i]; w.Node == s.state.View.Nodes()[u.nodes[0]].Name && !w.State.Final() {
				t.GPUs += o.Job.RequestOf(i).Active.GPUs
			}
		}
		jobs = append(jobs, t)
		weight, planned := s.weights[id]
		if !planned && o.Attempt.Switch != nil {
			weight = o.Attempt.Switch.Weight
		}
		others += t.GPUs * int64(orUsual(weight))
	}
	if len(jobs) == 1 || jobs[0].GPUs == 0 {
		return 0
	}
	// 2. The weight that this job should have, but no more than the others leave of the account's
	// total. Their weights may be old, and the account must not get more than its part meanwhile.
	total := int64(0)
	for _, t := range jobs {
		total += usualWeight * t.GPUs
	}
	weight := max(usualWeight/2, min(Weights(jobs)[0], int((total-others)/jobs[0].GPUs)))
	if s.weights == nil {
		s.weights = map[model.JobID]int{}
	}
	s.weights[j.ID] = weight
	if weight == usualWeight {
		return 0
	}
	return weight
}

func orUsual(weight int) int {
	if weight == 0 {
		return usualWeight
	}
	return weight
}
