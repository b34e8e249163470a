package sim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/controld/sim/trace/synth"
	"github.com/rota-hpc/rota/jobspec"
)

// Run replays a trace. Jobs that no set of nodes could hold are left out and named in the result.
// The error means that the simulation itself failed: a senseless setup, a broken invariant, or a
// policy whose plan the state refuses.
func Run(t *trace.Trace, s Setup) (*Result, error) {
	if err := s.check(t); err != nil {
		return nil, err
	}
	s.fill()
	began := s.clock()
	e, excluded, err := simulate(t, &s)
	if err != nil {
		return nil, fmt.Errorf("simulate %s with policy %s: %w", t.Name, s.Policy.Name, err)
	}
	r := e.result(t, excluded)
	if s.Deserved.Any() && !e.stopped {
		if err := e.rho(r); err != nil {
			return nil, err
		}
	}
	r.WallS = float64(s.clock()-began) / 1e9
	return r, nil
}

func simulate(t *trace.Trace, s *Setup) (*engine, []string, error) {
	jobs, excluded := admit(t, s.Nodes)
	if len(jobs) == 0 {
		return nil, nil, fmt.Errorf("no job fits the nodes, for example %s: %w", excluded[0], ErrSetup)
	}
	e, err := newEngine(s, &arrivals{jobs: jobs}, t.Accounts())
	if err != nil {
		return nil, nil, err
	}
	e.runs = make([]run, 0, len(jobs))
	e.origin = jobs[0].Submit
	e.totals.last = e.instant(jobs[len(jobs)-1].Submit)
	e.useful.from, e.useful.to = epoch+model.Instant(s.Window[0]), e.totals.last
	if s.Window[1] > 0 {
		e.useful.to = epoch + model.Instant(s.Window[1])
	}
	if s.Spans {
		e.totals.story = &Story{Capacity: trace.Capacity(s.Nodes), step: 1}
	}
	if err := e.drive(); err != nil {
		return nil, nil, err
	}
	e.tellStory()
	return e, append(excluded, e.denied...), nil
}

// admit returns the jobs that the nodes could hold, and the reasons why the others are left out.
func admit(t *trace.Trace, nodes []model.Node) (jobs []*trace.Job, excluded []string) {
	f := newFitting(nodes)
	jobs = make([]*trace.Job, 0, len(t.Jobs))
	for i := range t.Jobs {
		j := &t.Jobs[i]
		if why := f.reasonAgainst(j); why != "" {
			excluded = append(excluded, j.ID+": "+why)
			continue
		}
		jobs = append(jobs, j)
	}
	return jobs, excluded
}

// CloseLoop submits each job of a source as soon as demand drops below load thousandths of the
// cluster, under the policy of the setup. Demand is the sum of the pending and running jobs. It
// returns the jobs as a trace with these submit times, so that every policy can be given the same
// arrivals.
func CloseLoop(source synth.Source, name string, load int64, s Setup) (*trace.Trace, error) {
	t := &trace.Trace{Name: name, Format: trace.Generated, Seed: s.Seed}
	l := &closedLoop{source: source, fits: newFitting(s.Nodes), load: load, capacity: trace.Capacity(s.Nodes), trace: t}
	if load < 1 {
		return nil, fmt.Errorf("the load of the closed loop is %d thousandths, but must be positive: %w", load, ErrSetup)
	}
	s.fill()
	s.Spans, s.Until = false, 0
	e, err := newEngine(&s, l, nil)
	if err != nil {
		return nil, err
	}
	e.totals.closed = true
	if err := e.drive(); err != nil {
		return nil, fmt.Errorf("run %s as a closed loop under policy %s: %w", name, s.Policy.Name, err)
	}
	if e.stuck != "" {
		return nil, fmt.Errorf("run %s as a closed loop: %s: %w", name, e.whyStuck(), ErrStuck)
	}
	if len(e.runs) == 0 {
		return nil, fmt.Errorf("run %s as a closed loop: no job fits the nodes: %w", name, ErrSetup)
	}
	return t, nil
}

// Replay is a source of the jobs of a trace, in order, for [CloseLoop].
func Replay(t *trace.Trace) synth.Source { return &replay{jobs: t.Jobs} }

type replay struct{ jobs []trace.Job }

// Next implements [synth.Source].
func (r *replay) Next() (trace.Job, bool) {
	if len(r.jobs) == 0 {
		return trace.Job{}, false
	}
	j := r.jobs[0]
	r.jobs = r.jobs[1:]
	return j, true
}

// rho runs every account's jobs alone on its quota and compares.
func (e *engine) rho(r *Result) error {
	fifo, err := ParsePolicy("fifo")
	if err != nil {
		return err
	}
	for i := range e.totals.accounts {
		name := e.totals.accounts[i].name
		gpus := e.setup.Deserved.of(name, len(e.totals.accounts), trace.Capacity(e.setup.Nodes).GPUs)
		nodes := portion(e.setup.Nodes, gpus)
		own := &trace.Trace{Name: name}
		for v := range e.endedRuns() {
			if int(v.account) == i {
				own.Jobs = append(own.Jobs, *v.job)
			}
		}
		if len(nodes) == 0 || len(own.Jobs) == 0 {
			continue
		}
		alone := &Setup{Nodes: nodes, Policy: fifo, Tick: e.setup.Tick, Overhead: e.setup.Overhead, Stopped: e.setup.Stopped}
		if err := e.compareAlone(r, own, alone); err != nil {
			return fmt.Errorf("account %s alone: %w", name, err)
		}
	}
	return nil
}

// compareAlone sets the rho of the account whose jobs are own. Jobs that its quota could not hold
// are left out on both sides.
func (e *engine) compareAlone(r *Result, own *trace.Trace, s *Setup) error {
	s.fill()
	jobs, _ := admit(own, s.Nodes)
	if len(jobs) == 0 {
		return nil
	}
	alone, _, err := simulate(own, s)
	if err != nil {
		return err
	}
	if alone.stopped {
		return nil
	}
	fits := map[string]bool{}
	reference := 0.0
	for v := range alone.endedRuns() {
		fits[v.job.ID] = true
		reference += seconds(v.jct())
	}
	sum := 0.0
	for v := range e.endedRuns() {
		if v.job.Account == own.Name && fits[v.job.ID] {
			sum += seconds(v.jct())
		}
	}
	if reference > 0 {
		rho := sum / reference
		r.Accounts[own.Name].Rho = rho
		r.Fairness.WorstRho = max(r.Fairness.WorstRho, rho)
	}
	return nil
}

// portion returns the first nodes that together have the given thousandths of a GPU. The last one
// loses GPUs that are too many.
func portion(nodes []model.Node, gpus int64) []model.Node {
	var part []model.Node
	for i := range nodes {
		n := nodes[i]
		have := int64(len(n.GPUs))
		want := gpus / 1000
		if want <= 0 {
			break
		}
		if have == 0 {
			continue
		}
		if have > want {
			n.Cores = max(1, n.Cores*want/have)
			n.Memory = max(1, n.Memory/jobspec.Bytes(have)*jobspec.Bytes(want))
			n.GPUs = n.GPUs[:want]
		}
		part = append(part, n)
		gpus -= int64(len(n.GPUs)) * 1000
	}
	return part
}

// notes are remarks on the workload for readers of the result.
func (e *engine) notes(t *trace.Trace, excluded int) []string {
	var notes []string
	note := func(n int, one, many string) {
		if n > 0 {
			notes = append(notes, trace.Counted(n, one, many))
		}
	}
	elastic := 0
	for i := range e.runs {
		if j := e.runs[i].job; j.Elastic() && !e.resizable(j) {
			elastic++
		}
	}
	if e.stuck != "" {
		notes = append(notes, fmt.Sprintf("%s: the run ends %.0f h after its start", e.whyStuck(),
			float64(e.ms(e.now)-e.origin)/3.6e6))
	}
	asked := " could have run with fewer or more workers, but always had the requested number under " + e.setup.Policy.Name
	note(elastic, "job"+asked, "jobs"+asked)
	if late := len(t.Jobs) - excluded - len(e.runs); e.stopped {
		note(late, "job had not arrived when the run was stopped, and is not counted",
			"jobs had not arrived when the run was stopped, and are not counted")
	} else {
		note(late, "job arrives after the end and is not counted", "jobs arrive after the end and are not counted")
	}
	if len(t.Skipped) > 0 {
		notes = append(notes, fmt.Sprintf("%s left out; the first was: %s", trace.Counted(t.Bad, "line was", "lines were"),
			t.Skipped[0]))
	}
	return append(append(notes, e.shareNotes(t)...), e.refusals...)
}

// whyStuck names the jobs that will never end.
func (e *engine) whyStuck() string {
	return fmt.Sprintf("under %s, job %s was preempted %d times and will never end", e.setup.Policy.Name, e.stuck,
		e.setup.maxPreempts)
}

// shareNotes names accounts with a quota and no jobs, or with jobs and no quota.
func (e *engine) shareNotes(t *trace.Trace) []string {
	given := e.setup.Deserved.GPUs
	if e.setup.Deserved.Equal || len(given) == 0 {
		return nil
	}
	var notes []string
	accounts := t.Accounts()
	for _, name := range accounts {
		if given[name] == 0 {
			notes = append(notes, fmt.Sprintf("account %s has no quota, so it has no rho and is not part of jain", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, has := slices.BinarySearch(accounts, name); !has {
			notes = append(notes, fmt.Sprintf("account %s has a quota of %g GPUs, but no jobs", name, float64(given[name])/1000))
		}
	}
	return notes
}
