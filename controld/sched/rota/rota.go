// Package rota is policy rota, the policy of new clusters.
//
// Trial-and-error jobs start at once, with the room of the cheapest best-effort jobs if need be.
// Best-effort jobs are served by the part of their account, priority, service index and age. No job
// has to say how long it runs. docs/policy.md has the whole policy on one page.
package rota

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/groups"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/elastic"
	"github.com/rota-hpc/rota/controld/sched/fairshare"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/place"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/reserve"
	"github.com/rota-hpc/rota/controld/sched/scratch"
	"github.com/rota-hpc/rota/jobspec"
)

// rotaPolicy is policy rota in one cycle.
type rotaPolicy struct {
	state    *scratch.State
	order    queue.Order
	pack     *place.Packer
	sizes    *elastic.Sizing
	spare    *headroom // nil: none is kept
	matches  matcher
	freeUp   freeCapacity
	hopeless map[model.JobID]bool // trial-and-error jobs for which no job can be asked to leave
	fair     *fairshare.Accounts  // holdings of accounts and users; nil until first needed
	terms    *configuredTerms     // nil until it is needed
	teCaps   *preempt.TECaps      // caps on the holdings of trial-and-error jobs
	putOut   map[string]bool      // accounts: see [preempt.PutOut]
}

func newRota(t *scratch.State, rooms *Cache) *rotaPolicy {
	p := &rotaPolicy{state: t, pack: place.NewPacker(t), sizes: elastic.NewSizing(t), spare: newHeadroom(t, rooms),
		teCaps: preempt.NewTECaps(t)}
	p.order = queue.Order{
		State: t, MayStart: p.mayStart, Level: p.levelOf, Excess: p.excess, HoldsBack: p.backsOff, Bounded: p.limits,
		TeLimited: p.teCaps.Binds(),
	}
	return p
}

// startable reports whether a job may start now.
func (t *rotaPolicy) startable(j *model.Job) bool { return t.order.Startable(j) }

// mayStart reports whether no limit of its account or user keeps a job from starting.
func (t *rotaPolicy) mayStart(j *model.Job) bool { return !t.teCaps.Exceeds(j) && !t.overLimit(j) }

// serve starts what fits.
func (t *rotaPolicy) serve() {
	place.InOrder(&place.Rules{
		HeadRules: reserve.HeadRules{Order: &t.order, Within: t.withinQuota, Start: t.start},
		Blocked:   func(j *model.Job) bool { return !t.mayStart(j) || t.backsOff(j) },
		Denied:    t.overLimitAt,
		Next:      func(l *queue.Line) (*queue.Contender, []fit.Spot, bool) { return t.matches.next(t, l) },
	})
}

// start starts a job and updates caps and holdings. It reports success.
func (t *rotaPolicy) start(c *queue.Contender, spots []fit.Spot, past model.JobID) bool {
	if t.state.BarredAt(c.Job, spots) {
		return false
	}
	t.teCaps.Count(c.Job) // before its reservation ends
	c.Start(t.state, spots, past)
	if c.Job.Class == jobspec.TE {
		t.spare.begun(c.Gang(t.state), spots)
	}
	t.spare.took(spots)
	t.pack.Took(spots)
	return true
}

// reasonOf returns the reason of a wait that comes from a rule of this policy.
func (t *rotaPolicy) reasonOf(j *model.Job) (model.Reason, bool) {
	if why, capped := t.teCaps.Reason(j); capped {
		return why, true
	}
	return model.Reason{Code: model.ReasonNoVictim}, t.hopeless[j.ID]
}

// advise explains a wait whose reason a user cannot see elsewhere.
func (t *rotaPolicy) advise(j *model.Job) string {
	if t.backsOff(j) {
		return "requeue backoff after a preemption: it may start once it would leave a tenth of the cluster free, or an " +
			"hour after the last submission"
	}
	return ""
}

func newPreemptor(p *rotaPolicy, candidates *preempt.Cache) *preemptor {
	return &preemptor{state: p.state, rota: p, search: preempt.NewPreemptor(p.state, candidates)}
}

// preemptor makes room for jobs that wait by asking others to leave.
type preemptor struct {
	state  *scratch.State
	rota   *rotaPolicy
	search *preempt.Preemptor
	places map[model.JobID]int // places of waiting best-effort jobs in the order
	beyond []int64             // by candidate: see beyondCost
}

// makeRoom makes room for jobs that still wait: for trial-and-error jobs first, unless they have put
// out an account for too long.
func (m *preemptor) makeRoom() {
	// Trial-and-error jobs come first. But if they have put out an account for longer than they may
	// run, best-effort jobs get their turn before them in this cycle.
	waiting := m.waitingTE()
	if len(waiting) > 0 {
		m.rota.putOut = preempt.PutOut(m.state)
	}
	if len(m.rota.putOut) > 0 {
		m.makeRoomForBE()
		m.serveTE(waiting)
		return
	}
	m.serveTE(waiting)
	m.makeRoomForBE()
}

// serveTE makes room for trial-and-error jobs that did not fit, first come first served.
func (m *preemptor) serveTE(waiting []waiter) {
	// vain holds groups for which a search found no way: their other jobs ask for the same.
	vain, tried := map[*groups.Group]bool{}, 0
	for _, c := range waiting {
		if m.rota.teCaps.Exceeds(c.job) {
			continue // promises to earlier jobs exhausted the cap
		}
		if _, known := vain[c.group]; !known {
			vain[c.group] = !reserve.Holdable(m.state, c.group)
		}
		if !vain[c.group] {
			if tried++; tried > maxCallers {
				return
			}
			g := m.state.Gang(c.job)
			if m.preemptForTE(c.job, &g) {
				continue
			}
			vain[c.group] = len(c.job.Exclude) == 0
		}
		if m.rota.hopeless == nil {
			m.rota.hopeless = map[model.JobID]bool{}
		}
		m.rota.hopeless[c.job.ID] = true
	}
}

// waiter is a job that waits, and its group. If there is no room for it, there is none for the next
// jobs of its group.
type waiter struct {
	job   *model.Job
	group *groups.Group
	level int // of a best-effort job
}

// waitingTE lists the startable trial-and-error jobs without a start or a promise of room in this
// cycle.
func (m *preemptor) waitingTE() []waiter {
	var list []waiter
	for at, front := range m.state.View.QueueHeads() {
		if front.Held || !front.TE {
			continue
		}
		taken, group := 0, m.state.View.QueueGroupAt(at)
		if m.state.GroupOverLimit(group) {
			continue
		}
		for _, j := range group.Jobs {
			if m.state.Started[j.ID] == 0 && !m.state.AwaitsVictims(j.ID) && m.rota.startable(j) {
				list = append(list, waiter{job: j, group: group})
				if taken++; taken == maxCallers {
					break
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b waiter) int { return m.rota.order.Compare(a.job, b.job) })
	return list
}

// isWide reports whether a candidate is a wide gang. Wide gangs stay: they would wait long for so
// many GPUs to come free together again, and the other job mostly needs few.
func isWide(v *preempt.Candidate) bool { return v.Surplus == nil && v.Gpus >= model.WideGPUs }

// mayDisplace reports whether a candidate was displaced seldom enough within a day and would not
// lose too much. A job that pauses loses nothing.
func (m *preemptor) mayDisplace(v *preempt.Candidate) bool {
	limit := cmp.Or(m.state.Policy.MaxPreempts, preemptsPerDay)
	return (limit < 0 || v.Job.DisplacedSince(m.state.Now-scratch.Day) < limit) &&
		(v.Pauses || !preempt.Wasteful(m.state, v.Job))
}

// mayDisplaceRunning is mayDisplace for a job that runs. Most run for the first time, and then
// their runs say it all.
func (m *preemptor) mayDisplaceRunning(v *preempt.Candidate) bool {
	if v.Again {
		return m.mayDisplace(v)
	}
	if !v.Pauses && v.Saves > 0 && v.Started > 0 &&
		int64(m.state.Now-v.Started)%v.Saves*preempt.WastePart > int64(min(m.state.Now-v.Since, scratch.Day)) {
		return m.mayDisplace(v)
	}
	return true
}

// allDegrees are all degrees of reluctance, as bits.
const allDegrees = ^uint64(0)

// preempt asks the cheapest set of victims to leave that lets a job start, and keeps the room for
// it. If enough is free or being freed already, no job is asked. Certain degrees of reluctance, as
// bits, are tried one after another. It reports whether there was a way.
func (m *preemptor) preempt(j *model.Job, g *fit.Gang, cause model.Cause, lawful func(*preempt.Candidate) int,
	degrees uint64) bool {
	// 1. The question: how readily each candidate leaves, and the partial candidates of elastic jobs.
	q := m.search.Ask(g, lawful)
	if cause != model.CauseTE {
		q = m.search.WithoutReturning(q)
	}
	before := m.search.OfferPartial(&q, lawful)
	defer m.search.Candidates.Withdraw(before)
	// 2. Try the degrees of reluctance one after another. Degree 0 is tried even if no candidate has
	// it, since it may be that no job has to leave.
	for known := (1 | q.Degrees()) & degrees; known != 0; known &= known - 1 {
		q.Limit = bits.TrailingZeros64(known)
		set := m.affordable(j, q, cause)
		if set == nil || m.state.OverLimitOn(j, m.state.Claims(set.Claims)).Code != model.ReasonNone {
			continue
		}
		if len(set.Candidates) == 0 && cause != model.CauseTE && !m.leavesHeadroom(j, g, cause) {
			return false
		}
		m.carryOut(j, &q, set, cause)
		return true
	}
	return false
}

// leavesHeadroom reports whether a job that starts without preemption leaves free what is kept for
// trial-and-error jobs, as a job that is placed does.
func (m *preemptor) leavesHeadroom(j *model.Job, g *fit.Gang, cause model.Cause) bool {
	lifted := m.lift(j, cause)
	defer lifted.Restore()
	spots, ok := m.state.Room.Place(g)
	return !ok || m.rota.spare.allows(j, g, spots)
}

// lift lifts the claims that are no obstacle to a job for which room is made: those of blocked heads
// that come after it. Trial-and-error jobs are bound by all heads, because a stream of them would
// keep a gang from starting. The caller restores the claims before it returns.
func (m *preemptor) lift(j *model.Job, cause model.Cause) fit.LiftedClaims {
	return m.state.Room.LiftIf(func(r *model.Reservation) bool {
		return !r.ForPreemptor && cause != model.CauseTE && m.yields(r, j)
	})
}

// carryOut reserves the room of a set for a job and asks its victims to leave. A set without
// victims lets the job start at once, if it waited only because of room reserved for a blocked
// head.
func (m *preemptor) carryOut(j *model.Job, q *preempt.Question, set *preempt.Set, cause model.Cause) {
	r := m.search.All()
	// 1. Name the workers that elastic jobs give up. The same claims are lifted as in the search.
	r.DropPartial(set)
	lifted := m.lift(j, cause)
	workers := m.search.ChooseWorkers(q, set)
	lifted.Restore()
	// 2. When will the room be there? When the last victim is gone, and the jobs that are leaving
	// already.
	over := m.state.Now
	for _, i := range set.Candidates {
		grace := scratch.GraceOf(r.List[i].Job)
		if r.List[i].Pauses {
			grace = preempt.PauseCosts(grace)
		}
		over = max(over, m.state.Now+model.Instant(grace))
	}
	for _, c := range set.Claims {
		over = max(over, r.Over[c.Node])
	}
	// 3. Keep the room before any victim is asked, so that no other job takes it. If no job has to
	// leave for it, the reservation is for room that is left over.
	m.state.Room.Unclaim(j.ID)
	m.rota.teCaps.Count(j)
	own, kept := m.state.Holders[j.ID], m.reservationFor(j, set, over)
	kept.Leftover = cause != model.CauseTE && len(set.Candidates) == 0 && (own == nil || !own.ForPreemptor || own.Leftover)
	m.state.Reserve(kept)
	// 4. Ask the victims to leave, pause or give up workers.
	for _, i := range set.Candidates {
		if v := &r.List[i]; v.Surplus != nil {
			m.search.ResizeFor(v, workers[i], j.ID)
		} else {
			r.Stop(m.state, v, cause, j.ID)
		}
	}
	// 5. If no job has to leave, the job starts at once.
	m.noteInexact(set)
	if len(set.Candidates) == 0 {
		if spots, ok := m.state.Room.Place(q.Gang); ok {
			m.rota.start(queue.NewContenderFor(&m.rota.order, j, q.Gang), spots, 0)
		}
	}
}
