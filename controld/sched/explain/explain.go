// Package explain says why a job waits. It compares the scratch state before a cycle with that
// after it, and asks the policy for reasons of its own.
package explain

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fairshare"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/policy"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Explanation says why a job waits.
type Explanation struct {
	Job    model.JobID
	Reason model.Reason
	// the sieves that nodes pass through, in order; the job waits for the first that too few nodes
	// pass
	Funnel []Sieve
	Ahead  int               // jobs that come before it, those held or in back-off left out
	Advice string            // advice to its owner, "" if only waiting helps
	Quotas []fairshare.Quota // of its user and accounts
	After  *AfterPreemption  // nil: its policy preempts no jobs, or it does not wait for room
}

// Sieve is one sieve: how many nodes have passed it and all before it.
type Sieve struct {
	What  string
	Nodes int
}

// Reasons compares the free room at the start of the cycle with the cycle's decisions.
type Reasons struct {
	before, after *scratch.State
	answers       *policy.Answers
	of            map[model.Shape]model.Reason
	first         model.JobID // the first job that the cycle starts
	keeper        model.JobID // the first job that the cycle reserves for
}

// New compares the scratch state before a cycle with that after it, by the answers of the policy
// that decided.
func New(before, after *scratch.State, answers *policy.Answers) *Reasons {
	r := &Reasons{before: before, after: after, answers: answers, of: map[model.Shape]model.Reason{}}
	for _, a := range after.Actions {
		switch a := a.(type) {
		case *fsm.StartJob:
			r.first = cmp.Or(r.first, a.Job)
		case *fsm.Reserve:
			r.keeper = cmp.Or(r.keeper, a.Job)
		}
	}
	return r
}

// Explain returns why a job waits. For a job that does not wait it is the reason in the state, and
// for an unknown id it is empty.
func (r *Reasons) Explain(id model.JobID) Explanation {
	e := Explanation{Job: id, Reason: r.Reason(id)}
	t := r.before
	j := t.View.Job(id)
	if parent, _ := t.View.ParentOf(id); j == nil {
		j = parent // of an array task that has not been made
	}
	if e.Reason.Code == model.ReasonNodeLost {
		e.Advice = lostNodeAdvice(e.Reason)
	}
	if j == nil || !j.Waits() {
		return e
	}
	e.Ahead = r.ahead(j)
	g := t.Gang(j)
	e.Funnel = funnel(t, j, &g)
	accounts := fairshare.NewAccounts(&queue.Order{State: t})
	e.Quotas = accounts.Quotas(j)
	if e.Reason.Code == model.ReasonTELimit {
		e.Quotas = append([]fairshare.Quota{accounts.TEQuota(j, e.Reason.Sentence())}, e.Quotas...)
	}
	if t.StartableOrLimited(j) && r.after.Started[j.ID] == 0 {
		e.After = r.afterPreemption(j)
	}
	e.Advice = advice(t, j, t.View.NameOf(id), e.Reason)
	if e.Advice == "" && r.answers.Advice != nil {
		e.Advice = r.answers.Advice(j)
	}
	return e
}

// Reason returns why a job waits.
func (r *Reasons) Reason(id model.JobID) model.Reason {
	j := r.before.View.Job(id)
	if j != nil {
		if why, lost := r.lostNode(j); lost {
			return why
		}
	}
	switch {
	case j == nil:
		return r.uncreated(id)
	case j.Children != nil && !j.Waits():
		return r.ofChildren(j)
	case j.State == model.Suspended:
		return r.suspended(j)
	case !j.Waits():
		return j.Reason
	case j.Hold != model.NotHeld:
		return held(j)
	case j.Blocked():
		return r.before.View.DependencyReason(j)
	case j.Eligible > r.before.Now:
		return notYet(j)
	case r.before.Steering.Paused(steering.All) != nil:
		return model.Reason{Code: model.ReasonPaused}
	case r.after.Started[id] > 0:
		return model.Reason{Code: model.ReasonNotScheduled}
	case scratch.Full(j):
		return filled(j)
	}
	if why := r.after.Barred(j); why.Code != model.ReasonNone {
		return why
	}
	if r.after.Cut {
		return model.Reason{Code: model.ReasonCycleLimit}
	}
	if why, known := r.ofPreemption(j); known {
		return why
	}
	if r.answers.Limit != nil {
		if why := r.answers.Limit(j); why.Code != model.ReasonNone {
			return why
		}
	}
	g := r.before.Gang(j)
	if j.Bounded != model.Unbounded {
		if why := r.overLimitWhereItFits(j, &g); why.Code != model.ReasonNone {
			return why
		}
	}
	if len(g.Exclude) > 0 || r.after.Holders[id] != nil {
		return r.diagnose(j, &g)
	}
	s := g.Shape
	known, ok := r.of[s]
	if !ok {
		known = r.diagnose(j, &g)
		r.of[s] = known
	}
	return known
}

// overLimitWhereItFits returns the limit that keeps a job from starting although it fits: that of
// nodes.
func (r *Reasons) overLimitWhereItFits(j *model.Job, g *fit.Gang) model.Reason {
	spots, fits := r.after.Room.Place(g)
	if !fits {
		return model.Reason{}
	}
	return r.after.OverLimitAt(j, spots)
}

// suspended names the job that a job has paused for. It also says which room it lacks to resume, on
// its first node with too little.
func (r *Reasons) suspended(j *model.Job) model.Reason {
	a, v := j.Live(), r.before.View
	why := model.Reason{Code: model.ReasonSuspended, For: a.Switch.For}
	needs, had := map[int]model.Vector{}, map[int][]int{}
	for i := range a.Workers {
		w := &a.Workers[i]
		if _, n := v.Node(w.Node); n >= 0 && !w.State.Final() {
			needs[n], had[n] = needs[n].Plus(j.RequestOf(i).Active), append(had[n], w.Had...)
		}
	}
	for n, node := range v.Nodes() {
		have := v.Grid().Free(n)
		if node.PinsGPUs {
			free := slices.DeleteFunc(slices.Clone(had[n]), func(g int) bool { return v.Grid().FreeGPUs(n)&(1<<g) == 0 })
			have.GPUs = int64(len(free)) * model.WholeGPU
		}
		if need, here := needs[n]; here && !need.Within(have) {
			why.Node, why.Need, why.Have = node.Name, need, have
			if need.GPUs > have.GPUs && node.PinsGPUs {
				why.Text = needsItsGPUs(j.ID, node, had[n])
			}
			break
		}
	}
	return why
}

// needsItsGPUs says that a suspended job waits for the GPUs of a node that it had. If one of them
// is broken it may wait for ever, so the text says what to do.
func needsItsGPUs(id model.JobID, node *model.Node, had []int) string {
	text := fmt.Sprintf("it needs the same GPUs as before: %v", had)
	for _, g := range had {
		if g < len(node.GPUs) && !node.GPUs[g].Healthy {
			return fmt.Sprintf("%s, and GPU %d cannot be used: %s; \"rota requeue %d\" starts it again where there is room",
				text, g, node.GPUs[g].Problem, id)
		}
	}
	return text
}

// notYet says why a job is not eligible yet. It was told to begin later, or its dependencies were
// met with a delay, as the state has noted. Otherwise it waits after a failure.
func notYet(j *model.Job) model.Reason {
	why := model.Reason{Code: model.ReasonBackoff, Until: j.Eligible, Text: j.Reason.Text}
	if j.Reason.Code == model.ReasonBegin || j.Reason.Code == model.ReasonDependency {
		why.Code = j.Reason.Code
	}
	return why
}

// heldBy maps the holder of a held job to the reason.
var heldBy = map[model.Hold]model.ReasonCode{
	model.HeldByAdmin: model.ReasonHeldAdmin, model.HeldRequeue: model.ReasonMaxRequeue,
	model.HeldLaunch: model.ReasonLaunchFailure, model.HeldNever: model.ReasonNeverMet,
}

func held(j *model.Job) model.Reason {
	why := model.Reason{Code: model.ReasonHeldUser, Text: j.Reason.Text, Node: j.Reason.Node}
	if code, known := heldBy[j.Hold]; known {
		why.Code = code
	}
	if j.Hold == model.HeldNever {
		why.For = j.Reason.For
	}
	return why
}

// funnel counts the nodes that are left after each sieve: for the workers of each part of a gang
// one after another.
func funnel(t *scratch.State, j *model.Job, g *fit.Gang) []Sieve {
	lifted := t.Room.Lift(g.For)
	defer lifted.Restore()
	if len(g.More) == 0 {
		return sift(t, g, &g.Component, "")
	}
	var steps []Sieve
	for i := range g.Parts() {
		steps = append(steps, sift(t, g, g.At(i), fmt.Sprintf(" (group %s)", j.Spec.Groups[j.Parts[i].Group].Name))...)
	}
	return steps
}

// sieve is one condition on a node.
type sieve struct {
	what string
	pass func(node int) bool
}

// sift counts for a part. Sieves that follow from no condition of the job are left out, and so is
// the one for broken GPUs if all GPUs work.
func sift(t *scratch.State, g *fit.Gang, p *fit.Component, of string) []Sieve {
	need, room := p.Request, t.Room
	sieves := []sieve{
		{"in the cluster", func(int) bool { return true }},
		{"up", func(n int) bool { return t.View.Nodes()[n].State == model.NodeUp }},
	}
	if p.Constraints != "" {
		sieves = append(sieves, sieve{"matching its constraints", p.Wants})
	}
	sieves = append(sieves, []sieve{
		{"not avoided after failures", func(n int) bool { return room.Usable(n, p, g.Exclude) }},
		{"enough cores in total", func(n int) bool { return room.Total(n).Cores >= need.Active.Cores }},
		{"enough memory in total", func(n int) bool { return room.Total(n).Memory >= need.Resident.Memory }},
		{"enough GPUs in total", func(n int) bool { return room.Total(n).GPUs >= need.Active.GPUs }},
	}...)
	if slices.ContainsFunc(t.View.Nodes(), func(n *model.Node) bool {
		return slices.ContainsFunc(n.GPUs, func(g model.GPU) bool { return !g.Healthy })
	}) {
		sieves = append(sieves, sieve{"enough working GPUs",
			func(n int) bool { return room.Working(n).GPUs >= need.Active.GPUs }})
	}
	if need.Exclusive {
		sieves = append(sieves, sieve{"empty, because it asks for whole nodes", func(n int) bool { return room.Empty(n) }})
	}
	sieves = append(sieves, []sieve{
		{"enough cores free now", func(n int) bool { return room.Open(n, p).Active.Cores >= need.Active.Cores }},
		{"enough memory free now", func(n int) bool { return room.Open(n, p).Resident.Memory >= need.Resident.Memory }},
		{"enough GPUs free now", func(n int) bool { return room.Open(n, p).Active.GPUs >= need.Active.GPUs }},
		{"not reserved for other jobs", func(n int) bool { return fit.Within(need, room.Unclaimed(n, p)) }},
	}...)
	return count(sieves, len(t.View.Nodes()), of)
}

func count(sieves []sieve, nodes int, of string) []Sieve {
	steps := make([]Sieve, len(sieves))
	for i := range steps {
		steps[i].What = sieves[i].what + of
	}
	for node := range nodes {
		for i := range sieves {
			if !sieves[i].pass(node) {
				break
			}
			steps[i].Nodes++
		}
	}
	return steps
}

// ahead counts the pending jobs that come before j and may start now, whatever accounts they are
// of.
func (r *Reasons) ahead(j *model.Job) int {
	n, t, compare := 0, r.after, queue.Compare
	if r.answers.Order != nil {
		compare = r.answers.Order.Compare
	}
	for g := range t.View.QueueGroups() {
		if g.Key.Held {
			continue
		}
		for _, o := range g.Jobs {
			switch {
			case o.Hold != model.NotHeld || o.Eligible > t.Now || compare(o, j) >= 0:
			case o.Children != nil:
				n += o.Startable()
			default:
				n++
			}
		}
	}
	return n
}
