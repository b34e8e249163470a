package sched

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
	shares "github.com/rota-hpc/rota/controld/sched/share"
)

// # Reclaim
//
// A waiting job whose account, or user within an account, is below what it deserves gets room from those who hold more than their share.
// Who leaves is found by trying: running jobs are taken away on a copy of the room, one by one, until the waiting job can be placed;
// then those that turned out not to be needed are put back. Only if the job is placed in the end anything is done at all: the others are
// asked to leave, and their room is kept for it in the log.
//
// Where the ways of the two from the root part, the taker with its job must be within what it is entitled to. The other must be above its
// share, and so must everything down to its user, each time before one of its jobs is taken; its usage ratio must be the greater one.
// Jobs that have run for less than MinRuntimeMS are left alone, and so are trial-and-error jobs.

const (
	// maxReclaims bounds the jobs of one cycle for which room is searched. Those that find none wait for the next.
	maxReclaims = 32
	// reconsider is when a search that found nothing is made again although nothing has happened: usage and running times have grown.
	reconsider = 60_000
)

// reclaim finds room for those below what they deserve. It looks at what will be held when those have left who are leaving and those have
// started for whom room is kept.
func (f *fair) reclaim() {
	if f.freed {
		return
	}
	f.foresee()
	starved := f.starved()
	if starved == nil {
		return
	}
	room, victims := f.emptied(), f.holding()
	for range maxReclaims {
		c, leaf := starved.best()
		if c == nil {
			return
		}
		starved.pop(leaf)
		f.reclaimFor(c, leaf, room, &victims)
	}
}

// doubted returns those of whom it is not known when their room comes: it is kept in case somebody ends who holds it, as for any blocked head. What an
// account deserves comes before that, so they are lined up with those for whom no room is kept. Who has room that is free or being freed, or that
// others are to leave for him, need not be.
func (f *fair) doubted() []*cluster.Job {
	var inForce []*cluster.Reservation
	soft := false
	for id, r := range f.holders {
		if f.started[id] == 0 {
			inForce, soft = append(inForce, r), soft || !r.Firm && f.counts(r)
		}
	}
	if !soft {
		return nil
	}
	slices.SortFunc(inForce, precedence)
	p := newProspects(f.trial)
	var list []*cluster.Job
	for _, r := range inForce {
		if j := f.view.Job(r.Job); !p.cover(r) && !r.Firm && f.counts(r) && j.Hold == cluster.NotHeld && f.startable(j) {
			list = append(list, j)
		}
	}
	return list
}

// precedence orders reservations: see [cluster.Reservation.Before].
func precedence(a, b *cluster.Reservation) int {
	switch {
	case a.Before(b):
		return -1
	case b.Before(a):
		return 1
	}
	return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Job, b.Job))
}

// starved lines up the first waiting job of every leaf for which no room is kept, and those whose room is in doubt; nil if there is none.
func (f *fair) starved() *queue {
	first := firsts[*shares.Node]{}
	f.firstsStarved(first, f.glance(nil, first))
	var q *queue
	add := func(leaf *shares.Node, c *contender) {
		if f.entitled(leaf, f.asks(c.job)) {
			if q == nil {
				q = newQueue(f)
			}
			q.push(leaf, c)
		}
	}
	for leaf, r := range first {
		add(leaf, &contender{job: f.view.Job(r.job)})
	}
	for _, j := range f.doubted() {
		restore := f.apart(j.ID)
		add(f.leaf(j.Leaf()), &contender{job: j})
		restore()
	}
	return q
}

// firstsStarved finds the first waiting job of every leaf for which no room is kept. Without a glance all groups are looked at.
func (f *fair) firstsStarved(first firsts[*shares.Node], q *glance) {
	for at, front := range f.view.Fronts() {
		if front.Held || q.does(at, front) {
			continue
		}
		if j := f.firstStarved(f.view.GroupAt(at)); j != nil {
			first.of(f.leaf(j.Leaf())).keep(keyOf(j))
		}
	}
}

// firstStarved returns the first job of a group for which no room is kept, nil if there is none. It does not matter how the job stands in line: who
// was lined up apart because he has waited for long is owed as much as his like.
func (f *fair) firstStarved(g *cluster.Group) *cluster.Job {
	for _, j := range g.Jobs {
		if f.started[j.ID] == 0 && !f.keeps(j.ID) && f.startable(j) {
			return j
		}
	}
	return nil
}

// keeps reports whether room is kept for a job so that it need not be made: under policy rota not if that is what is kept for any blocked head,
// which comes after what an account deserves.
func (f *fair) keeps(id cluster.JobID) bool { return f.counts(f.holders[id]) }

// counts reports whether somebody counts as there because of a reservation.
func (f *fair) counts(r *cluster.Reservation) bool {
	return r != nil && (r.Firm || r.Owed || !f.quotaOnly)
}

// emptied returns the room when all have left who are leaving. Of a job that is resized only those workers are that do not stay.
func (f *fair) emptied() *fit.Room {
	room := f.room.Copy()
	if f.quotaOnly {
		room.LiftNotOwed() // what is kept for a blocked head comes after what an account deserves
	}
	for j := range f.view.Live() {
		if a := j.Live(); a.Stop != nil {
			f.release(room, j, a)
		}
	}
	return room
}

// reclaimFor makes room for one job if it can: on one node if possible, where it costs least.
func (f *fair) reclaimFor(c *contender, leaf *shares.Node, room *fit.Room, victims *[]debtor) {
	asks := f.asks(c.job)
	defer f.apart(c.job.ID)()
	if f.limited(leaf, c.job) || !f.entitled(leaf, asks) {
		return
	}
	g := c.gang(f.trial)
	defer f.unkept(c.job.ID, room)()
	defer room.WaiveNotOwed()()         // what is kept for those above their share is his before anybody has to leave
	if spots, ok := room.Place(g); ok { // room is on its way
		if !f.onItsWay(c, spots) {
			f.commit(c, room, spots, nil)
		}
		return
	}
	best := f.cheapestRested(g, leaf, asks, room, *victims)
	if best == nil {
		f.wakeAt(f.now + reconsider)
		return
	}
	for _, v := range best.taken {
		f.release(room, v.job, v.attempt)
		*victims = slices.DeleteFunc(*victims, func(o debtor) bool { return o.job == v.job })
	}
	f.commit(c, room, best.spots, best.taken)
}

// unkept lifts what is kept for a job in case somebody ends until the function that it returns is called, unless something else is kept for it by then.
func (f *fair) unkept(id cluster.JobID, room *fit.Room) (restore func()) {
	own := f.holders[id]
	if own == nil {
		return func() {}
	}
	room.Unclaim(id)
	return func() {
		if f.holders[id] == own {
			room.Claim(own)
		}
	}
}

// onItsWay reports whether exactly this room is kept for a job already, as what it is owed.
func (f *fair) onItsWay(c *contender, spots []fit.Spot) bool {
	own := f.holders[c.job.ID]
	return own != nil && own.Owed && slices.Equal(own.Claims, claimsFor(f.trial, c.gang(f.trial), spots))
}

// entitled reports whether a leaf or anything above it is with the job within what it is entitled to.
func (f *fair) entitled(leaf *shares.Node, asks shares.Amount) bool {
	for n := leaf; n.Parent() != nil; n = n.Parent() {
		if n.Within(asks) && f.mayReclaim(n) {
			return true
		}
	}
	return false
}

// mayReclaim reports whether a node may have others displaced. Under policy rota, where service counts too, an equal part of what is left is not
// worth that, but only what was configured.
func (f *fair) mayReclaim(n *shares.Node) bool { return !f.quotaOnly || n.Guaranteed() }

// commit asks those who were taken to leave and keeps the room for the job, which counts as there from now on.
func (f *fair) commit(c *contender, room *fit.Room, spots []fit.Spot, taken []debtor) {
	claims := claimsFor(f.trial, c.gang(f.trial), spots)
	r := &cluster.Reservation{
		Job: c.job.ID, Claims: claims, At: f.now, Until: f.readyBy(claims, taken) + cluster.Instant(f.policy.ReserveHoldMS),
		Firm: len(taken) > 0, Owed: true,
	}
	room.Unclaim(c.job.ID)
	room.Claim(r)
	f.room.Unclaim(c.job.ID)
	f.reserve(r)
	for i := range taken {
		f.displace(&taken[i], c.job.ID)
	}
	f.catchUp()
	f.promise(c.job.ID)
}

// readyBy returns when those who were taken will have left, and those who are leaving the claimed nodes already.
func (f *fair) readyBy(claims []cluster.Claim, taken []debtor) cluster.Instant {
	by := f.now
	for i := range taken {
		by = max(by, f.now+cluster.Instant(graceOf(taken[i].job)))
	}
	for j := range f.view.Live() {
		a := j.Live()
		if a.Stop == nil || a.Stop.KillAt <= by {
			continue
		}
		if slices.ContainsFunc(a.Workers, func(w cluster.Worker) bool {
			return !w.State.Final() && slices.ContainsFunc(claims, func(c cluster.Claim) bool { return c.Node == w.Node })
		}) {
			by = a.Stop.KillAt
		}
	}
	return by
}

// displace asks a job to leave for another.
func (f *fair) displace(d *debtor, taker cluster.JobID) {
	if f.roster != nil {
		if i := slices.IndexFunc(f.roster.victims, func(v victim) bool { return v.job.ID == d.job.ID }); i >= 0 {
			f.roster.stop(f.trial, &f.roster.victims[i], cluster.CauseReclaim, taker)
			return
		}
	}
	f.act(cluster.Action{Stop: &cluster.StopJob{Job: d.job.ID, Attempt: d.attempt.N, Cause: cluster.CauseReclaim, For: taker}})
}
