package fsm

import (
	"fmt"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// depend makes some of a submission's jobs depend on others, begin later, have a deadline, or be
// arrays that follow arrays.
func (c *chaos) depend(cmd SubmitJobs) Command {
	next := cmd
	next.Admin = c.one(2)
	for _, spec := range cmd.Jobs {
		spec.Name = fmt.Sprint("j", c.IntN(4))
		if c.one(4) {
			spec.Array = &jobspec.Array{Indices: []string{"0-3", "1-7:2", "0-8:2"}[c.IntN(3)], MaxParallel: c.IntN(3)}
			spec.Groups[0].Count, spec.Groups[0].Tasks[0].Resources.GPUs = 1, c.IntN(2)
		}
		c.divide(spec)
		for range c.IntN(3) {
			spec.Dependencies = append(spec.Dependencies, c.dependency(spec))
		}
		if c.one(6) {
			spec.OnDependencyFailure = "hold"
		}
		if now := int64(c.at) / 1000; c.one(5) {
			spec.Begin = jobspec.FormatTime(now + c.Int64N(100))
		} else if c.one(4) {
			spec.Deadline = jobspec.FormatTime(now + c.Int64N(400))
		}
	}
	if c.one(5) {
		next.Jobs = append(next.Jobs, followed()...)
	}
	for range c.IntN(3) {
		f := PastJob{ID: c.job(), Ended: []model.JobState{model.Completed, model.Failed, model.Cancelled}[c.IntN(3)],
			UID: uint32(c.IntN(3)), Missing: c.one(5)}
		next.Facts = append(next.Facts, f)
	}
	return next
}

// followed is an array whose elements run easily, and one that follows it element by element.
func followed() []*jobspec.Job {
	first, second := testSpec(1, 0), testSpec(1, 0)
	for _, spec := range []*jobspec.Job{first, second} {
		spec.Array = &jobspec.Array{Indices: "0-3"}
		spec.Groups[0].Tasks[0].Resources.Cores = 1
	}
	first.Name, second.Name = "first", "second"
	second.Dependencies = []jobspec.Dependency{{Type: model.NeedAfterCorr, Jobs: []string{"first"}}}
	return []*jobspec.Job{first, second}
}

func (c *chaos) dependency(spec *jobspec.Job) jobspec.Dependency {
	types := []string{model.NeedAfter, model.NeedAfterOK, model.NeedAfterOK, model.NeedAfterAny, model.NeedAfterNotOK,
		model.NeedAfterCorr, model.NeedSingleton, "x"}
	d := jobspec.Dependency{Type: types[c.IntN(len(types)-1+c.IntN(20)/19)]}
	if d.Type == model.NeedSingleton {
		return d
	}
	if c.one(3) {
		d.Delay = jobspec.Seconds(c.IntN(20))
	}
	if d.Type == model.NeedAfterCorr {
		d.Jobs = []string{fmt.Sprint(c.array(spec))}
		return d
	}
	if c.one(3) {
		d.Match = "any"
	}
	for range 1 + c.IntN(3) {
		switch c.IntN(8) {
		case 0:
			d.Jobs = append(d.Jobs, fmt.Sprint("j", c.IntN(5)))
		case 1:
			d.Jobs = append(d.Jobs, fmt.Sprintf("%d_%d", c.array(spec), c.IntN(5)))
		default:
			d.Jobs = append(d.Jobs, fmt.Sprint(c.recent()))
		}
	}
	return d
}

// recent picks an id, more often a late one: most of those have not ended yet.
func (c *chaos) recent() model.JobID {
	if c.one(4) {
		return c.job()
	}
	return c.s.v.LastJob() - model.JobID(c.Int64N(min(40, int64(c.s.v.LastJob())+1)))
}

// array picks an array that can be followed, if there is one, and makes spec one that can follow
// it.
func (c *chaos) array(spec *jobspec.Job) model.JobID {
	var arrays []*model.Job
	for j := range c.s.v.Jobs() {
		if j.Children != nil && j.Spec.Array != nil && (!j.State.Final() || c.one(4)) {
			arrays = append(arrays, j)
		}
	}
	if len(arrays) == 0 {
		return c.job()
	}
	a := arrays[c.IntN(len(arrays))]
	spec.Array, spec.OnDependencyFailure = &jobspec.Array{Indices: a.Spec.Array.Indices}, ""
	return a.ID
}

func (c *chaos) updateSome() Command {
	cmd := UpdateJobs{By: uint32(c.IntN(3)), Admin: c.one(2)}
	for range c.IntN(4) {
		cmd.IDs = append(cmd.IDs, c.job())
	}
	limit, priority, name := jobspec.Seconds(c.IntN(1000)-10), c.IntN(102), fmt.Sprint("j", c.IntN(4))
	switch c.IntN(4) {
	case 0:
		cmd.TimeLimit = &limit
	case 1:
		cmd.AddTime = &limit
	case 2:
		cmd.Priority = &priority
	default:
		cmd.Name = &name
	}
	return cmd
}

// giveUpSome acts on a job with a deadline, or settles.
func (c *chaos) giveUpSome() Action {
	for j := range c.s.v.WithDeadline() {
		if c.one(3) {
			return &GiveUp{Job: j.ID}
		}
	}
	return &Settle{}
}

// notice remembers which ends that come of dependencies and times have been seen.
func (c *chaos) notice() {
	for j := range c.s.v.Jobs() {
		switch {
		case j.Reason.Code == model.ReasonNeverMet && j.State == model.Cancelled:
			c.seen["cancelled because it could never be met"]++
		case j.Hold == model.HeldNever:
			c.seen["held because it could never be met"]++
		case j.State == model.PastDue:
			c.seen["past due"]++
		case j.Children != nil && len(j.Children.Ready) > 0:
			c.seen["ready elements"]++
		case j.Children != nil && len(j.Dependencies) > 0 && len(j.Children.Dropped) > 0:
			c.seen["dropped elements"]++
		case len(j.Spec.Dependencies) > 0 && j.Live() != nil:
			c.seen["running after others"]++
		case j.Parent != 0 && j.State == model.Completed:
			c.seen["tasks that ended well"]++
		}
	}
}

// checkNoticed makes sure that all histories together reached what they are meant to test.
func checkNoticed(t *testing.T, seen map[string]int) {
	wanted := []string{
		"cancelled because it could never be met", "held because it could never be met", "past due", "ready elements",
		"dropped elements",
		"running after others", "tasks that ended well",
	}
	for _, cause := range []model.Cause{model.CauseCompleted, model.CauseFailed, model.CauseLaunch, model.CauseNodeLost,
		model.CauseCancelled, model.CauseLease} {
		wanted = append(wanted, string("an attempt that ended with cause "+cause))
	}
	for _, what := range wanted {
		if seen[what] == 0 && *seedFlag == 0 {
			t.Errorf("there was nothing %s: %v", what, seen)
		}
	}
}
