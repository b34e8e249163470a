package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/peers"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/jobspec"
)

// TestListsOfJobs goes through filters, pages, forms and changes of a list.
func TestListsOfJobs(t *testing.T) {
	s := newSite(t)
	bobs := s.do(fsm.SubmitJobs{Owner: model.Identity{UID: 8, User: "bob"}, Jobs: []*jobspec.Job{{Name: "b",
		Groups: []jobspec.Group{{Name: "m", Count: 1, Tasks: []jobspec.Task{{Name: "m", Command: []string{"true"},
			Resources: jobspec.Resources{Cores: 1, Memory: jobspec.GiB}}}}}}}}).([]model.JobID)[0]
	list := func(query string, after uint64) (ids []int64, next string, delta bool, err error) {
		x := s.request("/v1/jobs", "", query, "")
		x.after = after
		got, err := listJobs(x)
		if err != nil {
			return nil, "", false, err
		}
		var text []byte
		if got == nil {
			text = x.w.(*httptest.ResponseRecorder).Body.Bytes()
		} else if text, err = json.Marshal(got); err != nil {
			t.Fatal(err)
		}
		var out struct {
			Items []struct{ ID int64 }
			Next  string
			Delta bool
		}
		if err := json.Unmarshal(text, &out); err != nil {
			t.Fatalf("%s: %v: %s", query, err, text)
		}
		for _, i := range out.Items {
			ids = append(ids, i.ID)
		}
		return ids, out.Next, out.Delta, nil
	}
	is := func(ids ...model.JobID) (list []int64) {
		for _, id := range ids {
			list = append(list, int64(id))
		}
		return list
	}
	all := is(s.gang, s.pending, s.leaving, s.steps, s.array, bobs)
	live := is(s.gang, s.pending, s.leaving, s.steps, s.array)
	for _, c := range []struct {
		query string
		want  []int64
		next  string
	}{
		{"", all, ""}, {"user=ann", live, ""}, {"user=bob", is(bobs), ""}, {"name=b", is(bobs), ""},
		{"all=true", is(s.gang, s.pending, s.ended, s.leaving, s.steps, s.array, bobs), ""},
		{"user=ann&all=true", is(s.gang, s.pending, s.ended, s.leaving, s.steps, s.array), ""},
		{"limit=2", is(s.gang, s.pending), fmt.Sprint(s.pending)}, {"limit=6", all, ""},
		{"limit=2&fields=id", is(s.gang, s.pending), fmt.Sprint(s.pending)},
		{"limit=6&fields=id,name", all, ""}, {fmt.Sprintf("page=%d", s.pending), is(s.leaving, s.steps, s.array, bobs), ""},
		{fmt.Sprintf("user=ann&page=%d", s.pending), is(s.leaving, s.steps, s.array), ""},
		{fmt.Sprintf("id=%d", s.ended), is(s.ended), ""}, {fmt.Sprintf("id=%d,%d", s.gang, bobs), is(s.gang, bobs), ""},
		{fmt.Sprintf("id=%d&user=ann", bobs), nil, ""}, {"state=PD", is(s.pending, s.array, bobs), ""},
		{"state=CA", is(s.ended), ""}, {"state=R", is(s.gang, s.steps), ""}, {"stream=true", all, ""},
		{"stream=true&fields=id", all, ""}, {"user=ann&stream=true&limit=1", live, ""},
	} {
		ids, next, delta, err := list(c.query, 0)
		if err != nil || !slices.Equal(ids, c.want) || next != c.next || delta {
			t.Errorf("%q: %v, next %q, delta %t, %v; want %v, next %q", c.query, ids, next, delta, err, c.want, c.next)
		}
	}
	for query, good := range map[string]bool{"delta=true": false, "delta=true&user=ann": true, "fields=id": true,
		"fields=x": false,
		"state=x":  false} {
		if _, _, _, err := list(query, 0); (err == nil) != good {
			t.Errorf("%q: %v", query, err)
		}
	}
	before := s.Replica.View().Index()
	s.all(s.steps, model.WorkerExited)
	ids, _, delta, err := list("delta=true&user=ann", before)
	if err != nil || !delta || !slices.Equal(ids, is(s.steps)) {
		t.Errorf("what has changed: %v, delta %t, %v", ids, delta, err)
	}
	if ids, _, delta, _ := list("delta=true&user=ann&stream=true", before); !delta || !slices.Equal(ids, is(s.steps)) {
		t.Errorf("what has changed, as a stream: %v, delta %t", ids, delta)
	}
	if ids, _, delta, _ := list("delta=true&user=ann", 0); delta || len(ids) != 4 {
		t.Errorf("without an index: %v, delta %t", ids, delta)
	}
	for _, c := range []struct {
		after uint64
		query string
		want  bool
	}{{before, "", true}, {s.Replica.View().Index(), "", false}, {before, "user=ann", true}, {s.Replica.View().Index(),
		"user=ann", false},
		{before, "user=bob", false}} {
		x := s.request("/v1/jobs", "", c.query, "")
		x.after = c.after
		if got := listReady(x)(s.Replica.View()); got != c.want {
			t.Errorf("news after %d for %q: %t", c.after, c.query, got)
		}
	}
	for ref, want := range map[string][2]bool{fmt.Sprint(s.steps): {true, false}, fmt.Sprint(s.pending): {false, false},
		fmt.Sprintf("%d_5", s.array): {false, false}, "99999": {true, true}} { // after before, and after now
		x := s.request("/v1/jobs/{id}", ref, "", "")
		x.after = before
		y := s.request("/v1/jobs/{id}", ref, "", "")
		y.after = s.Replica.View().Index()
		if got := [2]bool{jobReady(x)(s.Replica.View()), jobReady(y)(s.Replica.View())}; got != want {
			t.Errorf("news of job %s: %v, want %v", ref, got, want)
		}
	}
	selected := func(query string, refs ...string) (out []string) {
		x := s.request("/v1/jobs", "", query, "")
		f, err := x.jobFilter()
		if err == nil {
			err = x.selectNamed(&f, refs)
		}
		if err != nil {
			t.Fatal(err)
		}
		for j := range s.Replica.View().Jobs() {
			if members, whole := f.selection(j); whole || len(members) > 0 {
				out = append(out, fmt.Sprintf("%d:%s", j.ID, members.String()))
			}
		}
		return out
	}
	for _, c := range []struct {
		query string
		refs  []string
		want  []string
	}{
		{"", []string{fmt.Sprintf("%d_[6-7]", s.array)}, []string{fmt.Sprintf("%d:2-3", s.array)}},
		{"", []string{fmt.Sprint(s.array)}, []string{fmt.Sprintf("%d:1-3", s.array)}},
		{"", []string{fmt.Sprint(s.gang)}, []string{fmt.Sprintf("%d:", s.gang)}},
		{"state=PD", []string{fmt.Sprintf("%d_5", s.array), fmt.Sprint(s.pending)},
			[]string{fmt.Sprintf("%d:", s.pending), fmt.Sprintf("%d:1", s.array)}},
		{"state=R", []string{fmt.Sprintf("%d_5", s.array)}, nil},
	} {
		if got := selected(c.query, c.refs...); !slices.Equal(got, c.want) {
			t.Errorf("%q of %v: %v, want %v", c.query, c.refs, got, c.want)
		}
	}
}

// TestWhatJobsAreTold goes through cancelling, holding and changing of jobs, one by one and by a filter.
func TestWhatJobsAreTold(t *testing.T) {
	s := newSite(t)
	bobs := s.do(fsm.SubmitJobs{Owner: model.Identity{UID: 8, User: "bob"}, Jobs: []*jobspec.Job{{Name: "b",
		Groups: []jobspec.Group{{Name: "m", Count: 1, Tasks: []jobspec.Task{{Name: "m", Command: []string{"true"},
			Resources: jobspec.Resources{Cores: 1, Memory: jobspec.GiB}}}}}}}}).([]model.JobID)[0]
	do := func(verb model.Verb, id string, reason string) (*api.ControlResponse, *exchange, error) {
		x := s.request("/v1/jobs/{id}/"+map[model.Verb]string{model.VerbHold: "hold", model.VerbRelease: "release",
			model.VerbRequeue: "requeue", model.VerbCancel: "cancel"}[verb], id, "", "")
		resp, err := control(verb)(x, &api.ControlRequest{Reason: reason})
		return resp, x, err
	}
	long := strings.Repeat("x", maxReason)
	for _, c := range []struct {
		verb   model.Verb
		id     string
		reason string
		says   string // "": it is done
	}{
		{model.VerbHold, fmt.Sprint(s.gang), "", "only jobs that wait can be held"},
		{model.VerbHold, fmt.Sprint(s.ended), "", "has ended: it is CANCELLED"},
		{model.VerbRequeue, fmt.Sprint(s.pending), "", "waits already"},
		{model.VerbRelease, fmt.Sprint(s.gang), "", "is not held"},
		{model.VerbHold, fmt.Sprintf("%d_6", s.array), long, ""},
		{model.VerbRelease, fmt.Sprintf("%d_6", s.array), long + "x", "the reason has 501 bytes"},
		{model.VerbRelease, fmt.Sprint(s.pending), "", ""},
		{model.VerbHold, fmt.Sprint(s.array), "x", ""},
		{model.VerbCancel, fmt.Sprint(s.gang), "", ""},
		{model.VerbCancel, fmt.Sprint(s.ended), "", "has ended"},
	} {
		resp, x, err := do(c.verb, c.id, c.reason)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %s: %v, want %q", c.verb, c.id, err, c.says)
		}
		if err == nil && (len(resp.Items) != 1 || len(x.about.jobs) != 1 || strings.Contains(c.id,
			"_") != (resp.Items[0].Members != "")) {
			t.Errorf("%s %s: %+v, about %v", c.verb, c.id, resp, x.about.jobs)
		}
	}
	if j := s.Replica.View().Job(s.gang); j.CancelledBy != model.SomeUID(7) {
		t.Errorf("it was cancelled by %d", j.CancelledBy)
	}
	many := func(req api.CancelRequest) (ids []string, err error) {
		resp, err := cancelMany(s.request("/v1/jobs/cancel", "", "", ""), &req)
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
		"another's": {api.CancelRequest{IDs: []model.JobID{bobs, s.ended}}, []string{fmt.Sprint(s.ended) + " " +
			api.CodeWrongState, fmt.Sprint(bobs) + " " + api.CodeDenied}, ""},
		"of another": {api.CancelRequest{User: "bob"}, nil, ""},
		"of no name": {api.CancelRequest{Name: "zz"}, nil, ""},
		"what leaves": {api.CancelRequest{User: "ann", IDs: []model.JobID{s.leaving, s.ended}},
			[]string{fmt.Sprint(s.leaving)}, ""},
		"no account":  {api.CancelRequest{Account: "zz"}, nil, ""},
		"what paused": {api.CancelRequest{States: []string{"S"}}, nil, ""},
	} {
		if got, err := many(c.req); codeOf(err) != c.code || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	change := func(id string, req api.UpdateRequest) error {
		_, err := update(s.request("/v1/jobs/{id}/update", id, "", ""), &req)
		return err
	}
	low, comment, odd := 5, strings.Repeat("c", jobspec.MaxComment), "a b"
	longer := comment + "c"
	for name, c := range map[string]struct {
		id   model.JobID
		req  api.UpdateRequest
		code string
	}{"a priority": {s.pending, api.UpdateRequest{Priority: &low}, ""}, "no name": {s.pending,
		api.UpdateRequest{Name: &odd}, api.CodeInvalid},
		"a comment": {s.pending, api.UpdateRequest{Comment: &comment}, ""}, "a longer one": {s.pending,
			api.UpdateRequest{Comment: &longer}, api.CodeInvalid},
		"an ended one": {s.ended, api.UpdateRequest{Priority: &low}, api.CodeWrongState}} {
		if err := change(fmt.Sprint(c.id), c.req); codeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	if j := s.Replica.View().Job(s.pending); j.Priority != 5 || j.Comment == nil || *j.Comment != comment {
		t.Errorf("afterwards priority %d", j.Priority)
	}
	steered := func(req api.SchedRequest) (*api.Sched, error) { return steer(s.of(named("ops", 9), ""), &req) }
	for _, c := range []struct {
		req  api.SchedRequest
		on   int
		code string
	}{{api.SchedRequest{What: "growth", On: true, Reason: long}, 1, ""}, {api.SchedRequest{What: "growth", On: true,
		Reason: long + "x"}, 0, api.CodeInvalid},
		{api.SchedRequest{What: "brakes", On: true}, 0, api.CodeInvalid}, {api.SchedRequest{What: "growth", Reason: "x"}, 0,
			api.CodeInvalid},
		{api.SchedRequest{What: "growth"}, 0, ""}} {
		if got, err := steered(c.req); codeOf(err) != c.code || err == nil && len(got.Settings) != c.on {
			t.Errorf("%+v: %+v, %v", c.req, got, err)
		}
	}
}

// TestWhatAPlanSays: of a job that starts now, one that waits for others, and one that fits nowhere.
func TestWhatAPlanSays(t *testing.T) {
	s := newSite(t)
	s.Users, s.AllowRootJobs = &identity.Users{}, false
	job := func(cores int, count int) *jobspec.Job {
		return &jobspec.Job{Name: "p", Groups: []jobspec.Group{{Name: "m", Count: count, Tasks: []jobspec.Task{{Name: "m",
			Command: []string{"true"}, Resources: jobspec.Resources{Cores: cores, Memory: jobspec.GiB}}}}}}
	}
	ask := func(j *jobspec.Job, caller *identity.Caller) (*api.PlanResponse, error) {
		x := s.request("/v1/plan", "", "", "")
		x.caller = caller
		return plan(x, &api.PlanRequest{Job: j})
	}
	before := s.Replica.View().Index()
	for name, c := range map[string]struct {
		job    *jobspec.Job
		starts bool
		places int
	}{"one that starts": {job(2, 1), true, 1}, "a gang": {job(2, 2), true, 2}, "one that waits for others": {job(8, 3),
		false, 0}} {
		got, err := ask(c.job, named("ann", 7))
		if err != nil || got.Starts != c.starts || len(got.Places) != c.places || (got.Begins == 1) != c.starts ||
			(got.Reason.Code == "") != c.starts || (len(got.Funnel) == 0) != c.starts {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := ask(job(64, 1), named("ann", 7)); err == nil || !strings.Contains(err.Error(), "n1, has 8 of 64 cores") {
		t.Errorf("one that is too large: %v", err)
	}
	if _, err := ask(nil, named("ann", 7)); codeOf(err) != api.CodeInvalid {
		t.Errorf("no job: %v", err)
	}
	if _, err := ask(job(1, 1), named("root", 0)); codeOf(err) != api.CodeDenied {
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
		x := s.of(named(map[bool]string{true: "root", false: "ann"}[c.uid == 0], c.uid), "")
		if id, err := x.owner(); codeOf(err) != c.code || err == nil && id.User != c.user {
			t.Errorf("%s: jobs of %+v, %v", name, id, err)
		}
	}
	tooLarge := s.submit(func(j *jobspec.Job) { j.Groups[0].Tasks[0].Resources.Cores, j.Groups[0].Count = 8, 3 })
	for id, ended := range map[model.JobID]bool{tooLarge: false, s.gang: false, s.ended: false} {
		x := s.request("/v1/jobs/{id}/why", fmt.Sprint(id), "", "")
		e := sched.Explain(x.view, s.Replica.Now(x.view), x.view.Config().Policy, id)
		got, err := why(x)
		if id != s.ended && (got.Ahead != e.Ahead || !reflect.DeepEqual(got.Advice, e.Advice) ||
			(got.After == nil) != (e.After == nil)) {
			t.Errorf("job %d: %+v, want %+v", id, got, e)
		}
		if err != nil || got.ID != id || (got.Ended != nil) != ended || id == tooLarge && (got.Reason.Code == "" ||
			len(got.Funnel) == 0) {
			t.Errorf("job %d: %+v, %v", id, got, err)
		}
	}
}

// TestWhatTheMetricsCount compares the figures of the state with the state.
func TestWhatTheMetricsCount(t *testing.T) {
	s := newSite(t)
	registry := prometheus.NewRegistry()
	newMetrics(registry, s.Replica)
	s.do(fsm.RegisterNode{Node: model.Node{Name: "g", Addr: "127.0.0.1:1", BootID: "bg", Cores: 32,
		Memory: 64 * jobspec.GiB,
		GPUs: []model.GPU{{UUID: "a", Memory: jobspec.GiB, Healthy: true}, {UUID: "b", Memory: jobspec.GiB, Healthy: true},
			{UUID: "c", Memory: jobspec.GiB, Healthy: true}}}})
	id := s.submit(func(j *jobspec.Job) { j.Groups[0].Tasks[0].Resources.GPUs = 2 })
	if errs := s.do(fsm.CommitPlan{Actions: []fsm.Action{&fsm.StartJob{Job: id, Places: []model.Place{{Node: "g",
		GPUs: []int{0, 1}}}}}}).([]error); errs[0] != nil {
		t.Fatal(errs)
	}
	s.do(fsm.SetNodeState{Node: "n2", State: model.NodeDown})
	s.do(fsm.Steer{What: "growth", On: true, By: "ops"})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += " " + l.GetValue()
			}
			if m.Gauge != nil {
				got[name] = m.Gauge.GetValue()
			}
		}
	}
	v := s.Replica.View()
	for name, want := range map[string]float64{"rota_index": float64(v.Index()), "rota_leader": 1, "rota_gpus true": 2,
		"rota_gpus false":   1,
		"rota_jobs PENDING": 2, "rota_jobs RUNNING": 2, "rota_jobs COMPLETING": 1, "rota_jobs CANCELLED": 1,
		"rota_jobs CONFIGURING": 1,
		"rota_jobs FAILED":      0, "rota_sched_paused growth": 1, "rota_sched_paused all": 0, "rota_sched_would_preempt": 0,
		"rota_spec_bytes": float64(v.SpecBytes()), "rota_spec_bytes_max": float64(cluster.DefaultMaxAllSpecBytes)} {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%s is %v, want %v", name, value, want)
		}
	}
	if n := got["rota_nodes down"]; n != 1 {
		t.Errorf("%v nodes are down: %v", n, got)
	}
	s.Replica.StopLeading()
	families, _ = registry.Gather()
	for _, f := range families {
		if f.GetName() == "rota_leader" && f.Metric[0].Gauge.GetValue() != 0 {
			t.Error("a controller that does not lead says that it does")
		}
	}
}

// TestWhatTheLeaderAnswered: what is passed back of it, and what is said if it answers nothing.
func TestWhatTheLeaderAnswered(t *testing.T) {
	s := small(t)
	for _, method := range []string{"GET", "POST"} {
		x := ask(method, "/v1/x", named("ann", 7))
		x.s = s.Server
		resp := &http.Response{StatusCode: 207, Header: http.Header{"Content-Type": {"x/y"}, "Retry-After": {"9"},
			"X-Other":       {"z"},
			api.HeaderIndex: {"3"}}, Body: io.NopCloser(strings.NewReader("its answer"))}
		if err := x.relay(t.Context(), resp); err != nil {
			t.Fatal(err)
		}
		w := x.w.(*httptest.ResponseRecorder)
		if h := w.Header(); !x.sent || !x.about.relayed || w.Code != 207 || w.Body.String() != "its answer" ||
			h.Get("Content-Type") != "x/y" ||
			h.Get("Retry-After") != "9" || h.Get(api.HeaderIndex) != "3" || h.Get("X-Other") != "" ||
			h.Get("Content-Length") != "10" {
			t.Errorf("%s: %d %v %q", method, w.Code, w.Header(), w.Body)
		}
	}
	deposed, cancel := context.WithCancelCause(t.Context())
	cancel(errDeposed)
	refused := &net.OpError{Op: "dial", Err: errors.New("refused")}
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		code string
		says string
	}{
		"another leads":    {deposed, context.Canceled, api.CodeUncertain, "another controller leads now"},
		"it was not sent":  {t.Context(), refused, api.CodeNoLeader, "cannot be reached"},
		"the client left":  {t.Context(), context.Canceled, "", "canceled"},
		"no answer":        {t.Context(), io.ErrUnexpectedEOF, api.CodeUncertain, "may take effect or not"},
		"deposed, refused": {deposed, refused, api.CodeUncertain, "another controller leads now"},
	} {
		err := forwardError(c.ctx, c.err)
		var p *api.Problem
		if errors.As(err, &p); (p == nil) != (c.code == "") || p != nil && p.Code != c.code ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]struct {
		caller *identity.Caller
		want   string // of Authorization
	}{"a stranger": {nil, ""}, "a user": {named("ann", 7), ""}, "a token": {&identity.Caller{Token: "t"}, "Bearer x"}} {
		x := ask("GET", "/v1/x", c.caller)
		x.s.Name = "c1"
		x.r.Header.Set("Authorization", "Bearer x")
		x.r.Header.Set("Accept", "a/b")
		x.r.Header.Set("X-Other", "z")
		h := http.Header{}
		if x.copyHeaders(h); h.Get("Authorization") != c.want || h.Get("Accept") != "a/b" || h.Get("X-Other") != "" ||
			h.Get(headerForwarded) != "c1" {
			t.Errorf("%s: %v", name, h)
		}
	}
	s.Peers = &peers.Peers{}
	x := ask("GET", "/v1/x", named("ann", 7))
	x.s = s.Server
	if err := x.passOn(); codeOf(err) != api.CodeNoLeader {
		t.Errorf("there is no other leader: %v", err)
	}
	for name, c := range map[string]struct {
		caller *identity.Caller
		want   bool
	}{"itself": {&identity.Caller{From: "n1"}, true}, "another": {&identity.Caller{From: "n2"}, false},
		"a stranger": {nil, false}} {
		if x := s.of(c.caller, "n1"); x.isNode() != c.want {
			t.Errorf("%s is node n1: %t", name, !c.want)
		}
	}
	s.History.Close()
	if _, err := internalRecords(s.of(nil, "")); codeOf(err) != api.CodeInternal {
		t.Errorf("without a history: %v", err)
	}
}

// TestControllersOfACluster shows all that vote, and this one while it does not.
func TestControllersOfACluster(t *testing.T) {
	s := &site{Server: leading(t, 3, &links{}), t: t}
	s.Peers = &peers.Peers{}
	s.Name, s.Raft = s.Replica.Self().Name, "r:1"
	got, err := getCluster(s.of(named("ann", 7), ""))
	if err != nil || len(got.Controllers) != 3 || got.Leader == "" {
		t.Fatalf("%+v, %v", got, err)
	}
	leader := got.Leader
	for i, c := range got.Controllers {
		if c.Name != fmt.Sprintf("c%d", i+1) || !c.Voter || c.State != api.ControllerVoter ||
			c.Leader != (c.Name == leader) || c.Raft == "" {
			t.Errorf("%+v", c)
		}
	}
	s.Name, s.HTTP = "new", "h:1"
	if got, err = getCluster(s.of(named("ann", 7), "")); err != nil || len(got.Controllers) != 4 {
		t.Fatalf("%+v, %v", got, err)
	}
	if c := got.Controllers[3]; c.Name != "new" || c.Voter || c.State != api.ControllerNew || c.HTTP != "h:1" ||
		c.Raft != "r:1" || c.Leader {
		t.Errorf("%+v", c)
	}
}
