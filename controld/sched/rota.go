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
	rotaCap        = 3                   // displacements of one job in a day
	rotaCapForLife = 10                  // and in its life, unless an account cannot get back what it was promised otherwise
	rotaMinTurn    = 20 * 60 * 1000      // ms: a job runs for so long before one that has had less takes its turn
	rotaLongTurn   = 10 * 60 * 1000      // ms: the same for who is of a kind that goes on for as long again, by the cluster's history
	rotaCallers    = 64                  // jobs of each class that room is looked for in one cycle
	anewAfter      = 4                   // times as long as it has run: a job that has waited for so long begins anew, as if it had had nothing
	anewAfterTE    = 1                   // the same of one that left for a trial-and-error job: it was just the cheapest, whatever it had had
	day            = 24 * 60 * 60 * 1000 // ms
)

// rota serves trial-and-error jobs at once, with the room of the cheapest best-effort jobs if need be, and best-effort jobs by how little
// they have had, letting others pass a blocked one within bounds. Some room stays free for the trial-and-error jobs that usually come.
//
// Nobody has to say how long a job runs. What a job has had decides: levels of attained service, with age within each. A job
// that waits takes the room of one on a worse level, but only if that one can save its state, has run for a while, and was not displaced
// too often within a day.
func rota(t *trial) {
	t.byService = true
	t.spare = newHeadroom(t)
	s := newSurplus(t)
	s.provide()
	place(t, order(t))
	if s.swell(); t.freed {
		return // what has not been tried may fit
	}
	m := &maker{trial: t}
	if s != nil {
		m.elastic = s.running
	}
	m.serve()
	m.takeTurns()
	s.grow()
}

// maker makes room for jobs that wait by asking others to leave.
type maker struct {
	*trial
	roster  *roster // nil until somebody needs it
	elastic []*flexible

	lodging [][]tenant            // see tenants
	places  map[cluster.JobID]int // in the order of turns, of those for whom room is kept
	place   int                   // of the job whose turn it is
	waived  func() func()         // lifts the claims that are no obstacle to the job for which room is made, until what it returns is called
}

// all returns the roster with what each victim costs, which is made once a cycle.
func (m *maker) all() *roster {
	if m.roster == nil {
		m.roster = newRoster(m.trial)
		m.roster.price(m.trial)
	}
	return m.roster
}

// serve makes room for the trial-and-error jobs that wait in vain, first come first served.
func (m *maker) serve() {
	vain, tried := map[*cluster.Group]bool{}, 0
	for _, c := range m.callers() {
		if _, known := vain[c.group]; !known {
			vain[c.group] = !m.holdable(c.group)
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
	slices.SortFunc(list, func(a, b caller) int { return m.compare(a.job, b.job) })
	return list
}

// lawful says how readily a victim may be taken for a trial-and-error job: 0 at once, 1 if nothing else helps, 2 only when not even that
// does, -1 never.
func (m *maker) lawful(v *victim) int {
	switch {
	case v.surplus != nil && m.wasteful(v.job), v.surplus == nil && !m.mayDisplaceVictim(v):
		return -1
	case m.now-v.since < m.minRuntime():
		return 2
	case v.unsaved > tooMuchUnsaved, v.wide():
		return 1
	}
	return 0
}

// wide reports whether a victim is a wide gang. It would wait for long until so many GPUs come free together again, for the sake of a job that mostly
// needs few of them.
func (v *victim) wide() bool { return v.surplus == nil && v.gpus >= cluster.WideGPUs }

// mayDisplace reports whether a job has been displaced seldom enough, of late and in its life, and would not lose too much by it.
func (m *maker) mayDisplace(j *cluster.Job) bool {
	limit := cmp.Or(m.policy.MaxPreempts, rotaCap)
	return (limit < 0 || j.DisplacedSince(m.now-day) < limit && !wornOut(j)) && !m.wasteful(j)
}

// wornOut reports whether a job has been displaced as often as one may be in its life.
func wornOut(j *cluster.Job) bool { return displacements(j) >= rotaCapForLife }

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
	return !ok || m.spare.allows(m.trial, &contender{job: j, trial: m.trial, gang: *g}, spots)
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
			m.start(&contender{job: j, trial: m.trial, gang: *g}, spots, 0)
		}
	}
}

// levelOf returns the level of a waiting job by what it has had, unless it begins anew. A gang goes by the level that decides on its turn: one whose
// like take long would else gather room that those of others had been asked to leave for.
func (t *trial) levelOf(j *cluster.Job) int {
	if t.byService && j.Workers > 1 && j.Class == jobspec.BE {
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
func (t *trial) promoted(j *cluster.Job) bool {
	times := int64(anewAfter)
	if n := len(j.Attempts); n > 0 && j.Attempts[n-1].Cause == cluster.CauseTE {
		times = anewAfterTE
	}
	return int64(t.now-j.Eligible) >= times*j.RanFor(j.Attained())
}
