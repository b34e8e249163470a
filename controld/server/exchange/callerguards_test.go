package exchange

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
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
	"github.com/rota-hpc/rota/controld/server/audit"
	"github.com/rota-hpc/rota/controld/server/servertest"
)

// TestWhatAJobMayAsk from inside: of the node that it runs on, as its user, reads of all and changes of itself.
func TestWhatAJobMayAsk(t *testing.T) {
	s := newSite(t)
	inside := func(job model.JobID, node string, uid uint32) *identity.Caller {
		return &identity.Caller{Role: "node", From: node, Job: job, User: model.Identity{User: "ann", UID: uid}}
	}
	in := inside(s.Gang, "n1", 7)
	for name, c := range map[string]struct {
		caller       *identity.Caller
		method, path string
		id           model.JobID
		says         string // "": it may
	}{
		"a read":         {in, "GET", "/v1/jobs/{id}", s.Steps, ""},
		"its own end":    {in, "POST", "/v1/jobs/{id}/requeue", s.Gang, ""},
		"another's end":  {in, "POST", "/v1/jobs/{id}/requeue", s.Steps, "can change only that job"},
		"an array's":     {in, "POST", "/v1/jobs/{id}/requeue", s.Array, "can change only that job"},
		"its own output": {in, "GET", "/v1/jobs/{id}/logs", s.Gang, ""},
		"another's output": {in, "GET", "/v1/jobs/{id}/logs", s.Steps,
			"can read the output and the metrics of that job only"},
		"a drained node":         {in, "POST", "/v1/nodes/{name}/drain", s.Gang, "can change only that job"},
		"from another node":      {inside(s.Gang, "n2", 7), "GET", "/v1/jobs/{id}", s.Gang, "does not run there"},
		"of another user":        {inside(s.Gang, "n1", 8), "GET", "/v1/jobs/{id}", s.Gang, "does not run there"},
		"of a job that waits":    {inside(s.Pending, "n1", 7), "GET", "/v1/jobs/{id}", s.Gang, "does not run there"},
		"of a job that is gone":  {inside(777, "n1", 7), "GET", "/v1/jobs/{id}", s.Gang, "does not run there"},
		"outside of a job":       {servertest.Named("ann", 7), "POST", "/v1/jobs/{id}/requeue", s.Steps, ""},
		"a caller of no request": {nil, "POST", "/v1/jobs/{id}/requeue", s.Steps, ""},
	} {
		x := s.Routed(c.method, c.path, c.caller, fmt.Sprint(c.id), "")
		err := x.authoriseJob()
		if (err == nil) != (c.says == "") || err != nil && (servertest.CodeOf(err) != api.CodeDenied ||
			!strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if got := x.insideJob(); got != (c.caller != nil && c.caller.Job != 0) {
			t.Errorf("%s: inside of a job %t", name, got)
		}
		if c.caller != nil && c.caller.Job != 0 {
			x.View = nil // it asks for the state itself
			if there := x.runsThere(); there != (c.says != "does not run there") {
				t.Errorf("%s: it runs there %t", name, there)
			}
			if err := x.authorise(); c.says != "" && err == nil {
				t.Errorf("%s: it may all the same", name)
			}
		}
	}
	x := s.Routed("GET", "/v1/jobs/{id}", in, fmt.Sprint(s.Steps), "")
	if x.MayOn(access.PartDetails, s.Replica.View().Job(s.Steps)) || !x.MayOn(access.PartDetails,
		s.Replica.View().Job(s.Gang)) {
		t.Error("from inside a job the details of another job are seen, or its own are not")
	}
}

// TestWhoseJobItIs goes through callers and jobs, and what is said of a job that is hidden.
func TestWhoseJobItIs(t *testing.T) {
	s := newSite(t)
	bobs := s.Bobs("a")
	node := &identity.Caller{Machine: true, Role: "node", From: "n1"}
	for _, private := range [][]string{nil, {cluster.PrivateJobs}} {
		s.Private(private...)
		for name, c := range map[string]struct {
			method, path string
			caller       *identity.Caller
			id           string
			code         string
			hidden       bool
		}{
			"its own":       {"POST", "/v1/jobs/{id}/cancel", servertest.Named("ann", 7), fmt.Sprint(s.Gang), "", false},
			"a missing one": {"POST", "/v1/jobs/{id}/cancel", servertest.Named("ann", 7), "777", api.CodeNotFound, false},
			"an odd one": {"POST", "/v1/jobs/{id}/cancel", servertest.Named("ann", 7), "x_y_z", api.CodeNotFound,
				false},
			"a node for a job":  {"POST", "/v1/jobs/{id}/cancel", node, fmt.Sprint(s.Gang), api.CodeDenied, false},
			"a node for itself": {"GET", "/v1/nodes/{name}/allocs", node, "", "", false},
			"a user for a node": {"GET", "/v1/nodes/{name}/allocs", servertest.Named("ann", 7), "", api.CodeDenied, false},
			"a list":            {"GET", "/v1/jobs", servertest.Named("ann", 7), "", "", false},
			"another's to cancel": {"POST", "/v1/jobs/{id}/cancel", servertest.Named("ann", 7), fmt.Sprint(bobs), api.CodeDenied,
				false},
			"another's to see": {"GET", "/v1/jobs/{id}", servertest.Named("ann", 7), fmt.Sprint(bobs), "", false},
		} {
			if private != nil && strings.HasPrefix(name, "another's") { // as if there were none
				c.code, c.hidden = api.CodeNotFound, true
			}
			x := s.Routed(c.method, c.path, c.caller, c.id, "")
			x.Request.SetPathValue("name", "n1")
			err := x.authorise()
			code := servertest.CodeOf(err)
			if name == "an odd one" && err != nil {
				code = c.code // which refusal it is does not matter
			}
			if code != c.code || x.About.hidden != c.hidden {
				t.Errorf("%s, private %v: %v, hidden %t", name, private, err, x.About.hidden)
			}
			if (c.code == "" || c.code == api.CodeDenied) && c.id != "" && c.caller != node && x.About.Jobs.String() != c.id {
				t.Errorf("%s, private %v: the audit log has %q", name, private, x.About.Jobs)
			}
		}
	}
	x := s.Routed("GET", "/v1/nodes/{name}/allocs", node, "", "")
	x.Request.SetPathValue("name", "n2")
	if err := x.authorise(); servertest.CodeOf(err) != api.CodeDenied {
		t.Errorf("a node asks for another: %v", err)
	}
	y := s.Routed("POST", "/v1/jobs/{id}/exec", servertest.Named("ann", 7), fmt.Sprint(bobs), "")
	if err := y.DeniedJob(bobs); !strings.Contains(err.Error(), "only its owner may") {
		t.Errorf("what is for the owner alone: %v", err)
	}
	if z := s.Routed("POST", "/v1/jobs/{id}/cancel", servertest.Named("ann", 7), "",
		""); !strings.Contains(z.DeniedJob(5).Error(),
		"coordinators of its account") {
		t.Errorf("what is for others too: %v", z.DeniedJob(5))
	}
}

// TestLongPolls wait for news and no longer than they ask for, and gather what comes with it.
func TestLongPolls(t *testing.T) {
	s := small(t)
	poll := func(wait string, after uint64, rt *Route, ctx context.Context) (time.Duration, *Exchange, error) {
		x := s.Of(servertest.Named("ann", 7), "")
		x.Request = httptest.NewRequestWithContext(ctx, "GET", "/v1/x", nil)
		x.Query = map[string][]string{"wait": {wait}, "after": {fmt.Sprint(after)}}
		begin := time.Now()
		err := x.await(rt)
		return time.Since(begin), x, err
	}
	plain := &Route{}
	now := s.Replica.View().Index()
	s.SubmitAt("one")
	if took, x, err := poll("30s", now, plain, t.Context()); err != nil || took > 20*time.Second || x.After != now ||
		x.View.Index() <= now {
		t.Errorf("there is news: %v after %v, at %d", err, took, x.View.Index())
	}
	now = s.Replica.View().Index()
	if took, x, err := poll("100ms", now, plain, t.Context()); err != nil || took < 100*time.Millisecond ||
		x.View.Index() != now {
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
	own := &Route{Ready: func(x *Exchange) func(*state.View) bool {
		return func(v *state.View) bool { asked = v.Index(); return true }
	}}
	if _, _, err := poll("30s", now, own, t.Context()); err != nil || asked != now {
		t.Errorf("its own condition is asked at %d: %v", asked, err)
	}
	gathers := &Route{Gather: 150 * time.Millisecond}
	time.AfterFunc(30*time.Millisecond, func() {
		_, _ = s.Replica.Propose(context.WithoutCancel(t.Context()), fsm.SetNodeState{Node: "n9", State: model.NodeUp})
	})
	if took, x, err := poll("30s", now-1, gathers, t.Context()); err != nil || took < 150*time.Millisecond ||
		x.View.Index() <= now {
		t.Errorf("what comes with the news is not gathered: %v after %v, at %d of %d", err, took, x.View.Index(), now)
	}
	if took, _, err := poll("20ms", s.Replica.View().Index(), gathers, t.Context()); err != nil ||
		took > 140*time.Millisecond+5*time.Second {
		t.Errorf("without news it gathers: %v after %v", err, took)
	}
	x := s.Of(servertest.Named("ann", 7), "")
	x.Roles = access.User
	x.write(map[string]int{"a": 1})
	if w := x.Writer.(*httptest.ResponseRecorder); w.Body.String() != "{\"a\":1}\n" ||
		w.Header().Get("Content-Length") != "8" || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%q, %v", w.Body, w.Header())
	}
	y := s.Of(servertest.Named("ann", 7), "")
	y.write(func() {})
	if w := y.Writer.(*httptest.ResponseRecorder); w.Code != 500 {
		t.Errorf("what cannot be encoded is answered with %d", w.Code)
	}
}

// TestMetricsAreForMembers: another machine, or an ordinary user of one, reads the metrics.
func TestMetricsAreForMembers(t *testing.T) {
	rt := testRoutes()[slices.IndexFunc(testRoutes(), func(rt Route) bool { return rt.Path == "/metrics" })]
	for from, want := range map[string]bool{"127.0.0.1:1": true, "[::1]:1": true, "[::ffff:127.0.0.1]:1": true,
		"192.0.2.1:1": false, "[2001:db8::1]:1": false, "": false, "localhost:1": false} {
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		r.RemoteAddr = from
		x := &Exchange{s: &Service{Config: Config{Audit: &audit.Log{}}}, Route: &rt, Writer: httptest.NewRecorder(),
			Request: r}
		if err := x.identify(); (err == nil) != want {
			t.Errorf("from %q: %v", from, err)
		}
	}
}
