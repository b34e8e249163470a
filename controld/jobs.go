package controld

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/jobspec"
)

// jobFilter is what the parameters of a list of jobs select.
type jobFilter struct {
	refs                        []*reference   // jobs, with all members of a record
	named                       cluster.Ranges // their ids: as ranges, since a word of a few letters may name 100,000
	user, account, queue, class string
	name                        string
	states                      []cluster.JobState
	all                         bool
}

func (x *exchange) jobFilter() (jobFilter, error) {
	q := x.query
	f := jobFilter{user: q.Get("user"), account: q.Get("account"), queue: q.Get("queue"), class: q.Get("class"), name: q.Get("name")}
	var err error
	if f.all, err = x.flag("all"); err != nil {
		return f, err
	}
	if err := x.name(&f, splitAll(q["id"])); err != nil {
		return f, err
	}
	f.states, err = parseStates(splitAll(q["state"]))
	return f, err
}

// maxSpans bounds the ranges of ids that one request may name: every other element of four of the largest arrays.
const maxSpans = 200_000

// name has a filter select the jobs that words name.
func (x *exchange) name(f *jobFilter, words []string) error {
	for _, s := range words {
		r, err := x.resolve(s)
		if err != nil {
			return err
		}
		f.refs, f.named = append(f.refs, r), append(f.named, r.spans()...)
		if len(f.named) > maxSpans {
			return invalid("more than %d jobs and ranges of elements are named: ask for fewer at once", maxSpans)
		}
	}
	f.named = f.named.With(nil)
	return nil
}

// splitAll allows for a parameter both to be repeated and to be a list with commas.
func splitAll(values []string) []string {
	var all []string
	for _, v := range values {
		for s := range strings.SplitSeq(v, ",") {
			if s = strings.TrimSpace(s); s != "" {
				all = append(all, s)
			}
		}
	}
	return all
}

// parseStates reads letters or long names of states.
func parseStates(words []string) ([]cluster.JobState, error) {
	var states []cluster.JobState
next:
	for _, w := range words {
		for code, name := range stateNames {
			if strings.EqualFold(w, string(code)) || strings.EqualFold(w, name) {
				states = append(states, code)
				continue next
			}
		}
		return nil, invalid("%q is not a state of a job: write letters such as PD or R, or a name such as PENDING", w)
	}
	return states, nil
}

func (f *jobFilter) selects(j *cluster.Job) bool {
	switch {
	case f.user != "" && f.user != j.Owner.User,
		f.account != "" && f.account != j.Account,
		f.queue != "" && f.queue != j.Queue,
		f.class != "" && f.class != string(j.Class),
		f.name != "" && f.name != j.Spec.Name,
		len(f.refs) > 0 && !f.named.Has(int(j.ID)):
		return false
	case len(f.states) > 0:
		return slices.Contains(f.states, j.State) || j.Family != nil && j.Waits() && slices.Contains(f.states, cluster.Pending)
	}
	return f.all || len(f.refs) > 0 || !j.State.Final()
}

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

// part says what of a job a filter selects: the whole of it or, of a record, some members that have not been made. Those that have been made are
// jobs of their own, which a record that is selected as a whole takes along.
func (f *jobFilter) part(j *cluster.Job) (members cluster.Ranges, whole bool) {
	single := len(f.states) > 0 || len(f.refs) > 0
	switch {
	case j.Family == nil:
		return nil, f.selects(j) && (single || j.Parent == 0)
	case !single:
		return nil, f.selects(j)
	}
	waiting, rest := j.Family.Waiting, *f
	rest.states, rest.refs, rest.named = nil, nil, nil
	if !rest.selects(j) || len(f.states) > 0 && !slices.Contains(f.states, cluster.Pending) {
		return nil, false
	}
	if len(f.refs) == 0 {
		return waiting, false
	}
	for _, r := range f.refs {
		switch {
		case r.id != j.ID:
		case len(r.members) == 0:
			return waiting, false
		default:
			members = members.With(r.members.Both(waiting))
		}
	}
	return members, false
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

func presentFunnel(steps []sched.Step) []api.FunnelStep {
	out := []api.FunnelStep{}
	for _, s := range steps {
		out = append(out, api.FunnelStep{What: s.What, Nodes: s.Nodes})
	}
	return out
}

// listHistory answers GET /v1/history, the last to end first.
func listHistory(x *exchange) (any, error) {
	f, err := x.jobFilter()
	if err != nil {
		return nil, err
	}
	limit, err := x.limit()
	if err != nil {
		return nil, err
	}
	before, err := x.number("page", 0)
	if err != nil {
		return nil, err
	}
	q := history.Filter{User: f.user, Account: f.account, Name: f.name, States: f.states, Before: before, Limit: limit + 1, IDs: f.named}
	if q.Since, err = x.instant("since"); err != nil {
		return nil, err
	}
	if q.Until, err = x.instant("until"); err != nil {
		return nil, err
	}
	jobs, err := x.finished(q)
	if err != nil {
		return nil, err
	}
	list := newList[api.Job]("JobList", x.view)
	if len(jobs) > limit {
		jobs = jobs[:limit]
		list.Next = strconv.FormatInt(jobs[limit-1].Seq, 10)
	}
	for _, j := range jobs {
		list.Items = append(list.Items, presentJob(nil, j, j.Reason, x.d.samples.of(j.ID), j.Ended.Wall))
	}
	return list, nil
}

// finished returns what the history has, and before it what has ended since the last write.
func (x *exchange) finished(q history.Filter) ([]*cluster.Job, error) {
	stored := x.d.records.Last()
	old, err := x.d.records.Query(x.ctx(), q)
	if err != nil {
		return nil, err
	}
	f := jobFilter{user: q.User, account: q.Account, name: q.Name, states: q.States, all: true}
	var recent []*cluster.Job
	for _, j := range x.view.Finished(stored) {
		after := q.Since == 0 || j.Ended.Wall >= q.Since
		until := q.Until == 0 || j.Ended.Wall < q.Until
		if after && until && (q.Before == 0 || j.Seq < q.Before) && (len(q.IDs) == 0 || q.IDs.Has(int(j.ID))) && f.selects(j) {
			recent = append(recent, j)
		}
	}
	return mergeBySeq(recent, old, q.Limit), nil
}

// mergeBySeq joins two lists, drops doubles, and orders them from the newest.
func mergeBySeq(a, b []*cluster.Job, limit int) []*cluster.Job {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(a, b *cluster.Job) int { return int(b.Seq - a.Seq) })
	all = slices.CompactFunc(all, func(a, b *cluster.Job) bool { return a.Seq == b.Seq })
	return all[:min(len(all), limit)]
}

func (x *exchange) instant(name string) (cluster.UnixMS, error) {
	s := x.query.Get(name)
	if s == "" {
		return 0, nil
	}
	var t api.Time
	if err := t.UnmarshalText([]byte(s)); err != nil {
		return 0, invalid("parameter %s=%q: write a time such as 2026-01-31T08:00:00Z", name, s)
	}
	return cluster.UnixMS(t.UnixMilli()), nil
}
