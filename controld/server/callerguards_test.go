package server

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/server/access"
)

// TestWhatAJobMayAsk from inside: of the node that it runs on, as its user, reads of all and changes of itself.
func TestWhatAJobMayAsk(t *testing.T) {
	s := newSite(t)
	inside := func(job model.JobID, node string, uid uint32) *identity.Caller {
		return &identity.Caller{Role: "node", From: node, Job: job, User: model.Identity{User: "ann", UID: uid}}
	}
	in := inside(s.gang, "n1", 7)
	for name, c := range map[string]struct {
		caller       *identity.Caller
		method, path string
		id           model.JobID
		says         string // "": it may
	}{
		"a read":                 {in, "GET", "/v1/jobs/{id}", s.steps, ""},
		"its own end":            {in, "POST", "/v1/jobs/{id}/requeue", s.gang, ""},
		"another's end":          {in, "POST", "/v1/jobs/{id}/requeue", s.steps, "only its own job can be changed"},
		"an array's":             {in, "POST", "/v1/jobs/{id}/requeue", s.array, "only its own job can be changed"},
		"its own output":         {in, "GET", "/v1/jobs/{id}/logs", s.gang, ""},
		"another's output":       {in, "GET", "/v1/jobs/{id}/logs", s.steps, "only the output and the metrics"},
		"a drained node":         {in, "POST", "/v1/nodes/{name}/drain", s.gang, "only its own job can be changed"},
		"from another node":      {inside(s.gang, "n2", 7), "GET", "/v1/jobs/{id}", s.gang, "does not run there"},
		"of another user":        {inside(s.gang, "n1", 8), "GET", "/v1/jobs/{id}", s.gang, "does not run there"},
		"of a job that waits":    {inside(s.pending, "n1", 7), "GET", "/v1/jobs/{id}", s.gang, "does not run there"},
		"of a job that is gone":  {inside(777, "n1", 7), "GET", "/v1/jobs/{id}", s.gang, "does not run there"},
		"outside of a job":       {named("ann", 7), "POST", "/v1/jobs/{id}/requeue", s.steps, ""},
		"a caller of no request": {nil, "POST", "/v1/jobs/{id}/requeue", s.steps, ""},
	} {
		x := s.routed(c.method, c.path, c.caller, fmt.Sprint(c.id), "")
		err := x.authoriseJob()
		if (err == nil) != (c.says == "") || err != nil && (codeOf(err) != api.CodeDenied ||
			!strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if got := x.insideJob(); got != (c.caller != nil && c.caller.Job != 0) {
			t.Errorf("%s: inside of a job %t", name, got)
		}
		if c.caller != nil && c.caller.Job != 0 {
			x.view = nil // it asks for the state itself
			if there := x.runsThere(); there != (c.says != "does not run there") {
				t.Errorf("%s: it runs there %t", name, there)
			}
			if err := x.authorise(); c.says != "" && err == nil {
				t.Errorf("%s: it may all the same", name)
			}
		}
	}
	x := s.routed("GET", "/v1/jobs/{id}", in, fmt.Sprint(s.steps), "")
	if x.mayOn(partDetails, s.Replica.View().Job(s.steps)) || !x.mayOn(partDetails, s.Replica.View().Job(s.gang)) {
		t.Error("from inside a job the details of another job are seen, or its own are not")
	}
}

// TestWhoseJobItIs goes through callers and jobs, and what is said of a job that is hidden.
func TestWhoseJobItIs(t *testing.T) {
	s := newSite(t)
	bobs := s.bobs("a")
	node := &identity.Caller{Machine: true, Role: "node", From: "n1"}
	for _, private := range [][]string{nil, {cluster.PrivateJobs}} {
		s.private(private...)
		for name, c := range map[string]struct {
			method, path string
			caller       *identity.Caller
			id           string
			code         string
			hidden       bool
		}{
			"its own":             {"POST", "/v1/jobs/{id}/cancel", named("ann", 7), fmt.Sprint(s.gang), "", false},
			"a missing one":       {"POST", "/v1/jobs/{id}/cancel", named("ann", 7), "777", api.CodeNotFound, false},
			"an odd one":          {"POST", "/v1/jobs/{id}/cancel", named("ann", 7), "x_y_z", api.CodeNotFound, false},
			"a node for a job":    {"POST", "/v1/jobs/{id}/cancel", node, fmt.Sprint(s.gang), api.CodeDenied, false},
			"a node for itself":   {"GET", "/v1/nodes/{name}/allocs", node, "", "", false},
			"a user for a node":   {"GET", "/v1/nodes/{name}/allocs", named("ann", 7), "", api.CodeDenied, false},
			"a list":              {"GET", "/v1/jobs", named("ann", 7), "", "", false},
			"another's to cancel": {"POST", "/v1/jobs/{id}/cancel", named("ann", 7), fmt.Sprint(bobs), api.CodeDenied, false},
			"another's to see":    {"GET", "/v1/jobs/{id}", named("ann", 7), fmt.Sprint(bobs), "", false},
		} {
			if private != nil && strings.HasPrefix(name, "another's") { // as if there were none
				c.code, c.hidden = api.CodeNotFound, true
			}
			x := s.routed(c.method, c.path, c.caller, c.id, "")
			x.r.SetPathValue("name", "n1")
			err := x.authorise()
			code := codeOf(err)
			if name == "an odd one" && err != nil {
				code = c.code // which refusal it is does not matter
			}
			if code != c.code || x.about.hidden != c.hidden {
				t.Errorf("%s, private %v: %v, hidden %t", name, private, err, x.about.hidden)
			}
			if (c.code == "" || c.code == api.CodeDenied) && c.id != "" && c.caller != node && x.about.jobs.String() != c.id {
				t.Errorf("%s, private %v: the audit log has %q", name, private, x.about.jobs)
			}
		}
	}
	x := s.routed("GET", "/v1/nodes/{name}/allocs", node, "", "")
	x.r.SetPathValue("name", "n2")
	if err := x.authorise(); codeOf(err) != api.CodeDenied {
		t.Errorf("a node asks for another: %v", err)
	}
	y := s.routed("POST", "/v1/jobs/{id}/exec", named("ann", 7), fmt.Sprint(bobs), "")
	if err := y.deniedJob(bobs); !strings.Contains(err.Error(), "only its owner may") {
		t.Errorf("what is for the owner alone: %v", err)
	}
	if z := s.routed("POST", "/v1/jobs/{id}/cancel", named("ann", 7), "", ""); !strings.Contains(z.deniedJob(5).Error(),
		"coordinators of its account") {
		t.Errorf("what is for others too: %v", z.deniedJob(5))
	}
}

// TestLongPolls wait for news and no longer than they ask for, and gather what comes with it.
func TestLongPolls(t *testing.T) {
	s := small(t)
	poll := func(wait string, after uint64, rt *route, ctx context.Context) (time.Duration, *exchange, error) {
		x := s.of(named("ann", 7), "")
		x.r = httptest.NewRequestWithContext(ctx, "GET", "/v1/x", nil)
		x.query = map[string][]string{"wait": {wait}, "after": {fmt.Sprint(after)}}
		begin := time.Now()
		err := x.await(rt)
		return time.Since(begin), x, err
	}
	plain := &route{}
	now := s.Replica.View().Index()
	s.submitAt("one")
	if took, x, err := poll("30s", now, plain, t.Context()); err != nil || took > 20*time.Second || x.after != now ||
		x.view.Index() <= now {
		t.Errorf("there is news: %v after %v, at %d", err, took, x.view.Index())
	}
	now = s.Replica.View().Index()
	if took, x, err := poll("100ms", now, plain, t.Context()); err != nil || took < 100*time.Millisecond ||
		x.view.Index() != now {
		t.Errorf("there is no news: %v after %v", err, took)
	}
	if took, _, err := poll("", now, plain, t.Context()); err != nil || took > 10*time.Second {
		t.Errorf("it does not wait: %v after %v", err, took)
	}
	gone, end := context.WithCancel(t.Context())
	end()
	if _, _, err := poll("30s", now, plain, gone); err == nil {
		t.Error("a client that has left is answered")
	}
	asked := uint64(0)
	own := &route{ready: func(x *exchange) func(*state.View) bool {
		return func(v *state.View) bool { asked = v.Index(); return true }
	}}
	if _, _, err := poll("30s", now, own, t.Context()); err != nil || asked != now {
		t.Errorf("its own condition is asked at %d: %v", asked, err)
	}
	gathers := &route{gather: 150 * time.Millisecond}
	time.AfterFunc(30*time.Millisecond, func() {
		_, _ = s.Replica.Propose(context.WithoutCancel(t.Context()), fsm.SetNodeState{Node: "n9", State: model.NodeUp})
	})
	if took, x, err := poll("30s", now-1, gathers, t.Context()); err != nil || took < 150*time.Millisecond ||
		x.view.Index() <= now {
		t.Errorf("what comes with the news is not gathered: %v after %v, at %d of %d", err, took, x.view.Index(), now)
	}
	if took, _, err := poll("20ms", s.Replica.View().Index(), gathers, t.Context()); err != nil ||
		took > 140*time.Millisecond+5*time.Second {
		t.Errorf("without news it gathers: %v after %v", err, took)
	}
	x := s.of(named("ann", 7), "")
	x.roles = access.User
	x.write(map[string]int{"a": 1})
	if w := x.w.(*httptest.ResponseRecorder); w.Body.String() != "{\"a\":1}\n" ||
		w.Header().Get("Content-Length") != "8" || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%q, %v", w.Body, w.Header())
	}
	y := s.of(named("ann", 7), "")
	y.write(func() {})
	if w := y.w.(*httptest.ResponseRecorder); w.Code != 500 {
		t.Errorf("what cannot be encoded is answered with %d", w.Code)
	}
}

// TestAnswersAboutOneJob: what an update and a signal say, and why a job waits.
func TestAnswersAboutOneJob(t *testing.T) {
	s := newSite(t)
	priority := 7
	got, err := update(s.request("/v1/jobs/{id}/update", fmt.Sprint(s.pending), "", ""),
		&api.UpdateRequest{Priority: &priority})
	if err != nil || len(got.Items) != 1 || got.Items[0].ID != s.pending || got.Items[0].Error != nil {
		t.Errorf("an update: %+v, %v", got, err)
	}
	for id, want := range map[string]string{fmt.Sprint(s.pending): "is PENDING", fmt.Sprint(s.ended): "is CANCELLED",
		fmt.Sprint(s.array): "nothing of job", fmt.Sprintf("%d_[5-6]", s.array): "nothing of job"} {
		_, err := signalJob(s.request("/v1/jobs/{id}/signal", id, "", ""), &api.SignalRequest{Signal: "SIGUSR1"})
		if codeOf(err) != api.CodeWrongState || !strings.Contains(err.Error(), want) {
			t.Errorf("a signal to job %s: %v, want %q", id, err, want)
		}
	}
	held, err := getJob(s.request("/v1/jobs/{id}", fmt.Sprint(s.pending), "", ""))
	if err != nil || held.Reason.Code == "" || held.Spec == nil {
		t.Errorf("a job that waits does so because of %+v, %v", held, err)
	}
	if runs, err := getJob(s.request("/v1/jobs/{id}", fmt.Sprint(s.gang), "", "")); err != nil || runs.Reason.Code != "" {
		t.Errorf("a job that runs waits because of %+v, %v", runs.Reason, err)
	}
	if _, err := getJob(s.request("/v1/jobs/{id}", "777", "", "")); codeOf(err) != api.CodeNotFound {
		t.Errorf("an unknown job: %v", err)
	}
}

// TestWhichAttemptIsFirst: the last one, unless the job waits for another and that is to be followed.
func TestWhichAttemptIsFirst(t *testing.T) {
	s := small(t)
	gone, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		state    model.JobState
		attempts int
		follow   bool
		want     int // number of the attempt; 0: it is waited for, or refused
	}{{model.Running, 2, false, 2}, {model.Running, 2, true, 2}, {model.Pending, 2, false, 2}, {model.Pending, 2, true, 0},
		{model.Pending, 0, true, 0}, {model.Pending, 0, false, 0}, {model.Completed, 2, true, 2},
		{model.Completed, 0, true, 0}} {
		x := s.of(named("ann", 7), "")
		x.r = x.r.WithContext(gone)
		j := &model.Job{ID: s.submitAt("j"), State: c.state, Attempt: c.attempts}
		for n := range c.attempts {
			j.Attempts = append(j.Attempts, model.Attempt{N: n + 1})
		}
		a, err := x.firstAttempt(j, &logRequest{follow: c.follow})
		if (a != nil) != (c.want > 0) || a != nil && a.N != c.want || (err == nil) != (c.want > 0) {
			t.Errorf("%+v: %+v, %v", c, a, err)
		}
	}
	large := ask("POST", "/v1/x", named("ann", 7))
	large.r = httptest.NewRequest("POST", "/v1/x", strings.NewReader("short"))
	large.r.ContentLength = maxBody + 1
	if _, err := large.body(); codeOf(err) != api.CodeTooLarge || large.bodyBytes != 0 {
		t.Errorf("a body that is announced as too large: %v, %d bytes of it were read", err, large.bodyBytes)
	}
}
