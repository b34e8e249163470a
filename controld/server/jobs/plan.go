package jobs

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/forecast"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/replica"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/present"
	"github.com/rota-hpc/rota/controld/server/problem"
	"github.com/rota-hpc/rota/controld/server/submission"
	"github.com/rota-hpc/rota/jobspec"
)

// plan answers POST /v1/plan: it submits the job to a fork of the state and runs one cycle there,
// so that any controller can answer.
func (h *Handlers) plan(x *exchange.Exchange, req *api.PlanRequest) (*api.PlanResponse, error) {
	if req.Job == nil {
		return nil, problem.Invalid("job is missing")
	}
	owner, err := h.owner(x)
	if err != nil {
		return nil, err
	}
	// A plan is a whole cycle. One user has one at a time, so that the others keep a processor.
	var end func()
	if x.Idle(func() { end, err = h.planning.take(x.Context(), x.Caller.User.UID) }); err != nil {
		return nil, err
	}
	defer end()
	jobs := []*jobspec.Job{req.Job}
	if _, _, err := submission.Accept(x.View, owner, h.payer(x.Caller, owner), jobs); err != nil {
		return nil, err
	}
	trial, id, err := h.trialSubmit(x, owner, jobs[0])
	if err != nil {
		return nil, err
	}
	now := h.Replica.Now(x.View)
	resp := &api.PlanResponse{Places: []api.PlanNode{}, Funnel: []api.FunnelStep{}}
	decided, _ := sched.Cycle(trial, now, trial.Config().Policy)
	for _, action := range decided.Actions {
		a, ok := action.(*fsm.StartJob)
		if !ok || a.Job < id { // the ids of its members follow its own
			continue
		}
		resp.Starts = true
		resp.Begins++
		for _, p := range a.Places {
			if resp.Begins == 1 {
				resp.Places = append(resp.Places, api.PlanNode{Node: p.Node, GPUs: append([]int{}, p.GPUs...)})
			}
		}
	}
	if !resp.Starts {
		e := sched.Explain(trial, now, trial.Config().Policy, id)
		resp.Reason, resp.Funnel = present.Reason(x.View, e.Reason), presentFunnel(e.Funnel)
		resp.Ahead, resp.Advice = e.Ahead, e.Advice
		resp.Quotas, resp.After = presentQuotas(x, e.Quotas), presentAfter(x, e.After)
		resp.Steering = present.Steering(x.View)
		last := id
		if c := trial.Job(id).Children; c != nil {
			last += model.JobID(c.Size)
		}
		foreseen := sched.Foresee(trial, now, trial.Config().Policy, id, last)
		presentForeseen(x, &foreseen, resp)
		estimate := forecast.Of(trial, now, []model.JobID{id}, enough(x.Context()))[id]
		resp.StartEarliest, resp.StartLatest, resp.Basis = presentStart(x, &estimate)
	}
	resp.Quotas = append(resp.Quotas, present.BytesQuota(trial, &owner, x.Roles&access.Operator == 0))
	return resp, nil
}

// trialSubmit submits a job to a fork of the state, which is dropped afterwards. It returns the job
// as it would be, with the id that it would get.
func (h *Handlers) trialSubmit(x *exchange.Exchange, owner model.Identity, job *jobspec.Job) (*state.View, model.JobID,
	error) {
	jobs := []*jobspec.Job{job}
	facts, err := x.Finder().Facts(x.Context(), owner.User, jobs)
	if err != nil {
		return nil, 0, err
	}
	state := fsm.Fork(x.View)
	entry := fsm.Entry{Command: fsm.SubmitJobs{Owner: owner, Jobs: jobs, Facts: facts, Admin: x.May(access.PartDepend),
		Unlimited: true}}
	entry.At, entry.Wall = h.Replica.Now(x.View), replica.WallNow()
	result, err := state.Apply(state.Index()+1, entry)
	if err != nil {
		return nil, 0, err
	}
	ids, ok := result.([]model.JobID)
	if !ok || len(ids) != 1 {
		return nil, 0, fmt.Errorf("plan: the state answered with a %T", result)
	}
	return state.View(), ids[0], nil
}
