package jobs

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/explain"
	"github.com/rota-hpc/rota/controld/sched/fairshare"
	"github.com/rota-hpc/rota/controld/server/present"
	"github.com/rota-hpc/rota/controld/server/servertest"
	"github.com/rota-hpc/rota/jobspec"
)

// TestWhatAPlanSays: of a job that starts now, one that waits for others, and one that fits nowhere.
func TestWhatAPlanSays(t *testing.T) {
	s := newSite(t)
	s.Users, s.AllowRootJobs = &identity.Users{}, false
	job := func(cores int, count int) *jobspec.Job {
		return &jobspec.Job{Name: "p", Groups: []jobspec.Group{{Name: "m", Count: count, Tasks: []jobspec.Task{{Name: "m",
			Command: []string{"true"}, Resources: jobspec.Resources{Cores: cores, Memory: jobspec.GiB}}}}}}
	}
	ask := func(j *jobspec.Job, caller *identity.Caller) (*api.PlanResponse, error) {
		x := s.Request("/v1/plan", "", "", "")
		x.Caller = caller
		return s.plan(x, &api.PlanRequest{Job: j})
	}
	before := s.Replica.View().Index()
	for name, c := range map[string]struct {
		job    *jobspec.Job
		starts bool
		places int
	}{"one that starts": {job(2, 1), true, 1}, "a gang": {job(2, 2), true, 2}, "one that waits for others": {job(8, 3),
		false, 0}} {
		got, err := ask(c.job, servertest.Named("ann", 7))
		if err != nil || got.Starts != c.starts || len(got.Places) != c.places || (got.Begins == 1) != c.starts ||
			(got.Reason.Code == "") != c.starts || (got.Basis == "") != c.starts || (len(got.Funnel) == 0) != c.starts {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := ask(job(64, 1), servertest.Named("ann", 7)); err == nil || !strings.Contains(err.Error(),
		"n1, has 8 of 64 cores") {
		t.Errorf("one that is too large: %v", err)
	}
	if _, err := ask(nil, servertest.Named("ann", 7)); servertest.CodeOf(err) != api.CodeInvalid {
		t.Errorf("no job: %v", err)
	}
	if _, err := ask(job(1, 1), servertest.Named("root", 0)); servertest.CodeOf(err) != api.CodeDenied {
		t.Errorf("a job of root: %v", err)
	}
	if s.Replica.View().Index() != before || len(s.planning.taken) != 0 {
		t.Error("a plan is in the log, or goes on")
	}
	for name, c := range map[string]struct {
		uid   uint32
		allow bool
		as    string
		user  string
		code  string
	}{"a user": {7, false, "daemon", "ann", ""}, "root": {0, false, "", "", api.CodeDenied}, "root, allowed": {0, true,
		"daemon", "root", ""},
		"root as another": {0, false, "daemon", "daemon", ""}} {
		s.AllowRootJobs, s.RootJobsAs = c.allow, c.as
		x := s.Of(servertest.Named(map[bool]string{true: "root", false: "ann"}[c.uid == 0], c.uid), "")
		if id, err := s.owner(x); servertest.CodeOf(err) != c.code || err == nil && id.User != c.user {
			t.Errorf("%s: jobs of %+v, %v", name, id, err)
		}
	}
	tooLarge := s.Submit(func(j *jobspec.Job) { j.Groups[0].Tasks[0].Resources.Cores, j.Groups[0].Count = 8, 3 })
	for id, ended := range map[model.JobID]bool{tooLarge: false, s.Gang: false, s.Ended: false} {
		x := s.Request("/v1/jobs/{id}/why", fmt.Sprint(id), "", "")
		e := sched.Explain(x.View, s.Replica.Now(x.View), x.View.Config().Policy, id)
		got, err := s.why(x)
		if id != s.Ended && (got.Ahead != e.Ahead || !reflect.DeepEqual(got.Advice, e.Advice) ||
			(got.After == nil) != (e.After == nil)) {
			t.Errorf("job %d: %+v, want %+v", id, got, e)
		}
		if err != nil || got.ID != id || (got.Ended != nil) != ended || id == tooLarge && (got.Reason.Code == "" ||
			len(got.Funnel) == 0) {
			t.Errorf("job %d: %+v, %v", id, got, err)
		}
	}
}

// TestJobsThatWouldLeave are named to those that may see them, and the wait is rounded up to seconds.
func TestJobsThatWouldLeave(t *testing.T) {
	s := newSite(t)
	bobs := s.Bobs("a")
	s.Private(cluster.PrivateJobs)
	x := s.Request("/v1/plan", "", "", "")
	of := func(id model.JobID) steering.Displacement {
		return steering.Displacement{Job: id, Attempt: 2, For: 99, Cause: model.CauseTE, Workers: 3, GraceMS: 4999,
			LostMS: 7999, Since: model.Stamp{Wall: 5000}}
	}
	resp := &api.PlanResponse{}
	presentForeseen(x, &sched.Foreseen{Displacements: []steering.Displacement{of(s.Gang), of(bobs), of(777)}, After: 1001},
		resp)
	own := api.Displacement{Job: s.Gang, Attempt: 2, Cause: model.CauseTE, Workers: 3, Grace: 4, LostGPUSeconds: 7,
		User: "ann", Account: s.Replica.View().Job(s.Gang).Account}
	hidden := own
	hidden.Job, hidden.Attempt, hidden.User, hidden.Account = 0, 0, "", ""
	if want := []api.Displacement{own, hidden, hidden}; !reflect.DeepEqual(resp.Displaces, want) ||
		resp.DisplacesAfter != 2 {
		t.Errorf("%+v after %d s, want %+v", resp.Displaces, resp.DisplacesAfter, want)
	}
	for after, want := range map[model.Instant]int64{0: 0, 1: 1, 1000: 1, 1999: 2, 2000: 2} {
		resp := &api.PlanResponse{}
		presentForeseen(x, &sched.Foreseen{Displacements: []steering.Displacement{of(s.Gang)}, After: after}, resp)
		if resp.DisplacesAfter != want {
			t.Errorf("after %d ms it is shown as %d s", after, resp.DisplacesAfter)
		}
	}
	resp = &api.PlanResponse{}
	if presentForeseen(x, &sched.Foreseen{After: 5000}, resp); resp.DisplacesAfter != 0 {
		t.Error("no job would leave, and one is waited for")
	}
	d := of(s.Gang)
	got := present.Displacement(&d)
	if got.For != 99 || got.Since == nil || got.Since.UnixMilli() != 5000 {
		t.Errorf("what a dry run has recorded: %+v", got)
	}
}

// TestQuotasAndSparedJobs: holders are named unless usage is private, jobs unless they are, and eight of a rule.
func TestQuotasAndSparedJobs(t *testing.T) {
	s := newSite(t)
	bobs := s.Bobs("a")
	quota := []fairshare.Quota{{Account: "a", User: "u", Kind: "limit", Resource: "gpus", Used: 5, Most: 7, Binds: true,
		Text: "x", Holders: []fairshare.Holder{{User: "ann", Account: "a", Held: 3, Jobs: []model.JobID{s.Gang}},
			{User: "bob", Account: "b", Held: 2, Jobs: []model.JobID{bobs}}}}}
	many := make([]model.JobID, 9)
	for i := range many {
		many[i] = s.Gang
	}
	after := &explain.AfterPreemption{By: model.CauseTE, Jobs: 10, Fits: true, Lawful: true, Text: "t",
		Spared: []explain.Spared{{Rule: "r", Jobs: many}, {Rule: "q", Jobs: []model.JobID{bobs}}}}
	for _, c := range []struct {
		private    []string
		user, jobs bool // of others are shown
	}{{nil, true, true}, {[]string{cluster.PrivateUsage}, false, true}, {[]string{cluster.PrivateJobs}, true, false}} {
		s.Private(c.private...)
		x := s.Request("/v1/plan", "", "", "")
		got := presentQuotas(x, quota)
		user, jobs := map[bool]string{true: "bob"}[c.user], []model.JobID{}
		if c.jobs {
			jobs = []model.JobID{bobs}
		}
		want := []api.Quota{{Account: "a", User: "u", Kind: "limit", Resource: "gpus", Used: 5, Most: 7, Binds: true,
			Text: "x", Holders: []api.Holder{{User: "ann", Account: "a", Held: 3, Jobs: []model.JobID{s.Gang}},
				{User: user, Account: "b", Held: 2, Jobs: jobs}}}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("private %v: %+v, want %+v", c.private, got, want)
		}
		shown := presentAfter(x, after)
		if shown.By != model.CauseTE || shown.Jobs != 10 || !shown.Fits || !shown.Lawful || shown.Text != "t" ||
			len(shown.Spared) != 2 || shown.Spared[0].Rule != "r" || shown.Spared[0].Count != 9 ||
			len(shown.Spared[0].Jobs) != 8 || shown.Spared[1].Count != 1 || !slices.Equal(shown.Spared[1].Jobs, jobs) {
			t.Errorf("private %v: after preemption %+v", c.private, shown)
		}
		if !maySeeJob(x, s.Gang) || maySeeJob(x, bobs) != c.jobs || maySeeJob(x, 777) != c.jobs {
			t.Errorf("private %v: it sees its own %t, another's %t, one that left %t", c.private, maySeeJob(x, s.Gang),
				maySeeJob(x, bobs), maySeeJob(x, 777))
		}
	}
	if x := s.Request("/v1/plan", "", "", ""); presentAfter(x, nil) != nil {
		t.Error("without preemption there is one")
	}
}

// TestTurns: a user does one thing at a time, users do not wait for each other, and a client that
// leaves waits no longer.
func TestTurns(t *testing.T) {
	var turns turns
	end, err := turns.take(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	other, err := turns.take(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	other()
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := turns.take(gone, 1); err == nil {
		t.Error("two turns of one user at once")
	}
	next := make(chan func())
	go func() {
		end, err := turns.take(context.Background(), 1)
		if err != nil {
			t.Error(err)
		}
		next <- end
	}()
	end()
	(<-next)()
	if len(turns.taken) != 0 {
		t.Errorf("%d turns are left", len(turns.taken))
	}
}
