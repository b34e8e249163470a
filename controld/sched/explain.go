package sched

import (
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// Explanation says why a job waits.
type Explanation struct {
	Job    cluster.JobID
	Reason cluster.Reason
	Funnel []Step // the sieves that nodes pass through, in order; the first that too few pass is what it waits for
	Ahead  int    // jobs that come before it, those held or in back-off left out
	Advice string // what its owner could do, "" if only waiting helps
}

// Step is one sieve: how many nodes have passed it and all before it.
type Step struct {
	What  string
	Nodes int
}

// Explain computes why job id waits, as Cycle at now sees it. For a job that does not wait, the reason is what the state
// knows of it, and for an unknown id it is empty.
func Explain(v *cluster.View, now cluster.Instant, p cluster.Policy, id cluster.JobID) Explanation {
	e := Explanation{Job: id}
	j := v.Job(id)
	if j == nil {
		return e
	}
	e.Reason = Reasons(v, now, p)(id)
	if j.State != cluster.Pending {
		return e
	}
	t := newTrial(v, now, p)
	e.Ahead = t.ahead(j)
	e.Funnel = funnel(t, t.gang(j))
	e.Advice = advice(t, j, e.Reason)
	return e
}

// Reasons returns a function that says why a job waits. It runs one cycle, and then looks once at each distinct request that
// it is asked about, so that listing the whole queue costs little more than listing its groups. Not for concurrent use.
func Reasons(v *cluster.View, now cluster.Instant, p cluster.Policy) func(cluster.JobID) cluster.Reason {
	r := &reasons{before: newTrial(v, now, p), after: decide(v, now, p), of: map[cluster.Shape]cluster.Reason{}}
	for _, a := range r.after.actions {
		if a.Start != nil && r.first == 0 {
			r.first = a.Start.Job
		}
		if a.Reserve != nil && r.keeper == 0 {
			r.keeper = a.Reserve.Job
		}
	}
	return r.reason
}

// reasons compares what could be had when the cycle began with what it decided.
type reasons struct {
	before, after *trial
	of            map[cluster.Shape]cluster.Reason
	first         cluster.JobID // the first job that the cycle starts
	keeper        cluster.JobID // the first job that the cycle reserves for
}

func (r *reasons) reason(id cluster.JobID) cluster.Reason {
	j := r.before.view.Job(id)
	switch {
	case j == nil:
		return cluster.Reason{}
	case j.State != cluster.Pending:
		return j.Reason
	case j.Hold != cluster.NotHeld:
		return held(j)
	case j.Blocked():
		return r.before.view.Waiting(j)
	case j.Eligible > r.before.now:
		return notYet(j)
	case r.after.started[id]:
		return cluster.Reason{Code: cluster.ReasonNotScheduled}
	}
	g := r.before.gang(j)
	if len(g.Exclude) > 0 || r.after.holders[id] != nil {
		return r.diagnose(g)
	}
	s := g.Shape
	known, ok := r.of[s]
	if !ok {
		known = r.diagnose(g)
		r.of[s] = known
	}
	return known
}

// notYet says why a job is not eligible yet: it was told to begin later or its dependencies were met with a delay, as the state has noted,
// or it waits after a failure.
func notYet(j *cluster.Job) cluster.Reason {
	why := cluster.Reason{Code: cluster.ReasonBackoff, Until: j.Eligible, Text: j.Reason.Text}
	if j.Reason.Code == cluster.ReasonBegin || j.Reason.Code == cluster.ReasonDependency {
		why.Code = j.Reason.Code
	}
	return why
}

func held(j *cluster.Job) cluster.Reason {
	why := cluster.Reason{Text: j.Reason.Text, Node: j.Reason.Node}
	switch j.Hold {
	case cluster.HeldByAdmin:
		why.Code = cluster.ReasonHeldAdmin
	case cluster.HeldRequeue:
		why.Code = cluster.ReasonMaxRequeue
	case cluster.HeldLaunch:
		why.Code = cluster.ReasonLaunchFailure
	case cluster.HeldNever:
		why.Code, why.For = cluster.ReasonNeverMet, j.Reason.For
	default:
		why.Code = cluster.ReasonHeldUser
	}
	return why
}

// diagnose finds what keeps a gang from starting: first what no waiting would change, then what is taken, then who goes first.
func (r *reasons) diagnose(g fit.Gang) cluster.Reason {
	t := r.before
	why := cluster.Reason{Need: g.Request.Active, Want: g.Workers}
	s := survey(t, g)
	switch {
	case s.everywhere < g.Workers:
		why.Code, why.Fit = cluster.ReasonBadConstraint, s.everywhere
		why.Node, why.Have = s.largest, s.largestHas
	case s.ever < g.Workers:
		why.Code, why.Node, why.Fit = s.obstacle()
	case s.free < g.Workers:
		why.Fit = s.free
		why.Node, why.Have = s.nearest, s.nearestHas
		why.Code = shortageCode(s, g)
	case s.unclaimed >= g.Workers && !t.room.Fits(g):
		why.Code, why.Fit, why.Text = cluster.ReasonResources, s.unclaimed, "every port at which its workers could meet is in use"
	case !t.room.Fits(g):
		why.Code, why.For, why.Fit = cluster.ReasonReservation, s.claimant, s.unclaimed
	case r.first == 0 && r.keeper != 0:
		why.Code, why.For, why.Fit = cluster.ReasonReservation, r.keeper, g.Workers
	default:
		why.Code, why.For, why.Fit = cluster.ReasonPriority, r.first, g.Workers
	}
	return why
}

// shortageCode tells apart three ways of having too little room now.
func shortageCode(s surveyed, g fit.Gang) cluster.ReasonCode {
	switch {
	case s.free > 0:
		return cluster.ReasonGang
	case g.Request.Active.GPUs > 0 && s.freeGPUs >= g.Request.Active.GPUs*int64(g.Workers) && s.nearestHas.GPUs < g.Request.Active.GPUs:
		return cluster.ReasonFragmentation
	}
	return cluster.ReasonResources
}

// surveyed counts the workers of a gang that nodes could hold under ever harder conditions.
type surveyed struct {
	everywhere int // on empty nodes, whatever their state
	ever       int // on empty nodes that are up and not avoided
	free       int // with what is free now, claims disregarded
	unclaimed  int // with what is free now and not claimed by others

	largest, nearest       string // the node that holds most in total, and that has most free
	largestHas, nearestHas cluster.Vector
	freeGPUs               int64  // on nodes that count for ever
	down, barred           string // a node that would help if it were up; or not drained or avoided
	claimant               cluster.JobID
}

// obstacle names what keeps nodes from counting: being down, which passes, comes before being drained or avoided.
func (s *surveyed) obstacle() (cluster.ReasonCode, string, int) {
	if s.down != "" {
		return cluster.ReasonNodeDown, s.down, s.ever
	}
	return cluster.ReasonNotAvail, s.barred, s.ever
}

func survey(t *trial, g fit.Gang) surveyed {
	defer t.room.Waive(g.For)()
	var s surveyed
	need := g.Request.Active
	for i, n := range t.view.Nodes() {
		total := t.room.Total(i)
		if s.largest == "" || nearer(need, total, s.largestHas) {
			s.largest, s.largestHas = n.Name, total
		}
		could := fit.Capacity(g, fit.Both(total))
		s.everywhere += could
		if !t.room.Usable(i, g) {
			s.bar(n, could)
			continue
		}
		s.ever += could
		s.surveyFree(t, i, g)
	}
	return s
}

// bar notes a node that is left out and would have helped.
func (s *surveyed) bar(n *cluster.Node, could int) {
	switch {
	case could == 0:
	case n.State == cluster.NodeDown && s.down == "":
		s.down = n.Name
	case n.State != cluster.NodeDown && s.barred == "":
		s.barred = n.Name
	}
}

func (s *surveyed) surveyFree(t *trial, node int, g fit.Gang) {
	free := t.room.Free(node)
	s.freeGPUs += free.Active.GPUs
	holds := fit.Capacity(g, free)
	left := fit.Capacity(g, t.room.Available(node))
	s.free += holds
	s.unclaimed += left
	if left < holds && s.claimant == 0 {
		s.claimant = t.room.Claimant(node, g.For)
	}
	if s.nearest == "" || nearer(g.Request.Active, free.Active, s.nearestHas) {
		s.nearest, s.nearestHas = t.view.Nodes()[node].Name, free.Active
	}
}

// nearer reports whether x comes nearer to need than y does: by GPUs, then cores, then memory, counting nothing beyond the need.
func nearer(need, x, y cluster.Vector) bool {
	if a, b := min(x.GPUs, need.GPUs), min(y.GPUs, need.GPUs); a != b {
		return a > b
	}
	if a, b := min(x.Cores, need.Cores), min(y.Cores, need.Cores); a != b {
		return a > b
	}
	return min(x.Memory, need.Memory) > min(y.Memory, need.Memory)
}

// funnel counts the nodes that are left after each sieve.
func funnel(t *trial, g fit.Gang) []Step {
	defer t.room.Waive(g.For)()
	need := g.Request
	sieves := []struct {
		what string
		pass func(node int) bool
	}{
		{"in the cluster", func(int) bool { return true }},
		{"up", func(n int) bool { return t.view.Nodes()[n].State == cluster.NodeUp }},
		{"not avoided after failures", func(n int) bool { return t.room.Usable(n, g) }},
		{"enough cores in total", func(n int) bool { return t.room.Total(n).Cores >= need.Active.Cores }},
		{"enough memory in total", func(n int) bool { return t.room.Total(n).Memory >= need.Resident.Memory }},
		{"enough GPUs in total", func(n int) bool { return t.room.Total(n).GPUs >= need.Active.GPUs }},
		{"enough cores free now", func(n int) bool { return t.room.Free(n).Active.Cores >= need.Active.Cores }},
		{"enough memory free now", func(n int) bool { return t.room.Free(n).Resident.Memory >= need.Resident.Memory }},
		{"enough GPUs free now", func(n int) bool { return t.room.Free(n).Active.GPUs >= need.Active.GPUs }},
		{"not reserved for other jobs", func(n int) bool { return fit.Within(need, t.room.Available(n)) }},
	}
	steps := make([]Step, len(sieves))
	for i := range steps {
		steps[i].What = sieves[i].what
	}
	for node := range t.view.Nodes() {
		for i := range sieves {
			if !sieves[i].pass(node) {
				break
			}
			steps[i].Nodes++
		}
	}
	return steps
}

// ahead counts the pending jobs that come before j and may start now.
func (t *trial) ahead(j *cluster.Job) int {
	n := 0
	for g := range t.view.Groups() {
		for _, o := range g.Jobs {
			if o.Hold == cluster.NotHeld && o.Eligible <= t.now && compare(o, j) < 0 {
				n++
			}
		}
	}
	return n
}
