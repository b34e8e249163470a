package sched

import (
	"cmp"
	"iter"
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// Baselines are what other schedulers do, to compare with. They know no classes, shares or reservations in the log, and disturb
// nothing that runs unless their name says so. They look at every job in the state, so they are no policies for large clusters.

// fifo serves jobs strictly in the order in which they came: nobody passes the first that does not fit.
func fifo(t *trial) {
	for j := range t.waiting() {
		if !t.startWhole(j) {
			return
		}
	}
}

// backfill serves jobs in the order in which they came, and lets everybody pass those that do not fit, however often.
func backfill(t *trial) { t.startAny(t.waiting()) }

// shortest serves the jobs with the lowest time limit first, those without one last, and lets others pass as backfill does.
func shortest(t *trial) {
	jobs := slices.Collect(t.waiting())
	slices.SortFunc(jobs, func(a, b *cluster.Job) int {
		return cmp.Or(cmp.Compare(limitOf(a), limitOf(b)), cmp.Compare(a.ID, b.ID))
	})
	t.startAny(slices.Values(jobs))
}

func limitOf(j *cluster.Job) cluster.Instant {
	if j.Limit <= 0 {
		return never
	}
	return cluster.Instant(j.Limit) * 1000
}

// waiting yields the jobs that may start, oldest first. Jobs that were displaced come at the place of their submission.
func (t *trial) waiting() iter.Seq[*cluster.Job] {
	return func(yield func(*cluster.Job) bool) {
		for j := range t.view.Unassigned() {
			if j.Waits() && t.startable(j) && !yield(j) {
				return
			}
		}
	}
}

// startWhole starts a job, and of a record all members that may start, and reports whether it could.
func (t *trial) startWhole(j *cluster.Job) bool {
	c := &t.desk.lone
	*c = contender{job: j}
	defer func() { *c = contender{} }() // which keeps the job alive
	for {
		spots, ok := t.put(c.asks(t))
		if !ok {
			return false
		}
		t.start(c, spots, 0)
		if !c.advance(t) {
			return true
		}
	}
}

// startAny starts whatever fits, in order. What asks for at least as much as something that has failed is not tried.
func (t *trial) startAny(jobs iter.Seq[*cluster.Job]) {
	var seen frontier
	for j := range jobs {
		g := t.gang(j)
		if seen.covers(&g) || t.startWhole(j) {
			continue
		}
		if len(g.Exclude) == 0 {
			seen.add(&g)
		}
	}
}

// easy is EASY backfilling: the first job that does not fit is promised the earliest instant at which it will if all attempts run to
// their time limit, and others pass it only where that does not delay it.
func easy(t *trial) {
	var promise *promised
	for j := range t.waiting() {
		switch {
		case promise != nil:
			promise.pass(t, j)
		case !t.startWhole(j):
			promise = t.promise(j)
		}
	}
}

// promised is room kept in one cycle for a job that does not fit.
type promised struct {
	at   cluster.Instant
	keep *cluster.Reservation // what those may not take who run beyond at; nil: nothing
	seen frontier             // of those who run no longer
	long frontier             // of those who do
}

// pass starts a job if that does not delay the promise.
func (p *promised) pass(t *trial, j *cluster.Job) {
	short := t.startedNow(j) <= p.at
	seen := &p.seen
	if !short {
		seen = &p.long
	}
	g := t.gang(j)
	if seen.covers(&g) {
		return
	}
	if p.keep != nil && !short {
		t.room.Claim(p.keep)
		defer t.room.Unclaim(p.keep.Job)
	}
	if !t.startWhole(j) && len(g.Exclude) == 0 {
		seen.add(&g)
	}
}

// promise looks ahead for a job: at which instant it fits, and what of the present room it will need then.
func (t *trial) promise(j *cluster.Job) *promised {
	g := t.gang(j)
	ends := t.endings()
	// More room never hurts, so the first instant can be searched for by halves.
	n, _ := slices.BinarySearchFunc(ends, true, func(e release, _ bool) int {
		if t.roomAt(ends, e.at).Fits(&g) {
			return 0
		}
		return -1
	})
	if n == len(ends) {
		return &promised{at: never}
	}
	p := &promised{at: ends[n].at}
	then := t.roomAt(ends, p.at)
	spots, _ := then.Place(&g)
	need := map[int]cluster.Request{}
	for s, part := range g.Seated(spots) {
		need[s.Node] = fit.Plus(need[s.Node], part.Request)
	}
	p.keep = t.keep(j, need, then)
	return p
}

// keep claims of the present room what a job needs of each node beyond what will have been freed there by then.
func (t *trial) keep(j *cluster.Job, need map[int]cluster.Request, then *fit.Room) *cluster.Reservation {
	r := &cluster.Reservation{Job: j.ID}
	for i, n := range t.view.Nodes() {
		q, needed := need[i]
		if !needed {
			continue
		}
		freed := fit.Minus(then.Free(i), t.room.Free(i))
		left := fit.AtLeast(fit.Minus(q, freed))
		left.Cores, left.Memory, left.GPUs = max(0, left.Cores), max(0, left.Memory), max(0, left.GPUs)
		r.Claims = append(r.Claims, cluster.Claim{Node: n.Name, Room: left})
	}
	return r
}

// endings lists what the workers of all attempts give back, those of this cycle included, in the order in which they leave.
func (t *trial) endings() []release {
	list := slices.Concat(t.releases()...)
	sortReleases(list)
	return list
}

// roomAt returns the room when all have left who leave by an instant.
func (t *trial) roomAt(ends []release, at cluster.Instant) *fit.Room {
	r := t.room.Copy()
	for i := range ends {
		if ends[i].at > at {
			break
		}
		r.Release(ends[i].node, ends[i].room, ends[i].gpus)
	}
	return r
}
