// Package servertest has what the tests of the API's rooms share. It has a leader with jobs in several
// states, and a node and another controller that answer as a test says.
package servertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/api/stream"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/history"
	"github.com/rota-hpc/rota/controld/member"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/peers"
	"github.com/rota-hpc/rota/controld/replica"
	"github.com/rota-hpc/rota/controld/server/problem"
	"github.com/rota-hpc/rota/jobspec"
)

// Patience is how long a test waits for what must happen.
const Patience = 20 * time.Second

// Links are the connections between replicas.
type Links struct {
	mu   sync.Mutex
	down bool
	open []net.Conn
}

// dial is a consensus.Dialer.
func (l *Links) dial(ctx context.Context, to consensus.Member) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", to.Addr)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && l.down {
		return nil, errors.Join(errors.New("the link is cut"), c.Close())
	}
	if err == nil {
		l.open = append(l.open, c)
	}
	return c, err
}

// Cut breaks all links for good.
func (l *Links) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for _, c := range l.open {
		c.Close()
	}
}

// Leading opens n replicas and returns the one that leads.
func Leading(t *testing.T, n int, between *Links) *replica.Replica {
	t.Helper()
	var replicas []*replica.Replica
	var members []consensus.Member
	for i := range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		cfg := consensus.DefaultConfig()
		cfg.Name, cfg.Dir, cfg.Addr = fmt.Sprintf("c%d", i+1), t.TempDir(), ln.Addr().String()
		cfg.Listener, cfg.Dial = ln, between.dial
		// so long, that a leader that was cut off believes for a while that it leads
		cfg.Heartbeat, cfg.Election, cfg.LeaderLease = time.Second, time.Second, time.Second
		if n == 1 { // it is cut off from none, and the test need not wait for its election
			cfg.Heartbeat, cfg.Election, cfg.LeaderLease = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
		}
		r, err := replica.Open(cfg, prometheus.NewRegistry())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Abort() })
		replicas, members = append(replicas, r), append(members, r.Self())
	}
	for _, r := range replicas {
		if err := r.Bootstrap(members); err != nil && !errors.Is(err, consensus.ErrBootstrapped) {
			t.Fatal(err)
		}
	}
	var leader *replica.Replica
	for begin := time.Now(); leader == nil; time.Sleep(5 * time.Millisecond) {
		for _, r := range replicas {
			if r.IsLeader() && r.Verify(t.Context()) == nil {
				leader = r
			}
		}
		if time.Since(begin) > Patience {
			t.Fatal("no replica leads")
		}
	}
	go func() { _ = leader.Watch(t.Context()) }()
	leader.StartClock()
	leader.StartLeading()
	return leader
}

// Boot registers a node with a boot id.
func Boot(t *testing.T, r *replica.Replica, node, id string) {
	t.Helper()
	n := model.Node{Name: node, Addr: "127.0.0.1:1", BootID: id, Cores: 4,
		Memory: 8 * jobspec.GiB}
	if _, err := r.Propose(t.Context(), fsm.RegisterNode{Node: n}); err != nil {
		t.Fatal(err)
	}
}

// Site is a leader with node n1, which answers as a test says, and jobs in several states.
type Site struct {
	Leader *replica.Replica
	Store  *history.Store  // its history
	Keys   *pki.Credential // of controller c1; nil for a small site
	Nodes  *http.Client    // to nodes; nil for a small site

	// Jobs of ann. The gang and the steps job run, leaving is asked to stop.
	Gang, Pending, Ended, Array, Leaving, Steps model.JobID

	t      *testing.T
	mu     sync.Mutex
	status int    // that the node answers with
	body   string // of its answer
	asked  []string
	other  func(w http.ResponseWriter, path string) bool // answers in place of these, if it is set and says so
}

// Small is a leader with an empty history, without jobs and nodes.
func Small(t *testing.T) *Site {
	t.Helper()
	store, err := history.Open(filepath.Join(t.TempDir(), "history.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return &Site{Leader: Leading(t, 1, &Links{}), Store: store, t: t, status: http.StatusNoContent}
}

// New starts the node, and has the gang and the steps job run, leaving be asked to stop.
func New(t *testing.T) *Site {
	t.Helper()
	s := Small(t)
	dir := t.TempDir()
	member := func(name string, make func(dir string) error) *pki.Credential {
		at := filepath.Join(dir, name)
		if err := make(at); err != nil {
			t.Fatal(err)
		}
		c, err := pki.Load(at)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	s.Keys = member("c1", func(dir string) error { _, err := pki.Init(dir, "c1"); return err })
	node := member("n1", func(dir string) error { return s.Keys.Issue(dir, pki.Node, "n1", nil) })
	s.Nodes = &http.Client{Transport: &http.Transport{TLSClientConfig: s.Keys.Client(pki.Node)}}
	listener := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.asked = append(s.asked, fmt.Sprintf("%s %s %s", r.Method, r.URL.RequestURI(), text))
		status, body, other := s.status, s.body, s.other
		s.mu.Unlock()
		if other != nil && other(w, r.URL.Path) {
			return
		}
		if status == http.StatusSwitchingProtocols {
			s.stream(w)
			return
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	listener.TLS = node.Server(pki.Controller)
	listener.StartTLS()
	t.Cleanup(listener.Close)
	for name, addr := range map[string]string{"n1": strings.TrimPrefix(listener.URL, "https://"),
		"n2": strings.TrimPrefix(listener.URL, "https://"), "n3": ""} {
		s.Do(fsm.RegisterNode{Node: model.Node{Name: name, Addr: addr, BootID: "b" + name, Cores: 8,
			Memory: 32 * jobspec.GiB}})
	}
	s.submitJobs()
	return s
}

// submitJobs has jobs in several states.
func (s *Site) submitJobs() {
	s.t.Helper()
	s.Gang = s.Submit(func(j *jobspec.Job) { j.Groups[0].Count, j.Groups[0].MaxWorkersPerNode = 2, 2 })
	s.Pending = s.Submit(func(j *jobspec.Job) { j.Hold = true })
	s.Ended, s.Leaving = s.Submit(nil), s.Submit(nil)
	s.Steps = s.Submit(func(j *jobspec.Job) {
		j.Groups[0].Tasks[0].Launch = &jobspec.Launch{Type: jobspec.LaunchSteps}
		j.Groups[0].Count, j.Groups[0].MaxWorkersPerNode = 2, 2
	})
	s.Array = s.Submit(func(j *jobspec.Job) { j.Array = &jobspec.Array{Indices: "5-7"} })
	s.Begin(s.Gang, "n1", "n1")
	s.Begin(s.Steps, "n1", "n1")
	s.Begin(s.Leaving, "n1")
	for _, id := range []model.JobID{s.Ended, s.Leaving} {
		s.Do(fsm.ControlJobs{Verb: model.VerbCancel, Targets: []fsm.Target{{ID: id}}, By: 7})
	}
}

// stream is a stream of the node: it says what it has heard, until that is "end".
func (s *Site) stream(w http.ResponseWriter) {
	conn, rest, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.t.Error(err)
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", stream.Protocol)
	for {
		line, err := rest.ReadString('\n')
		if err != nil || line == "end\n" {
			return
		}
		_, _ = io.WriteString(conn, "node heard "+line)
	}
}

// Do has a command carried out, and returns what the state answers.
func (s *Site) Do(c fsm.Command) any {
	s.t.Helper()
	got, err := s.Leader.Propose(s.t.Context(), c)
	if err != nil {
		s.t.Fatalf("%s: %v", c.Kind(), err)
	}
	return got
}

// Submit submits a job of ann.
func (s *Site) Submit(edit func(*jobspec.Job)) model.JobID {
	s.t.Helper()
	spec := &jobspec.Job{Name: "j", Groups: []jobspec.Group{{Name: "main", Count: 1, Tasks: []jobspec.Task{{Name: "main",
		Command: []string{"true"}, Resources: jobspec.Resources{Cores: 1, Memory: jobspec.GiB}}}}}}
	if edit != nil {
		edit(spec)
	}
	return s.Do(fsm.SubmitJobs{Owner: model.Identity{UID: 7, User: "ann"}, Jobs: []*jobspec.Job{spec}}).([]model.JobID)[0]
}

// SubmitAt submits a job of ann that is held.
func (s *Site) SubmitAt(name string) model.JobID {
	s.t.Helper()
	return s.Submit(func(j *jobspec.Job) { j.Name, j.Hold = name, true })
}

// Bobs submits a job of bob.
func (s *Site) Bobs(account string) model.JobID {
	s.t.Helper()
	return s.Do(fsm.SubmitJobs{Owner: model.Identity{UID: 8, User: "bob"}, Jobs: []*jobspec.Job{{Name: "b",
		Account: account, Groups: []jobspec.Group{{Name: "m", Count: 1, Tasks: []jobspec.Task{{Name: "m",
			Command: []string{"true"}, Resources: jobspec.Resources{Cores: 1,
				Memory: jobspec.GiB}}}}}}}}).([]model.JobID)[0]
}

// Begin has all workers of a job run.
func (s *Site) Begin(id model.JobID, nodes ...string) {
	s.t.Helper()
	var places []model.Place
	for _, n := range nodes {
		places = append(places, model.Place{Node: n})
	}
	if errs := s.Do(fsm.CommitPlan{Actions: []fsm.Action{&fsm.StartJob{Job: id,
		Places: places}}}).([]error); errs[0] != nil {
		s.t.Fatal(errs)
	}
	s.All(id, model.WorkerRunning)
}

// All reports a state of all workers of a job's attempt.
func (s *Site) All(id model.JobID, state model.WorkerState) {
	a := s.Leader.View().Job(id).Live()
	for i := range a.Workers {
		s.Do(fsm.NodeReport{Node: a.Workers[i].Node, BootID: "b" + a.Workers[i].Node, Workers: []model.WorkerReport{{Job: id,
			Attempt: a.N, Worker: i, State: state}}})
	}
}

// Private makes parts of the cluster private.
func (s *Site) Private(words ...string) {
	s.t.Helper()
	cfg := *s.Leader.View().Config()
	cfg.Private = words
	s.Do(fsm.SetConfig{Config: cfg})
}

// Answers says what the node answers, and forgets what it was asked.
func (s *Site) Answers(status int, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.body, s.asked, s.other = status, body, nil, nil
}

// AnswersOtherwise has f answer where it says so.
func (s *Site) AnswersOtherwise(f func(w http.ResponseWriter, path string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.other = f
}

// Heard returns what the node was asked since.
func (s *Site) Heard() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// Other is another controller, which leads. It answers as a test says.
type Other struct {
	*httptest.Server
	mu     sync.Mutex
	answer http.HandlerFunc
	asked  []*http.Request
	bodies []string
}

// Says sets what it answers, and forgets what it was asked.
func (o *Other) Says(f http.HandlerFunc) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.answer, o.asked, o.bodies = f, nil, nil
}

// Heard returns what it was asked since, and the bodies.
func (o *Other) Heard() ([]*http.Request, []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.asked), slices.Clone(o.bodies)
}

// Following has the leader of a small site follow another machine c1 under the name c9. It returns the other
// one, and the list of controllers in which c9 knows it.
func (s *Site) Following() (*Other, *peers.Peers) {
	t := s.t
	t.Helper()
	o := &Other{}
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
	text := fmt.Sprintf(`[{"name":"c1","http":%q,"raft":"r:1","gossip":"g:1"}]`, strings.TrimPrefix(o.URL, "https://"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	known := peers.New("c9", &member.List{}, nil, o.Client(), file, true, slog.New(slog.DiscardHandler))
	ctx, end := context.WithCancel(t.Context())
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		_ = known.Watch(ctx)
	}()
	t.Cleanup(func() { end(); <-watching })
	for begin := time.Now(); len(known.All()) == 0; time.Sleep(time.Millisecond) {
		if time.Since(begin) > Patience {
			t.Fatal("the other controller is not known")
		}
	}
	s.Leader.StopLeading()
	return o, known
}

// Named is a user that is known by the kernel.
func Named(name string, uid uint32) *identity.Caller {
	return &identity.Caller{User: model.Identity{User: name, UID: uid}}
}

// Config is the initial configuration with an operator, an admin and a coordinator.
func Config(private ...string) cluster.Config {
	cfg := cluster.InitialConfig()
	cfg.Operators, cfg.Admins, cfg.Private = []string{"ops"}, []string{"adm"}, private
	cfg.Accounts = map[string]cluster.Account{"science": {Coordinators: []string{"coo"}}, "physics": {Parent: "science",
		Users: map[string]cluster.Terms{"ann": {}}}, "other": {Users: map[string]cluster.Terms{"bob": {}}}}
	return cfg
}

// statuses are those that a code may come with, as api.go documents them; others say more of what went wrong.
var statuses = map[string][]int{api.CodeInvalid: {400, 415, 422}, api.CodeInvalidJob: {422}, api.CodeNotFound: {404},
	api.CodeDenied: {403, 421}, api.CodeUnauthorised: {401}, api.CodeKeyReused: {409}, api.CodeWrongState: {409},
	api.CodeTooLarge: {413}, api.CodeNoLeader: {503}, api.CodeGeneration: {421}, api.CodeUnsettled: {503},
	api.CodeInternal: {400, 404, 500, 502}, api.CodeUncertain: {503}, api.CodeTimeout: {504}, api.CodeBusy: {503},
	api.CodeLimit: {429}}

// CodeOf is the code of a refusal, "" of none. A refusal that has no text, or another status than its code comes
// with, has none of the codes.
func CodeOf(err error) string {
	if err == nil {
		return ""
	}
	p := problem.Of(err)
	if !slices.Contains(statuses[p.Code], p.Status) || p.Detail == "" {
		return fmt.Sprintf("%s with status %d and %q", p.Code, p.Status, p.Detail)
	}
	return p.Code
}

// WantCode fails the test unless an error is a refusal with a code.
func WantCode(t *testing.T, err error, code string) {
	t.Helper()
	if p := new(api.Problem); !errors.As(err, &p) || CodeOf(err) != code {
		t.Errorf("got %v, %s, want %s", err, CodeOf(err), code)
	}
}
