package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/member"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/ranges"
	"github.com/rota-hpc/rota/controld/peers"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/jobspec"
)

// other leads, and the tested controller follows it. It answers as a test says.
type other struct {
	*httptest.Server
	mu     sync.Mutex
	answer http.HandlerFunc
	asked  []*http.Request
	bodies []string
}

// says sets what it answers, and forgets what it was asked.
func (o *other) says(f http.HandlerFunc) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answer, o.asked, o.bodies = f, nil, nil
}

// heard returns what it was asked since, and the bodies.
func (o *other) heard() ([]*http.Request, []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.asked), slices.Clone(o.bodies)
}

// following is a small controller c9 that does not lead: c1 does, and is another machine.
func following(t *testing.T) (*site, *other) {
	t.Helper()
	s := small(t)
	o := &other{}
	o.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == peers.StatePath {
			_ = json.NewEncoder(w).Encode(peers.State{Name: "c1", HTTP: strings.TrimPrefix(o.URL, "https://"), Raft: "r:1",
				Gossip: "g:1"})
			return
		}
		text, _ := io.ReadAll(r.Body)
		o.mu.Lock()
		o.asked, o.bodies = append(o.asked, r), append(o.bodies, string(text))
		answer := o.answer
		o.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(o.Close)
	file := filepath.Join(t.TempDir(), "controllers.json")
	known := fmt.Sprintf(`[{"name":"c1","http":%q,"raft":"r:1","gossip":"g:1"}]`, strings.TrimPrefix(o.URL, "https://"))
	if err := os.WriteFile(file, []byte(known), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Name, s.Gossip, s.Client = "c9", "g:9", o.Client()
	s.Peers = peers.New("c9", &member.List{}, nil, o.Client(), file, true, s.Log)
	ctx, end := context.WithCancel(t.Context())
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		_ = s.Peers.Watch(ctx)
	}()
	t.Cleanup(func() { end(); <-watching })
	for begin := time.Now(); len(s.Peers.All()) == 0; time.Sleep(time.Millisecond) {
		if time.Since(begin) > patience {
			t.Fatal("the other controller is not known")
		}
	}
	s.Replica.StopLeading()
	return s, o
}

// TestWhatIsPassedOnToTheLeader: the request as it is, once, and vouched for.
func TestWhatIsPassedOnToTheLeader(t *testing.T) {
	s, o := following(t)
	pass := func(method, target, body string, edit func(*http.Request)) (*httptest.ResponseRecorder, *exchange, error) {
		x := s.of(named("ann", 7), "")
		x.r = httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
		x.r.Header.Set("Content-Type", "application/json")
		if edit != nil {
			edit(x.r)
		}
		err := x.forward()
		return x.w.(*httptest.ResponseRecorder), x, err
	}
	o.says(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(api.HeaderIndex, "1")
		w.WriteHeader(207)
		io.WriteString(w, "done there")
	})
	w, x, err := pass("POST", "/v1/jobs?a=b&c=d%20e", `{"x":1}`, func(r *http.Request) {
		r.Header.Set(api.HeaderIdempotencyKey, "k1")
		r.Header.Set("Cookie", "mine")
	})
	asked, bodies := o.heard()
	if err != nil || w.Code != 207 || w.Body.String() != "done there" || !x.about.relayed || len(asked) != 1 {
		t.Fatalf("%v, %d %q, it was asked %d times", err, w.Code, w.Body, len(asked))
	}
	r := asked[0]
	if r.Method != "POST" || r.URL.RequestURI() != "/v1/jobs?a=b&c=d%20e" || bodies[0] != `{"x":1}` ||
		r.Header.Get(headerForwarded) != "c9" || r.Header.Get(api.HeaderIdempotencyKey) != "k1" ||
		r.Header.Get("Cookie") != "" || api.AsksForStream(r) || r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("the leader is asked %s %s %q, %v", r.Method, r.URL.RequestURI(), bodies[0], r.Header)
	}
	pass("GET", "/v1/jobs", "", api.RequestStream)
	if asked, _ = o.heard(); !api.AsksForStream(asked[len(asked)-1]) {
		t.Error("a request for a stream is passed on without asking for one")
	}
	o.says(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	if w, _, err := pass("GET", "/v1/jobs", "", nil); err != nil || w.Code != http.StatusForbidden {
		t.Errorf("its refusal is passed back as %d, %v", w.Code, err)
	}
	o.says(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if _, _, err := pass("POST", "/v1/jobs", "", nil); codeOf(err) != api.CodeUncertain {
		t.Errorf("it hangs up: %v", err)
	}
	o.says(nil)
	_, _, err = pass("POST", "/v1/jobs", "", func(r *http.Request) { r.Header.Set(headerForwarded, "c5") })
	if asked, _ := o.heard(); codeOf(err) != api.CodeNoLeader || !strings.Contains(err.Error(), "c5") || len(asked) > 0 {
		t.Errorf("passed on a second time: %v, %d requests", err, len(asked))
	}
	if _, _, err := pass("POST", "/v1/jobs", strings.Repeat("x", maxBody+1), nil); codeOf(err) != api.CodeTooLarge {
		t.Errorf("a body that is too large: %v", err)
	}
	// A write is read back here: the answer waits for the index, and no longer than a second.
	o.says(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set(api.HeaderIndex, "999999") })
	for method, waits := range map[string]bool{"POST": true, "GET": false} {
		begin := time.Now()
		if _, _, err := pass(method, "/v1/jobs", "", nil); err != nil || time.Since(begin) >= time.Second != waits {
			t.Errorf("%s answered after %v, %v", method, time.Since(begin), err)
		}
	}
	o.Close()
	if _, _, err := pass("POST", "/v1/jobs", "", nil); codeOf(err) != api.CodeNoLeader {
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
	}{"confirmed": {200, "17", 17, ""}, "refused": {503, "17", 0, "the leader answers 503"},
		"another answer": {201, "17", 0, "the leader answers 201"}, "no index": {200, "", 0, "invalid syntax"}} {
		o.says(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(api.HeaderIndex, c.index)
			w.WriteHeader(c.status)
		})
		got, err := s.confirmedIndex(t.Context())
		asked, _ := o.heard()
		if got != c.want || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) ||
			len(asked) != 1 || asked[0].Method != "GET" || asked[0].URL.RequestURI() != "/v1/cluster?consistent=true" ||
			asked[0].Header.Get(headerForwarded) != "c9" {
			t.Errorf("%s: %d, %v, asked %v", name, got, err, asked)
		}
	}
	o.says(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
	ctx, end := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer end()
	if err := s.CatchUp(ctx); err != nil || s.fresh.Load() {
		t.Errorf("without a confirmed index it has caught up: %v", err)
	}
	if asked, _ := o.heard(); len(asked) < 2 {
		t.Errorf("the leader is asked %d times in 200 ms", len(asked))
	}
	select {
	case <-s.CaughtUp():
		t.Error("those that wait are told that it has caught up")
	default:
	}
	o.says(func(w http.ResponseWriter, _ *http.Request) {
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

// TestTheAuditLogOfAllControllers joins what each has, the newest first, and says which did not answer.
func TestTheAuditLogOfAllControllers(t *testing.T) {
	s, o := following(t)
	s.AuditFor, s.AuditMost = time.Hour, 1000
	now := model.UnixMS(time.Now().UnixMilli())
	for i, user := range []string{"ann", "bob", "ann"} {
		s.audit.add(&history.AuditEntry{At: now + model.UnixMS(10*i), UID: int64(7 + i%2), User: user, Method: "POST",
			Route: fmt.Sprint("/own", i), Status: 200, Times: 1})
	}
	theirs := []history.AuditEntry{{At: now + 15, UID: 7, User: "ann", Method: "GET", Route: "/theirs", Status: 403,
		Code: "denied", Times: 3}}
	o.says(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(theirs) })
	list := func(query string, roles access.Role) (*api.AuditList, string) {
		t.Helper()
		x := s.request("/v1/audit", "", query, "")
		x.roles = roles
		got, err := listAudit(x)
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, e := range got.Items {
			text += e.Controller + " " + e.Action + " " + e.Code + "; "
		}
		return got, text
	}
	admin := access.User | access.Operator | access.Admin
	all, text := list("", admin)
	if want := "c9 POST /own2 ok; c1 GET /theirs denied; c9 POST /own1 ok; c9 POST /own0 ok; "; text != want ||
		len(all.Unreachable) != 0 || all.Items[1].Times != 3 || all.Items[1].Status != 403 {
		t.Errorf("%s, unreachable %v", text, all.Unreachable)
	}
	asked, _ := o.heard()
	if u := asked[0].URL; u.Path != peers.AuditPath || u.Query().Get("limit") != "1000" || u.Query().Has("uid") {
		t.Errorf("the other one is asked %s", u)
	}
	if _, text := list("limit=2&denied=false", admin); text != "c9 POST /own2 ok; c1 GET /theirs denied; " {
		t.Errorf("the last two: %s", text)
	}
	asked, _ = o.heard()
	if q := asked[1].URL.Query(); q.Get("limit") != "2" || q.Get("denied") != "false" {
		t.Errorf("the other one is asked %v", q)
	}
	if _, text := list("", access.User); strings.Contains(text, "own1") || !strings.Contains(text, "own2") {
		t.Errorf("a user sees %s", text)
	}
	asked, _ = o.heard()
	if q := asked[2].URL.Query(); q.Get("uid") != "7" {
		t.Errorf("the other one is asked %v for a user", q)
	}
	o.says(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	if got, _ := list("", admin); !slices.Equal(got.Unreachable, []string{"c1"}) || len(got.Items) != 3 {
		t.Errorf("while the other one fails: %d entries, unreachable %v", len(got.Items), got.Unreachable)
	}
	s.Peers = &peers.Peers{}
	if got, _ := list("", admin); !slices.Equal(got.Unreachable, []string{"c1"}) {
		t.Errorf("while the other one is not heard of: unreachable %v", got.Unreachable)
	}
	x := s.request("/v1/audit", "", "uid=8&limit=5", "")
	if got, err := internalAudit(x); err != nil || len(got.([]history.AuditEntry)) != 1 {
		t.Errorf("of user 8: %v, %v", got, err)
	}
	x = s.request("/v1/audit", "", "user=carol", "")
	if got, err := internalAudit(x); err != nil || got.([]history.AuditEntry) == nil {
		t.Errorf("of a user without entries: %#v, %v", got, err)
	}
	f := s.request("/v1/audit", "", "user=ann&job=12&denied=true&since=1970-01-01T00:00:05Z&until=1970-01-01T00:00:06Z&"+
		"limit=3", "").auditFilter()
	if f.User != "ann" || f.Job != 12 || !f.Denied || f.Since != 5000 || f.Until != 6000 || f.Limit != 3 || f.UID != nil {
		t.Errorf("the filter is %+v", f)
	}
}

// TestEntriesThatTheDiskRefusesAreKept for the next time, and the oldest leave after their time.
func TestEntriesThatTheDiskRefusesAreKept(t *testing.T) {
	s := small(t)
	s.AuditFor, s.AuditMost = time.Hour, 1000
	now := model.UnixMS(time.Now().UnixMilli())
	for _, at := range []model.UnixMS{now - 2*3_600_000, now} {
		s.audit.add(&history.AuditEntry{At: at, UID: 7, Method: "POST", Route: "/x", Status: 200, Times: 1})
	}
	gone, end := context.WithCancel(t.Context())
	end()
	if err := s.StoreAudit(gone); err == nil || len(s.audit.pending) != 2 {
		t.Errorf("not stored: %v, %d entries wait", err, len(s.audit.pending))
	}
	if err := s.StoreAudit(t.Context()); err != nil || len(s.audit.pending) != 0 {
		t.Errorf("stored: %v, %d entries wait", err, len(s.audit.pending))
	}
	if err := s.StoreAudit(gone); err != nil {
		t.Errorf("nothing to store: %v", err)
	}
	if got, err := s.History.Audit(t.Context(), history.AuditFilter{}); err != nil || len(got) != 1 || got[0].At != now {
		t.Errorf("kept: %+v, %v", got, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.RunAudit(ctx) }()
	s.audit.add(&history.AuditEntry{At: now + 1, UID: 8, Method: "POST", Route: "/x", Status: 200, Times: 1})
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		got, err := s.History.Audit(t.Context(), history.AuditFilter{})
		if err == nil && len(got) == 2 {
			break
		}
		if time.Since(begin) > patience {
			t.Fatalf("an entry is not stored: %v, %v", got, err)
		}
	}
	if stop(); <-ended != nil {
		t.Error("the end is an error")
	}
}

// TestOtherControllersAreShown with what they said of themselves, and none that is up is removed.
func TestOtherControllersAreShown(t *testing.T) {
	s, _ := following(t)
	s.submitAt("one")
	s.HTTP, s.Raft = "h:9", "r:9"
	got, err := getCluster(s.of(named("ann", 7), ""))
	if err != nil || len(got.Controllers) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	v := s.Replica.View()
	if got.Index != v.Index() || got.Term != s.Replica.Term() || got.Version != v.Config().Version || got.Leader != "c1" ||
		got.Name != v.Config().ClusterName || got.Policy != v.Config().Policy.Name {
		t.Errorf("the cluster is %+v", got)
	}
	c1, c9 := got.Controllers[0], got.Controllers[1]
	if c1.Name != "c1" || !c1.Voter || !c1.Leader || c1.State != api.ControllerVoter || c1.Raft != "r:1" || c1.HTTP == "" {
		t.Errorf("the leader is %+v", c1)
	}
	if c9.Name != "c9" || c9.Voter || c9.Leader || c9.State != api.ControllerNew || c9.Raft != "r:9" || c9.HTTP != "h:9" {
		t.Errorf("this controller is %+v", c9)
	}
	if _, err := removeController(s.of(named("adm", 5), "c1")); codeOf(err) != api.CodeWrongState ||
		!strings.Contains(err.Error(), "is up") {
		t.Errorf("a controller that is up is removed: %v", err)
	}
	if err := s.of(nil, "").nameTaken("controller", "c1"); err == nil || !strings.Contains(err.Error(), "is up at r:1") {
		t.Errorf("the name of a controller that is up is free: %v", err)
	}
	if seeds := s.of(nil, "").seeds(); !slices.Equal(seeds, []string{"g:1", "g:9"}) {
		t.Errorf("a machine that joins learns of %v", seeds)
	}
	leader, at, ok := s.leaderHTTP()
	if !ok || leader.Name != "c1" || at != c1.HTTP {
		t.Errorf("the leader is %v at %s, %t", leader, at, ok)
	}
	s.Name = "c1"
	if _, at, ok := s.leaderHTTP(); ok || at != "" {
		t.Errorf("the leader passes on to itself at %s", at)
	}
	s.AuthorityState = func() (int64, string) { return 4, "issuer" }
	s.Knows = 3
	state, err := internalState(s.of(nil, ""))
	want := peers.State{AuthorityKey: 4, Issuer: "issuer", Name: "c1", HTTP: "h:9", Raft: "r:9", Gossip: "g:9",
		HasState: true, Log: s.Replica.Self().Log, Applied: s.Replica.Applied(), Records: s.History.Last(), Knows: 3,
		Generation: s.Replica.View().Recovery().Generation.String(), Voters: s.Replica.Members()}
	if got, ok := state.(peers.State); err != nil || !ok || fmt.Sprint(got) != fmt.Sprint(want) || want.Log == "" ||
		want.Applied == 0 {
		t.Errorf("it says of itself %+v, %v, want %+v", state, err, want)
	}
}

// TestHowAnAuditEntryIsShown, with a word for each part.
func TestHowAnAuditEntryIsShown(t *testing.T) {
	got := presentAudit("c2", []history.AuditEntry{{At: 5000, UID: -9, User: "ann", Token: "t", Origin: "n1",
		Method: "POST", Route: "/v1/x", Jobs: ranges.Span(3, 5), Account: "a", Object: "o", Status: 403, Code: "denied",
		Times: 2}, {UID: 7, Status: 200}})
	e := got[0]
	if e.At.UnixMilli() != 5000 || e.Controller != "c2" || e.UID != history.UIDStranger || e.User != "ann" ||
		e.Token != "t" || e.From != "n1" || e.Action != "POST /v1/x" || e.Jobs != "3-5" || e.Account != "a" ||
		e.Object != "o" || e.Status != 403 || e.Code != "denied" || e.Times != 2 {
		t.Errorf("%+v", e)
	}
	if e := got[1]; e.UID != 7 || e.Code != "ok" {
		t.Errorf("%+v", e)
	}
}

// TestWhatAUserAskedBehindAFollower: jobs that this replica does not have yet are asked of the leader.
func TestWhatAUserAskedBehindAFollower(t *testing.T) {
	s, o := following(t)
	s.fresh.Store(true)
	o.says(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "{}") })
	job := s.submitAt("held")
	run := func(path, id string, caller *identity.Caller, forwarded bool) (asked int, x *exchange, err error) {
		x = s.request(path, id, "", "{}")
		x.caller, x.view = caller, nil
		if forwarded {
			x.r.Header.Set(headerForwarded, "c2")
		}
		before, _ := o.heard()
		_, err = x.run()
		after, _ := o.heard()
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
		if asked, _, err := run(c.path, c.id, named("ann", 7), c.forwarded); asked != c.asked || codeOf(err) != c.code {
			t.Errorf("%s: the leader is asked %d times, %v", name, asked, err)
		}
	}
	inJob := named("ann", 7)
	inJob.Role, inJob.From, inJob.Job = "node", "n1", job // it does not run there, as far as this replica knows
	if asked, _, err := run("/v1/jobs/{id}", fmt.Sprint(job), inJob, false); asked != 1 || err != nil {
		t.Errorf("a process of a job that this replica does not see running: asked %d times, %v", asked, err)
	}
	x := s.request("/v1/jobs", "", "", "")
	if x.headers(); x.w.Header().Get(api.HeaderIndex) != fmt.Sprint(s.Replica.View().Index()) ||
		x.w.Header().Get(api.HeaderStale) != "" {
		t.Errorf("the answer has %v", x.w.Header())
	}
	if _, err := s.of(nil, "").propose(fsm.SetNodeState{Node: "n9", State: model.NodeUp}); err == nil {
		t.Error("a command that the state refuses is no error")
	}
	x.query = url.Values{}
	if err := x.await(x.rt); err != nil || x.after != 0 {
		t.Errorf("what does not wait: %v, after %d", err, x.after)
	}
}

// submitAt submits a job of ann that is held.
func (s *site) submitAt(name string) model.JobID {
	s.t.Helper()
	return s.submit(func(j *jobspec.Job) { j.Name, j.Hold = name, true })
}
