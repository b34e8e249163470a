package sched

import (
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/jobspec"
)

// gangPatience is how many times as long as others a gang waits at most before its room is kept.
const gangPatience = 12

// place starts what fits, in order, and sees to it that a blocked head is not passed without bound. It ends early when a start has
// freed room, because then what failed before may fit.
func place(t *trial, l *line) {
	b := bypass{reserved: map[string]bool{}, owes: t.owes}
	b.recall(t)
	var m matcher
	for !t.freed {
		if h := l.nextHead(); h != nil {
			b.consider(t, h)
			continue
		}
		if len(l.open) == 0 {
			return
		}
		if c := l.lead(t); t.overTELimit(c.job) || t.overLimit(c.job) || t.holdsBack(c.job) { // by what has been started since it lined up
			l.open[0].members = nil
			l.next(t)
			continue
		}
		c, spots, ok := m.next(t, l)
		if !ok {
			l.fail(t)
			continue
		}
		if t.overLimitAt(c.job, spots) {
			l.open[0].members = nil
			l.next(t)
			continue
		}
		t.start(c, spots, b.past())
		b.passed(t)
		l.pass(t, c)
	}
}

// start plans a job's next attempt and takes its room on the trial. The first place gets the port at which the gang meets.
func (t *trial) start(c *contender, spots []fit.Spot, past cluster.JobID) {
	port := t.room.Take(c.asks(t), spots)
	t.ample.known = false
	places := make([]cluster.Place, 0, len(spots))
	for i, s := range spots {
		t.willEnd(s.Node, c.job, i, s.GPUs)
		places = append(places, cluster.Place{Node: t.view.Nodes()[s.Node].Name, GPUs: s.GPUs, Port: s.Port})
	}
	t.act(cluster.Action{Start: &cluster.StartJob{Job: c.job.ID, Member: c.member(), Places: places, Port: port, Past: past}})
	t.started[c.job.ID]++
	if c.job.Class == jobspec.TE {
		t.spare.begun(c.asks(t), spots)
	}
	t.spare.took(t, spots)
	t.mix.took(spots)
	t.countTE(c.job)
	if t.holders[c.job.ID] != nil {
		// Its claims are void, so others may fit that were found not to: a new cycle asks all of them again.
		t.freed = true
		t.wakeAt(t.now + 1)
		delete(t.holders, c.job.ID)
	}
}

// gang returns what a job asks of a placement.
func (t *trial) gang(j *cluster.Job) fit.Gang { return fit.NewGang(t.view, j) }

// bypass keeps count of how often blocked heads are passed.
type bypass struct {
	waiting  []blocked       // heads without a reservation, in order; starts are counted against the first
	reserved map[string]bool // accounts that hold a reservation

	owes func(*cluster.Job) bool // whether an account deserves what a job asks for
}

// blocked is a head and how many starts have gone past it, those of this cycle included.
type blocked struct {
	contender *contender
	passed    int
}

// recall notes who holds a reservation already.
func (b *bypass) recall(t *trial) {
	for _, r := range t.view.Reservations() {
		if t.holders[r.Job] != nil {
			b.reserved[t.view.Job(r.Job).Account] = true
		}
	}
}

// consider protects a head whose turn it is: with a reservation if that is due, else by counting who passes.
func (b *bypass) consider(t *trial, h *contender) {
	owed := b.owes(h.job)
	own := t.holders[h.job.ID]
	switch {
	case own != nil && (own.Firm || own.Owed || !owed):
		return
	case own == nil && t.holdsBack(h.job):
		return
	case own == nil && b.reserved[h.job.Account] && (!owed || b.inPlaceOf(t, h) == 0):
		return
	}
	due := h.job.Eligible + t.reserveAfter(h.job, owed)
	passed := h.job.Bypassed
	if t.started[h.job.ID] > 0 {
		passed = 0 // of a record: its next member has not been passed yet
	}
	if t.now >= due || passed >= t.policy.MaxBypass {
		b.reserve(t, h)
		return
	}
	t.wakeAt(due)
	b.waiting = append(b.waiting, blocked{contender: h, passed: passed})
}

// reserveAfter returns how long a head waits before its room is kept. The room of a gang's workers comes free one after another, and what is kept of it
// stands idle until the last is there. So under policy rota, where others leave for a gang whose turn it is, it waits once for each of its workers, within
// bounds. Not if its account deserves what it asks for, nor a wide gang, which hardly ever finds its room by itself.
func (t *trial) reserveAfter(j *cluster.Job, owed bool) cluster.Instant {
	after := cluster.Instant(t.policy.ReserveAfterMS)
	if t.byService && !owed && !j.First && j.Class == jobspec.BE && j.Width() < cluster.WideGPUs {
		after *= cluster.Instant(max(1, min(j.Workers, gangPatience)))
	}
	return after
}

// inPlaceOf returns whose reservation one that is owed to a head takes the place of: that of its account, if it is not owed to anybody, and of
// several the oldest job's. 0 if there is none.
func (b *bypass) inPlaceOf(t *trial, h *contender) (oldest cluster.JobID) {
	for id, r := range t.holders {
		if !r.Firm && !r.Owed && t.view.Job(id).Account == h.job.Account && (oldest == 0 || id < oldest) {
			oldest = id
		}
	}
	return oldest
}

// past returns the head that the next start goes past, 0 if none.
func (b *bypass) past() cluster.JobID {
	if len(b.waiting) == 0 {
		return 0
	}
	return b.waiting[0].contender.job.ID
}

// passed counts a start. The head that has been passed often enough gets its room reserved before the next one.
func (b *bypass) passed(t *trial) {
	if len(b.waiting) == 0 {
		return
	}
	b.waiting[0].passed++
	if b.waiting[0].passed < t.policy.MaxBypass {
		return
	}
	b.reserve(t, b.waiting[0].contender)
	b.waiting = b.waiting[1:]
}

// youngestKept returns the youngest job for which room is kept idle that is not owed to it, 0 if there is none.
func (t *trial) youngestKept() (youngest cluster.JobID) {
	for id, r := range t.holders {
		if !r.Firm && !r.Owed {
			youngest = max(youngest, id)
		}
	}
	return youngest
}

// kept counts the reservations that keep room idle: all but those of room that others are leaving.
func (t *trial) kept() int {
	n := 0
	for _, r := range t.holders {
		if !r.Firm {
			n++
		}
	}
	return n
}

// reserve keeps room for a head if there is a set of nodes that could ever hold it and the cluster's limit allows it.
func (b *bypass) reserve(t *trial, h *contender) {
	owed := b.owes(h.job)
	if t.kept() >= MaxReservations && !owed {
		return
	}
	restore := func() {}
	if owed {
		restore = t.room.WaiveNotOwed()
	}
	claims := soonest(t, h)
	restore()
	if claims == nil {
		return
	}
	old := b.inPlaceOf(t, h)
	if old == 0 && t.kept() >= MaxReservations {
		if old = t.youngestKept(); old == 0 {
			return
		}
	}
	if owed && old != 0 {
		t.unreserve(t.holders[old])
		delete(t.holders, old)
		t.freed = true
	}
	b.reserved[h.job.Account] = true
	t.reserve(&cluster.Reservation{
		Job: h.job.ID, Claims: claims, At: t.now, Until: t.now + cluster.Instant(t.policy.ReserveHoldMS), Owed: owed,
	})
	if owed && old != 0 && t.firstBefore(h.job) {
		return // the room that is free again is offered to that one before
	}
	// Of reservations made at one instant the older job's binds the younger: it may just have opened the door.
	if spots, ok := t.room.Place(h.asks(t)); ok {
		t.start(h, spots, 0)
	}
}

// firstBefore reports whether a job of the same class waits that has left its room to one that did not want it any more, unless this one has, too.
func (t *trial) firstBefore(h *cluster.Job) bool {
	if h.First {
		return false
	}
	for g := range t.view.Groups() {
		if g.Key.Held || g.Key.Class != h.Class {
			continue
		}
		for _, j := range g.Jobs {
			if j.First && t.started[j.ID] == 0 && t.startable(j) {
				return true
			}
		}
	}
	return false
}
