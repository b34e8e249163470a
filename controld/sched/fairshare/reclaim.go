package fairshare

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/groups"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/drf"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/reserve"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// # Reclaim
//
// A waiting job whose account, or user within an account, is below its entitlement gets room from
// accounts over their share. Which jobs leave is found by trying: running jobs are taken away on a
// copy of the room, one by one, until the waiting job can be placed; then those that turned out not
// to be needed are put back. Only if the job is placed in the end is anything done: the others are
// asked to leave, and their room is kept for the job in the log.
//
// The algorithm is a greedy search with reverse deletion, as in preemption by kube-scheduler: it tries
// each node by itself first, then the whole cluster. For one waiting job it costs
// O(nodes x victims x (victims + placement)); MaxReclaims and MaxTaken bound it.
//
// At the level of the account tree where the two accounts differ, the taker with its job must be
// within its entitlement. The other account must be above its share, and so must all nodes down to
// the job's user, each time before one of its jobs is taken; its usage ratio must be the greater
// one. Jobs that have run for less than MinRuntimeMS are left alone, and so are trial-and-error
// jobs.

// Reclaim finds room for jobs of accounts below their entitlement. It looks at what will be held
// when the jobs have left that are leaving and those have started that hold a reservation.
func (f *Accounts) Reclaim() {
	if f.state.EndsEarly() {
		return
	}
	f.Foresee()
	starved := f.starved()
	if starved == nil {
		return
	}
	r := f.newReclaimer()
	for range tunables.MaxReclaims {
		c, leaf := starved.best()
		if c == nil {
			return
		}
		starved.pop(leaf)
		before := len(f.state.Actions)
		r.reclaimFor(c, leaf)
		if len(f.state.Actions) == before {
			continue
		}
		if j := f.nextStarved(leaf); j != nil && !starved.has(leaf, j) && f.Entitled(leaf, f.Asks(j)) {
			starved.push(leaf, &queue.Contender{Job: j})
		}
	}
}

// nextStarved returns the first waiting job of a leaf for which no room is kept by now, nil if there
// is none.
func (f *Accounts) nextStarved(leaf *drf.Node) *model.Job {
	var first *model.Job
	for g := range f.state.View.QueueGroups() {
		if g.Head.Held || f.Leaf(g.Key.Association()) != leaf {
			continue
		}
		if j := f.firstStarved(g); j != nil && (first == nil || f.order.Compare(j, first) < 0) {
			first = j
		}
	}
	return first
}

// reclaimer is a search for room for jobs of accounts below their entitlement.
type reclaimer struct {
	state        *scratch.State
	accounts     *Accounts
	room         *fit.Room     // when all jobs have left that are leaving
	reclaimables []reclaimable // in order of id
}

func (f *Accounts) newReclaimer() *reclaimer {
	return &reclaimer{state: f.state, accounts: f, room: f.emptied(), reclaimables: f.reclaimables()}
}

// doubted returns the holders of reservations whose room may never come: it is kept in case a job
// ends, as for any blocked head. An account's entitlement comes before that, so they are lined up
// with jobs without a reservation. Not in doubt is room that is free, being freed, or that other
// jobs are to leave for the holder.
func (f *Accounts) doubted() []*model.Job {
	var inForce []*model.Reservation
	heads := false
	for id, r := range f.state.Holders {
		if f.state.Started[id] == 0 {
			inForce, heads = append(inForce, r), heads || !r.ForPreemptor && f.counts(r)
		}
	}
	if !heads {
		return nil
	}
	slices.SortFunc(inForce, precedence)
	p := reserve.NewProspects(f.state)
	var list []*model.Job
	for _, r := range inForce {
		j := f.state.View.Job(r.Job)
		if !p.Cover(r) && !r.ForPreemptor && f.counts(r) && j.Hold == model.NotHeld && f.order.Startable(j) {
			list = append(list, j)
		}
	}
	return list
}

// precedence orders reservations: see [model.Reservation.Before].
func precedence(a, b *model.Reservation) int {
	switch {
	case a.Precedes(b):
		return -1
	case b.Precedes(a):
		return 1
	}
	return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Job, b.Job))
}

// starved lines up the first waiting job of every leaf for which no room is kept, and those whose
// room is in doubt; nil if there is none.
func (f *Accounts) starved() *leafQueue {
	var q *leafQueue
	add := func(leaf *drf.Node, c *queue.Contender) {
		if f.Entitled(leaf, f.Asks(c.Job)) {
			if q == nil {
				q = newLeafQueue(f)
			}
			q.push(leaf, c)
		}
	}
	for leaf, j := range f.firstsStarved() {
		add(leaf, &queue.Contender{Job: j})
	}
	for _, j := range f.doubted() {
		counted := f.unanticipate(j.ID)
		add(f.Leaf(j.Association()), &queue.Contender{Job: j})
		if counted {
			f.anticipate(j.ID)
		}
	}
	return q
}

// firstsStarved returns the first waiting job of every leaf for which no room is kept.
func (f *Accounts) firstsStarved() map[*drf.Node]*model.Job {
	if f.order.Level == nil {
		return f.oldestStarved()
	}
	first := map[*drf.Node]*model.Job{}
	for g := range f.state.View.QueueGroups() {
		leaf := f.Leaf(g.Key.Association())
		if j := f.firstStarved(g); j != nil && (first[leaf] == nil || f.order.Compare(j, first[leaf]) < 0) {
			first[leaf] = j
		}
	}
	return first
}

// oldestStarved is firstsStarved where only class, priority and age decide. Of most groups the front
// says enough.
func (f *Accounts) oldestStarved() map[*drf.Node]*model.Job {
	keys := queue.Firsts[*drf.Node]{}
	for g := range f.frontScan(nil, keys).Groups() {
		if j := f.firstStarved(g); j != nil {
			keys.Of(f.Leaf(g.Key.Association())).Keep(queue.KeyOf(j))
		}
	}
	first := map[*drf.Node]*model.Job{}
	for leaf, k := range keys {
		first[leaf] = f.state.View.Job(k.Job)
	}
	return first
}

// firstStarved returns the first job of a group for which no room is kept, nil if there is none. It
// does not matter how the job stands in line: a job that was lined up apart because it has waited
// for long is entitled to as much as others.
func (f *Accounts) firstStarved(g *groups.Group) *model.Job {
	for _, j := range g.Jobs {
		if f.state.Started[j.ID] == 0 && !f.counts(f.state.Holders[j.ID]) && f.order.Startable(j) {
			return j
		}
	}
	return nil
}

// counts reports whether the holder of a reservation counts as started, so that no job has to leave
// for it: under policy rota not if room is kept for it as for any blocked head, which comes after
// what an account deserves.
func (f *Accounts) counts(r *model.Reservation) bool {
	return r != nil && (r.ForPreemptor || r.Guaranteed || !f.QuotaOnly)
}

// emptied returns the room when all jobs have left that are leaving. Of a job that is resized these
// are only the workers that do not stay.
func (f *Accounts) emptied() *fit.Room {
	room := f.state.Room.Copy()
	if f.QuotaOnly {
		room.DropUnguaranteed() // what is kept for a blocked head comes after what an account deserves
	}
	for j := range f.state.View.Live() {
		switch a := j.Live(); {
		case a.Stop != nil:
			f.release(room, j, a)
		case a.Suspending():
			for i, node := range f.state.Leaving(a) {
				room.Release(node, j.FreedBySuspension(a, i), a.Workers[i].GPUs)
			}
		}
	}
	return room
}

// reclaimFor makes room for one job if it can: on one node if possible, where it costs least.
func (r *reclaimer) reclaimFor(c *queue.Contender, leaf *drf.Node) {
	// The job counts as not there while others are weighed against it, and room that is kept for it in
	// case other jobs end is no obstacle to it.
	by := beneficiary{c.Job, leaf, r.accounts.Asks(c.Job)}
	if r.accounts.unanticipate(c.Job.ID) {
		defer r.accounts.anticipate(c.Job.ID)
	}
	if r.accounts.Limited(leaf, c.Job) || !r.accounts.Entitled(leaf, by.asks) {
		return
	}
	g := c.Gang(r.state)
	own := r.unkeep(c.Job.ID)
	defer r.keepAgain(own)
	// what is kept for accounts over their share is taken before any job has to leave
	lifted := r.room.LiftUnguaranteed()
	defer lifted.Restore()
	if spots, ok := r.room.Place(g); ok { // room is on its way
		if !r.onItsWay(c, spots) && r.accounts.promised(leaf) { // else it is kept free for others
			r.commit(c, spots, nil)
		}
		return
	}
	best := r.cheapest(g, by, r.reclaimables)
	if best == nil {
		r.state.WakeAt(r.state.Now + tunables.ReconsiderMS)
		return
	}
	for _, v := range best.taken {
		r.free(&v)
		r.reclaimables = slices.DeleteFunc(r.reclaimables, func(o reclaimable) bool { return o.job == v.job })
	}
	r.commit(c, best.spots, best.taken)
}

// unkeep takes the reservation of a job off the room in which the search tries things out, and
// returns it; nil if the job has none.
func (r *reclaimer) unkeep(id model.JobID) *model.Reservation {
	own := r.state.Holders[id]
	if own != nil {
		r.room.Unclaim(id)
	}
	return own
}

// keepAgain undoes unkeep, unless the search has made another reservation for the job.
func (r *reclaimer) keepAgain(own *model.Reservation) {
	if own != nil && r.state.Holders[own.Job] == own {
		r.room.Claim(own)
	}
}

// onItsWay reports whether exactly this room is kept for a job already, as what it is entitled to.
func (r *reclaimer) onItsWay(c *queue.Contender, spots []fit.Spot) bool {
	own := r.state.Holders[c.Job.ID]
	return own != nil && own.Guaranteed && slices.Equal(own.Claims, reserve.ClaimsFor(r.state, c.Gang(r.state), spots))
}

// Entitled reports whether a leaf or anything above it is with the job within what it is entitled
// to.
func (f *Accounts) Entitled(leaf *drf.Node, asks drf.Amount) bool {
	for n := leaf; n.Parent() != nil; n = n.Parent() {
		if f.mayReclaim(n) && (n.Within(asks) || f.indivisible(n, asks)) {
			return true
		}
	}
	return false
}

// mayReclaim reports whether a node may have others displaced.
func (f *Accounts) mayReclaim(n *drf.Node) bool {
	return !f.QuotaOnly || f.Worth != nil || n.Guaranteed()
}

// promised reports whether what a node is entitled to is more than an equal part: under policy rota
// only what was configured is.
func (f *Accounts) promised(n *drf.Node) bool { return !f.QuotaOnly || n.Guaranteed() }

// commit asks the jobs that were taken to leave and keeps the room for the job, which counts as
// there from now on.
func (r *reclaimer) commit(c *queue.Contender, spots []fit.Spot, taken []reclaimable) {
	claims := reserve.ClaimsFor(r.state, c.Gang(r.state), spots)
	kept := r.state.NewReservation(c.Job.ID, claims, r.readyBy(claims, taken))
	kept.ForPreemptor, kept.Guaranteed = len(taken) > 0, true
	r.room.Unclaim(c.Job.ID)
	r.room.Claim(kept)
	r.state.Room.Unclaim(c.Job.ID)
	r.state.Reserve(kept)
	for i := range taken {
		r.displace(&taken[i], c.Job.ID)
	}
	r.accounts.CatchUp()
	r.accounts.anticipate(c.Job.ID)
}

// readyBy returns when the jobs that were taken will have left, and those that are leaving the
// claimed nodes already.
func (r *reclaimer) readyBy(claims []model.Claim, taken []reclaimable) model.Instant {
	by := r.state.Now
	for i := range taken {
		grace := scratch.GraceOf(taken[i].job)
		if taken[i].pauses {
			grace = preempt.PauseCosts(grace)
		}
		by = max(by, r.state.Now+model.Instant(grace))
	}
	for j := range r.state.View.Live() {
		a := j.Live()
		if a.Stop == nil || a.Stop.KillAt <= by {
			continue
		}
		if slices.ContainsFunc(a.Workers, func(w model.Worker) bool {
			return !w.State.Final() && slices.ContainsFunc(claims, func(c model.Claim) bool { return c.Node == w.Node })
		}) {
			by = a.Stop.KillAt
		}
	}
	return by
}

// displace asks a job to leave for another, or to pause.
func (r *reclaimer) displace(d *reclaimable, taker model.JobID) {
	if r.accounts.Candidates != nil {
		if i := slices.IndexFunc(r.accounts.Candidates.List, func(v preempt.Candidate) bool {
			return v.Job.ID == d.job.ID && v.Pauses == d.pauses
		}); i >= 0 {
			r.accounts.Candidates.Stop(r.state, &r.accounts.Candidates.List[i], model.CauseReclaim, taker)
			return
		}
	}
	if d.pauses {
		r.state.Act(fsm.Action{Suspend: &fsm.SuspendJob{Job: d.job.ID, Attempt: d.attempt.N, Cause: model.CauseReclaim,
			For: taker}})
		return
	}
	r.state.Act(fsm.Action{Stop: &fsm.StopJob{Job: d.job.ID, Attempt: d.attempt.N, Cause: model.CauseReclaim,
		For: taker}})
}
