package sched

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/jobspec"
)

// The parameters of policy rota where the policy block does not say.
const (
	rotaCap      = 3              // displacements of one job in a day
	rotaMinTurn  = 20 * 60 * 1000 // ms: a job runs for so long before one that has had less takes its turn
	rotaLongTurn = 10 * 60 * 1000 // ms: the same for who is of a kind that goes on for as long again, by the cluster's history
	rotaCallers  = 64             // jobs of each class that room is looked for in one cycle
	anewAfter    = 4              // times as long as it has run: a job that has waited for so long begins anew, as if it had had nothing
	anewAfterTE  = 1              // the same of one that left for a trial-and-error job: it was just the cheapest, whatever it had had
)

// rota serves trial-and-error jobs at once, with the room of the cheapest best-effort jobs if need be, and best-effort jobs by how little
// they have had, letting others pass a blocked one within bounds. Some room stays free for the trial-and-error jobs that usually come.
//
// Nobody has to say how long a job runs. What a job has had decides: levels of attained service, with age within each. A job
// that waits takes the room of one on a worse level, but only if that one can save its state, has run for a while, and was not displaced
// too often within a day.
func rota(t *trial, candidates *candidateCache, rooms *headroomCache) policyRules {
	p := newRota(t, rooms)
	s := newSurplus(p)
	return policyRules{
		shrink: s.provide, serve: p.serve, resize: s.swell, grow: s.grow,
		preempt: func() {
			m := newMaker(p, candidates)
			if s != nil {
				m.elastic = s.running
			}
			m.serve()
			m.takeTurns()
		},
		compare: p.order.compare, limit: p.limitOf, reason: p.reasonOf, advice: p.advise,
	}
}

// rotaPolicy is policy rota in one cycle.
type rotaPolicy struct {
	*trial
	order    jobOrder
	pack     *packer
	sizes    *sizing
	spare    *headroom // nil: none is kept
	matches  matcher
	ample    ample                  // what is free altogether, as far as it is known
	hopeless map[cluster.JobID]bool // trial-and-error jobs for which no job can be asked to leave
	fair     *fair                  // what accounts and users hold; nil until it is needed
	limit    *bool                  // the configuration has a limit; nil until it is needed
	quota    *bool                  // the configuration has a quota; nil until it is needed
	teHeld   map[string]int64       // by account: thousandths of a GPU of trial-and-error jobs; nil until it is needed
}

func newRota(t *trial, rooms *headroomCache) *rotaPolicy {
	p := &rotaPolicy{trial: t, pack: newPacker(t), sizes: newSizing(t), spare: newHeadroom(t, rooms)}
	p.order = jobOrder{
		trial: t, mayStart: p.mayStart, level: p.levelOf, aged: p.promoted, excess: p.excess, holdsBack: p.holdsBack, bounded: p.limits,
		teLimited: t.policy.TEAccountGPUs > 0,
	}
	return p
}

// startable reports whether a job may start now.
func (t *rotaPolicy) startable(j *cluster.Job) bool { return t.order.startable(j) }

// mayStart reports whether no limit of its account or user keeps a job from starting.
func (t *rotaPolicy) mayStart(j *cluster.Job) bool { return !t.overTELimit(j) && !t.overLimit(j) }

// serve starts what fits.
func (t *rotaPolicy) serve() {
	placeInOrder(&placeRules{
		headRules: headRules{jobOrder: &t.order, within: t.owes, reserveAfter: t.reserveAfter, start: t.start},
		blocked:   func(j *cluster.Job) bool { return !t.mayStart(j) || t.holdsBack(j) },
		denied:    t.overLimitAt,
		next:      func(l *line) (*contender, []fit.Spot, bool) { return t.matches.next(t, l) },
	})
}

// start starts a job and keeps count of what depends on that.
func (t *rotaPolicy) start(c *contender, spots []fit.Spot, past cluster.JobID) {
	t.countTE(c.job)
	c.start(t.trial, spots, past)
	if c.job.Class == jobspec.TE {
		t.spare.begun(c.gang(t.trial), spots)
	}
	t.spare.took(spots)
	t.pack.took(spots)
}

// gangPatience is for how many times as long as others a gang waits at most before its room is kept.
const gangPatience = 12

// reserveAfter returns how long a head waits before its room is kept. The room of a gang's workers comes free one after another, and what is kept of it
// stands idle until the last is there. Other jobs leave for a gang whose turn it is, so it waits once for each of its workers, within bounds. That does
// not hold for a job within its account's quota, nor for a wide gang, which hardly ever finds its room by itself.
func (t *rotaPolicy) reserveAfter(j *cluster.Job, within bool) cluster.Instant {
	after := cluster.Instant(t.policy.ReserveAfterMS)
	if !within && !j.First && j.Class == jobspec.BE && j.Width() < cluster.WideGPUs {
		after *= cluster.Instant(max(1, min(j.Workers, gangPatience)))
	}
	return after
}

// reasonOf returns why a job waits, if that is a rule of the policy's own.
func (t *rotaPolicy) reasonOf(j *cluster.Job) (cluster.Reason, bool) {
	switch {
	case t.overTELimit(j):
		return cluster.Reason{Code: cluster.ReasonTELimit}, true
	case t.hopeless[j.ID]:
		return cluster.Reason{Code: cluster.ReasonNoVictim}, true
	}
	return cluster.Reason{}, false
}

// advise tells what a user cannot see of why a job waits.
func (t *rotaPolicy) advise(j *cluster.Job) string {
	if t.holdsBack(j) {
		return "it has had much: it comes back once that leaves a tenth of the cluster free, or an hour after the last new job has come"
	}
	return ""
}

func newMaker(p *rotaPolicy, candidates *candidateCache) *maker {
	return &maker{rotaPolicy: p, preemptor: &preemptor{state: p.trial, cache: candidates, packer: p.pack}}
}

// maker makes room for jobs that wait by asking others to leave.
type maker struct {
	*rotaPolicy
	*preemptor
	over   []bool                // by candidate: its turn is over
	turnOf []*turn               // by candidate: its place in the order; nil: it has none
	places map[cluster.JobID]int // in the order of turns, of those for whom room is kept
	place  int                   // of the job whose turn it is
	waived func() func()         // lifts the claims that are no obstacle to the job for which room is made, until what it returns is called
}

// serve makes room for the trial-and-error jobs that wait in vain, first come first served.
func (m *maker) serve() {
	vain, tried := map[*cluster.Group]bool{}, 0
	for _, c := range m.callers() {
		if _, known := vain[c.group]; !known {
			vain[c.group] = !holdable(m.trial, c.group)
		}
		if !vain[c.group] {
			if tried++; tried > rotaCallers {
				return
			}
			g := m.gang(c.job)
			if m.makeRoomForTE(c.job, &g) {
				continue
			}
			vain[c.group] = len(c.job.Exclude) == 0
		}
		if m.hopeless == nil {
			m.hopeless = map[cluster.JobID]bool{}
		}
		m.hopeless[c.job.ID] = true
	}
}

// caller is a job that waits, and its group: for whose next jobs there is no room either if there is none for it.
type caller struct {
	job   *cluster.Job
	group *cluster.Group
}

// callers are the trial-and-error jobs that may start and have neither started nor been promised room that others leave.
func (m *maker) callers() []caller {
	var list []caller
	for at, front := range m.view.Fronts() {
		if front.Held || !front.TE {
			continue
		}
		taken, group := 0, m.view.GroupAt(at)
		for _, j := range group.Jobs {
			if r := m.holders[j.ID]; m.started[j.ID] == 0 && (r == nil || !r.Firm) && m.startable(j) {
				list = append(list, caller{j, group})
				if taken++; taken == rotaCallers {
					break
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b caller) int { return m.order.compare(a.job, b.job) })
	return list
}

// lawful says how readily a victim may be taken for a trial-and-error job: 0 at once, 1 if nothing else helps, 2 only when not even that
// does, -1 never.
func (m *maker) lawful(v *victim) int {
	switch {
	case v.surplus != nil && wasteful(m.trial, v.job), v.surplus == nil && !m.mayDisplaceVictim(v):
		return -1
	case m.now-v.since < minRuntime(m.trial):
		return 2
	case v.unsaved > tooMuchUnsaved, isWide(v):
		return 1
	}
	return 0
}

// wide reports whether a victim is a wide gang. It would wait for long until so many GPUs come free together again, for the sake of a job that mostly
// needs few of them.
func isWide(v *victim) bool { return v.surplus == nil && v.gpus >= cluster.WideGPUs }

// mayDisplace reports whether a job has been displaced seldom enough, of late and in its life, and would not lose too much by it.
func (m *maker) mayDisplace(j *cluster.Job) bool {
	limit := cmp.Or(m.policy.MaxPreempts, rotaCap)
	return (limit < 0 || j.DisplacedSince(m.now-day) < limit && !wornOut(j)) && !wasteful(m.trial, j)
}

// mayDisplaceVictim is mayDisplace for who runs. Most run for the first time, and then their runs say it all.
func (m *maker) mayDisplaceVictim(v *victim) bool {
	if v.again {
		return m.mayDisplace(v.job)
	}
	if v.saves > 0 && v.started > 0 && int64(m.now-v.started)%v.saves*wastePart > int64(min(m.now-v.since, day)) {
		return m.mayDisplace(v.job)
	}
	return true
}

// makeRoom asks the cheapest set of victims to leave that lets a job start, and keeps the room for it. If enough is free or being freed
// already, nobody is asked. It reports whether there was a way.
func (m *maker) makeRoom(j *cluster.Job, g *fit.Gang, cause cluster.Cause, lawful func(*victim) int) bool {
	return m.makeRoomBy(j, g, cause, lawful, ^uint64(0))
}

// makeRoomForTE is makeRoom for a trial-and-error job. What accounts hold is worked out only if those jobs of its own that can be taken at once do not
// do.
func (m *maker) makeRoomForTE(j *cluster.Job, g *fit.Gang) bool {
	rest := ^uint64(0)
	if !nested(m.view.Config()) {
		if m.makeRoomBy(j, g, cluster.CauseTE, m.lawfulOf(j.Account), 1<<ofOwn) {
			return true
		}
		rest &^= 1 << ofOwn
	}
	return m.makeRoomBy(j, g, cluster.CauseTE, m.lawfulFor(j), rest)
}

// makeRoomBy is makeRoom with certain degrees of reluctance, as bits, one after another.
func (m *maker) makeRoomBy(j *cluster.Job, g *fit.Gang, cause cluster.Cause, lawful func(*victim) int, degrees uint64) bool {
	r := m.all()
	known := uint64(1) // those degrees of reluctance that there are; nobody at all may have to leave
	for i := range r.victims {
		v := &r.victims[i]
		if v.reluctance = lawful(v); v.reluctance >= 0 {
			known |= 1 << v.reluctance
		}
	}
	defer m.offerMenus(g, lawful)()
	for i := range r.victims {
		if v := &r.victims[i]; v.surplus != nil {
			known |= 1 << v.reluctance
		}
	}
	for known &= degrees; known != 0; known &= known - 1 {
		set := m.affordable(j, g, bits.TrailingZeros64(known), cause)
		if set == nil {
			continue
		}
		if len(set.victims) == 0 && cause != cluster.CauseTE && !m.leavesHeadroom(j, g) {
			return false
		}
		m.carryOut(j, g, set, cause)
		return true
	}
	return false
}

// leavesHeadroom reports whether a job for which nobody would have to leave leaves what is kept free for trial-and-error jobs to them, as one that is
// placed does.
func (m *maker) leavesHeadroom(j *cluster.Job, g *fit.Gang) bool {
	defer m.waived()()
	spots, ok := m.room.Place(g)
	return !ok || m.spare.allows(j, g, spots)
}

// waiving returns what lifts the claims that are no obstacle to a job for which room is made: of room that is kept for blocked heads a
// trial-and-error job takes any, another only what is kept for those whose turn comes after its own.
func (m *maker) waiving(j *cluster.Job, cause cluster.Cause) func() func() {
	return func() func() {
		return m.room.WaiveIf(func(r *cluster.Reservation) bool { return !r.Firm && (cause == cluster.CauseTE || m.yields(r, j)) })
	}
}

// carryOut keeps the room of a set for a job and asks its victims to leave. A job for which nobody has to leave starts at once, if it
// waited only because the room was kept for a blocked head.
func (m *maker) carryOut(j *cluster.Job, g *fit.Gang, set *victimSet, cause cluster.Cause) {
	r := m.all()
	r.plain(set)
	restore := m.waived()
	m.chooseWorkers(g, set)
	restore()
	over := m.now
	for _, i := range set.victims {
		over = max(over, m.now+cluster.Instant(graceOf(r.victims[i].job)))
	}
	v := m.promise(j, set)
	for _, c := range set.claims {
		over = max(over, r.over[c.Node])
	}
	v.Until = over + cluster.Instant(m.policy.ReserveHoldMS)
	m.room.Unclaim(j.ID)
	m.countTE(j)
	m.reserve(v)
	for _, i := range set.victims {
		if v := &r.victims[i]; v.surplus != nil {
			m.resizeFor(v, j.ID)
		} else {
			r.stop(m.trial, v, cause, j.ID)
		}
	}
	m.noteInexact(set)
	if len(set.victims) == 0 {
		if spots, ok := m.room.Place(g); ok {
			m.start(newContenderFor(&m.order, j, g), spots, 0)
		}
	}
}

// levelOf returns the level of a waiting job by what it has had, unless it begins anew. A gang goes by the level that decides on its turn: one whose
// like take long would else gather room that those of others had been asked to leave for.
func (t *rotaPolicy) levelOf(j *cluster.Job) int {
	if j.Workers > 1 && j.Class == jobspec.BE {
		level, _ := t.reckon(j, &served{})
		return level
	}
	level := j.Level()
	if level > 0 && t.promoted(j) {
		return 0
	}
	return level
}

// promoted reports whether a job has waited for so long that it begins anew.
func (t *rotaPolicy) promoted(j *cluster.Job) bool {
	times := int64(anewAfter)
	if n := len(j.Attempts); n > 0 && j.Attempts[n-1].Cause == cluster.CauseTE {
		times = anewAfterTE
	}
	return int64(t.now-j.Eligible) >= times*j.RanFor(j.Attained())
}
