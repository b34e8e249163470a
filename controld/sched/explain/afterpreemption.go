package explain

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fairshare"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/scratch"
	"github.com/rota-hpc/rota/jobspec"
)

// AfterPreemption says whether a waiting job would fit if jobs of lower precedence left, and the
// rules that spare them.
type AfterPreemption struct {
	By     model.Cause // the rule by which jobs could leave for it: te, reclaim or order
	Jobs   int         // that run with lower precedence
	Fits   bool        // if all of them left
	Lawful bool        // if those left that no rule spares
	Spared []Spared    // jobs that are spared, by the rule that spares them, in order of the rules
	Text   string
}

// Spared are jobs that may not be asked to leave.
type Spared struct {
	Rule string
	Jobs []model.JobID
}

// usualPreempts is how often a job may be preempted within a day, if the policy does not say.
const usualPreempts = 3

// victimRules tells for one waiting job by which rules running ones are spared.
type victimRules struct {
	reasons *Reasons
	j       *model.Job
	fair    *fairshare.Accounts
	by      model.Cause
	minRun  model.Instant
}

// afterPreemption computes the cluster without the jobs of lower precedence. It is nil under a
// policy that preempts no jobs for one of this kind.
func (r *Reasons) afterPreemption(j *model.Job) *AfterPreemption {
	t := r.before
	v := victimRules{reasons: r, j: j, minRun: fairshare.MinRuntime(t)}
	v.fair = fairshare.NewAccounts(&queue.Order{State: t})
	// where jobs also leave by the order of service, an equal part is no quota to take back
	v.fair.QuotaOnly = slices.Contains(r.answers.Causes, model.CauseOrder)
	if v.by = v.cause(); v.by == "" {
		return nil
	}
	out := &AfterPreemption{By: v.by}
	all, lawful := t.Room.Copy(), t.Room.Copy()
	for run := range t.View.LiveAttempts() {
		switch rule := v.spares(run); {
		case run.Paused:
			continue
		case run.Stopping:
			release(t, lawful, run)
		case !v.lower(run):
			continue
		case rule == "":
			out.Jobs++
			release(t, lawful, run)
		default:
			out.Jobs++
			out.spare(rule, run.Job.ID)
		}
		release(t, all, run)
	}
	g := t.Gang(j)
	out.Fits, out.Lawful = all.Fits(&g), lawful.Fits(&g)
	if !out.Fits {
		out.Spared = nil // they do not matter
	}
	slices.SortStableFunc(out.Spared, func(a, b Spared) int { return cmp.Compare(len(b.Jobs), len(a.Jobs)) })
	switch out.Text = out.sentence(t); {
	case r.after.AwaitsVictims(j.ID):
		out.Text, out.Spared = "jobs are leaving for it already", nil
	case r.overLimit(j):
		out.Text, out.Spared = "a limit keeps it from starting, even if other jobs leave", nil
	}
	return out
}

// overLimit reports whether a limit of its account or user keeps a job from starting.
func (r *Reasons) overLimit(j *model.Job) bool {
	if r.answers.Reason != nil {
		if why, own := r.answers.Reason(j); own && why.Code == model.ReasonTELimit {
			return true
		}
	}
	return r.after.OverLimit(j).Code != model.ReasonNone ||
		r.answers.Limit != nil && r.answers.Limit(j).Code != model.ReasonNone
}

// cause returns the rule by which others could leave for a job, "" if there is none.
func (v *victimRules) cause() model.Cause {
	knows := func(c model.Cause) bool { return slices.Contains(v.reasons.answers.Causes, c) }
	switch {
	case v.j.Class == jobspec.TE && knows(model.CauseTE):
		return model.CauseTE
	case knows(model.CauseReclaim) && v.fair.Entitled(v.fair.Leaf(v.j.Association()), v.fair.Asks(v.j)):
		return model.CauseReclaim
	case v.j.Class == jobspec.BE && knows(model.CauseOrder):
		return model.CauseOrder
	}
	return ""
}

// lower reports whether a running job is of lower precedence.
func (v *victimRules) lower(run *estimate.LiveAttempt) bool {
	return run.BestEffort && (v.by != model.CauseOrder || run.Job.Priority <= v.j.Priority)
}

// spares returns the rule that spares a running job, "" if none does.
func (v *victimRules) spares(run *estimate.LiveAttempt) string {
	t, o := v.reasons.before, run.Job
	limit := cmp.Or(t.Policy.MaxPreempts, usualPreempts)
	switch {
	case limit > 0 && o.DisplacedSince(t.Now-scratch.Day) >= limit:
		return fmt.Sprintf("already preempted %d times within a day, the maximum (p)", limit)
	case preempt.Wasteful(t, o):
		return "preemptions have already cost a fifth of its time within a day"
	}
	if rule := v.sparesBE(run); rule != "" {
		return rule
	}
	if v.reasons.answers.Spares != nil {
		return v.reasons.answers.Spares(v.j, run, v.by)
	}
	return ""
}

// sparesBE is spares for the rules between best-effort jobs.
func (v *victimRules) sparesBE(run *estimate.LiveAttempt) string {
	t := v.reasons.before
	switch {
	case v.by == model.CauseTE:
		return ""
	case run.Started == 0 || t.Now-run.Started < v.minRun:
		return fmt.Sprintf("started less than min_runtime ago, %v", jobspec.Seconds(v.minRun/1000))
	case v.by == model.CauseReclaim:
		return v.fair.SparedByShare(v.j, run.Job)
	case run.CheckpointEvery < 0:
		return "jobs without a checkpoint block, which cannot save their state"
	}
	return ""
}

func (a *AfterPreemption) spare(rule string, id model.JobID) {
	i := slices.IndexFunc(a.Spared, func(s Spared) bool { return s.Rule == rule })
	if i < 0 {
		i = len(a.Spared)
		a.Spared = append(a.Spared, Spared{Rule: rule})
	}
	a.Spared[i].Jobs = append(a.Spared[i].Jobs, id)
}

func release(t *scratch.State, room *fit.Room, run *estimate.LiveAttempt) {
	for worker, node := range t.Leaving(run.Attempt) {
		room.Release(node, run.Job.Holds(run.Attempt, worker), run.Attempt.Workers[worker].GPUs)
	}
}

// sentence sums it up.
func (a *AfterPreemption) sentence(t *scratch.State) string {
	switch {
	case a.Jobs == 0:
		return "no job of lower precedence is running"
	case !a.Fits:
		return "it would not fit even if every job of lower precedence left"
	case t.Steering.Setting(steering.DryRun) != nil:
		return "it would fit if jobs of lower precedence left, but a dry run only records that"
	case !t.May(steering.Preemption):
		return "it would fit if jobs of lower precedence left, but preemption is paused"
	case a.Lawful && a.By == model.CauseTE:
		return "it fits once jobs of lower precedence have left"
	case a.Lawful:
		return "it would fit if unprotected jobs of lower precedence left, and they are asked to when its turn comes " +
			"before theirs"
	}
	return "it would fit if jobs of lower precedence left, but rules protect them"
}
