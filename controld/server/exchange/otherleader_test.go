package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/peers"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/servertest"
)

// TestWhatIsPassedOnToTheLeader: the request as it is, once, and vouched for.
func TestWhatIsPassedOnToTheLeader(t *testing.T) {
	s, o := following(t)
	pass := func(method, target, body string, edit func(*http.Request)) (*httptest.ResponseRecorder, *Exchange, error) {
		x := s.Of(servertest.Named("ann", 7), "")
		x.Request = httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
		x.Request.Header.Set("Content-Type", "application/json")
		if edit != nil {
			edit(x.Request)
		}
		err := x.Forward()
		return x.Writer.(*httptest.ResponseRecorder), x, err
	}
	o.Says(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(api.HeaderIndex, "1")
		w.WriteHeader(207)
		io.WriteString(w, "done there")
	})
	w, x, err := pass("POST", "/v1/jobs?a=b&c=d%20e", `{"x":1}`, func(r *http.Request) {
		r.Header.Set(api.HeaderIdempotencyKey, "k1")
		r.Header.Set("Cookie", "mine")
	})
	asked, bodies := o.Heard()
	if err != nil || w.Code != 207 || w.Body.String() != "done there" || !x.About.relayed || len(asked) != 1 {
		t.Fatalf("%v, %d %q, it was asked %d times", err, w.Code, w.Body, len(asked))
	}
	r := asked[0]
	if r.Method != "POST" || r.URL.RequestURI() != "/v1/jobs?a=b&c=d%20e" || bodies[0] != `{"x":1}` ||
		r.Header.Get(HeaderForwarded) != "c9" || r.Header.Get(api.HeaderIdempotencyKey) != "k1" ||
		r.Header.Get("Cookie") != "" || api.AsksForStream(r) || r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("the leader is asked %s %s %q, %v", r.Method, r.URL.RequestURI(), bodies[0], r.Header)
	}
	pass("GET", "/v1/jobs", "", api.RequestStream)
	if asked, _ = o.Heard(); !api.AsksForStream(asked[len(asked)-1]) {
		t.Error("a request for a stream is passed on without asking for one")
	}
	o.Says(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	if w, _, err := pass("GET", "/v1/jobs", "", nil); err != nil || w.Code != http.StatusForbidden {
		t.Errorf("its refusal is passed back as %d, %v", w.Code, err)
	}
	o.Says(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if _, _, err := pass("POST", "/v1/jobs", "", nil); servertest.CodeOf(err) != api.CodeUncertain {
		t.Errorf("it hangs up: %v", err)
	}
	o.Says(nil)
	_, _, err = pass("POST", "/v1/jobs", "", func(r *http.Request) { r.Header.Set(HeaderForwarded, "c5") })
	if asked, _ := o.Heard(); servertest.CodeOf(err) != api.CodeNoLeader || !strings.Contains(err.Error(), "c5") ||
		len(asked) > 0 {
		t.Errorf("passed on a second time: %v, %d requests", err, len(asked))
	}
	if _, _, err := pass("POST", "/v1/jobs", strings.Repeat("x", maxBody+1),
		nil); servertest.CodeOf(err) != api.CodeTooLarge {
		t.Errorf("a body that is too large: %v", err)
	}
	// A write is read back here: the answer waits for the index, and no longer than a second.
	o.Says(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set(api.HeaderIndex, "999999") })
	for method, waits := range map[string]bool{"POST": true, "GET": false} {
		begin := time.Now()
		if _, _, err := pass(method, "/v1/jobs", "", nil); err != nil || time.Since(begin) >= time.Second != waits {
			t.Errorf("%s answered after %v, %v", method, time.Since(begin), err)
		}
	}
	o.Close()
	if _, _, err := pass("POST", "/v1/jobs", "", nil); servertest.CodeOf(err) != api.CodeNoLeader {
		t.Errorf("it is down: %v", err)
	}
}

// TestAControllerThatHasJustStarted asks the leader how far the log is, and reads here once it has that.
func TestAControllerThatHasJustStarted(t *testing.T) {
	s, o := following(t)
	s.caught = make(chan struct{})
	for name, c := range map[string]struct {
		status int
		index  string
		want   uint64
		says   string
	}{"confirmed": {200, "17", 17, ""}, "refused": {503, "17", 0, "the leader answered 503"},
		"another answer": {201, "17", 0, "the leader answered 201"}, "no index": {200, "", 0, "invalid syntax"}} {
		o.Says(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(api.HeaderIndex, c.index)
			w.WriteHeader(c.status)
		})
		got, err := s.confirmedIndex(t.Context())
		asked, _ := o.Heard()
		if got != c.want || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) ||
			len(asked) != 1 || asked[0].Method != "GET" || asked[0].URL.RequestURI() != "/v1/cluster?consistent=true" ||
			asked[0].Header.Get(HeaderForwarded) != "c9" {
			t.Errorf("%s: %d, %v, asked %v", name, got, err, asked)
		}
	}
	o.Says(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
	ctx, end := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer end()
	if err := s.CatchUp(ctx); err != nil || s.fresh.Load() {
		t.Errorf("without a confirmed index it has caught up: %v", err)
	}
	if asked, _ := o.Heard(); len(asked) < 2 {
		t.Errorf("the leader is asked %d times in 200 ms", len(asked))
	}
	select {
	case <-s.CaughtUp():
		t.Error("those that wait are told that it has caught up")
	default:
	}
	o.Says(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(api.HeaderIndex, fmt.Sprint(s.Replica.View().Index()))
	})
	if err := s.CatchUp(t.Context()); err != nil || !s.fresh.Load() {
		t.Errorf("with all that was confirmed it has not caught up: %v", err)
	}
	<-s.CaughtUp()
	s.Peers = &peers.Peers{}
	if _, err := s.confirmedIndex(t.Context()); err == nil || !strings.Contains(err.Error(), "no leader is known") {
		t.Errorf("without a leader: %v", err)
	}
}

// TestWhatAUserAskedBehindAFollower: jobs that this replica does not have yet are asked of the leader.
func TestWhatAUserAskedBehindAFollower(t *testing.T) {
	s, o := following(t)
	s.fresh.Store(true)
	o.Says(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "{}") })
	job := s.SubmitAt("held")
	run := func(path, id string, caller *identity.Caller, forwarded bool) (asked int, x *Exchange, err error) {
		x = s.Request(path, id, "", "{}")
		x.Caller, x.View = caller, nil
		if forwarded {
			x.Request.Header.Set(HeaderForwarded, "c2")
		}
		before, _ := o.Heard()
		_, err = x.run()
		after, _ := o.Heard()
		return len(after) - len(before), x, err
	}
	for name, c := range map[string]struct {
		path, id  string
		forwarded bool
		asked     int
		code      string
	}{
		"a known job":                 {"/v1/jobs/{id}", fmt.Sprint(job), false, 0, ""},
		"an unknown job":              {"/v1/jobs/{id}", "777", false, 0, api.CodeNotFound},
		"a process in an unknown job": {"/v1/jobs/{id}/exec", "777", false, 1, ""},
		"as before, passed on":        {"/v1/jobs/{id}/exec", "777", true, 0, api.CodeNotFound},
		"a change":                    {"/v1/jobs/{id}/hold", fmt.Sprint(job), false, 1, ""},
	} {
		if asked, _, err := run(c.path, c.id, servertest.Named("ann", 7), c.forwarded); asked != c.asked ||
			servertest.CodeOf(err) != c.code {
			t.Errorf("%s: the leader is asked %d times, %v", name, asked, err)
		}
	}
	inJob := servertest.Named("ann", 7)
	inJob.Role, inJob.From, inJob.Job = "node", "n1", job // it does not run there, as far as this replica knows
	if asked, _, err := run("/v1/jobs/{id}", fmt.Sprint(job), inJob, false); asked != 1 || err != nil {
		t.Errorf("a process of a job that this replica does not see running: asked %d times, %v", asked, err)
	}
	x := s.Request("/v1/jobs", "", "", "")
	if x.Headers(); x.Writer.Header().Get(api.HeaderIndex) != fmt.Sprint(s.Replica.View().Index()) ||
		x.Writer.Header().Get(api.HeaderStale) != "" {
		t.Errorf("the answer has %v", x.Writer.Header())
	}
	if _, err := s.Of(nil, "").Propose(fsm.SetNodeState{Node: "n9", State: model.NodeUp}); err == nil {
		t.Error("a command that the state refuses is no error")
	}
	x.Query = url.Values{}
	if err := x.await(x.Route); err != nil || x.After != 0 {
		t.Errorf("what does not wait: %v, after %d", err, x.After)
	}
}

// TestWhatTheLeaderAnswered: what is passed back of it, and what is said if it answers nothing.
func TestWhatTheLeaderAnswered(t *testing.T) {
	s := small(t)
	for _, method := range []string{"GET", "POST"} {
		x := ask(method, "/v1/x", servertest.Named("ann", 7))
		x.s = s.Service
		resp := &http.Response{StatusCode: 207, Header: http.Header{"Content-Type": {"x/y"}, "Retry-After": {"9"},
			"X-Other":       {"z"},
			api.HeaderIndex: {"3"}}, Body: io.NopCloser(strings.NewReader("its answer"))}
		if err := x.relay(t.Context(), resp); err != nil {
			t.Fatal(err)
		}
		w := x.Writer.(*httptest.ResponseRecorder)
		if h := w.Header(); !x.Sent || !x.About.relayed || w.Code != 207 || w.Body.String() != "its answer" ||
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
		"another leads":    {deposed, context.Canceled, api.CodeUncertain, "another controller is the leader now"},
		"it was not sent":  {t.Context(), refused, api.CodeNoLeader, "cannot be reached"},
		"the client left":  {t.Context(), context.Canceled, "", "canceled"},
		"no answer":        {t.Context(), io.ErrUnexpectedEOF, api.CodeUncertain, "may or may not have taken effect"},
		"deposed, refused": {deposed, refused, api.CodeUncertain, "another controller is the leader now"},
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
	}{"a stranger": {nil, ""}, "a user": {servertest.Named("ann", 7), ""}, "a token": {&identity.Caller{Token: "t"},
		"Bearer x"}} {
		x := ask("GET", "/v1/x", c.caller)
		x.s.Name = "c1"
		x.Request.Header.Set("Authorization", "Bearer x")
		x.Request.Header.Set("Accept", "a/b")
		x.Request.Header.Set("X-Other", "z")
		h := http.Header{}
		if x.copyHeaders(h); h.Get("Authorization") != c.want || h.Get("Accept") != "a/b" || h.Get("X-Other") != "" ||
			h.Get(HeaderForwarded) != "c1" {
			t.Errorf("%s: %v", name, h)
		}
	}
	s.Peers = &peers.Peers{}
	x := ask("GET", "/v1/x", servertest.Named("ann", 7))
	x.s = s.Service
	if err := x.passOn(); servertest.CodeOf(err) != api.CodeNoLeader {
		t.Errorf("there is no other leader: %v", err)
	}
	for name, c := range map[string]struct {
		caller *identity.Caller
		want   bool
	}{"itself": {&identity.Caller{From: "n1"}, true}, "another": {&identity.Caller{From: "n2"}, false},
		"a stranger": {nil, false}} {
		if x := s.Of(c.caller, "n1"); x.isNode() != c.want {
			t.Errorf("%s is node n1: %t", name, !c.want)
		}
	}
}

// TestWhichControllerAnswers turns each condition on which a request is passed on, by a controller that
// leads and one that does not. There is no other to pass it on to.
func TestWhichControllerAnswers(t *testing.T) {
	s := newSite(t)
	s.Peers, s.Fetching = &peers.Peers{}, func() bool { return false }
	run := func(edit func(*Route), query string, forwarded bool) string {
		x := s.Request("/v1/nodes", "", query, "")
		rt := *x.Route
		rt.Rule, rt.Handle, rt.Past, rt.Place, rt.Poll = access.ForUsers, func(*Exchange) (any, error) { return 1, nil },
			false,
			Here, false
		edit(&rt)
		rt.Operation.Params = nil
		x.Route, x.View = &rt, nil
		x.Request.URL.RawQuery = query
		if forwarded {
			x.Request.Header.Set(HeaderForwarded, "c2")
		}
		if _, err := x.run(); err != nil {
			return servertest.CodeOf(err)
		}
		return "answered"
	}
	plain := func(*Route) {}
	polls := func(rt *Route) { rt.Poll = true }
	past := func(rt *Route) { rt.Poll, rt.Past = true, true }
	fetching := false
	s.Fetching = func() bool { return fetching }
	for _, c := range []struct {
		name                       string
		edit                       func(*Route)
		query                      string
		leads, fresh, fetch, lacks bool
		want                       string
	}{
		{"leads", plain, "", true, true, false, false, "answered"},
		{"leads, a change", func(rt *Route) { rt.Place = OnLeader }, "", true, true, false, false, "answered"},
		{"leads, an odd word", plain, "x=1", true, true, false, false, api.CodeInvalid},
		{"leads, a poll", polls, "", true, false, false, false, "answered"},
		{"leads, of now", polls, "consistent=true", true, true, false, false, "answered"},
		{"leads, of the past", past, "", true, true, true, false, "answered"},
		{"leads, records are fetched", past, "", true, true, true, true, api.CodeNoLeader},
		{"leads, records are lost", past, "", true, true, false, true, "answered"},
		{"leads, of the present while records are fetched", polls, "", true, true, true, true, "answered"},
		{"follows, a read", plain, "", false, false, false, false, "answered"},
		{"follows, a change", func(rt *Route) { rt.Place = OnLeader }, "", false, true, false, false, api.CodeNoLeader},
		{"follows, a poll", polls, "", false, true, false, false, "answered"},
		{"follows, a poll of one that has just started", polls, "", false, false, false, false, api.CodeNoLeader},
		{"follows, of now", polls, "consistent=true", false, true, false, false, api.CodeNoLeader},
		{"follows, of the past", past, "", false, true, false, false, "answered"},
		{"follows, without records", past, "", false, true, false, true, api.CodeNoLeader},
		{"follows, of the present without records", polls, "", false, true, false, true, "answered"},
	} {
		if c.leads {
			s.Replica.StartLeading()
		} else {
			s.Replica.StopLeading()
		}
		s.fresh.Store(c.fresh)
		fetching = c.fetch
		if c.lacks {
			if err := s.History.NoteGaps(t.Context(), 5); err != nil {
				t.Fatal(err)
			}
		}
		if s.missesRecords() != c.lacks {
			store, err := history.Open(filepath.Join(t.TempDir(), "history.db"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { store.Close() })
			s.History = store
		}
		if s.missesRecords() != c.lacks {
			t.Fatalf("%s: it misses records %t", c.name, !c.lacks)
		}
		if got := run(c.edit, c.query, false); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		x := s.Request("/v1/nodes", "", "", "")
		behind := x.MaybeBehind()
		x.Request.Header.Set(HeaderForwarded, "c2")
		if behind == c.leads || x.MaybeBehind() {
			t.Errorf("%s: it may be behind %t, and what was passed on %t", c.name, behind, x.MaybeBehind())
		}
		if _, stale := s.stale(); stale {
			t.Errorf("%s: no leader is known", c.name)
		}
	}
	s.Replica.StartLeading()
	s.caught = make(chan struct{})
	s.fresh.Store(false)
	if err := s.CatchUp(t.Context()); err != nil || !s.fresh.Load() {
		t.Errorf("a leader has not caught up: %v", err)
	}
	<-s.CaughtUp()
}

// TestWhereTheLeaderIs, unless it is this controller.
func TestWhereTheLeaderIs(t *testing.T) {
	s, other := following(t)
	s.SubmitAt("one")
	leader, at, ok := s.leaderHTTP()
	if !ok || leader.Name != "c1" || at != strings.TrimPrefix(other.URL, "https://") {
		t.Errorf("the leader is %v at %s, %t", leader, at, ok)
	}
	s.Name = "c1"
	if _, at, ok := s.leaderHTTP(); ok || at != "" {
		t.Errorf("the leader passes on to itself at %s", at)
	}
}
