package sim

import (
	"errors"
	"fmt"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sim/interference"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/jobspec"
)

// epoch is the instant at which every run begins, with the first arrival, whatever its time in the
// trace. So decisions do not depend on the hours of the log. It is not 0, because that means
// "never" in the state.
const epoch model.Instant = 3_600_000

// Bounds of one run.
const (
	checkEvery   = 1000    // commands between checks of the whole state
	trimAt       = 128     // finished jobs in the state before they are removed, so that views stay small
	maxCycles    = 100_000 // at one instant; a policy that needs more does not come to an end
	reportEvery  = 32      // instants between calls of Setup.Progress and Setup.Stopped
	maxRefusals  = 10      // refused actions that are named in the result
	maxPreempted = 100_000 // preemptions of one job; where restarts take longer than its attempts, it would never end
	maxWoken     = 10_000  // cycles for jobs that only wait for time to pass
	maxPerSubmit = 1000    // jobs in one command
)

// Errors of a run. They are mistakes in the core or in a policy, not in a workload.
var (
	ErrEndless = errors.New("the policy keeps deciding at one instant without end")
	ErrTotals  = errors.New("the totals do not match")
	ErrRefused = errors.New("the state refuses what the policy has just planned")
	ErrStuck   = errors.New("under the policy no job ends")
)

// engine drives one simulation.
type engine struct {
	setup      *Setup
	state      *fsm.Machine
	auditor    *state.Auditor // of the state, if it is checked
	cycleCache sched.Cache
	index      uint64
	now        model.Instant
	origin     int64   // ms, the trace's time at epoch
	runs       []run   // in order of submission
	byID       []int32 // the run of the job with id n is at n-1; -1 for an array
	searches   []*search
	feed       feed
	agenda     agenda
	wake       model.Instant // the policy asks for a cycle then; 0: no
	changed    bool          // something has happened since the last cycle

	nodes     []model.Node // sorted as in the state
	position  map[string]int32
	rack      []int32
	reports   [][]model.WorkerReport // by node, for the next command
	dirty     []int32                // nodes with reports
	pending   int
	running   int // suspended ones too
	suspended int
	ended     int // jobs that have ended for good
	untrim    int // ended jobs that are still in the state

	totals    totals
	instants  int
	woken     int // instants in a row at which only the policy asked for a cycle
	commands  int
	refusals  []string
	refused   int
	stopped   bool     // by Setup.Stopped
	stuck     string   // a job that was preempted so often that it will never end
	durations []uint64 // ns
	resized   []int32  // runs that will continue with other workers

	denied []string // jobs that were refused when they arrived, with the reasons

	networks *interference.Table
	useful   useful
	sharing  map[device][]int32 // jobs of one GPU that work there

	graces map[jobspec.Seconds]*jobspec.Preemption // shared settings, see preemption
}

func newEngine(s *Setup, f feed, accounts []string) (*engine, error) {
	e := &engine{setup: s, now: epoch, feed: f, graces: map[jobspec.Seconds]*jobspec.Preemption{},
		networks: s.Networks, sharing: map[device][]int32{}}
	cfg, err := s.Policy.config(s.Configured)
	if err != nil {
		return nil, err
	}
	if cfg.Policy.Seed == 0 {
		cfg.Policy.Seed = s.Seed
	}
	if cfg.Accounts, err = s.table(accounts); err != nil {
		return nil, err
	}
	s.limit(&cfg)
	e.state = fsm.New(cfg)
	if s.Check {
		if e.auditor, err = e.state.Audit(); err != nil {
			return nil, err
		}
	}
	for i := range s.Nodes {
		if _, err := e.apply(fsm.RegisterNode{Node: s.Nodes[i]}); err != nil {
			return nil, fmt.Errorf("node %s: %w", s.Nodes[i].Name, err)
		}
	}
	e.survey()
	return e, nil
}

// instant converts a time of the trace to the log's clock.
func (e *engine) instant(ms int64) model.Instant { return epoch + model.Instant(ms-e.origin) }

// ms converts an instant of the log to a time of the trace.
func (e *engine) ms(t model.Instant) int64 { return int64(t-epoch) + e.origin }

// survey records the positions and racks of the nodes.
func (e *engine) survey() {
	e.position = map[string]int32{}
	racks := map[string]int32{}
	for i, n := range e.state.View().Nodes() {
		e.nodes = append(e.nodes, *n)
		e.position[n.Name] = int32(i)
		rack := n.Labels[trace.RackLabel]
		if _, known := racks[rack]; !known {
			racks[rack] = int32(len(racks))
		}
		e.rack = append(e.rack, racks[rack])
	}
	e.reports = make([][]model.WorkerReport, len(e.nodes))
}

// apply applies a command at the present instant.
func (e *engine) apply(c fsm.Command) (any, error) {
	e.index++
	e.commands++
	result, err := e.state.Apply(e.index,
		fsm.Entry{Stamp: model.Stamp{At: e.now, Wall: model.UnixMS(e.now)}, Command: c})
	if err == nil && e.auditor != nil {
		err = e.verify(e.commands%checkEvery == 0)
	}
	return result, err
}

// verify checks the invariants of the state: all of them, or those that the last command can break.
func (e *engine) verify(whole bool) error {
	err := e.auditor.Check()
	if whole && err == nil {
		err = e.state.Check()
	}
	if err != nil {
		return fmt.Errorf("after %d commands, at %d ms: %w", e.commands, e.ms(e.now), err)
	}
	return nil
}

// audit compares the holdings of the nodes with the state's record of them.
func (e *engine) audit() error {
	if !e.setup.Check {
		return nil
	}
	free, g := model.Vector{}, e.state.Present().Grid()
	for i := range g.Len() {
		free = free.Plus(g.Free(i))
	}
	if held := trace.Capacity(e.nodes).Minus(free); held != e.totals.held {
		return fmt.Errorf("the state has allocated %+v, but the nodes hold %+v: %w", held, e.totals.held, ErrTotals)
	}
	return nil
}

// drive runs until all jobs have ended, Until has come, or Setup.Stopped ends it.
func (e *engine) drive() error {
	for {
		at, any := e.next()
		if !any || e.setup.Until > 0 && e.ms(at) > e.setup.Until {
			break
		}
		if e.idle() {
			break
		}
		if e.useful.to > 0 && at > e.useful.to {
			e.measureProgress()
		}
		e.now = at
		e.totals.advance(e)
		if err := e.step(); err != nil {
			return fmt.Errorf("at %d ms: %w", e.ms(e.now), err)
		}
		if err := e.audit(); err != nil {
			return fmt.Errorf("at %d ms: %w", e.ms(e.now), err)
		}
		e.totals.recordFreeAfterLast(e)
		e.totals.story.sample(e)
		if e.stuck != "" {
			break
		}
		if e.instants++; e.instants%reportEvery == 0 && e.report() {
			e.stopped = true
			break
		}
	}
	if e.setup.Until > 0 && !e.stopped && e.stuck == "" {
		e.now = max(e.now, e.instant(e.setup.Until))
		e.totals.advance(e)
	}
	e.totals.recordFree(e)
	if e.auditor != nil {
		return e.verify(true)
	}
	return nil
}

// report calls Setup.Progress, and reports whether Setup.Stopped ends the run.
func (e *engine) report() bool {
	if e.setup.Progress != nil {
		e.setup.Progress(RunProgress{At: e.ms(e.now), Arrived: len(e.runs), Finished: e.ended, Jobs: e.feed.count()})
	}
	return e.setup.Stopped != nil && e.setup.Stopped()
}

// next returns the next instant at which something happens, and false if nothing will happen.
func (e *engine) next() (model.Instant, bool) {
	var at model.Instant
	sooner := func(t model.Instant) {
		if t > 0 && (at == 0 || t < at) {
			at = t
		}
	}
	if len(e.agenda) > 0 {
		sooner(e.agenda[0].at)
	}
	if t, ok := e.feed.next(e); ok {
		sooner(t)
	}
	if e.wake > 0 {
		sooner(e.tick(max(e.wake, e.now+1)))
	}
	if e.changed {
		sooner(e.tick(e.now + 1))
	}
	return max(at, e.now), at > 0
}

// idle reports whether only cycles like those before can follow: no job runs and none arrives.
// Pending jobs get some more time then, because a reservation or a requeue backoff may hold them
// up.
func (e *engine) idle() bool {
	if len(e.agenda) > 0 && (e.running > 0 ||
		e.pending > 0) { // otherwise the agenda is about attempts that have ended early
		e.woken = 0
		return false
	}
	if _, more := e.feed.next(e); more || e.changed {
		return false
	}
	e.woken++
	return e.pending == 0 || e.woken > maxWoken
}

// tick returns the first instant from t on at which cycles may run.
func (e *engine) tick(t model.Instant) model.Instant {
	tick := model.Instant(e.setup.Tick)
	if tick == 0 {
		return t
	}
	return epoch + (t-epoch+tick-1)/tick*tick
}

// step handles everything that happens at one instant.
func (e *engine) step() error {
	if err := e.happen(); err != nil {
		return err
	}
	if err := e.feed.arrive(e); err != nil {
		return err
	}
	if e.tick(e.now) != e.now {
		return nil
	}
	if !e.changed && (e.wake == 0 || e.wake > e.now) {
		return nil
	}
	for range maxCycles {
		more, err := e.cycle()
		if err != nil {
			return err
		}
		if !more {
			return e.trim()
		}
		if err := e.happen(); err != nil { // jobs that were stopped without grace
			return err
		}
	}
	return fmt.Errorf("policy %s, %d cycles: %w", e.setup.Policy.Name, maxCycles, ErrEndless)
}

// happen handles the events of this instant, and sends the node reports that follow.
func (e *engine) happen() error {
	for len(e.agenda) > 0 && e.agenda[0].at <= e.now {
		v := e.agenda.pop()
		r := &e.runs[v.job]
		if !r.live || r.attempt != v.attempt || v.void(r) {
			continue
		}
		switch v.kind {
		case learned:
			if err := e.learn(v.job); err != nil {
				return err
			}
		case jobEnds:
			if r.stopped == 0 {
				e.endJob(v.job)
			}
		case graceEnds:
			e.releaseRoom(v.job)
		case guessEnds:
			if err := e.raiseLimit(v.job); err != nil {
				return err
			}
		case rateKnown:
			e.reportRate(v.job)
		case paused:
			e.hasPaused(v.job)
		case goesOn:
			e.reportSwitch(v.job)
		case measured:
			e.measure(v.job)
		}
	}
	if err := e.sendReports(); err != nil {
		return err
	}
	return e.startResized()
}

// cycle runs one cycle and executes its plan. It reports whether another one could decide more.
func (e *engine) cycle() (bool, error) {
	e.changed = false
	v := e.state.Present()
	began := e.setup.clock()
	plan, wake := e.cycleCache.Cycle(v, e.now, v.Config().Policy)
	e.durations = append(e.durations, uint64(max(0, e.setup.clock()-began)))
	e.wake = wake
	if plan.Empty() {
		return false, nil
	}
	if e.setup.decided != nil && len(plan.Actions) > 0 {
		e.setup.decided(e.now, &plan)
	}
	result, err := e.apply(plan)
	if err != nil {
		return false, fmt.Errorf("commit a plan: %w", err)
	}
	refused := 0
	for i, err := range result.([]error) {
		if err != nil {
			refused++
			e.refuse(err)
			continue
		}
		e.carryOut(plan.Actions[i])
	}
	if refused > 0 && (e.setup.Check || refused == len(plan.Actions)) {
		return false, fmt.Errorf("%s: %w", e.refusals[len(e.refusals)-1], ErrRefused)
	}
	return len(plan.Actions) > 0, e.sendReports()
}

func (e *engine) refuse(err error) {
	e.refused++
	if len(e.refusals) < maxRefusals {
		e.refusals = append(e.refusals, err.Error())
	}
}

// trim removes finished jobs from the state from time to time.
func (e *engine) trim() error {
	if e.untrim < trimAt {
		return nil
	}
	e.untrim = 0
	_, err := e.apply(fsm.TrimHistory{UpTo: int64(e.ended)})
	return err
}
