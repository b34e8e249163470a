// Package reserve keeps room for jobs that wait. Reservations for queue heads bound how often these
// are passed. Other functions check whether the room of a reservation will come.
//
// [Forecast] says when room comes free if every attempt runs to its time limit. [Bypass] counts
// starts that pass a head.
package reserve

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// MaxReservations bounds the reservations of the whole cluster. Each one keeps room idle, and
// beyond a few heads it is guesswork which room that will be.
const MaxReservations = 16

// HeadRules are a policy's rules for queue heads. A hook that is nil does not count.
type HeadRules struct {
	Order *queue.Order
	// the job is within its account's quota: its reservation goes before others
	Within func(*model.Job) bool
	Start  func(c *queue.Contender, spots []fit.Spot, past model.JobID) bool // see [scratch.State.Start]
}

// Bypass bounds how often blocked heads are passed, and makes their reservations.
type Bypass struct {
	state    *scratch.State
	rules    *HeadRules
	waiting  []blocked       // heads without a reservation, in order; starts are counted against the first
	reserved map[string]bool // accounts that hold a reservation
	forecast *Forecast
}

// blocked is a head and the number of starts past it, this cycle included.
type blocked struct {
	contender *queue.Contender
	passed    int
}

// NewBypass begins with the reservations in force.
func NewBypass(r *HeadRules) *Bypass {
	b := &Bypass{state: r.Order.State, rules: r, reserved: map[string]bool{}, forecast: NewForecast(r.Order.State)}
	for _, r := range b.state.View.Reservations() {
		if b.state.Holders[r.Job] != nil {
			b.reserved[b.state.View.Job(r.Job).Account] = true
		}
	}
	return b
}

func (b *Bypass) withinQuota(j *model.Job) bool { return b.rules.Within != nil && b.rules.Within(j) }

// Consider protects a head that comes next: with a reservation if that is due, else by counting the
// starts that pass it.
func (b *Bypass) Consider(h *queue.Contender) {
	within := b.withinQuota(h.Job)
	own := b.state.Holders[h.Job.ID]
	switch {
	case b.state.Barred(h.Job).Code != model.ReasonNone: // room would stay idle for it
		return
	case own != nil && (own.ForPreemptor || own.Guaranteed || !within):
		return
	case own == nil && b.rules.Order.LeavesRoom(h.Job):
		return
	case own == nil && b.reserved[h.Job.Account] && (!within || b.replaceable(h) == 0):
		return
	}
	due := h.Job.Eligible + model.Instant(b.state.Policy.ReserveAfterMS)
	passed := int(h.Job.Bypassed)
	if b.state.Started[h.Job.ID] > 0 {
		passed = 0 // the next task of an array has not been passed yet
	}
	if b.state.Now >= due || passed >= b.state.Policy.MaxBypass {
		b.reserveFor(h)
		return
	}
	b.state.WakeAt(due)
	b.waiting = append(b.waiting, blocked{contender: h, passed: passed})
}

// replaceable returns the job whose reservation a head within quota may replace. It is of the
// head's account and not within quota itself, and no job leaves for it; of several it is the
// oldest. 0 if there is none.
func (b *Bypass) replaceable(h *queue.Contender) (oldest model.JobID) {
	for id, r := range b.state.Holders {
		if !r.ForPreemptor && !r.Guaranteed && b.state.View.Job(id).Account == h.Job.Account && (oldest == 0 || id < oldest) {
			oldest = id
		}
	}
	return oldest
}

// Past returns the head that the next start goes past, 0 if there is none.
func (b *Bypass) Past() model.JobID {
	if len(b.waiting) == 0 {
		return 0
	}
	return b.waiting[0].contender.Job.ID
}

// Passed counts a start. Room is reserved for a head that has been passed often enough, before the
// next start.
func (b *Bypass) Passed() {
	if len(b.waiting) == 0 {
		return
	}
	b.waiting[0].passed++
	if b.waiting[0].passed < b.state.Policy.MaxBypass {
		return
	}
	b.reserveFor(b.waiting[0].contender)
	b.waiting = b.waiting[1:]
}

// reserveFor keeps room for a head if there is a set of nodes that could ever hold it and the
// cluster's limit allows it.
func (b *Bypass) reserveFor(h *queue.Contender) {
	within := b.withinQuota(h.Job)
	if kept(b.state) >= MaxReservations && !within || b.state.Barred(h.Job).Code != model.ReasonNone {
		return
	}
	var lifted fit.LiftedClaims
	if within {
		lifted = b.state.Room.LiftUnguaranteed()
	}
	claims := b.forecast.Soonest(h.Gang(b.state))
	lifted.Restore()
	if claims == nil || b.state.OverLimitOn(h.Job, claims).Code != model.ReasonNone {
		return
	}
	old := b.replaceable(h)
	if old == 0 && kept(b.state) >= MaxReservations {
		if old = youngestKept(b.state); old == 0 {
			return
		}
	}
	if within && old != 0 {
		b.state.Unreserve(b.state.Holders[old])
		delete(b.state.Holders, old)
		b.state.Freed = true
	}
	b.reserved[h.Job.Account] = true
	r := b.state.NewReservation(h.Job.ID, claims, b.state.Now)
	r.Guaranteed = within
	b.state.Reserve(r)
	if within && old != 0 && b.firstBefore(h.Job) {
		return // the room that is free again is offered to that job first
	}
	// Of reservations made at one instant the older job's binds the younger one: it may just have
	// become possible to start.
	if spots, ok := b.state.Room.Place(h.Gang(b.state)); ok {
		b.rules.Start(h, spots, 0)
	}
}

// firstBefore reports whether a job of the same class comes before h because it left its room to
// another job that did not use it. It does not if h comes first for the same reason.
func (b *Bypass) firstBefore(h *model.Job) bool {
	if h.OwnRoomFirst {
		return false
	}
	for g := range b.state.View.QueueGroups() {
		if g.Key.Held || g.Key.Class != h.Class {
			continue
		}
		for _, j := range g.Jobs {
			if j.OwnRoomFirst && b.state.Started[j.ID] == 0 && b.rules.Order.Startable(j) {
				return true
			}
		}
	}
	return false
}

// youngestKept returns the youngest job for which room is kept idle that is not within its
// account's quota, 0 if there is none.
func youngestKept(t *scratch.State) (youngest model.JobID) {
	for id, r := range t.Holders {
		if !r.ForPreemptor && !r.Guaranteed {
			youngest = max(youngest, id)
		}
	}
	return youngest
}

// kept counts the reservations that keep room idle. Those of room that others are leaving do not
// count.
func kept(t *scratch.State) int {
	n := 0
	for _, r := range t.Holders {
		if !r.ForPreemptor {
			n++
		}
	}
	return n
}
