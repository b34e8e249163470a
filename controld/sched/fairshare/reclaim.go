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
// accounts over their share. The search tries jobs out on a copy of the room. It takes running jobs
// away, one by one, until the waiting job can be placed. Then it puts back those that turned out to
// be needless. If the job is placed in the end, the others are asked to leave, and their room is
// kept for the job in the log. If not, nothing is done.
//
// The algorithm is a greedy search with reverse deletion, as in preemption by kube-scheduler: it tries
// each node by itself first, then the whole cluster. For one waiting job it costs
// O(nodes x victims x (victims + placement)); MaxReclaims and MaxTaken bound it.
//
// At the level of the account tree where the two accounts differ, the taker with its job must be
// within its entitlement. Each time before one of its jobs is taken, the other account must be
// above its share. So must all nodes down to the job's user. Its usage ratio must be the greater
// one. Jobs that have run for less than MinRuntimeMS keep their room, and so do trial-and-error
// jobs.

// Reclaim finds room for jobs of accounts below their entitlement. It looks at future holdings:
// leaving jobs count as gone, holders of reservations as started.
func (f *Accounts) Reclaim() {
	if f.state.EndsEarly() {
		return
	}
	f.Foresee()
	starved := f.starved()
	if starved == nil {
		return
	}
	// The account that is least saturated with its next job comes first. Each pass makes room for one
	// job at most, and may line up the next job of the same leaf.
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
func (f *Accounts) nextStarved(leaf *drf.TreeNode) *model.Job {
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
	room         *fit.Room     // once all leaving jobs have left
	reclaimables []reclaimable // in order of id
}

func (f *Accounts) newReclaimer() *reclaimer {
	return &reclaimer{state: f.state, accounts: f, room: f.emptied(), reclaimables: f.reclaimables()}
}

// doubted returns the holders of reservations whose room may never come: it is kept in case a job
// ends, as for any blocked head. An account's entitlement comes before such a reservation, so its
// holder is lined up with jobs that have none. Room is not in doubt if it is free or being freed,
// or if other jobs leave it for the holder.
func (f *Accounts) doubted() []*model.Job {
	// 1. Reservations in force. Only those of blocked heads can be in doubt.
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
	// 2. Cover them in order of precedence: each takes certain room, which is then lost for those
	//    after it.
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

// precedence orders reservations: see [model.Reservation.Precedes].
func precedence(a, b *model.Reservation) int {
	switch {
	case a.Precedes(b):
		return -1
	case b.Precedes(a):
		return 1
	}
	return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Job, b.Job))
}

// starved lines up the first waiting job of each leaf that has no room reserved. It adds the jobs
// whose reserved room is in doubt, and returns nil if there are none.
func (f *Accounts) starved() *leafQueue {
	var q *leafQueue
	add := func(leaf *drf.TreeNode, c *queue.Contender) {
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
func (f *Accounts) firstsStarved() map[*drf.TreeNode]*model.Job {
	if f.order.Level == nil {
		return f.oldestStarved()
	}
	first := map[*drf.TreeNode]*model.Job{}
	for g := range f.state.View.QueueGroups() {
		leaf := f.Leaf(g.Key.Association())
		if j := f.firstStarved(g); j != nil && (first[leaf] == nil || f.order.Compare(j, first[leaf]) < 0) {
			first[leaf] = j
		}
	}
	return first
}

// oldestStarved is firstsStarved where only class, priority and age decide. For most groups the
// queue head is enough.
func (f *Accounts) oldestStarved() map[*drf.TreeNode]*model.Job {
	keys := queue.Firsts[*drf.TreeNode]{}
	for g := range f.frontScan(nil, keys).Groups() {
		if j := f.firstStarved(g); j != nil {
			keys.Of(f.Leaf(g.Key.Association())).Keep(queue.KeyOf(j))
		}
	}
	first := map[*drf.TreeNode]*model.Job{}
	for leaf, k := range keys {
		first[leaf] = f.state.View.Job(k.Job)
	}
	return first
}

// firstStarved returns the first job of a group for which no room is kept, nil if there is none. A
// job that was lined up apart after a long wait counts too: it is entitled to as much as others.
func (f *Accounts) firstStarved(g *groups.Group) *model.Job {
	if f.state.GroupOverLimit(g) {
		return nil
	}
	// Jobs of a group are alike, so that the first one that still needs room stands for them.
	for _, j := range g.Jobs {
		if f.state.Started[j.ID] == 0 && !f.counts(f.state.Holders[j.ID]) && f.order.Startable(j) {
			return j
		}
	}
	return nil
}

// counts reports whether the holder of a reservation counts as started, so that no job has to leave
// for it. Under policy rota a reservation for a blocked head does not count, because it comes after
// the quotas of accounts.
func (f *Accounts) counts(r *model.Reservation) bool {
	return r != nil && (r.ForPreemptor || r.Guaranteed || !f.QuotaOnly)
}

// emptied returns the room once all leaving jobs have left. A job that is resized frees only the
// workers that do not stay.
func (f *Accounts) emptied() *fit.Room {
	room := f.state.Room.Copy()
	if f.QuotaOnly {
		room.DropUnguaranteed() // room for a blocked head comes after the deserved share of an account
	}
	// Jobs that pause keep their memory.
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
func (r *reclaimer) reclaimFor(c *queue.Contender, leaf *drf.TreeNode) {
	// 1. The job itself must not count as holding room while its account is weighed against others.
	by := beneficiary{c.Job, leaf, r.accounts.Asks(c.Job)}
	if r.accounts.unanticipate(c.Job.ID) {
		defer r.accounts.anticipate(c.Job.ID)
	}
	// 2. A limit or an exhausted entitlement ends the search at once.
	if r.accounts.Limited(leaf, c.Job) || r.state.OverLimit(c.Job).Code != model.ReasonNone ||
		!r.accounts.Entitled(leaf, by.asks) {
		return
	}
	// 3. Room that is reserved for the job itself, or for blocked heads, is used before any job has to
	// leave.
	g := c.Gang(r.state)
	own := r.unkeep(c.Job.ID)
	defer r.keepAgain(own)
	lifted := r.room.LiftUnguaranteed()
	defer lifted.Restore()
	// 4. If the job fits once the leaving jobs have left, no other job has to leave.
	if spots, ok := r.room.Place(g); ok {
		if !r.onItsWay(c, spots) && r.accounts.promised(leaf) { // else it is kept free for others
			r.commit(c, spots, nil)
		}
		return
	}
	// 5. Find the jobs to take. If there are none, the next try waits, since each one is costly.
	best := r.cheapest(g, by, r.reclaimables)
	if best == nil {
		r.state.WakeAt(r.state.Now + tunables.ReconsiderMS)
		return
	}
	// 6. They count as gone from now on, and their room is kept for this
	// one.
	for _, v := range best.taken {
		r.free(&v)
		r.reclaimables = slices.DeleteFunc(r.reclaimables, func(o reclaimable) bool { return o.job == v.job })
	}
	r.commit(c, best.spots, best.taken)
}

// unkeep takes the reservation of a job off the room of the search and returns it; nil if the job
// has none.
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

// onItsWay reports whether the job already has a reservation for exactly this room, as its
// entitlement.
func (r *reclaimer) onItsWay(c *queue.Contender, spots []fit.Spot) bool {
	own := r.state.Holders[c.Job.ID]
	return own != nil && own.Guaranteed && slices.Equal(own.Claims, reserve.ClaimsFor(r.state, c.Gang(r.state), spots))
}

// Entitled reports whether a leaf, or any account above it, stays within its entitlement with the
// job.
func (f *Accounts) Entitled(leaf *drf.TreeNode, asks drf.Amount) bool {
	for n := leaf; n.Parent() != nil; n = n.Parent() {
		if f.mayReclaim(n) && (n.Within(asks) || f.indivisible(n, asks)) {
			return true
		}
	}
	return false
}

// mayReclaim reports whether an account tree node may displace jobs of others.
func (f *Accounts) mayReclaim(n *drf.TreeNode) bool {
	return !f.QuotaOnly || f.Worth != nil || n.Guaranteed()
}

// promised reports whether a node's entitlement counts as a promise. Under policy rota only a
// configured quota does, an equal part does not.
func (f *Accounts) promised(n *drf.TreeNode) bool { return !f.QuotaOnly || n.Guaranteed() }

// commit asks the taken jobs to leave and reserves their room for the job. The job counts as
// started from now on.
func (r *reclaimer) commit(c *queue.Contender, spots []fit.Spot, taken []reclaimable) {
	if r.state.OverLimitAt(c.Job, spots).Code != model.ReasonNone {
		return
	}
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

// readyBy returns when the taken jobs will have left, together with jobs that are leaving the
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
	// Jobs that are leaving the same nodes already may take longer.
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
		r.state.Act(&fsm.SuspendJob{Job: d.job.ID, Attempt: d.attempt.N, Cause: model.CauseReclaim,
			For: taker})
		return
	}
	r.state.Act(&fsm.StopJob{Job: d.job.ID, Attempt: d.attempt.N, Cause: model.CauseReclaim,
		For: taker})
}
