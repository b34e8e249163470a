package controld

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/explain"
	"github.com/rota-hpc/rota/jobspec"
)

func newList[T any](kind string, v *cluster.View) *api.List[T] {
	return &api.List[T]{APIVersion: api.Version, Kind: kind, Index: v.Index(), Items: []T{}}
}

func (x *exchange) limit() (int, error) {
	n, err := x.number("limit", usualList)
	if err == nil && n == 0 {
		err = invalid("parameter limit=0: ask for at least one")
	}
	return int(min(n, maxList)), err
}

// present is presentJob with what this controller knows now.
func (x *exchange) present(j *cluster.Job, now cluster.UnixMS) api.Job {
	why := j.Reason
	if j.State == cluster.Pending || j.Waits() {
		why = x.d.waiting.reason(x.view, x.d.clock.now(x.view), j)
	}
	return presentJob(x.view, j, why, x.d.samples.of(j.ID), now)
}

// waiting remembers why jobs wait. A list of the queue asks once for each group of alike jobs, and lists that follow each other closely share
// what one has found out, so that finding out takes a tenth of one processor at most however many ask.
type waiting struct {
	mu   sync.Mutex
	view *cluster.View
	next time.Time // not found out again before
	find func(cluster.JobID) cluster.Reason
}

func (w *waiting) reason(v *cluster.View, now cluster.Instant, j *cluster.Job) cluster.Reason {
	w.mu.Lock()
	defer w.mu.Unlock()
	if begin := time.Now(); w.view != v && begin.After(w.next) {
		w.view, w.find = v, sched.Reasons(v, now, v.Config().Policy)
		end := time.Now()
		w.next = end.Add(10 * end.Sub(begin))
	}
	switch {
	case w.view == v || w.view.Job(j.ID) == j:
		return w.find(j.ID)
	case j.Reason.Code != cluster.ReasonNone:
		return j.Reason
	}
	return cluster.Reason{Code: cluster.ReasonNotScheduled}
}

// getJob answers GET /v1/jobs/{id}; what has left the state comes from the history.
func getJob(x *exchange) (any, error) {
	j, err := x.findJob()
	if err != nil {
		return nil, err
	}
	out := x.present(j, wallNow())
	out.Spec = x.specOf(j)
	return out, nil
}

// specOf is a job's specification as the caller may see it: environments may hold secrets, and are for the owner and operators.
func (x *exchange) specOf(j *cluster.Job) *jobspec.Job {
	if x.admin() || j.Owner.UID == x.caller.User.UID {
		return j.FullSpec()
	}
	s := *j.FullSpec()
	s.ExportEnv, s.Groups = nil, slices.Clone(s.Groups)
	for i := range s.Groups {
		g := &s.Groups[i]
		g.Tasks = slices.Clone(g.Tasks)
		for k := range g.Tasks {
			g.Tasks[k].Env = nil
		}
	}
	return &s
}

// jobReady tells whether a long poll for one job has news.
func jobReady(x *exchange) func(*cluster.View) bool {
	polled := x.polledJobs()
	return func(v *cluster.View) bool {
		for _, id := range polled {
			if v.JobModified(id) > x.after {
				return true
			}
		}
		return len(polled) == 0
	}
}

// polledJobs returns the job that is asked for, and its record if it is an element that has not been made; nothing if the state has neither.
func (x *exchange) polledJobs() []cluster.JobID {
	none := []cluster.JobID{}
	id, err := x.jobID()
	if err != nil {
		return none
	}
	if x.view.Job(id) != nil {
		return []cluster.JobID{id}
	}
	if j := x.notMade(id); j != nil {
		return []cluster.JobID{id, j.Parent}
	}
	return none
}

func (x *exchange) findJob() (*cluster.Job, error) {
	id, err := x.jobID()
	if err != nil {
		return nil, err
	}
	j, err := x.lookUp(id)
	if err == nil && j == nil {
		err = notFound("there is no job %d", id)
	}
	return j, err
}

// control answers POST /v1/jobs/{id}/VERB.
func control(verb cluster.Verb) func(*exchange) (any, error) {
	return func(x *exchange) (any, error) {
		r, err := x.jobRef()
		if err != nil {
			return nil, err
		}
		var req api.ControlRequest
		if err := x.decode(&req); err != nil {
			return nil, err
		}
		resp, err := x.controlJobs(verb, []cluster.Target{{ID: r.id, Members: r.members}}, req.Reason)
		if err != nil {
			return nil, err
		}
		if p := resp.Items[0].Error; p != nil {
			return nil, x.explainRefusal(p, r, verb)
		}
		return resp, nil
	}
}

// explainRefusal says the same of a job that has ended whether the state still has it or not, and tells it, and an element that has not begun,
// from one that never was.
func (x *exchange) explainRefusal(p *api.Problem, r *reference, verb cluster.Verb) error {
	id, single := r.one()
	if !single || p.Code != api.CodeNotFound && p.Code != api.CodeWrongState {
		return p
	}
	switch j, err := x.lookUp(id); {
	case err == nil && j != nil && j.State.Final():
		return wrongState("job %s has ended: it is %s", r.text, stateNames[j.State])
	case err == nil && j != nil && p.Code == api.CodeWrongState:
		return cannot(verb, j, r.text, p)
	case p.Code == api.CodeWrongState:
		return p
	case err != nil || j == nil:
		return notFound("there is no job %s", r.text)
	default:
		return wrongState("element %s has not begun: until then it is as its array, job %d, says", r.text, j.Parent)
	}
}

// cannot says why a verb does not fit the state of a job that has not ended, and what does.
func cannot(verb cluster.Verb, j *cluster.Job, text string, p *api.Problem) error {
	state := stateNames[j.State]
	switch {
	case verb == cluster.VerbHold && j.State != cluster.Pending:
		return &api.Problem{Status: http.StatusConflict, Code: api.CodeWrongState,
			Detail: fmt.Sprintf("job %s is %s: only jobs that wait can be held", text, state),
			Hint:   fmt.Sprintf("`rota requeue %s` lets it wait again, `rota cancel %s` ends it", text, text)}
	case verb == cluster.VerbRelease && j.Hold == cluster.NotHeld:
		return wrongState("job %s is not held: it is %s", text, state)
	case verb == cluster.VerbRequeue && j.State == cluster.Pending:
		return wrongState("job %s waits already", text)
	}
	return p
}

// maxReason bounds the text that goes into the log.
const maxReason = 500

// controlJobs applies a verb to targets, in as many entries of the log as their number takes.
func (x *exchange) controlJobs(verb cluster.Verb, targets []cluster.Target, reason string) (*api.ControlResponse, error) {
	if len(reason) > maxReason {
		return nil, invalid("the reason has %d bytes, at most %d are allowed", len(reason), maxReason)
	}
	resp := &api.ControlResponse{Items: make([]api.ControlItem, 0, len(targets))}
	for chunk := range slices.Chunk(targets, cluster.MaxJobsPerCall) {
		command, err := x.controlCommand(verb, chunk, reason)
		if err != nil {
			return nil, err
		}
		result, err := x.propose(command)
		if err != nil {
			return nil, err
		}
		each, ok := result.([]cluster.ControlResult)
		if !ok || len(each) != len(chunk) {
			return nil, fmt.Errorf("%s: the state answered with a %T", verb, result)
		}
		for i, r := range each {
			item := api.ControlItem{ID: r.ID, Members: chunk[i].Members.String()}
			if r.Err != nil {
				item.Error = filled(problemOf(r.Err))
			}
			resp.Items = append(resp.Items, item)
		}
	}
	return resp, nil
}

// controlCommand is the command in the kind that the cluster's version has.
func (x *exchange) controlCommand(verb cluster.Verb, targets []cluster.Target, reason string) (cluster.Command, error) {
	by, admin := x.caller.User.UID, x.admin()
	if x.view.Config().Version >= 2 {
		return cluster.ControlJobs2{Verb: verb, Targets: targets, By: by, Admin: admin, Reason: reason}, nil
	}
	c := cluster.ControlJobs{Verb: verb, By: by, Admin: admin, Reason: reason}
	for _, t := range targets {
		if len(t.Members) > 0 {
			return nil, tooOld("elements of arrays")
		}
		c.IDs = append(c.IDs, t.ID)
	}
	return c, nil
}

// tooOld refuses what not every controller could read from the log.
func tooOld(what string) error {
	return &api.Problem{Status: http.StatusUnprocessableEntity, Code: api.CodeUnsupported,
		Detail: what + " need a version that not every controller of this cluster runs yet",
		Hint:   "`rota cluster` shows the controllers; install the newest version on each"}
}

// cancelMany answers POST /v1/jobs/cancel: every live job that matches and that the caller may cancel.
func cancelMany(x *exchange) (any, error) {
	var req api.CancelRequest
	if err := x.decode(&req); err != nil {
		return nil, err
	}
	if len(req.IDs)+len(req.Refs) == 0 && req.User == "" && req.Account == "" && req.Name == "" && len(req.States) == 0 {
		return nil, invalid("the filter is empty: it would cancel every job. Set ids, refs, user, account, name or states")
	}
	if n := len(req.IDs) + len(req.Refs); n > cluster.MaxJobsPerCall {
		return nil, invalid("%d ids, at most %d are allowed", n, cluster.MaxJobsPerCall)
	}
	f := jobFilter{user: req.User, account: req.Account, name: req.Name}
	var err error
	if f.states, err = parseStates(req.States); err != nil {
		return nil, err
	}
	for _, id := range req.IDs {
		req.Refs = append(req.Refs, strconv.FormatInt(int64(id), 10))
	}
	if err := x.name(&f, req.Refs); err != nil {
		return nil, err
	}
	return x.controlJobs(cluster.VerbCancel, x.cancellable(&f), req.Reason)
}

// cancellable returns the jobs that a filter selects. Those that were named are kept, so that the answer says what became of each.
func (x *exchange) cancellable(f *jobFilter) []cluster.Target {
	var targets []cluster.Target
	if len(f.refs) > 0 && f.user == "" && f.account == "" && f.name == "" && len(f.states) == 0 {
		for _, r := range f.refs {
			targets = append(targets, cluster.Target{ID: r.id, Members: r.members})
		}
		return targets
	}
	for j := range x.view.Jobs() {
		if j.State.Final() || !x.admin() && j.Owner.UID != x.caller.User.UID {
			continue
		}
		if members, whole := f.part(j); whole || len(members) > 0 {
			targets = append(targets, cluster.Target{ID: j.ID, Members: members})
		}
	}
	return targets
}

// why answers GET /v1/jobs/{id}/why.
func why(x *exchange) (any, error) {
	j, err := x.findJob()
	if err != nil {
		return nil, err
	}
	if x.view.Job(j.ID) == nil && j.State.Final() {
		return api.Why{ID: j.ID, Reason: presentReason(j.Reason), Funnel: []api.FunnelStep{}}, nil
	}
	e := sched.Explain(x.view, x.d.clock.now(x.view), x.view.Config().Policy, j.ID)
	return api.Why{ID: j.ID, Reason: presentReason(e.Reason), Funnel: presentFunnel(e.Funnel), Ahead: e.Ahead, Advice: e.Advice}, nil
}

func presentFunnel(steps []explain.Step) []api.FunnelStep {
	out := []api.FunnelStep{}
	for _, s := range steps {
		out = append(out, api.FunnelStep{What: s.What, Nodes: s.Nodes})
	}
	return out
}
