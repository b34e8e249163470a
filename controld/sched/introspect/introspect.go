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

// Sharing runs the phases of this package in one cycle, beside those of any policy. In them jobs
// that can be suspended go on, take turns and move, as far as the configuration lets them.
type Sharing struct {
	state *scratch.State
	order *queue.Order
	limit func(*model.Job) model.Reason // see [policy.Answers]; nil: there is none
	keeps func(*fit.Room) bool          // see [policy.Answers]; nil: the policy keeps no room free
	nodes []*shared                     // by position; nil until it is needed, and where no unit is
	// of units that go on in this cycle, in hundredths; nil until it is needed
	weights map[model.JobID]int
	shares  bool // the configuration lets jobs share nodes
}

// New returns the phases for one cycle, in which a policy orders and limits jobs as its answers say.
func New(t *scratch.State, of *policy.Answers) *Sharing {
	s := &Sharing{state: t, order: of.Order, limit: of.Limit, keeps: of.Keeps, shares: t.View.Config().Shares()}
	if s.order == nil {
		s.order = &queue.Order{State: t}
	}
	return s
}

// none reports whether no job shares anything, so that no phase has anything to do.
func (s *Sharing) none() bool { return !s.shares && !s.state.View.AnySuspended() }

// Resume starts the jobs for which others have paused and has suspended jobs go on.
func (s *Sharing) Resume() {
	if s.none() {
		return
	}
	if s.state.May(steering.All) {
		s.begin()
	}
	s.resume()
}

// Move has jobs continue elsewhere: jobs that gain by it, and jobs on nodes with more jobs than
// others.
func (s *Sharing) Move() {
	if s.none() || !s.state.View.Config().Migrates() || !s.state.May(steering.Migration) {
		return
	}
	s.move()
	s.evenOut()
}

// TakeTurns lets jobs take turns and packs them.
func (s *Sharing) TakeTurns() {
	if !s.shares {
		return
	}
	s.dropEnding()
	if s.state.May(steering.Slicing) {
		s.relieve()
		s.admit()
	}
	for node, n := range s.survey() {
		if n == nil {
			continue
		}
		if s.state.May(steering.Packing) {
			s.pack(node, n)
		}
		s.separate(node, n)
		if s.state.May(steering.Slicing) && len(n.suspended) > 0 {
			s.rotate(node, n)
		}
	}
}

// dropEnding leaves out the units that the policy has asked to leave since the survey was made.
func (s *Sharing) dropEnding() {
	ending := s.state.Ending()
	if len(ending) == 0 {
		return
	}
	leaves := func(u *unit) bool {
		return slices.ContainsFunc(u.runs, func(r *estimate.LiveAttempt) bool { return ending[r.Job.ID] })
	}
	for _, n := range s.survey() {
		if n != nil {
			n.active = slices.DeleteFunc(n.active, leaves)
			n.suspended = slices.DeleteFunc(n.suspended, leaves)
		}
	}
}

// unit takes turns as one: an attempt that can be suspended, or a set of them on one GPU.
type unit struct {
	runs  []*estimate.LiveAttempt // by job; of a set that is suspended the first takes the GPU
	turn  int64                   // see [model.Switching.Turn]; of a set the mean
	rank  int                     // of the highest class
	nodes []int                   // of the workers of the first, by number
}

// shared is one node that units are on.
type shared struct {
	active    []*unit                 // that run, and are on no other node
	suspended []*unit                 // some may be on other nodes too
	leaving   []*estimate.LiveAttempt // that have been told to pause
	busy      bool                    // a unit is about to go on
	unsettled uint64                  // GPUs on which some attempt stops, pauses or goes on, by bit
}

// survey lists the units on every node.
func (s *Sharing) survey() []*shared {
	if s.nodes != nil {
		return s.nodes
	}
	s.nodes = make([]*shared, len(s.state.View.Nodes()))
	ending := s.state.Ending()
	for run := range s.state.View.LiveAttempts() {
		if run.Job.CanSuspend() && !ending[run.Job.ID] {
			s.enter(run)
		}
	}
	for _, n := range s.nodes {
		if n != nil {
			s.rank(n.active)
			s.rank(n.suspended)
		}
	}
	return s.nodes
}

// rank computes the turns of units and sorts them: the higher class first, then the least service.
func (s *Sharing) rank(units []*unit) {
	for _, u := range units {
		u.turn, u.rank = 0, queue.ClassRank(u.runs[0].Job.Class)
		for _, run := range u.runs {
			u.turn += run.Attempt.Turn(s.state.Now)
			u.rank = min(u.rank, queue.ClassRank(run.Job.Class))
		}
		u.turn /= int64(len(u.runs))
	}
	slices.SortFunc(units, func(a, b *unit) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.turn, b.turn), cmp.Compare(a.id(), b.id()))
	})
}

func (u *unit) id() model.JobID { return u.runs[0].Job.ID }

// single returns the attempt of a unit that is no set, and could become one.
func (u *unit) single() *estimate.LiveAttempt {
	if len(u.runs) > 1 || !u.runs[0].Job.CanPack() {
		return nil
	}
	return u.runs[0]
}

func (s *Sharing) enter(run *estimate.LiveAttempt) {
	a := run.Attempt
	// 1. The nodes of its workers, by number. Each node is entered once.
	at := make([]int, len(a.Workers))
	for i := range a.Workers {
		_, at[i] = s.state.View.Node(a.Workers[i].Node)
	}
	for i, node := range at {
		if slices.Contains(at[:i], node) || node < 0 {
			continue
		}
		n := s.nodes[node]
		if n == nil {
			n = &shared{}
			s.nodes[node] = n
		}
		// 2. While an attempt changes its state, no job is packed on its GPUs.
		if a.Stop != nil || a.Suspending() || a.Resuming() || a.Late() {
			for k := range a.Workers {
				for _, gpu := range a.Workers[k].GPUs {
					if at[k] == node {
						n.unsettled |= 1 << gpu
					}
				}
			}
		}
		// 3. By its state it is suspended, pausing, about to go on, or active. Only attempts on one node
		// are active units, since a gang on several nodes cannot pause for the jobs of one of them.
		// Members of a set on one GPU form one unit.
		switch {
		case a.Stop != nil:
		case a.Suspended():
			n.suspended = join(n.suspended, run, at, func(u *unit) bool {
				return a.SetOf() != 0 && u.runs[0].Attempt.SetOf() == a.SetOf() && fitsBeside(u, run, s.state.View.Nodes()[node])
			})
		case a.Suspending():
			n.leaving = append(n.leaving, run)
		case a.Resuming() && !a.Late():
			n.busy = true
		case a.Started.At != 0 && len(run.Holds) == 1 && !a.AnyFinal() && s.state.View.CanSuspend(run.Job):
			n.active = join(n.active, run, at, func(u *unit) bool { return a.Packed() && u.gpu() == a.Workers[0].GPUs[0] })
		}
	}
}

// join adds an attempt to the unit of its set, or as a unit of its own.
func join(units []*unit, run *estimate.LiveAttempt, at []int, same func(*unit) bool) []*unit {
	for _, u := range units {
		if u.runs[0].Job.CanPack() && run.Job.CanPack() && same(u) {
			u.runs = append(u.runs, run)
			return units
		}
	}
	return append(units, &unit{runs: []*estimate.LiveAttempt{run}, nodes: at})
}

// fitsBeside reports whether the memory of one more attempt fits on the GPU of a unit.
func fitsBeside(u *unit, run *estimate.LiveAttempt, n *model.Node) bool {
	if len(n.GPUs) == 0 {
		return false
	}
	free := n.GPUs[0].Memory - run.Attempt.Profile.Memory
	for _, r := range u.runs {
		free -= r.Attempt.Profile.Memory
	}
	return free >= 0 && len(u.runs) < model.MaxPacked
}

// resume has suspended units go on where there is room, those first that have had the least
// service, before other jobs of their class start. They may take room that is kept for blocked
// heads. They may not take room that others leave for a waiting job, or that an account is entitled
// to.
func (s *Sharing) resume() {
	if !s.state.View.AnySuspended() {
		return
	}
	defer s.collect()
	lifted := s.state.Room.LiftUnguaranteed()
	defer lifted.Restore()
	// Waiting trial-and-error jobs are placed on a copy first: best-effort units may take only the
	// rest.
	spare := s.besideTE()
	for node, n := range s.survey() {
		if n == nil || len(n.suspended) == 0 {
			continue
		}
		// In order of the service that they have had. A unit on several nodes is tried at its first.
		for _, u := range slices.Clone(n.suspended) {
			if u.nodes[0] == node && !s.anyLimited(u) && s.mayGoOn(u) && s.goOn(u, spare) {
				n.busy = true
				n.suspended = slices.DeleteFunc(n.suspended, func(o *unit) bool { return o == u })
			}
		}
	}
}

// besideTE returns the room that is left when all waiting trial-and-error jobs that fit have
// started: best-effort units may take that. It is nil if no such job waits.
func (s *Sharing) besideTE() (room *fit.Room) {
	for at, head := range s.state.View.QueueHeads() {
		if head.Held || !head.TE {
			continue
		}
		for k, j := range s.state.View.QueueGroupAt(at).Jobs {
			if k == Limits.AdmittedOfGroup {
				break
			}
			if s.state.AwaitsVictims(j.ID) || !s.order.Startable(j) || s.limited(j) {
				continue
			}
			if room == nil {
				room = s.state.Room.Copy()
			}
			g := s.state.Gang(j)
			spots, ok := room.Place(&g)
			if !ok {
				break
			}
			room.Take(&g, spots)
		}
	}
	return room
}

// collect keeps free room for units that paused for another job and have waited for ReserveAfterMS,
// as blocked heads do for a reservation. Without that, jobs that start past them could keep them
// from going on for ever, since they cannot go on elsewhere. The claims hold for this cycle; the
// next one makes them again.
func (s *Sharing) collect() {
	for node, n := range s.survey() {
		if n == nil {
			continue
		}
		for _, u := range n.suspended {
			last := u.runs[0].Attempt.Switch
			if u.nodes[0] != node || !last.Cause.Preempts() || s.anyLimited(u) {
				continue
			}
			// It waits like a blocked head first: room may come free by itself.
			due := last.Since + model.Instant(s.state.Policy.ReserveAfterMS)
			if s.state.WakeAt(due); due > s.state.Now {
				continue
			}
			r := &model.Reservation{Job: u.id(), At: due, Until: s.state.Now + 1}
			// A claim on each of its nodes for all that it lacks there.
			for i, at := range u.nodes {
				if at >= 0 && !slices.Contains(u.nodes[:i], at) {
					needs := needsOn(u, at)
					needs.Memory = 0                       // it has kept that
					if own := s.ownGPUs(u, at); own != 0 { // another one would be kept in vain
						needs.GPUs = wholeGPUs(own & s.state.Room.FreeGPUs(at))
					}
					r.Claims = append(r.Claims, model.Claim{Node: s.state.View.Nodes()[at].Name, Resources: needs})
				}
			}
			s.state.Room.Claim(r)
		}
	}
}

// limited reports whether a limit of its account or user keeps a job from holding GPUs now.
func (s *Sharing) limited(j *model.Job) bool {
	return s.limit != nil && s.limit(j).Code != model.ReasonNone
}

// anyLimited is limited for the jobs of a unit.
func (s *Sharing) anyLimited(u *unit) bool {
	return slices.ContainsFunc(u.runs, func(r *estimate.LiveAttempt) bool { return s.limited(r.Job) })
}

// mayGoOn reports whether a unit can resume without the room that others free for another unit on
// its nodes.
func (s *Sharing) mayGoOn(u *unit) bool {
	// On each node, room that units pause for belongs to the unit that they pause for. A unit that
	// still waits for such room does not start with a part of it.
	for i, node := range u.nodes {
		if slices.Contains(u.nodes[:i], node) {
			continue
		}
		var kept model.Vector
		n := s.nodes[node]
		for _, o := range n.suspended {
			coming, any := n.comingFor(o, node)
			switch {
			case !any:
			case o == u:
				return false // it waits for the rest
			default:
				kept = kept.Plus(needsOn(o, node).Minus(coming).Positive())
			}
		}
		if !needsOn(u, node).Plus(kept).Within(s.state.Room.Free(node).Active) {
			return false
		}
	}
	return true
}

// comingFor returns the room of a node that attempts free by pausing for a unit.
func (n *shared) comingFor(u *unit, node int) (coming model.Vector, any bool) {
	for _, o := range n.leaving {
		if !slices.ContainsFunc(u.runs, func(r *estimate.LiveAttempt) bool { return r.Job.ID == o.Attempt.Switch.For }) {
			continue
		}
		any = true
		for _, r := range o.Releases {
			if r.Node == node {
				coming = coming.Plus(r.Room.Active)
			}
		}
	}
	return coming, any
}

// needsOn is the room that a unit needs on a node to run. For a set it is the room of its first
// member; the others join if they can.
func needsOn(u *unit, node int) (needs model.Vector) {
	first := u.runs[0]
	for i, at := range u.nodes {
		if at == node && !first.Attempt.Workers[i].State.Final() {
			needs = needs.Plus(first.Job.RequestOf(i).Active)
		}
	}
	return needs
}

// goOn plans that a unit goes on, if it finds room. A best-effort unit must find room in spare too,
// which is the room that waiting trial-and-error jobs leave; nil: none waits.
func (s *Sharing) goOn(u *unit, spare *fit.Room) bool {
	j, a := u.runs[0].Job, u.runs[0].Attempt
	// 1. Each worker has room that it keeps while suspended, and room that it needs to run. On nodes
	// that pin GPUs it must get the GPUs that it had.
	workers := make([]fit.Suspended, 0, len(a.Workers))
	at := make([]int, 0, len(a.Workers))
	for i := range a.Workers {
		if !a.Workers[i].State.Final() {
			w := fit.Suspended{Node: u.nodes[i], Keeps: j.Holds(a, i), Needs: j.RequestOf(i)}
			if s.state.View.Nodes()[w.Node].PinsGPUs {
				w.Had = a.Workers[i].Had
			}
			workers = append(workers, w)
			at = append(at, i)
		}
	}
	// 2. Beside the trial-and-error jobs that will start in this cycle.
	if spare != nil && queue.ClassRank(j.Class) > 0 {
		if _, ok := spare.Resume(workers); !ok {
			return false
		}
	}
	// 3. Take the room, all or nothing.
	found, ok := s.state.Room.Resume(workers)
	if !ok {
		return false
	}
	gpus := make([][]int, len(a.Workers))
	for k, i := range at {
		gpus[i] = found[k]
	}
	s.state.Act(&fsm.ResumeJob{Job: j.ID, Attempt: a.N, GPUs: gpus, Weight: s.weight(u)})
	s.state.Revision++
	// 4. The other members of its set follow on the same GPU, if their further needs find room.
	for _, run := range u.runs[1:] {
		s.putBeside(run, u.nodes[0], u.runs[0], 0)
	}
	return true
}

// putBeside plans that a suspended attempt resumes beside another one on its GPU, if its further
// needs find room.
func (s *Sharing) putBeside(run *estimate.LiveAttempt, node int, host *estimate.LiveAttempt, expected int64) bool {
	needs := run.Job.RequestOf(0).WithShare(0)
	if !s.state.Room.Join(fit.Suspended{Node: node, Keeps: run.Job.Holds(run.Attempt, 0), Needs: needs}) {
		return false
	}
	s.state.Act(&fsm.PackJob{Job: run.Job.ID, Attempt: run.Number, Host: host.Job.ID,
		HostAttempt: host.Number, Expected: expected})
	s.state.Revision++
	return true
}

// suspend plans that a unit pauses for a job.
func (s *Sharing) suspend(n *shared, u *unit, cause model.Cause, beneficiary model.JobID) {
	for _, run := range u.runs {
		s.state.Act(&fsm.SuspendJob{Job: run.Job.ID, Attempt: run.Number, Cause: cause,
			For: beneficiary})
		s.state.Stopping[run.Job.ID] = beneficiary
		n.leaving = append(n.leaving, run)
	}
}
