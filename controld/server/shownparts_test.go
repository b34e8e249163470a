package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/explain"
	"github.com/rota-hpc/rota/controld/sched/fairshare"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/telemetry"
	"github.com/rota-hpc/rota/jobspec"
)

// private makes parts of the cluster private.
func (s *site) private(words ...string) {
	s.t.Helper()
	cfg := *s.Replica.View().Config()
	cfg.Private = words
	s.do(fsm.SetConfig{Config: cfg})
}

// bobs submits a job of bob.
func (s *site) bobs(account string) model.JobID {
	s.t.Helper()
	return s.do(fsm.SubmitJobs{Owner: model.Identity{UID: 8, User: "bob"}, Jobs: []*jobspec.Job{{Name: "b",
		Account: account, Groups: []jobspec.Group{{Name: "m", Count: 1, Tasks: []jobspec.Task{{Name: "m",
			Command: []string{"true"}, Resources: jobspec.Resources{Cores: 1,
				Memory: jobspec.GiB}}}}}}}}).([]model.JobID)[0]
}

// TestJobsThatWouldLeave are named to those that may see them, and the wait is rounded up to seconds.
func TestJobsThatWouldLeave(t *testing.T) {
	s := newSite(t)
	bobs := s.bobs("a")
	s.private(cluster.PrivateJobs)
	x := s.request("/v1/plan", "", "", "")
	of := func(id model.JobID) steering.Displacement {
		return steering.Displacement{Job: id, Attempt: 2, For: 99, Cause: model.CauseTE, Workers: 3, GraceMS: 4999,
			LostMS: 7999, Since: model.Stamp{Wall: 5000}}
	}
	resp := &api.PlanResponse{}
	x.presentForeseen(&sched.Foreseen{Displacements: []steering.Displacement{of(s.gang), of(bobs), of(777)}, After: 1001},
		resp)
	own := api.Displacement{Job: s.gang, Attempt: 2, Cause: model.CauseTE, Workers: 3, Grace: 4, LostGPUSeconds: 7,
		User: "ann", Account: s.Replica.View().Job(s.gang).Account}
	hidden := own
	hidden.Job, hidden.Attempt, hidden.User, hidden.Account = 0, 0, "", ""
	if want := []api.Displacement{own, hidden, hidden}; !reflect.DeepEqual(resp.Displaces, want) ||
		resp.DisplacesAfter != 2 {
		t.Errorf("%+v after %d s, want %+v", resp.Displaces, resp.DisplacesAfter, want)
	}
	for after, want := range map[model.Instant]int64{0: 0, 1: 1, 1000: 1, 1999: 2, 2000: 2} {
		resp := &api.PlanResponse{}
		x.presentForeseen(&sched.Foreseen{Displacements: []steering.Displacement{of(s.gang)}, After: after}, resp)
		if resp.DisplacesAfter != want {
			t.Errorf("after %d ms it is shown as %d s", after, resp.DisplacesAfter)
		}
	}
	resp = &api.PlanResponse{}
	if x.presentForeseen(&sched.Foreseen{After: 5000}, resp); resp.DisplacesAfter != 0 {
		t.Error("no job would leave, and one is waited for")
	}
	d := of(s.gang)
	got := presentDisplacement(&d)
	if got.For != 99 || got.Since == nil || got.Since.UnixMilli() != 5000 {
		t.Errorf("what a dry run has recorded: %+v", got)
	}
}

// TestQuotasAndSparedJobs: holders are named unless usage is private, jobs unless they are, and eight of a rule.
func TestQuotasAndSparedJobs(t *testing.T) {
	s := newSite(t)
	bobs := s.bobs("a")
	quota := []fairshare.Quota{{Account: "a", User: "u", Kind: "limit", Resource: "gpus", Used: 5, Most: 7, Binds: true,
		Text: "x", Holders: []fairshare.Holder{{User: "ann", Account: "a", Held: 3, Jobs: []model.JobID{s.gang}},
			{User: "bob", Account: "b", Held: 2, Jobs: []model.JobID{bobs}}}}}
	many := make([]model.JobID, 9)
	for i := range many {
		many[i] = s.gang
	}
	after := &explain.AfterPreemption{By: model.CauseTE, Jobs: 10, Fits: true, Lawful: true, Text: "t",
		Spared: []explain.Spared{{Rule: "r", Jobs: many}, {Rule: "q", Jobs: []model.JobID{bobs}}}}
	for _, c := range []struct {
		private    []string
		user, jobs bool // of others are shown
	}{{nil, true, true}, {[]string{cluster.PrivateUsage}, false, true}, {[]string{cluster.PrivateJobs}, true, false}} {
		s.private(c.private...)
		x := s.request("/v1/plan", "", "", "")
		got := x.presentQuotas(quota)
		user, jobs := map[bool]string{true: "bob"}[c.user], []model.JobID{}
		if c.jobs {
			jobs = []model.JobID{bobs}
		}
		want := []api.Quota{{Account: "a", User: "u", Kind: "limit", Resource: "gpus", Used: 5, Most: 7, Binds: true,
			Text: "x", Holders: []api.Holder{{User: "ann", Account: "a", Held: 3, Jobs: []model.JobID{s.gang}},
				{User: user, Account: "b", Held: 2, Jobs: jobs}}}}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("private %v: %+v, want %+v", c.private, got, want)
		}
		shown := x.presentAfter(after)
		if shown.By != model.CauseTE || shown.Jobs != 10 || !shown.Fits || !shown.Lawful || shown.Text != "t" ||
			len(shown.Spared) != 2 || shown.Spared[0].Rule != "r" || shown.Spared[0].Count != 9 ||
			len(shown.Spared[0].Jobs) != 8 || shown.Spared[1].Count != 1 || !slices.Equal(shown.Spared[1].Jobs, jobs) {
			t.Errorf("private %v: after preemption %+v", c.private, shown)
		}
		if !x.maySeeJob(s.gang) || x.maySeeJob(bobs) != c.jobs || x.maySeeJob(777) != c.jobs {
			t.Errorf("private %v: it sees its own %t, another's %t, one that left %t", c.private, x.maySeeJob(s.gang),
				x.maySeeJob(bobs), x.maySeeJob(777))
		}
	}
	if x := s.request("/v1/plan", "", "", ""); x.presentAfter(nil) != nil {
		t.Error("without preemption there is one")
	}
}

// TestJobsOfOthersInAJob: the job that it gave way to, that it pauses for, and that it was tried with.
func TestJobsOfOthersInAJob(t *testing.T) {
	s := newSite(t)
	bobs := s.bobs("a")
	s.private(cluster.PrivateJobs)
	attempt := func(id model.JobID) api.Attempt {
		return api.Attempt{For: id, ForUser: "u", ForAccount: "a", Suspension: &api.Suspension{For: id},
			Trials: []api.Trial{{With: id}}}
	}
	out := api.Job{Attempts: []api.Attempt{attempt(s.gang), attempt(bobs), {}}}
	s.request("/v1/jobs/{id}", fmt.Sprint(s.gang), "", "").hideOthers(&out)
	own, others := out.Attempts[0], out.Attempts[1]
	if own.For != s.gang || own.ForUser != "u" || own.ForAccount != "a" || own.Suspension.For != s.gang ||
		own.Trials[0].With != s.gang {
		t.Errorf("its own: %+v", own)
	}
	if others.For != 0 || others.ForUser != "" || others.ForAccount != "" || others.Suspension.For != 0 ||
		others.Trials[0].With != 0 {
		t.Errorf("another's: %+v", others)
	}
	n, at := s.Replica.View().Node("n1")
	node := s.request("/v1/nodes", "", "", "").presentNode(n, at)
	ofOthers := s.of(named("bob", 8), "")
	ofOthers.rt = s.request("/v1/nodes", "", "", "").rt
	if theirs := ofOthers.presentNode(n, at); len(node.Jobs) == 0 || len(theirs.Jobs) != 0 {
		t.Errorf("node n1 has jobs %v for ann, %v for bob", node.Jobs, theirs.Jobs)
	}
	s.Contacts = &telemetry.Contacts{}
	s.Contacts.Restart(time.Now())
	s.Contacts.Heard("n2", time.UnixMilli(7000), false)
	list, err := listNodes(s.request("/v1/nodes", "", "", ""))
	if err != nil || len(list.Items) != 3 || list.Items[0].LastSeen != nil || list.Items[1].LastSeen == nil ||
		list.Items[1].LastSeen.UnixMilli() != 7000 {
		t.Errorf("nodes %+v, %v", list, err)
	}
}

// TestTheSeriesOfAJob: the metric that is asked for, else the watched one, else the first.
func TestTheSeriesOfAJob(t *testing.T) {
	s := small(t)
	progress := func(metric, goal string) model.JobID {
		return s.submit(func(j *jobspec.Job) {
			j.Hold = true
			j.Groups[0].Tasks[0].Progress = &jobspec.Progress{Metric: metric, Goal: goal, Total: 90}
		})
	}
	watchedOne, plain := progress("loss", "min"), s.submitAt("plain")
	live := func(model.JobID) bool { return false }
	for _, id := range []model.JobID{watchedOne, plain} {
		for step, loss := range map[int64]float64{1: 3.5, 2: 2.25} {
			s.Samples.Put(id, telemetry.Progress{Attempt: 1, Step: step, Metrics: map[string]float64{"loss": loss,
				"acc": 10 - loss}}, "loss", live)
		}
	}
	for _, c := range []struct {
		id                 model.JobID
		query              string
		metric, goal       string
		total, first, some int64
	}{
		{watchedOne, "", "loss", "min", 90, 0, 1}, {watchedOne, "metric=acc", "acc", "", 90, 0, 1},
		{plain, "", "acc", "", 0, 0, 1}, {plain, "metric=loss", "loss", "", 0, 0, 1},
		{plain, "metric=none", "none", "", 0, 0, 0},
	} {
		got, err := getSeries(s.request("/v1/jobs/{id}/series", fmt.Sprint(c.id), c.query, ""))
		if err != nil || got.Job != c.id || got.Metric != c.metric || got.Goal != c.goal || got.Total != c.total ||
			(len(got.Points) > 0) != (c.some > 0) || !slices.Equal(got.Metrics, []string{"acc", "loss"}) {
			t.Errorf("job %d, %q: %+v, %v", c.id, c.query, got, err)
		}
		if c.some == 0 && got.Points == nil {
			t.Error("a metric without a series has no list of points")
		}
	}
	group := func(metric string, total int64) jobspec.Group {
		return jobspec.Group{Tasks: []jobspec.Task{{Progress: &jobspec.Progress{Metric: metric, Total: total}}}}
	}
	for i, c := range []struct {
		groups []jobspec.Group
		metric string
		total  int64
	}{{[]jobspec.Group{group("", 5), group("loss", 7)}, "loss", 7}, {[]jobspec.Group{group("", 5), group("", 7)}, "", 5},
		{[]jobspec.Group{group("a", 5), group("b", 7)}, "a", 5}, {[]jobspec.Group{{}, group("", 7)}, "", 7}, {nil, "", 0}} {
		if p := watched(&jobspec.Job{Groups: c.groups}); p.Metric != c.metric || p.Total != c.total {
			t.Errorf("case %d: %+v", i, p)
		}
	}
}

// TestWhatTheStateSaysOfItself: its check, its configuration and whether it is ready.
func TestWhatTheStateSaysOfItself(t *testing.T) {
	s := newSite(t)
	got, err := check(s.of(named("adm", 5), ""))
	if err != nil || !got.OK || got.Violations == nil || len(got.Violations) != 0 || len(got.Digest) != 64 ||
		got.Index != s.Replica.View().Index() {
		t.Errorf("%+v, %v", got, err)
	}
	if again, _ := check(s.of(named("adm", 5), "")); again.Digest != got.Digest {
		t.Error("the same state has another digest")
	}
	one, two, three := errors.New("1"), errors.New("2"), errors.New("3")
	for _, c := range []struct {
		err  error
		want []error
	}{{nil, nil}, {one, []error{one}}, {errors.Join(one, errors.Join(two, three)), []error{one, two, three}}} {
		if got := unjoin(c.err); !slices.Equal(got, c.want) {
			t.Errorf("%v is %v", c.err, got)
		}
	}
	if h, err := healthz(nil); err != nil || h.Status != "ok" {
		t.Errorf("%+v, %v", h, err)
	}
	if h, err := readyz(s.of(nil, "")); err != nil || h.Status != "ready" {
		t.Errorf("%+v, %v", h, err)
	}
	s.Replica.StopLeading() // it is the leader of the log still
	_, err = readyz(s.of(nil, ""))
	if codeOf(err) != api.CodeNoLeader || !strings.Contains(err.Error(), "about to lead") {
		t.Errorf("while it is about to lead: %v", err)
	}
	s.Replica.StartLeading()
	cfg := *s.Replica.View().Config()
	cfg.Accounts = map[string]cluster.Account{"named": {Users: map[string]cluster.Terms{"ann": {}}}, "other": {},
		"led": {Coordinators: []string{"ann"}}}
	cfg.Private = []string{cluster.PrivateAccounts}
	s.do(fsm.SetConfig{Config: cfg})
	s.submit(func(j *jobspec.Job) { j.Account = "charged" })
	reads := func() *exchange {
		x := s.request("/v1/config", "", "", "")
		for _, rt := range routes() {
			if rt.Path == "/v1/config" && rt.Method == http.MethodGet {
				x.rt = &rt
			}
		}
		return x
	}
	for name, c := range map[string]struct {
		user string
		uid  uint32
		want []string
	}{"a user": {"ann", 7, []string{"led", "named"}}, "another": {"bob", 8, nil}} {
		x := reads()
		x.caller = named(c.user, c.uid)
		got, err := getConfig(x)
		var names []string
		if err == nil {
			for n := range got.Accounts {
				names = append(names, n)
			}
		}
		if slices.Sort(names); err != nil || !slices.Equal(names, c.want) {
			t.Errorf("%s sees the accounts %v, %v", name, names, err)
		}
	}
	if len(s.Replica.View().Config().Accounts) != 3 {
		t.Error("the configuration in force has lost accounts")
	}
	own := s.of(named("ann", 7), "").ownAccounts()
	if !own["named"] || own["other"] || !own["charged"] {
		t.Errorf("the accounts of ann are %v", own)
	}
	x := reads()
	x.roles = access.User | access.Operator
	if got, err := getConfig(x); err != nil || len(got.Accounts) != 3 {
		t.Errorf("an operator sees %d accounts, %v", len(got.Accounts), err)
	}
}

// TestMetricsOfRequests count by route and code, and leave accounts out for those that may not know them.
func TestMetricsOfRequests(t *testing.T) {
	s := newSite(t)
	registry := prometheus.NewRegistry()
	s.metrics = newMetrics(registry, s.Replica)
	s.metrics.served("GET /v1/x", nil, 300*time.Millisecond)
	s.metrics.served("GET /v1/x", errBusy, 500*time.Millisecond)
	s.metrics.served("GET /v1/x", nil, 200*time.Millisecond)
	s.begin(s.submit(func(j *jobspec.Job) { j.Account = "physics" }), "n2")
	show := func(roles access.Role) string {
		x := s.request("/metrics", "", "", "")
		x.roles = roles
		w := httptest.NewRecorder()
		x.w = w
		if _, err := getMetrics(x); err != nil || !x.sent || w.Code != http.StatusOK {
			t.Errorf("%d, sent %t, %v", w.Code, x.sent, err)
		}
		return w.Body.String()
	}
	all := show(access.User | access.Operator)
	for _, want := range []string{`rota_http_requests_total{code="ok",route="GET /v1/x"} 2`,
		`rota_http_requests_total{code="busy",route="GET /v1/x"} 1`, `rota_http_request_seconds_count{route="GET /v1/x"} 3`,
		`rota_http_request_seconds_sum{route="GET /v1/x"} 1`, "rota_refused_report_rows_total 0",
		`rota_account_share{account="physics",part="fair"}`} {
		if !strings.Contains(all, want) {
			t.Errorf("no %s in\n%s", want, all)
		}
	}
	s.private(cluster.PrivateAccounts)
	if text := show(access.User); strings.Contains(text, "physics") || !strings.Contains(text, "rota_index") {
		t.Errorf("a user is shown\n%s", text)
	}
	if text := show(access.User | access.Operator); !strings.Contains(text, "physics") {
		t.Error("an operator is shown no accounts")
	}
}

// TestReasonsOfAListAreFoundOnce for lists that follow each other closely.
func TestReasonsOfAListAreFoundOnce(t *testing.T) {
	s := newSite(t)
	var w waitReasons
	v := s.Replica.View()
	now := s.Replica.Now(v)
	first := w.reason(v, now, v.Job(s.pending))
	if first.Code == model.ReasonNone || w.view != v || !w.next.After(time.Now().Add(-time.Minute)) {
		t.Errorf("it waits because of %+v", first)
	}
	w.next = time.Now().Add(time.Hour)
	fresh := s.submit(func(j *jobspec.Job) { j.Hold = true })
	later := s.Replica.View()
	if got := w.reason(later, now, later.Job(s.pending)); got != first || w.view != v {
		t.Errorf("a job that has not changed: %+v", got)
	}
	if got := w.reason(later, now, &model.Job{ID: fresh}); got.Code != model.ReasonNotScheduled {
		t.Errorf("a new job: %+v", got)
	}
	if got := w.reason(later, now, &model.Job{ID: fresh, Reason: model.Reason{Code: model.ReasonPriority}}); got.Code !=
		model.ReasonPriority {
		t.Errorf("a job with a reason: %+v", got)
	}
	w.next = time.Time{}
	if w.reason(later, now, later.Job(fresh)); w.view != later {
		t.Error("after its time the reasons are not found again")
	}
	var figures shareFigures
	shares := figures.of(v, now)
	if len(shares) == 0 || slices.ContainsFunc(shares, func(s fairshare.Share) bool { return s.User != "" }) {
		t.Errorf("the figures are of %+v", shares)
	}
	figures.next = time.Now().Add(time.Hour)
	s.submit(func(j *jobspec.Job) { j.Account = "new" })
	if got := figures.of(s.Replica.View(), now); len(got) != len(shares) {
		t.Errorf("the figures are computed again: %+v", got)
	}
}

// TestAPageOfTheHistory goes on behind its last job, and hides what is not for its caller.
func TestAPageOfTheHistory(t *testing.T) {
	s := newSite(t)
	var ended []*model.Job
	for i, user := range []string{"ann", "bob", "ann", "bob"} {
		ended = append(ended, &model.Job{ID: model.JobID(1000 + i), Seq: int64(1000 + i), State: model.Completed,
			Account: "a", Owner: model.Identity{UID: uint32(7 + i%2), User: user},
			Ended: model.Stamp{At: 1, Wall: 1_000_000}, Spec: &jobspec.Job{Name: "old",
				Groups: []jobspec.Group{{Tasks: []jobspec.Task{{Command: []string{"secret"}}}}}}})
	}
	if err := s.History.Append(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	page := func(query string) (ids []model.JobID, next string, list *api.List[api.Job]) {
		t.Helper()
		list, err := endedJobs(s.request("/v1/history", "", query, ""))
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range list.Items {
			ids = append(ids, j.ID)
		}
		return ids, list.Next, list
	}
	for _, c := range []struct {
		query string
		want  []model.JobID
		next  string
	}{
		{"name=old", []model.JobID{1003, 1002, 1001, 1000}, ""},
		{"name=old&limit=4", []model.JobID{1003, 1002, 1001, 1000}, ""},
		{"name=old&limit=3", []model.JobID{1003, 1002, 1001}, "1001"},
		{"name=old&limit=3&page=1001", []model.JobID{1000}, ""},
		{"name=old&user=bob", []model.JobID{1003, 1001}, ""},
		{"id=1002,1001", []model.JobID{1002, 1001}, ""},
		{"name=old&since=1970-01-01T00:16:41Z", nil, ""}, {"name=old&until=1970-01-01T00:16:40Z", nil, ""},
		{"name=old&until=1970-01-01T00:16:41Z&limit=1", []model.JobID{1003}, "1003"},
	} {
		if ids, next, _ := page(c.query); !slices.Equal(ids, c.want) || next != c.next {
			t.Errorf("%s: %v, next %q, want %v, next %q", c.query, ids, next, c.want, c.next)
		}
	}
	for _, word := range []string{cluster.PrivateJobs, cluster.PrivateUsage} {
		s.private(word)
		if ids, _, _ := page("name=old"); !slices.Equal(ids, []model.JobID{1002, 1000}) {
			t.Errorf("with %s private a user sees %v", word, ids)
		}
		if ids, _, _ := page("name=old&user=bob"); len(ids) != 0 {
			t.Errorf("with %s private a user sees another's %v", word, ids)
		}
	}
	if got, err := internalRecords(func() *exchange {
		x := s.of(nil, "")
		x.query = url.Values{"from": {"1001"}, "to": {"1002"}}
		return x
	}()); err != nil || len(got.([]*model.Job)) != 2 {
		t.Errorf("records: %v, %v", got, err)
	}
	x := s.of(nil, "")
	x.query = url.Values{"from": {"5000"}, "to": {"6000"}}
	if got, err := internalRecords(x); err != nil || got.([]*model.Job) == nil {
		t.Errorf("no records: %#v, %v", got, err)
	}
}
