package jobs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/servertest"
	"github.com/rota-hpc/rota/controld/telemetry"
	"github.com/rota-hpc/rota/jobspec"
)

// TestWhyAVerbDoesNotFit gives advice where there is some, and the refusal as it was elsewhere.
func TestWhyAVerbDoesNotFit(t *testing.T) {
	refusal := &api.Problem{Detail: "as it was"}
	for _, c := range []struct {
		verb  model.Verb
		state model.JobState
		hold  model.Hold
		want  string
	}{
		{model.VerbHold, model.Running, model.NotHeld, "only pending jobs can be held"},
		{model.VerbHold, model.Pending, model.NotHeld, "as it was"},
		{model.VerbRelease, model.Pending, model.NotHeld, "is not held"},
		{model.VerbRelease, model.Pending, model.HeldByUser, "as it was"},
		{model.VerbRequeue, model.Pending, model.NotHeld, "is already"},
		{model.VerbRequeue, model.Running, model.NotHeld, "as it was"},
		{model.VerbCancel, model.Pending, model.NotHeld, "as it was"},
	} {
		if err := wrongVerb(c.verb, &model.Job{State: c.state, Hold: c.hold}, "7", refusal); !strings.Contains(err.Error(),
			c.want) {
			t.Errorf("%s of a job that is %s, held %q: %v", c.verb, c.state, c.hold, err)
		}
	}
	attempts := []model.Attempt{{N: 2, Cause: model.CauseTE, Rule: "signal"}, {N: 3}}
	if e := endedBy(&model.Job{Attempts: attempts}); e == nil || e.Attempt != 2 || e.Cause != model.CauseTE {
		t.Errorf("the last attempt with a rule: %+v", e)
	}
	if e := endedBy(&model.Job{Attempts: attempts[1:]}); e != nil {
		t.Errorf("no attempt has a rule: %+v", e)
	}
}

// TestWhatJobsAreTold goes through cancelling, holding and changing of jobs, one by one and by a filter.
func TestWhatJobsAreTold(t *testing.T) {
	s := newSite(t)
	bobs := s.Do(fsm.SubmitJobs{Owner: model.Identity{UID: 8, User: "bob"}, Jobs: []*jobspec.Job{{Name: "b",
		Groups: []jobspec.Group{{Name: "m", Count: 1, Tasks: []jobspec.Task{{Name: "m", Command: []string{"true"},
			Resources: jobspec.Resources{Cores: 1, Memory: jobspec.GiB}}}}}}}}).([]model.JobID)[0]
	do := func(verb model.Verb, id string, reason string) (*api.ControlResponse, *exchange.Exchange, error) {
		x := s.Request("/v1/jobs/{id}/"+map[model.Verb]string{model.VerbHold: "hold", model.VerbRelease: "release",
			model.VerbRequeue: "requeue", model.VerbCancel: "cancel"}[verb], id, "", "")
		resp, err := control(verb)(x, &api.ControlRequest{Reason: reason})
		return resp, x, err
	}
	long := strings.Repeat("x", exchange.MaxReason)
	for _, c := range []struct {
		verb   model.Verb
		id     string
		reason string
		says   string // "": it is done
	}{
		{model.VerbHold, fmt.Sprint(s.Gang), "", "only pending jobs can be held"},
		{model.VerbHold, fmt.Sprint(s.Ended), "", "has ended: it is CANCELLED"},
		{model.VerbRequeue, fmt.Sprint(s.Pending), "", "is already"},
		{model.VerbRelease, fmt.Sprint(s.Gang), "", "is not held"},
		{model.VerbHold, fmt.Sprintf("%d_6", s.Array), long, ""},
		{model.VerbRelease, fmt.Sprintf("%d_6", s.Array), long + "x", "the reason has 501 bytes"},
		{model.VerbRelease, fmt.Sprint(s.Pending), "", ""},
		{model.VerbHold, fmt.Sprint(s.Array), "x", ""},
		{model.VerbCancel, fmt.Sprint(s.Gang), "", ""},
		{model.VerbCancel, fmt.Sprint(s.Ended), "", "has ended"},
	} {
		resp, x, err := do(c.verb, c.id, c.reason)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %s: %v, want %q", c.verb, c.id, err, c.says)
		}
		if err == nil && (len(resp.Items) != 1 || len(x.About.Jobs) != 1 || strings.Contains(c.id,
			"_") != (resp.Items[0].Members != "")) {
			t.Errorf("%s %s: %+v, about %v", c.verb, c.id, resp, x.About.Jobs)
		}
	}
	if j := s.Replica.View().Job(s.Gang); j.CancelledBy != model.SomeUID(7) {
		t.Errorf("it was cancelled by %d", j.CancelledBy)
	}
	many := func(req api.CancelRequest) (ids []string, err error) {
		resp, err := s.cancelMany(s.Request("/v1/jobs/cancel", "", "", ""), &req)
		if err != nil {
			return nil, err
		}
		for _, i := range resp.Items {
			text := fmt.Sprint(i.ID)
			if i.Error != nil {
				text += " " + i.Error.Code
			}
			ids = append(ids, text)
		}
		return ids, nil
	}
	for name, c := range map[string]struct {
		req  api.CancelRequest
		want []string
		code string
	}{
		"everything": {api.CancelRequest{}, nil, api.CodeInvalid},
		"too many":   {api.CancelRequest{IDs: make([]model.JobID, model.MaxJobsPerCall+1)}, nil, api.CodeInvalid},
		"odd states": {api.CancelRequest{States: []string{"x"}}, nil, api.CodeInvalid},
		"another's": {api.CancelRequest{IDs: []model.JobID{bobs, s.Ended}}, []string{fmt.Sprint(s.Ended) + " " +
			api.CodeWrongState, fmt.Sprint(bobs) + " " + api.CodeDenied}, ""},
		"of another": {api.CancelRequest{User: "bob"}, nil, ""},
		"of no name": {api.CancelRequest{Name: "zz"}, nil, ""},
		"what leaves": {api.CancelRequest{User: "ann", IDs: []model.JobID{s.Leaving, s.Ended}},
			[]string{fmt.Sprint(s.Leaving)}, ""},
		"no account":  {api.CancelRequest{Account: "zz"}, nil, ""},
		"what paused": {api.CancelRequest{States: []string{"S"}}, nil, ""},
	} {
		if got, err := many(c.req); servertest.CodeOf(err) != c.code || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	change := func(id string, req api.UpdateRequest) error {
		_, err := update(s.Request("/v1/jobs/{id}/update", id, "", ""), &req)
		return err
	}
	low, comment, odd := 5, strings.Repeat("c", jobspec.MaxComment), "a b"
	longer := comment + "c"
	for name, c := range map[string]struct {
		id   model.JobID
		req  api.UpdateRequest
		code string
	}{"a priority": {s.Pending, api.UpdateRequest{Priority: &low}, ""}, "no name": {s.Pending,
		api.UpdateRequest{Name: &odd}, api.CodeInvalid},
		"a comment": {s.Pending, api.UpdateRequest{Comment: &comment}, ""}, "a longer one": {s.Pending,
			api.UpdateRequest{Comment: &longer}, api.CodeInvalid},
		"an ended one": {s.Ended, api.UpdateRequest{Priority: &low}, api.CodeWrongState}} {
		if err := change(fmt.Sprint(c.id), c.req); servertest.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	if j := s.Replica.View().Job(s.Pending); j.Priority != 5 || j.Comment == nil || *j.Comment != comment {
		t.Errorf("afterwards priority %d", j.Priority)
	}
}

// TestRefusalsThatAreNotExplained stay as they are: of several jobs, and for another reason than their state.
func TestRefusalsThatAreNotExplained(t *testing.T) {
	s := newSite(t)
	denied := &api.Problem{Status: 403, Code: api.CodeDenied, Detail: "denied"}
	missing := &api.Problem{Status: 404, Code: api.CodeNotFound, Detail: "missing"}
	wrong := &api.Problem{Status: 409, Code: api.CodeWrongState, Detail: "wrong"}
	for _, c := range []struct {
		id   string
		p    *api.Problem
		verb model.Verb
		want string
	}{
		{fmt.Sprint(s.Ended), denied, model.VerbHold, "denied"},
		{fmt.Sprint(s.Ended), wrong, model.VerbHold, "has ended: it is CANCELLED"},
		{fmt.Sprint(s.Ended), missing, model.VerbHold, "has ended: it is CANCELLED"},
		{fmt.Sprint(s.Gang), wrong, model.VerbHold, "only pending jobs can be held"},
		{fmt.Sprint(s.Gang), wrong, model.VerbCancel, "wrong"},
		{fmt.Sprintf("%d_[5-6]", s.Array), wrong, model.VerbHold, "wrong"},
		{fmt.Sprintf("%d_[5-6]", s.Array), missing, model.VerbHold, "missing"},
		{fmt.Sprintf("%d_5", s.Array), missing, model.VerbHold, "has not begun"},
	} {
		x := s.Request("/v1/jobs/{id}/hold", c.id, "", "")
		r, err := x.JobRef()
		if err != nil {
			t.Fatal(err)
		}
		if err := explainRefusal(x, c.p, r, c.verb); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of job %s, %q: %v, want %q", c.verb, c.id, c.p.Detail, err, c.want)
		}
	}
}

// TestAnswersAboutOneJob: what an update says, and why a job waits.
func TestAnswersAboutOneJob(t *testing.T) {
	s := newSite(t)
	priority := 7
	got, err := update(s.Request("/v1/jobs/{id}/update", fmt.Sprint(s.Pending), "", ""),
		&api.UpdateRequest{Priority: &priority})
	if err != nil || len(got.Items) != 1 || got.Items[0].ID != s.Pending || got.Items[0].Error != nil {
		t.Errorf("an update: %+v, %v", got, err)
	}
	held, err := s.getJob(s.Request("/v1/jobs/{id}", fmt.Sprint(s.Pending), "", ""))
	if err != nil || held.Reason.Code == "" || held.Spec == nil {
		t.Errorf("a job that waits does so because of %+v, %v", held, err)
	}
	if runs, err := s.getJob(s.Request("/v1/jobs/{id}", fmt.Sprint(s.Gang), "", "")); err != nil ||
		runs.Reason.Code != "" {
		t.Errorf("a job that runs waits because of %+v, %v", runs.Reason, err)
	}
	if _, err := s.getJob(s.Request("/v1/jobs/{id}", "777", "", "")); servertest.CodeOf(err) != api.CodeNotFound {
		t.Errorf("an unknown job: %v", err)
	}
}

// TestWhatIsPruned compares what tasks report, and leaves those alone that cannot be compared.
func TestWhatIsPruned(t *testing.T) {
	s := newSite(t)
	array := s.Submit(func(j *jobspec.Job) { j.Array = &jobspec.Array{Indices: "10-15"} })
	for n := 1; n <= 5; n++ {
		if errs := s.Do(fsm.CommitPlan{Actions: []fsm.Action{&fsm.StartJob{Job: array, TaskNumber: n,
			Places: []model.Place{{Node: []string{"n2", "n3"}[n%2]}}}}}).([]error); errs[0] != nil {
			t.Fatal(errs)
		}
		s.All(array+model.JobID(n), model.WorkerRunning)
	}
	live := func(model.JobID) bool { return false }
	put := func(n, attempt int, step int64, metrics map[string]float64) {
		s.Samples.Put(array+model.JobID(n), telemetry.AttemptProgress{Attempt: attempt, Step: step, Metrics: metrics}, "",
			live)
	}
	put(1, 1, 10, map[string]float64{"loss": 3})
	put(2, 1, 10, map[string]float64{"loss": 1})
	put(3, 1, 9, map[string]float64{"loss": 2}) // not so far
	put(4, 1, 10, map[string]float64{"acc": 2}) // another metric
	s.Do(fsm.ControlJobs{Verb: model.VerbCancel, Targets: []fsm.Target{{ID: array + 5}}, By: 7})
	put(5, 1, 10, map[string]float64{"loss": 0}) // it is being stopped
	ask := func(id string, req api.PruneRequest) (*api.PruneResponse, error) {
		return s.prune(s.Request("/v1/jobs/{id}/prune", id, "", ""), &req)
	}
	name := fmt.Sprint(array)
	good := api.PruneRequest{Metric: "loss", Keep: "top 1", AtStep: 10, DryRun: true}
	for what, c := range map[string]struct {
		id   string
		edit func(*api.PruneRequest)
		code string
	}{"good": {name, func(*api.PruneRequest) {}, ""}, "no array": {fmt.Sprint(s.Gang), func(*api.PruneRequest) {},
		api.CodeInvalid},
		"a task":      {name + "_10", func(*api.PruneRequest) {}, api.CodeInvalid},
		"no metric":   {name, func(r *api.PruneRequest) { r.Metric = "" }, api.CodeInvalid},
		"min":         {name, func(r *api.PruneRequest) { r.Goal = "min" }, ""},
		"an odd goal": {name, func(r *api.PruneRequest) { r.Goal = "avg" }, api.CodeInvalid},
		"odd to keep": {name, func(r *api.PruneRequest) { r.Keep = "some" }, api.CodeInvalid}} {
		req := good
		c.edit(&req)
		if _, err := ask(c.id, req); servertest.CodeOf(err) != c.code {
			t.Errorf("%s: %v", what, err)
		}
	}
	check := func(what string, req api.PruneRequest, kept, cancelled, silent []int) {
		t.Helper()
		got, err := ask(name, req)
		if err != nil || !slices.Equal(got.Kept, kept) || !slices.Equal(got.Cancelled, cancelled) ||
			!slices.Equal(got.Silent, silent) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	check("the least", good, []int{11}, []int{10}, []int{12, 13})
	most := good
	most.Goal = "max"
	check("the most", most, []int{10}, []int{11}, []int{12, 13})
	all := good
	all.AtStep = 9
	check("one step less", all, []int{11}, []int{12, 10}, []int{13})
	all.Keep = "top 3"
	before := s.Replica.View().Index()
	all.DryRun = false
	check("all are kept", all, []int{11, 12, 10}, []int{}, []int{13})
	if s.Replica.View().Index() != before {
		t.Error("what cancels nothing is in the log")
	}
	done := good
	done.DryRun = false
	check("it is done", done, []int{11}, []int{10}, []int{12, 13})
	if a, b := s.Replica.View().Job(array+1), s.Replica.View().Job(array+2); a.Live() == nil || a.Live().Stop == nil ||
		!a.Pruned ||
		b.Live().Stop != nil {
		t.Errorf("afterwards: %+v, %+v", a, b)
	}
}
