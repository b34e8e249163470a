package jobs

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/replica"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/explain"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/jobref"
	"github.com/rota-hpc/rota/controld/server/present"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// presentJob is a job as the caller may see it, with what this controller knows of it now.
func (h *Handlers) presentJob(x *exchange.Exchange, j *model.Job, now model.UnixMS, spec, steps bool) api.Job {
	why := j.Reason
	if j.State == model.Pending || j.Waits() || j.State == model.Suspended {
		why = h.waiting.reason(x.View, h.Replica.Now(x.View), j)
	}
	out := present.Job(x.View, j, why, h.Samples.Of(j.ID), now)
	if steps {
		present.AddSteps(&out, j)
	}
	hideOthers(x, &out)
	switch {
	case !x.MayOn(access.PartDetails, j):
		present.Redact(&out, why)
		out.Reason = present.PublicReason(x.View, why)
	case spec:
		out.Spec = j.FullSpec()
	}
	return out
}

// hideOthers takes out of the attempts of a job the jobs of others that the caller may not see.
func hideOthers(x *exchange.Exchange, out *api.Job) {
	for i := range out.Attempts {
		a := &out.Attempts[i]
		if a.For != 0 && !maySeeJob(x, a.For) {
			a.For, a.ForUser, a.ForAccount = 0, "", ""
		}
		if s := a.Suspension; s != nil && !maySeeJob(x, s.For) {
			s.For = 0
		}
		for k := range a.Trials {
			if t := &a.Trials[k]; !maySeeJob(x, t.With) {
				t.With = 0
			}
		}
	}
}

// maySeeJob reports whether the caller may see a job. Of one that has left the state the owner is
// not asked.
func maySeeJob(x *exchange.Exchange, id model.JobID) bool {
	roles := x.Roles
	if j := x.View.Job(id); j != nil {
		roles = x.RolesTo(j)
	}
	return access.PartJobs.Allows(roles, x.Config().Private)
}

// getJob answers GET /v1/jobs/{id}; what has left the state comes from the history.
func (h *Handlers) getJob(x *exchange.Exchange) (*api.Job, error) {
	j, err := x.FindJob()
	if err != nil {
		return nil, err
	}
	out := h.presentJob(x, j, replica.WallNow(), true, true)
	return &out, nil
}

// jobReady returns whether a long poll for one job has news.
func jobReady(x *exchange.Exchange) func(*state.View) bool {
	polled := polledJobs(x)
	return func(v *state.View) bool {
		for _, id := range polled {
			if v.JobModified(id) > x.After {
				return true
			}
		}
		return len(polled) == 0
	}
}

// polledJobs returns the job of a long poll, and also its array if the job is a task that is not
// made yet. It returns nothing if the state has neither.
func polledJobs(x *exchange.Exchange) []model.JobID {
	none := []model.JobID{}
	id, err := x.JobID()
	if err != nil {
		return none
	}
	if x.View.Job(id) != nil {
		return []model.JobID{id}
	}
	if j := jobref.Unmade(x.View, id); j != nil {
		return []model.JobID{id, j.Parent}
	}
	return none
}

// control answers POST /v1/jobs/{id}/VERB.
func control(verb model.Verb) func(*exchange.Exchange, *api.ControlRequest) (*api.ControlResponse, error) {
	return func(x *exchange.Exchange, req *api.ControlRequest) (*api.ControlResponse, error) {
		r, err := x.JobRef()
		if err != nil {
			return nil, err
		}
		privileged := x.MayOn(access.PartHold, r.Job) || x.MayOn(access.PartRelease, r.Job)
		resp, err := controlJobs(x, []fsm.Target{{ID: r.ID, Tasks: r.Members}},
			fsm.ControlJobs{Verb: verb, Admin: privileged, Reason: req.Reason})
		if err != nil {
			return nil, err
		}
		if p := resp.Items[0].Error; p != nil {
			return nil, explainRefusal(x, p, r, verb)
		}
		return resp, nil
	}
}

// explainRefusal returns the same refusal for a job that has ended whether the state still has it
// or not. It has other words for an array task that has not begun, and for a job that never was.
func explainRefusal(x *exchange.Exchange, p *api.Problem, r *jobref.Ref, verb model.Verb) error {
	id, single := r.One()
	if !single || p.Code != api.CodeNotFound && p.Code != api.CodeWrongState {
		return p
	}
	switch j, err := x.Finder().Find(x.Context(), id); {
	case err == nil && j != nil && j.State.Final():
		return problem.WrongState("job %s has ended: it is %s", r.Text, present.StateNames[j.State])
	case err == nil && j != nil && p.Code == api.CodeWrongState:
		return wrongVerb(verb, j, r.Text, p)
	case p.Code == api.CodeWrongState:
		return p
	case err != nil || j == nil:
		return problem.NotFound("unknown job %s", r.Text)
	default:
		return problem.WrongState("task %s has not begun: until then, use its array, job %d", r.Text, j.Parent)
	}
}

// wrongVerb says why a verb does not fit the state of a job that has not ended, and which verb
// does.
func wrongVerb(verb model.Verb, j *model.Job, text string, p *api.Problem) error {
	state := present.StateNames[j.State]
	switch {
	case verb == model.VerbHold && j.State != model.Pending:
		return &api.Problem{Status: http.StatusConflict, Code: api.CodeWrongState,
			Detail: fmt.Sprintf("job %s is %s: only pending jobs can be held", text, state),
			Hint:   fmt.Sprintf("`rota requeue %s` makes it pending again, `rota cancel %s` ends it", text, text)}
	case verb == model.VerbRelease && j.Hold == model.NotHeld:
		return problem.WrongState("job %s is not held: it is %s", text, state)
	case verb == model.VerbRequeue && j.State == model.Pending:
		return problem.WrongState("job %s is already pending", text)
	}
	return p
}

// controlJobs applies a verb to targets, in several entries of the log if there are many.
func controlJobs(x *exchange.Exchange, targets []fsm.Target, c fsm.ControlJobs) (*api.ControlResponse, error) {
	if len(c.Reason) > exchange.MaxReason {
		return nil, problem.Invalid("the reason has %d bytes, at most %d are allowed", len(c.Reason), exchange.MaxReason)
	}
	c.By, c.Own = x.Caller.User.UID, c.Verb == model.VerbRequeue && x.Caller.Job != 0
	resp := &api.ControlResponse{Items: make([]api.ControlItem, 0, len(targets))}
	for chunk := range slices.Chunk(targets, model.MaxJobsPerCall) {
		c.Targets = chunk
		items, err := proposeControl(x, c)
		if err != nil {
			return nil, err
		}
		for i := range items {
			items[i].Members = chunk[i].Tasks.String()
		}
		resp.Items = append(resp.Items, items...)
		for _, item := range items {
			x.About.AddJobs([]model.JobID{item.ID})
		}
	}
	return resp, nil
}

// proposeControl proposes a command that answers for each of its targets, and returns what it answers.
func proposeControl(x *exchange.Exchange, c fsm.Command) ([]api.ControlItem, error) {
	results, err := exchange.ProposeFor[[]model.ControlResult](x, c)
	items := make([]api.ControlItem, len(results))
	for i, r := range results {
		items[i].ID = r.ID
		if r.Err != nil {
			items[i].Error = problem.Filled(problem.Of(r.Err))
		}
	}
	return items, err
}

// cancelMany answers POST /v1/jobs/cancel: every live job that matches and that the caller may
// cancel.
func (h *Handlers) cancelMany(x *exchange.Exchange, req *api.CancelRequest) (*api.ControlResponse, error) {
	if len(req.IDs)+len(req.Refs) == 0 && req.User == "" && req.Account == "" && req.Name == "" && len(req.States) == 0 {
		return nil, problem.Invalid("the filter is empty: it would cancel every job. Set ids, refs, user, account, name " +
			"or states")
	}
	if n := len(req.IDs) + len(req.Refs); n > model.MaxJobsPerCall {
		return nil, problem.Invalid("%d ids, at most %d are allowed", n, model.MaxJobsPerCall)
	}
	f := jobFilter{user: req.User, account: req.Account, name: req.Name, now: h.Replica.Now(x.View)}
	var err error
	if f.states, err = parseStates(req.States); err != nil {
		return nil, err
	}
	for _, id := range req.IDs {
		req.Refs = append(req.Refs, strconv.FormatInt(int64(id), 10))
	}
	if err := selectNamed(x, &f, req.Refs); err != nil {
		return nil, err
	}
	allowed, refused := cancellable(x, &f)
	resp, err := controlJobs(x, allowed, fsm.ControlJobs{Verb: model.VerbCancel, Reason: req.Reason})
	if err == nil {
		resp.Items = append(resp.Items, refused...)
	}
	return resp, err
}

// cancellable returns the jobs that a filter selects and the caller may cancel. Named jobs are kept
// even if they have ended, and are refused one by one, so that the answer lists each.
func cancellable(x *exchange.Exchange, f *jobFilter) (allowed []fsm.Target, refused []api.ControlItem) {
	if len(f.refs) > 0 && f.user == "" && f.account == "" && f.name == "" && len(f.states) == 0 {
		for _, r := range f.refs {
			if refusal := refusalOf(x, r); refusal != nil {
				refused = append(refused, api.ControlItem{ID: r.ID, Members: r.Members.String(), Error: refusal})
				continue
			}
			allowed = append(allowed, fsm.Target{ID: r.ID, Tasks: r.Members})
		}
		return allowed, refused
	}
	for j := range x.View.Jobs() {
		if j.State.Final() || !x.MayOn(access.PartAct, j) {
			continue
		}
		if members, whole := f.selection(j); whole || len(members) > 0 {
			allowed = append(allowed, fsm.Target{ID: j.ID, Tasks: members})
		}
	}
	return allowed, nil
}

// refusalOf returns why the caller may not cancel a job that it names, or nil.
func refusalOf(x *exchange.Exchange, r *jobref.Ref) *api.Problem {
	switch {
	case r.Job == nil:
		return problem.Filled(problem.Of(problem.NotFound("unknown job %s", r.Text)))
	case !x.MayOn(access.PartAct, r.Job):
		return problem.Filled(problem.Of(x.DeniedJob(r.Job.ID)))
	}
	return nil
}

// why answers GET /v1/jobs/{id}/why.
func (h *Handlers) why(x *exchange.Exchange) (*api.Why, error) {
	j, err := x.FindJob()
	if err != nil {
		return nil, err
	}
	if x.View.Job(j.ID) == nil && j.State.Final() {
		return &api.Why{ID: j.ID, Reason: reasonOf(x, j, j.Reason), Funnel: []api.FunnelStep{}, Ended: endedBy(j)}, nil
	}
	e := sched.Explain(x.View, h.Replica.Now(x.View), x.View.Config().Policy, j.ID)
	quotas := presentQuotas(x, e.Quotas)
	if j.State == model.Pending && x.MayOn(access.PartDetails, j) {
		quotas = append(quotas, present.BytesQuota(x.View, &j.Owner, false))
	}
	return steeringOf(x, j, &api.Why{ID: j.ID, Reason: reasonOf(x, j, e.Reason), Funnel: presentFunnel(e.Funnel),
		Ahead: e.Ahead, Ended: endedBy(j), Advice: cmp.Or(e.Advice, present.SilentShims(x.View, j)), Quotas: quotas,
		After: presentAfter(x, e.After)}), nil
}

// endedBy says by which rule the last attempt of a job that has ended did so, nil if none has.
func endedBy(j *model.Job) *api.EndedBy {
	for i := len(j.Attempts) - 1; i >= 0; i-- {
		if a := &j.Attempts[i]; a.Rule != "" {
			return &api.EndedBy{Attempt: a.N, Cause: a.Cause, Rule: a.Rule, Text: a.Rule.Text()}
		}
	}
	return nil
}

// reasonOf is a reason of a job as the caller may see it.
func reasonOf(x *exchange.Exchange, j *model.Job, why model.Reason) api.Reason {
	if !x.MayOn(access.PartDetails, j) {
		return present.PublicReason(x.View, why)
	}
	return present.Reason(x.View, why)
}

func presentFunnel(steps []explain.Sieve) []api.FunnelStep {
	out := []api.FunnelStep{}
	for _, s := range steps {
		out = append(out, api.FunnelStep{What: s.What, Nodes: s.Nodes})
	}
	return out
}

// steeringOf adds to why a job waits what operators have told the scheduler.
func steeringOf(x *exchange.Exchange, j *model.Job, why *api.Why) *api.Why {
	if !j.StillToStart() {
		return why
	}
	why.Steering = present.Steering(x.View)
	for _, d := range x.View.Displacements() {
		if d.For == j.ID {
			why.WouldPreempt = append(why.WouldPreempt, present.Displacement(&d))
		}
	}
	return why
}
