package sched

import (
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// maxReservations bounds the reservations of the whole cluster. Each one keeps room idle, and beyond a few heads it is guesswork which room
// that will be.
const maxReservations = 16

// headRules are what a policy says about queue heads. A hook that is nil does not count.
type headRules struct {
	*jobOrder
	within       func(*cluster.Job) bool                           // the job is within its account's quota: its reservation goes before others
	reserveAfter func(j *cluster.Job, within bool) cluster.Instant // how long a head waits before its room is kept; nil: as the policy block says
	start        func(c *contender, spots []fit.Spot, past cluster.JobID)
}

// bypass bounds how often blocked heads are passed, and makes their reservations.
type bypass struct {
	*headRules
	waiting  []blocked       // heads without a reservation, in order; starts are counted against the first
	reserved map[string]bool // accounts that hold a reservation
	forecast *forecast
}

// blocked is a head and how many starts have gone past it, those of this cycle included.
type blocked struct {
	contender *contender
	passed    int
}

// newBypass begins with the reservations in force.
func newBypass(r *headRules) *bypass {
	b := &bypass{headRules: r, reserved: map[string]bool{}, forecast: newForecast(r.trial)}
	for _, r := range b.view.Reservations() {
		if b.holders[r.Job] != nil {
			b.reserved[b.view.Job(r.Job).Account] = true
		}
	}
	return b
}

func (b *bypass) owes(j *cluster.Job) bool { return b.within != nil && b.within(j) }

// consider protects a head whose turn it is: with a reservation if that is due, else by counting the starts that pass it.
func (b *bypass) consider(h *contender) {
	within := b.owes(h.job)
	own := b.holders[h.job.ID]
	switch {
	case own != nil && (own.Firm || own.Owed || !within):
		return
	case own == nil && b.leavesRoom(h.job):
		return
	case own == nil && b.reserved[h.job.Account] && (!within || b.replaceable(h) == 0):
		return
	}
	due := h.job.Eligible + b.waitOf(h.job, within)
	passed := h.job.Bypassed
	if b.started[h.job.ID] > 0 {
		passed = 0 // the next task of an array has not been passed yet
	}
	if b.now >= due || passed >= b.policy.MaxBypass {
		b.reserveFor(h)
		return
	}
	b.wakeAt(due)
	b.waiting = append(b.waiting, blocked{contender: h, passed: passed})
}

// waitOf returns how long a head waits before its room is kept.
func (b *bypass) waitOf(j *cluster.Job, within bool) cluster.Instant {
	if b.reserveAfter != nil {
		return b.reserveAfter(j, within)
	}
	return cluster.Instant(b.policy.ReserveAfterMS)
}

// replaceable returns the job whose reservation a head within quota may replace: of its own account, not firm, and not within quota itself; of several the
// oldest job. 0 if there is none.
func (b *bypass) replaceable(h *contender) (oldest cluster.JobID) {
	for id, r := range b.holders {
		if !r.Firm && !r.Owed && b.view.Job(id).Account == h.job.Account && (oldest == 0 || id < oldest) {
			oldest = id
		}
	}
	return oldest
}

// past returns the head that the next start goes past, 0 if there is none.
func (b *bypass) past() cluster.JobID {
	if len(b.waiting) == 0 {
		return 0
	}
	return b.waiting[0].contender.job.ID
}

// passed counts a start. Room is reserved for a head that has been passed often enough, before the next start.
func (b *bypass) passed() {
	if len(b.waiting) == 0 {
		return
	}
	b.waiting[0].passed++
	if b.waiting[0].passed < b.policy.MaxBypass {
		return
	}
	b.reserveFor(b.waiting[0].contender)
	b.waiting = b.waiting[1:]
}

// reserveFor keeps room for a head if there is a set of nodes that could ever hold it and the cluster's limit allows it.
func (b *bypass) reserveFor(h *contender) {
	within := b.owes(h.job)
	if kept(b.trial) >= maxReservations && !within {
		return
	}
	restore := func() {}
	if within {
		restore = b.room.WaiveNotOwed()
	}
	claims := b.forecast.soonest(h.gang(b.trial))
	restore()
	if claims == nil {
		return
	}
	old := b.replaceable(h)
	if old == 0 && kept(b.trial) >= maxReservations {
		if old = youngestKept(b.trial); old == 0 {
			return
		}
	}
	if within && old != 0 {
		b.unreserve(b.holders[old])
		delete(b.holders, old)
		b.freed = true
	}
	b.reserved[h.job.Account] = true
	b.reserve(&cluster.Reservation{
		Job: h.job.ID, Claims: claims, At: b.now, Until: b.now + cluster.Instant(b.policy.ReserveHoldMS), Owed: within,
	})
	if within && old != 0 && b.firstBefore(h.job) {
		return // the room that is free again is offered to that job first
	}
	// Of reservations made at one instant the older job's binds the younger one: it may just have become possible to start.
	if spots, ok := b.room.Place(h.gang(b.trial)); ok {
		b.start(h, spots, 0)
	}
}

// firstBefore reports whether a job of the same class comes first because it left its room to another that did not use it, unless h does so as well.
func (b *bypass) firstBefore(h *cluster.Job) bool {
	if h.First {
		return false
	}
	for g := range b.view.Groups() {
		if g.Key.Held || g.Key.Class != h.Class {
			continue
		}
		for _, j := range g.Jobs {
			if j.First && b.started[j.ID] == 0 && b.startable(j) {
				return true
			}
		}
	}
	return false
}

// youngestKept returns the youngest job for which room is kept idle that is not within its account's quota, 0 if there is none.
func youngestKept(t *trial) (youngest cluster.JobID) {
	for id, r := range t.holders {
		if !r.Firm && !r.Owed {
			youngest = max(youngest, id)
		}
	}
	return youngest
}

// kept counts the reservations that keep room idle: all except those of room that others are leaving.
func kept(t *trial) int {
	n := 0
	for _, r := range t.holders {
		if !r.Firm {
			n++
		}
	}
	return n
}
