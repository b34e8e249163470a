package jobs

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/earlystop/judge"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/problem"
	"github.com/rota-hpc/rota/jobspec"
)

// prune answers POST /v1/jobs/{id}/prune: of the array tasks that report a metric now the best go
// on, and the others are cancelled.
func (h *Handlers) prune(x *exchange.Exchange, req *api.PruneRequest) (*api.PruneResponse, error) {
	r, err := x.JobRef()
	if err != nil {
		return nil, err
	}
	switch {
	case r.Job.Children == nil || r.Job.Spec.Array == nil || len(r.Members) > 0:
		return nil, problem.Invalid("job %s is not an array", r.Text)
	case req.Metric == "":
		return nil, problem.Invalid("metric is missing: name the metric by which tasks are compared")
	case req.Goal != "" && req.Goal != "min" && req.Goal != "max":
		return nil, problem.Invalid("goal %q: write min or max", req.Goal)
	}
	values := h.values(x, r.Job, req)
	rule, err := jobspec.ParseKeep(req.Keep)
	if err != nil {
		return nil, problem.Invalid("keep %q: write \"top 25%%\" or \"top 4\"", req.Keep)
	}
	keep := rule.Of(len(values))
	resp := &api.PruneResponse{Kept: []int{}, Cancelled: []int{}, Silent: []int{}}
	var lost ranges.Ranges
	elements := r.Job.Spec.Array.Elements()
	for rank, member := range judge.Ranked(values, req.Goal) {
		if index := elements.Index(member - 1); rank < keep {
			resp.Kept = append(resp.Kept, index)
		} else {
			resp.Cancelled = append(resp.Cancelled, index)
			lost = append(lost, ranges.Range{First: member, Last: member})
		}
	}
	resp.Silent = silent(x, r.Job, elements, values)
	if req.DryRun || len(lost) == 0 {
		return resp, nil
	}
	reason := fmt.Sprintf("pruned: not %s by %s", req.Keep, req.Metric)
	done, err := controlJobs(x, []fsm.Target{{ID: r.ID, Tasks: lost.With(nil)}},
		fsm.ControlJobs{Verb: model.VerbCancel, Reason: reason, Pruned: true})
	if err != nil {
		return nil, err
	}
	if p := done.Items[0].Error; p != nil {
		return nil, p
	}
	return resp, nil
}

// values is what the running tasks of an array report of a metric now.
func (h *Handlers) values(x *exchange.Exchange, record *model.Job, req *api.PruneRequest) map[int]float64 {
	values := map[int]float64{}
	for m := 1; m <= record.Children.Size; m++ {
		j := x.View.Job(record.TaskID(m))
		if j == nil || j.Live() == nil || judge.Stopping(j) {
			continue
		}
		p := h.Samples.Of(j.ID)
		if value, ok := p.Metrics[req.Metric]; ok && p.Step >= req.AtStep && p.Attempt == j.Attempt {
			values[m] = value
		}
	}
	return values
}

// silent lists the running tasks that cannot be compared: they have not reported the metric, or not
// from that step on.
func silent(x *exchange.Exchange, record *model.Job, elements jobspec.Elements, values map[int]float64) []int {
	silent := []int{}
	for m := 1; m <= record.Children.Size; m++ {
		j := x.View.Job(record.TaskID(m))
		if _, known := values[m]; !known && j != nil && j.Live() != nil && !judge.Stopping(j) {
			silent = append(silent, elements.Index(m-1))
		}
	}
	return silent
}
