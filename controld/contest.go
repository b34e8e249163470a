package controld

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// An array whose job file has stop { metric, at_step, keep } is a contest: of n elements the best k by the metric at that step go on, and the
// rest are cancelled (Gandiva calls such jobs multi-jobs). An element is cancelled as soon as k others are known to be better, and not before:
// then it can be among the best no more, whatever those do that are still to report. So nothing is cancelled too early, elements may run one
// after the other, and a new leader, which knows only what is reported from then on, cancels later but never wrongly.

// contests is what the elements of such arrays have reported. It is volatile.
type contests struct {
	mu    sync.Mutex
	value map[cluster.JobID]map[int]float64 // by record and member
	due   chan struct{}                     // has one element when somebody should look
}

// maxContests bounds the arrays whose reports are kept.
const maxContests = 10_000

func (c *contests) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.value, c.due = map[cluster.JobID]map[int]float64{}, make(chan struct{}, 1)
}

// note keeps the first value that an element reports at the step or after it.
func (c *contests) note(record cluster.JobID, member int, value float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.value == nil || value != value {
		return // this controller has never led, or the metric is no number
	}
	of := c.value[record]
	if of == nil {
		if len(c.value) >= maxContests {
			clear(c.value)
		}
		of = map[int]float64{}
		c.value[record] = of
	}
	if _, known := of[member]; known {
		return
	}
	of[member] = value
	select {
	case c.due <- struct{}{}:
	default:
	}
}

// losers returns, for each array of which there are any, the members that can be among the best no more. Arrays that have ended are forgotten.
func (c *contests) losers(v *cluster.View) []cluster.Target {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []cluster.Target
	for id, values := range c.value {
		record := v.Job(id)
		if record == nil || record.State.Final() || record.Spec.Array == nil || record.Spec.Array.Stop == nil {
			delete(c.value, id)
			continue
		}
		stop := record.Spec.Array.Stop
		rule, err := jobspec.ParseKeep(stop.Keep)
		if err != nil {
			continue // Validate would not have let it in
		}
		keep := rule.Of(record.Family.Size)
		var lost cluster.Ranges
		for rank, member := range ranked(values, stop.Goal) {
			if j := v.Job(id + cluster.JobID(member)); rank >= keep && j != nil && !j.State.Final() && !stopping(j) {
				lost = append(lost, cluster.Range{First: member, Last: member})
			}
		}
		if len(lost) > 0 {
			out = append(out, cluster.Target{ID: id, Members: lost.With(nil)})
		}
	}
	slices.SortFunc(out, func(a, b cluster.Target) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

func stopping(j *cluster.Job) bool {
	a := j.Live()
	return a != nil && a.Stop != nil
}

// ranked orders members from the best: the least value, or the greatest with goal max; the lower number where they are alike.
func ranked(values map[int]float64, goal string) []int {
	members := make([]int, 0, len(values))
	for m := range values {
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b int) int {
		d := cmp.Compare(values[a], values[b])
		if goal == "max" {
			d = -d
		}
		return cmp.Or(d, a-b)
	})
	return members
}

// Pace of contests. What is reported at about the same time is judged together, and all is looked at again now and then: who has lost may have
// been on its way back to the queue, or the cancellation may not have come through.
const (
	judgeGather = 50 * time.Millisecond
	judgeAgain  = 5 * time.Second
)

// judge cancels, on the leader, those who have lost.
func (d *daemon) judge(ctx context.Context) error {
	again := time.NewTicker(judgeAgain)
	defer again.Stop()
	for d.pause(ctx, judgeGather) {
		if err := d.cancelLosers(ctx); err != nil {
			if lostLead(err) || ctx.Err() != nil {
				return err
			}
			d.log.Warn("elements not cancelled", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-d.contests.due:
		case <-again.C:
		}
	}
	return context.Cause(ctx)
}

func (d *daemon) cancelLosers(ctx context.Context) error {
	lost := d.contests.losers(d.machine.view.Load())
	if len(lost) == 0 {
		return nil
	}
	_, _, err := d.propose(ctx, cluster.ControlJobs{Verb: cluster.VerbCancel, Targets: lost, Admin: true,
		Reason: "others were better at the step that stop names"})
	return err
}

// compete notes what a sample means for the contest that its job is in. A node that has seen the step itself says what came with it in every
// sample from then on: so nothing is lost with a sample, or with a leader.
func (d *daemon) compete(j *cluster.Job, s *api.Sample) {
	if j.Parent == 0 || j.Spec.Array == nil || j.Spec.Array.Stop == nil {
		return
	}
	if s.Reached != nil {
		d.contests.note(j.Parent, j.Member, s.Reached.Value)
		return
	}
	if s.Step < j.Spec.Array.Stop.AtStep {
		return
	}
	if value, ok := s.Metrics[j.Spec.Array.Stop.Metric]; ok {
		d.contests.note(j.Parent, j.Member, value)
	}
}

// prune answers POST /v1/jobs/{id}/prune: of the elements that report a metric now the best go on, and the others are cancelled.
func prune(x *exchange) (any, error) {
	r, err := x.jobRef()
	if err != nil {
		return nil, err
	}
	var req api.PruneRequest
	if err := x.decode(&req); err != nil {
		return nil, err
	}
	switch {
	case r.job == nil:
		return nil, notFound("there is no job %s", r.text)
	case r.job.Family == nil || r.job.Spec.Array == nil || len(r.members) > 0:
		return nil, invalid("job %s is not an array", r.text)
	case req.Metric == "":
		return nil, invalid("metric is missing: say by what the elements are compared")
	case req.Goal != "" && req.Goal != "min" && req.Goal != "max":
		return nil, invalid("goal %q: write min or max", req.Goal)
	}
	values := x.values(r.job, &req)
	rule, err := jobspec.ParseKeep(req.Keep)
	if err != nil {
		return nil, invalid("keep %q: write \"top 25%%\" or \"top 4\"", req.Keep)
	}
	keep := rule.Of(len(values))
	resp := &api.PruneResponse{Kept: []int{}, Cancelled: []int{}, Silent: []int{}}
	var lost cluster.Ranges
	elements := r.job.Spec.Array.Elements()
	for rank, member := range ranked(values, req.Goal) {
		if index := elements.Index(member - 1); rank < keep {
			resp.Kept = append(resp.Kept, index)
		} else {
			resp.Cancelled = append(resp.Cancelled, index)
			lost = append(lost, cluster.Range{First: member, Last: member})
		}
	}
	resp.Silent = x.silent(r.job, elements, values)
	if req.DryRun || len(lost) == 0 {
		return resp, nil
	}
	reason := fmt.Sprintf("pruned: not %s by %s", req.Keep, req.Metric)
	done, err := x.controlJobs(cluster.VerbCancel, []cluster.Target{{ID: r.id, Members: lost.With(nil)}}, reason)
	if err != nil {
		return nil, err
	}
	if p := done.Items[0].Error; p != nil {
		return nil, p
	}
	return resp, nil
}

// values is what the running elements of an array say of a metric now.
func (x *exchange) values(record *cluster.Job, req *api.PruneRequest) map[int]float64 {
	values := map[int]float64{}
	for m := 1; m <= record.Family.Size; m++ {
		j := x.view.Job(record.ID + cluster.JobID(m))
		if j == nil || j.Live() == nil || stopping(j) {
			continue
		}
		p := x.d.samples.of(j.ID)
		if value, ok := p.metrics[req.Metric]; ok && p.step >= req.AtStep && p.attempt == j.Attempt {
			values[m] = value
		}
	}
	return values
}

// silent lists the running elements that cannot be compared: they have not reported the metric, or not from that step on.
func (x *exchange) silent(record *cluster.Job, elements jobspec.Elements, values map[int]float64) []int {
	silent := []int{}
	for m := 1; m <= record.Family.Size; m++ {
		j := x.view.Job(record.ID + cluster.JobID(m))
		if _, known := values[m]; !known && j != nil && j.Live() != nil && !stopping(j) {
			silent = append(silent, elements.Index(m-1))
		}
	}
	return silent
}
