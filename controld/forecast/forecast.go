// Package forecast estimates when waiting jobs start. It plays the cluster on from a view: the
// same cycle decides, and the same state machine carries out. Jobs end after their time limit, or
// after their usual runtime. So limits of accounts, arrays, dependencies, reservations and
// preemption count as they will. Jobs that arrive later, failures and operators do not.
package forecast

import (
	"math"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched"
)

// Bounds of one play.
const (
	// exactSteps is how many ends are played each at its own instant. Later ones are gathered.
	exactSteps = 256
	// gatherPM is the part of the time since now, in thousandths, over which later ends are gathered.
	// So a play over a year has some hundred steps, and is wrong by 2 % at most.
	gatherPM = 20
	// maxSteps ends a play of jobs that start each other for ever.
	maxSteps = 1200
	// maxCycles is how many cycles one instant may have.
	maxCycles = 64
	// wakeStep is the least time, in ms, between two steps at which only the policy asks for a cycle.
	wakeStep = 60_000
	// maxAhead is how far ahead is looked, in ms: a year.
	maxAhead = 366 * 24 * 3_600_000
)

// Estimate is when a job is expected to start.
type Estimate struct {
	// Earliest and Latest are instants of the log; 0: unknown. Latest holds if no other job arrives
	// that goes first.
	Earliest, Latest model.Instant
	// Basis says on what the estimate rests, or why the latest start is unknown. It names the jobs in
	// Named. Public is the same without names.
	Basis, Public string
	Named         []model.JobID
}

// Of returns estimates for waiting jobs at now, by id. A job with children stands for the first of
// them that is to start. enough is asked now and then, and ends the work early if it returns true;
// jobs that were not reached are unknown then. Each of the two plays has its own.
func Of(v *state.View, now model.Instant, ids []model.JobID, enough func() func() bool) map[model.JobID]Estimate {
	wanted := make(map[model.JobID]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	latest := newPlay(v, now, wanted, limits{}, enough())
	latest.run()
	earliest := newPlay(v, now, wanted, &habits{history: v.Statistics(), now: now}, enough())
	earliest.run()
	out := make(map[model.JobID]Estimate, len(ids))
	for _, id := range ids {
		out[id] = joined(v, now, id, latest, earliest)
	}
	return out
}

// joined joins the two plays for a job.
func joined(v *state.View, now model.Instant, id model.JobID, latest, earliest *play) Estimate {
	e := Estimate{}
	last, known := latest.starts[id]
	if known {
		e.Latest = last.at
	}
	first, started := earliest.starts[id]
	if started {
		e.Earliest = first.at
	}
	if known && (!started || e.Earliest > e.Latest) { // by other ways through the queue
		e.Earliest = e.Latest
	}
	var text phrase
	switch {
	case !known:
		text = latest.obstacle(v, id)
		text.full, text.public = "unknown: "+text.full, "unknown: "+text.public
	case e.Latest <= now:
		text = plain("it fits now")
	default:
		text = plain(latest.basis(last))
	}
	if started && e.Earliest != e.Latest {
		text = text.and(earliest.habitBasis(first))
	}
	e.Basis, e.Public, e.Named = text.full, text.public, text.named
	return e
}

// durations is how long attempts take in a play.
type durations interface {
	// end returns when the live attempt of a job ends; 0: it does not end by itself.
	end(j *model.Job, a *model.Attempt) model.Instant
	// stopped returns when an attempt ends that is asked to stop.
	stopped(now model.Instant, s *model.Stop) model.Instant
}

// limits has each attempt use its whole time limit, and each stop its whole grace.
type limits struct{}

func (limits) end(j *model.Job, a *model.Attempt) model.Instant { return j.EndsAt(a) }

func (limits) stopped(now model.Instant, s *model.Stop) model.Instant { return max(now, s.KillAt) }

// event is the end of a job's attempt in a play.
type event struct {
	job   model.JobID
	at    model.Instant
	nodes []string
	live  bool   // it ran when the play began
	from  string // which earlier runs say so; "": its limit, or none
}

// begin is the first start of a job in a play.
type begin struct {
	at    model.Instant
	ends  int // how many ends came before it
	nodes map[string]bool
}

// play is one way in which the cluster goes on.
type play struct {
	from    model.Instant
	now     model.Instant
	wall    model.UnixMS
	machine *fsm.Machine
	cache   sched.Cache
	rules   durations
	wanted  map[model.JobID]bool
	left    int // wanted jobs that have not started
	enough  func() bool
	ran     map[model.JobID]bool // jobs that ran when the play began
	starts  map[model.JobID]begin
	ends    []event
	steps   int
	wake    model.Instant
	cut     bool // it was ended early
}

func newPlay(v *state.View, now model.Instant, wanted map[model.JobID]bool, rules durations, enough func() bool) *play {
	p := &play{from: now, now: now, wall: v.Wall() + model.UnixMS(now-v.At()), machine: fsm.Fork(v), rules: rules,
		wanted: wanted, enough: enough, ran: map[model.JobID]bool{}, starts: map[model.JobID]begin{}}
	for id := range wanted {
		if j := v.Job(id); j != nil && j.StillToStart() {
			p.left++
		}
	}
	for j := range v.Live() {
		p.ran[j.ID] = true
	}
	return p
}

// run plays until all wanted jobs have started, or nothing more happens.
func (p *play) run() {
	for p.left > 0 {
		// 1. Cycles at this instant, until one decides nothing. The nodes follow at once.
		if !p.settle() || p.left == 0 {
			return
		}
		// 2. The next instant at which something ends, or at which the policy wants a cycle.
		at, ends := p.next()
		if at == 0 || at-p.from > maxAhead {
			return
		}
		if p.steps++; p.steps > maxSteps || p.enough() {
			p.cut = true
			return
		}
		// 3. The attempts whose time has come end.
		p.now = at
		if ends {
			p.endDue()
		}
	}
}

// settle runs cycles at the present instant. It reports whether the play may go on.
func (p *play) settle() bool {
	for range maxCycles {
		v := p.machine.View()
		plan, wake := p.cache.Cycle(v, p.now, v.Config().Policy)
		p.wake = wake
		if len(plan.Actions) == 0 {
			return true
		}
		if !p.apply(plan) {
			return false
		}
		p.noteStarts(&plan)
		p.follow()
		if p.left == 0 || p.enough() {
			p.cut = p.left > 0
			return !p.cut
		}
	}
	return true // the next step goes on
}

// apply applies a command. It reports whether the state has taken it.
func (p *play) apply(c fsm.Command) bool {
	stamp := model.Stamp{At: p.now, Wall: p.wall + model.UnixMS(p.now-p.from)}
	_, err := p.machine.Apply(p.machine.Index()+1, fsm.Entry{Stamp: stamp, Command: c})
	return err == nil
}

// noteStarts notes the first starts of jobs in a plan that was carried out.
func (p *play) noteStarts(plan *fsm.CommitPlan) {
	v := p.machine.View()
	for _, action := range plan.Actions {
		a, ok := action.(*fsm.StartJob)
		if !ok {
			continue
		}
		id := a.Job + model.JobID(a.TaskNumber)
		j := v.Job(id)
		if j == nil || j.Live() == nil { // the state has refused it
			continue
		}
		b := begin{at: p.now, ends: len(p.ends), nodes: map[string]bool{}}
		for i := range a.Places {
			b.nodes[a.Places[i].Node] = true
		}
		for _, started := range [...]model.JobID{id, j.Parent} {
			if _, before := p.starts[started]; started == 0 || before {
				continue
			}
			p.starts[started] = b
			if p.wanted[started] {
				p.left--
			}
		}
	}
}

// next returns when something happens next, and whether attempts end then; 0: never.
func (p *play) next() (model.Instant, bool) {
	first := model.Instant(math.MaxInt64)
	for j := range p.machine.View().Live() {
		if at := p.endOf(j); at != 0 {
			first = min(first, max(at, p.now))
		}
	}
	if first != math.MaxInt64 && p.steps >= exactSteps {
		first = max(first, p.now+(p.now-p.from)*gatherPM/1000)
	}
	wake := p.wake
	if wake != 0 {
		wake = max(wake, p.now+1)
		if p.steps >= exactSteps/2 {
			wake = max(wake, p.now+max(wakeStep, (p.now-p.from)*gatherPM/1000))
		}
	}
	switch {
	case wake != 0 && wake < first:
		return wake, false
	case first == math.MaxInt64:
		return 0, false
	}
	return max(first, p.now), true
}

// endOf returns when the live attempt of a job ends in this play; 0: it does not.
func (p *play) endOf(j *model.Job) model.Instant {
	a := j.Live()
	if a.Stop != nil {
		return p.rules.stopped(p.now, a.Stop)
	}
	return p.rules.end(j, a)
}
