package introspect

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/scratch"
	"github.com/rota-hpc/rota/jobspec"
)

// # Moves
//
// A job that can save its state moves to other nodes where its queue or account lets it. It moves
// into free room that no other job wants, when its gain or its remaining time is many times the
// cost of moving. That cost is its grace, its restart as measured, and the work that it has not
// saved. Nothing is guessed: a job whose gain or remaining time is unknown stays.
//
//   - A suspended job that gets no turn where it is moves to free room, or to a node where it would
//     get turns. Either all others there are of a higher class, or it has missed several rounds.
//   - A gang on more nodes than it needs moves together if gangs like it were measured to be faster so.
//   - If a waiting job needs more GPUs than any node has free, jobs move to fuller nodes. They
//     leave the node with the most free GPUs. Gandiva does so in the background.
//
// A job moves a few times a day at most, and all together sixty times an hour. A move that was to
// make a gang faster and did not is remembered for a day, in which the job does not move again.

// mover moves jobs in one cycle.
type mover struct {
	state   *scratch.State
	sharing *Sharing
	ending  map[model.JobID]bool // jobs that the plan stops, resizes or moves
	left    int                  // how many more jobs may move now
	loads   []*load              // nil until they are needed
}

// move moves jobs that are worth it.
func (s *Sharing) move() {
	m := &mover{state: s.state, sharing: s, ending: s.state.Ending(), left: s.movesLeft()}
	if m.left == 0 || len(s.state.Started) > 0 {
		return
	}
	if m.ending == nil {
		m.ending = map[model.JobID]bool{}
	}
	for id := range s.state.Stopping {
		m.ending[id] = true
	}
	// The most pressing moves come first, since all share one hourly limit.
	m.moveSuspended()
	m.gatherGangs()
	m.emptyNode()
}

// movesLeft returns how many jobs may move now.
func (s *Sharing) movesLeft() int {
	most := min(Limits.MovesPerHour, estimate.MovesKept)
	const hour = 60 * 60 * 1000
	l := s.state.View.Statistics()
	n := l.MovedSince(s.state.Now - hour)
	if n >= most {
		s.state.WakeAt(l.Moves[len(l.Moves)-most] + hour)
	}
	return max(0, most-n)
}

// movable reports whether an attempt may go on elsewhere. Its queue or account must let it, and it
// must be able to save its state. It must have run here for long enough, and not have moved too
// often or in vain.
func (m *mover) movable(run *estimate.LiveAttempt) bool {
	j, a := run.Job, run.Attempt
	_, elastic := j.Elastic()
	switch {
	case !m.state.View.Config().SharingOf(j).Migrate, j.Class != jobspec.BE, j.Spec.Checkpoint == nil, j.Spec.RunsOnce():
		return false
	case elastic, len(j.Parts) > 0, j.Request.Exclusive, j.Request.Share() != 0:
		return false
	case m.ending[j.ID], a.Stop != nil, a.Started.At == 0, a.AnyFinal(), a.Suspending(), a.Resuming(),
		a.Packed(): // the others would keep its GPU
		return false
	}
	if at := a.Assigned.At + model.Instant(Limits.CooldownMS); at > m.state.Now {
		m.state.WakeAt(at)
		return false
	}
	return !m.sharing.movedEnough(j) && !preempt.Wasteful(m.state, j)
}

// moveCost returns the cost of a move, in ms: the time for which the job makes no lasting progress.
func (s *Sharing) moveCost(j *model.Job, a *model.Attempt) int64 {
	return restartOf(j) + preempt.UnsavedMS(j, a, s.state.Now) + preempt.ExpectedGrace(s.state, j)
}

// restartOf returns for how long a job stands still when it is started again, in ms, as it was
// measured the last time. It is the time until its commands run, or until they make progress if
// that is known.
func restartOf(j *model.Job) int64 {
	var first int64
	for i := len(j.Attempts) - 1; i >= 0; i-- {
		a := &j.Attempts[i]
		if a.Started.At == 0 {
			continue
		}
		stood := int64(a.Started.At - a.Assigned.At)
		if a.Rated > 0 {
			stood = max(stood, int64(a.Rated-a.Assigned.At)-model.RateAfterMS)
		}
		if a.N > 1 {
			return stood
		}
		first = stood // it had no saved state to load
	}
	return max(first, Limits.RestartMS)
}

// remaining returns how long a job still needs to run, in ms. It uses the runtimes of jobs like it,
// else the declared steps and the rate of the job. False: neither is known.
func (m *mover) remaining(j *model.Job, a *model.Attempt) (int64, bool) {
	ran := j.RuntimeOf(scratch.AttainedService(j, a, m.state.Now))
	if left, known := m.state.View.Statistics().PredictRemaining(j, ran); known {
		return left, true
	}
	if steps := declaredSteps(j); steps > 0 && a.Rate > 0 {
		return max(0, model.MulDiv(steps, 1_000_000, a.Rate)-scratch.RanInAll(j, m.state.Now)), true
	}
	return 0, false
}

// declaredSteps returns how many steps a job says that it makes in all, 0 if it does not say.
func declaredSteps(j *model.Job) int64 {
	for i := range j.GroupSpec().Tasks {
		if p := j.GroupSpec().Tasks[i].Progress; p != nil {
			return p.Total
		}
	}
	return 0
}

// needsLong reports whether a job goes on for many times as long as moving takes it.
func (m *mover) needsLong(j *model.Job, a *model.Attempt) bool {
	left, known := m.remaining(j, a)
	return known && left >= Limits.MoveWorth*m.sharing.moveCost(j, a)
}

// carry plans a move of some workers to spots, if the policy's headroom stays free.
func (m *mover) carry(j *model.Job, a *model.Attempt, leave []int, more *fit.Gang, spots []fit.Spot,
	expected int64) bool {
	// The policy is asked on a copy, since the move must leave the headroom of trial-and-error jobs
	// free.
	room := m.state.Room.Copy()
	room.Take(more, spots)
	if m.left == 0 || m.sharing.keeps != nil && !m.sharing.keeps(room) {
		return false
	}
	m.state.Room.Take(more, spots)
	m.state.Revision++
	m.state.Act(&fsm.MoveJob{Job: j.ID, Attempt: a.N, Leave: leave, Join: m.withoutPorts(spots),
		Expected: expected})
	m.ending[j.ID] = true
	m.left--
	m.loads = nil
	return true
}

// withoutPorts returns spots as places: ports are chosen when the next attempt begins.
func (m *mover) withoutPorts(spots []fit.Spot) []model.Place {
	places := m.state.Places(spots)
	for i := range places {
		places[i].Port = 0
	}
	return places
}

// moveSuspended moves suspended jobs that do not get their turn where they are.
func (m *mover) moveSuspended() {
	if !m.state.View.AnySuspended() {
		return
	}
	// A node on which something changes anyway is left alone: its suspended jobs may soon go on there.
	for node, n := range m.sharing.survey() {
		if n == nil || n.busy || len(n.leaving) > 0 {
			continue
		}
		for _, u := range n.suspended {
			j, a := u.runs[0].Job, u.runs[0].Attempt
			if len(u.runs) == 1 && len(a.Workers) == 1 && m.movable(u.runs[0]) &&
				(m.outranked(u, n, node) || m.missedTurns(u, node)) && m.needsLong(j, a) && m.moveElsewhere(u, node) {
				break // the next one may have its turn now
			}
		}
	}
}

// outranked reports whether a suspended job can get no turn on its node, even if all units pause
// that may. It must also have waited for longer than a move takes.
func (m *mover) outranked(u *unit, n *shared, node int) bool {
	room, open, own := m.state.Room.Free(node).Active, m.state.Room.FreeGPUs(node), m.sharing.ownGPUs(u, node)
	// Assume that all units of its class and of lower classes pause.
	for _, v := range n.active {
		if v.rank >= u.rank {
			room, open = room.Plus(freed(v)), open|heldGPUs(v)
		}
	}
	if needsOn(u, node).Within(room) && own&^open == 0 {
		return false
	}
	at := u.runs[0].Attempt.Switch.Since + model.Instant(m.sharing.moveCost(u.runs[0].Job, u.runs[0].Attempt))
	m.state.WakeAt(at)
	return at <= m.state.Now
}

// missedTurns reports whether a job has been suspended for many rounds of its node. A round lasts
// one slice for each job that shares a GPU there.
func (m *mover) missedTurns(u *unit, node int) bool {
	l := m.loadOf(node)
	if l == nil {
		return false
	}
	round := model.Instant(model.SliceMS * max(1, (l.gpus+l.all-1)/max(1, l.all)))
	at := u.runs[0].Attempt.Switch.Since + round*model.Instant(Limits.MissedRounds)
	m.state.WakeAt(at)
	return at <= m.state.Now
}

// moveElsewhere moves a suspended job of one worker into free room, or to a node with less load
// where others pause for it. It reports whether the job moves.
func (m *mover) moveElsewhere(u *unit, node int) bool {
	j, a := u.runs[0].Job, u.runs[0].Attempt
	g := m.state.Gang(j)
	m.state.Room.Unclaim(j.ID) // its reservation here gives it no precedence elsewhere
	if spots, ok := m.state.Room.Place(&g); ok && spots[0].Node != node {
		return m.carry(j, a, []int{0}, &g, spots, 0)
	}
	if !joins(m.state.View.Config(), j) {
		return false
	}
	// No free room anywhere. The job takes turns on another node if the load there is less than here,
	// even with the job.
	here := m.loadOf(node)
	to, _ := m.sharing.choose(j, &g, m.loads)
	if to == nil || here == nil || to == here || (to.gpus+j.Request.Active.GPUs)*here.all > here.gpus*to.all {
		return false
	}
	m.sharing.sendTo(j, a, to.node)
	m.ending[j.ID] = true
	m.left--
	m.loads = nil
	return true
}

// sendTo tells a job of one worker to leave for another node, and keeps room for it there. On that
// node it begins in free room or takes its turn.
func (s *Sharing) sendTo(j *model.Job, a *model.Attempt, node int) {
	s.state.Stop(j, a, model.CauseMigrate, 0)
	g := s.state.Gang(j)
	claims := s.state.Claims([]estimate.NodeResources{{Node: node, Room: g.Request}})
	s.state.Reserve(s.state.NewReservation(j.ID, claims, s.state.Now+model.Instant(scratch.GraceOf(j))))
	delete(s.state.Holders, j.ID) // it does not wait yet
}

// loadOf returns the load of a node, nil if it is not up.
func (m *mover) loadOf(node int) *load {
	if m.loads == nil {
		m.loads = m.sharing.loads()
	}
	for _, l := range m.loads {
		if l.node == node {
			return l
		}
	}
	return nil
}

// gatherGangs moves gangs together that are on more nodes than they need, if gangs like them were
// measured to be faster so. For each gang the smallest number of nodes that is worth the move wins.
// It costs O(gangs x nodes of each x nodes log nodes).
func (m *mover) gatherGangs() {
	for run := range m.state.View.LiveAttempts() {
		j, a := run.Job, run.Attempt
		if m.left == 0 {
			return
		}
		if j.Workers < 2 || a.Rate == 0 || len(run.Holds) < 2 || a.Suspended() || !m.movable(run) {
			continue
		}
		// The time that the gang saves by the move must be many times its cost.
		left, known := m.remaining(j, a)
		if !known {
			continue
		}
		for nodes := 1; nodes < len(run.Holds); nodes++ {
			gain := model.MulDiv(m.state.View.Statistics().GangRate(j, nodes), 1000, a.Rate)
			if gain < model.LeastGain || left-model.MulDiv(left, 1000, gain) < Limits.MoveWorth*m.sharing.moveCost(j, a) {
				continue
			}
			if m.gather(run, nodes, gain) {
				break
			}
		}
	}
}

// seat is a node on which workers of a gang could be.
type seat struct {
	node int
	own  []int // workers of the gang that are there
	most int   // so many could be
}

// gather moves a gang to the given number of nodes, if there is room, and reports whether it moves.
// The algorithm is greedy: the nodes that can hold the most of its workers, of equal ones those
// where it has most already. It costs O(nodes log nodes + nodes x workers).
func (m *mover) gather(run *estimate.LiveAttempt, nodes int, gain int64) bool {
	j, a := run.Job, run.Attempt
	g := m.state.Gang(j)
	// 1. How many workers of the gang each node could hold: those that are there, and those that fit
	// beside them.
	var seats []seat
	for node := range m.state.View.Nodes() {
		if !m.state.Room.Usable(node, &g.Component, g.Exclude) || m.state.Room.Whole(node) {
			continue
		}
		s := seat{node: node}
		for i := range a.Workers {
			if _, at := m.state.View.Node(a.Workers[i].Node); at == node {
				s.own = append(s.own, i)
			}
		}
		free := max(0, fit.Capacity(&g.Component, m.state.Room.Available(node)))
		if s.most = min(len(s.own)+free, g.PerNode, j.Workers); s.most > 0 {
			seats = append(seats, s)
		}
	}
	// 2. Nodes that hold the most workers come first, so that few nodes are needed. Among these the
	// node with most workers of the gang comes first, so that few workers move. Then the one with
	// least free room does, so that large gaps stay.
	slices.SortFunc(seats, func(a, b seat) int {
		return cmp.Or(cmp.Compare(b.most, a.most), cmp.Compare(len(b.own), len(a.own)),
			cmp.Compare(m.state.Room.Available(a.node).Active.GPUs, m.state.Room.Available(b.node).Active.GPUs),
			cmp.Compare(a.node, b.node))
	})
	// 3. Fill these nodes in order. Workers that are there stay as far as they are needed; others are
	// placed on a copy of the room.
	stay, more := map[int]bool{}, g.Only(0, 0)
	room, left := m.state.Room.Copy(), j.Workers
	var spots []fit.Spot
	for _, s := range seats[:min(nodes, len(seats))] {
		n := min(s.most, left)
		left -= n
		for _, i := range s.own[:min(n, len(s.own))] {
			stay[i] = true
		}
		one := g.Only(0, n-len(s.own))
		if one.Workers <= 0 {
			continue
		}
		found, ok := room.PlaceOn(one, s.node)
		if !ok {
			return false
		}
		room.Take(one, found)
		spots = append(spots, found...)
	}
	// 4. All other workers leave. The move counts only if every worker of the gang has its place.
	var leave []int
	for i := range a.Workers {
		if !stay[i] {
			leave = append(leave, i)
		}
	}
	more.Workers = len(spots)
	return left == 0 && len(spots) > 0 && m.carry(j, a, leave, more, spots, gain)
}

// emptyNode frees GPUs of one node for a waiting job that needs more than any has free. Jobs of
// that node move to fuller ones. The nodes with the most free GPUs are tried first, since the
// fewest jobs have to move there. It costs O(MaxDonors x (nodes + attempts)), and a placement for
// each job.
func (m *mover) emptyNode() {
	j := m.missing()
	if j == nil || m.left == 0 {
		return
	}
	want, g := j.Request.Active.GPUs, m.state.Gang(j)
	// 1. Nodes that could hold the job if enough of their jobs left, and on which no job waits for its
	// turn.
	var donors []int
	for node := range m.state.View.Nodes() {
		if n := m.sharing.survey()[node]; m.state.Room.Usable(node, &g.Component, g.Exclude) && !m.state.Room.Empty(node) &&
			m.state.Room.Total(node).GPUs >= want &&
			(n == nil || len(n.suspended)+len(n.leaving) == 0 && !n.busy) {
			donors = append(donors, node)
		}
	}
	// 2. The nodes that lack least come first.
	free := func(node int) int64 { return m.state.Room.Free(node).Active.GPUs }
	slices.SortStableFunc(donors, func(a, b int) int { return cmp.Compare(free(b), free(a)) })
	for _, node := range donors[:min(len(donors), Limits.MaxDonors)] {
		if m.giveAway(node, want) {
			return
		}
	}
}

// missing returns a waiting job that no permitted node has enough free GPUs for, the smallest of
// several. Nil: there is none.
func (m *mover) missing() (least *model.Job) {
	for at, head := range m.state.View.QueueHeads() {
		if head.Held {
			continue
		}
		// The first job of a group stands for all: they ask for the same.
		j := m.state.View.QueueGroupAt(at).Jobs[0]
		if least != nil && j.Request.Active.GPUs >= least.Request.Active.GPUs || m.state.AwaitsVictims(j.ID) ||
			!m.sharing.order.Startable(j) || m.sharing.limited(j) {
			continue
		}
		if !m.anyFree(j) {
			least = j
		}
	}
	return least
}

// anyFree reports whether a node on which a job may run has as many GPUs free as it needs on one.
func (m *mover) anyFree(j *model.Job) bool {
	g := m.state.Gang(j)
	for node := range m.state.View.Nodes() {
		if m.state.Room.Free(node).Active.GPUs >= j.Request.Active.GPUs &&
			m.state.Room.Usable(node, &g.Component, g.Exclude) {
			return true
		}
	}
	return false
}

// giveAway moves jobs from a node to fuller ones until it has want free GPUs, and reports success.
// It moves as few jobs as possible, and none if that is not enough.
func (m *mover) giveAway(donor int, want int64) bool {
	type gift struct {
		run   *estimate.LiveAttempt
		gang  fit.Gang
		spots []fit.Spot
	}
	// 1. Nodes that may take the jobs. A node with more free room would be a better donor, and an
	// empty node is worth more as it is.
	var fuller []int
	mine := m.state.Room.Free(donor).Active.GPUs
	for node := range m.state.View.Nodes() {
		if free := m.state.Room.Free(node).Active.GPUs; m.state.Room.Up(node) && node != donor && free > 0 && free <= mine &&
			!m.state.Room.Empty(node) {
			fuller = append(fuller, node)
		}
	}
	// 2. Jobs of one worker on the donor that may move and go on for long enough for it.
	var list []gift
	for run := range m.state.View.LiveAttempts() {
		if len(run.Attempt.Workers) == 1 && len(run.Holds) == 1 && run.Holds[0].Node == donor && !run.Attempt.Suspended() &&
			m.movable(run) && m.needsLong(run.Job, run.Attempt) {
			list = append(list, gift{run: run, gang: m.state.Gang(run.Job)})
		}
	}
	// the widest first: fewer have to move
	slices.SortStableFunc(list, func(a, b gift) int {
		return cmp.Compare(b.run.Job.Request.Active.GPUs, a.run.Job.Request.Active.GPUs)
	})
	// 3. Place them on a copy of the room until the donor has enough free.
	room := m.state.Room.Copy()
	going := list[:0]
	for i := range list {
		if mine >= want || len(going) == m.left || len(fuller) == 0 {
			break
		}
		x := list[i]
		spots, ok := room.Place(x.gang.Within(room.Nodes(fuller...)))
		if !ok {
			continue
		}
		room.Take(&x.gang, spots)
		x.spots = spots
		mine += x.run.Job.Request.Active.GPUs
		going = append(going, x)
	}
	// 4. All or nothing: a few moves that do not let the waiting job start would be in vain.
	if mine < want || m.sharing.keeps != nil && !m.sharing.keeps(room) {
		return false
	}
	for i := range going {
		x := &going[i]
		m.carry(x.run.Job, x.run.Attempt, []int{0}, &x.gang, x.spots, 0)
	}
	return true
}
