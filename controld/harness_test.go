package controld

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server"
	"github.com/rota-hpc/rota/jobspec"
)

// deadline is how long a test waits for anything.
const deadline = 20 * time.Second

// running is one controller of a test.
type running struct {
	t      testing.TB
	cfg    Config
	addrs  Addresses
	cancel context.CancelFunc
	done   chan error
}

// controller returns the settings of a controller that listens on free ports.
func controller(t testing.TB, name string) Config {
	cfg := DefaultConfig()
	cfg.Name, cfg.DataDir = name, filepath.Join(t.TempDir(), name)
	cfg.HTTP, cfg.Raft, cfg.Gossip, cfg.Socket = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", ""
	cfg.AllowRootJobs, cfg.Loopback = true, "127.0.0.1:0"
	if testing.Verbose() && os.Getenv("ROTA_TEST_LOG") != "" {
		cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("controller", name)
	}
	return cfg
}

// start runs a controller until the test ends or stop is called.
func start(t testing.TB, cfg Config) *running {
	t.Helper()
	makeMember(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	s := &running{t: t, cfg: cfg, cancel: cancel, done: make(chan error, 1)}
	ready := make(chan Addresses, 1)
	s.cfg.Ready = func(a Addresses) { ready <- a }
	go func() { s.done <- Run(ctx, s.cfg) }()
	t.Cleanup(s.stop)
	select {
	case s.addrs = <-ready:
	case err := <-s.done:
		s.done <- err
		t.Fatalf("start %s: %v", cfg.Name, err)
	case <-time.After(deadline):
		t.Fatalf("start %s: it is not ready", cfg.Name)
	}
	// A restart listens where the others know it.
	s.cfg.HTTP, s.cfg.Raft, s.cfg.Gossip = s.addrs.HTTP, s.addrs.Raft, s.addrs.Gossip
	s.cfg.Loopback = s.addrs.Loopback
	known(t, s.addrs, pki.Dir(cfg.DataDir))
	return s
}

// signers are the controllers' credentials of all tests, by the addresses of HTTP and gossip.
var signers sync.Map

// known notes which controller is at some addresses.
func known(t testing.TB, a Addresses, dir string) {
	t.Helper()
	c, err := pki.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	signers.Store(a.HTTP, c)
	signers.Store(a.Gossip, c)
}

// signerOf is the credential of the first controller of a list of addresses.
func signerOf(t testing.TB, addrs string) *pki.Credential {
	t.Helper()
	first, _, _ := strings.Cut(addrs, ",")
	c, ok := signers.Load(first)
	if !ok {
		t.Fatalf("no controller is known at %s", first)
	}
	return c.(*pki.Credential)
}

// makeMember makes a new cluster with a controller that joins no other, and gives any other a
// certificate of the cluster that it joins.
func makeMember(t testing.TB, cfg Config) {
	t.Helper()
	dir := pki.Dir(cfg.DataDir)
	if _, err := pki.Load(dir); !errors.Is(err, pki.ErrNoCredential) {
		return
	}
	var err error
	if len(cfg.Join) == 0 {
		_, err = pki.Init(dir, cfg.Name)
	} else {
		err = signerOf(t, cfg.Join[0]).Issue(dir, pki.Controller, cfg.Name, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// machineOf is the credential of another machine of the cluster that is at some addresses.
func machineOf(t testing.TB, addrs string, r pki.Role, name string) *pki.Credential {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tls")
	if err := signerOf(t, addrs).Issue(dir, r, name, nil); err != nil {
		t.Fatal(err)
	}
	c, err := pki.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// stop ends the controller and waits until it is gone.
func (s *running) stop() {
	s.cancel()
	select {
	case err := <-s.done:
		s.done <- err
		if err != nil {
			s.t.Errorf("controller %s: %v", s.cfg.Name, err)
		}
	case <-time.After(deadline):
		s.t.Errorf("controller %s does not stop", s.cfg.Name)
	}
}

// startThree runs a cluster of three controllers and waits for its leader.
func startThree(t testing.TB, change func(*Config)) []*running {
	t.Helper()
	var servers []*running
	for i := range 3 {
		cfg := controller(t, fmt.Sprintf("c%d", i+1))
		for _, s := range servers {
			cfg.Join = append(cfg.Join, s.addrs.Gossip)
		}
		if change != nil {
			change(&cfg)
		}
		servers = append(servers, start(t, cfg))
	}
	for _, s := range servers {
		c := s.client(user(1000))
		eventually(t, "three voters and a leader at "+s.cfg.Name, func() error {
			cl, _, err := c.Cluster(t.Context())
			if err != nil {
				return err
			}
			voters := 0
			for _, m := range cl.Controllers {
				if m.Voter {
					voters++
				}
			}
			if voters != 3 || cl.Leader == "" {
				return fmt.Errorf("%d voters, leader %q", voters, cl.Leader)
			}
			return nil
		})
	}
	return servers
}

// leaderOf returns the server that leads, and the others.
func leaderOf(t testing.TB, servers []*running) (*running, []*running) {
	t.Helper()
	var leader *running
	var others []*running
	eventually(t, "a leader", func() error {
		cl, _, err := servers[len(servers)-1].client(user(1000)).Cluster(t.Context())
		if err != nil {
			return err
		}
		leader, others = nil, nil
		for _, s := range servers {
			if s.cfg.Name == cl.Leader {
				leader = s
			} else {
				others = append(others, s)
			}
		}
		if leader == nil {
			return fmt.Errorf("leader is %q", cl.Leader)
		}
		return nil
	})
	return leader, others
}

// ready waits until a controller says that it takes writes.
func (s *running) ready() {
	s.t.Helper()
	eventually(s.t, "readiness of "+s.cfg.Name, func() error {
		resp, err := http.Get("http://" + s.addrs.Loopback + "/v1/readyz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	})
}

// user is an account with this uid, as a trusted machine vouches for it.
func user(uid uint32) model.Identity {
	return model.Identity{UID: uid, GID: uid, User: fmt.Sprintf("u%d", uid), Home: "/home/x", GIDs: []uint32{7}}
}

// client talks to this controller for a user. Every answer is held against the OpenAPI document.
func (s *running) client(id model.Identity) *api.Client { return dial(s.t, s.addrs.HTTP, id) }

// dial returns a client for a user of a login node, or for root of a controller's machine.
func dial(t testing.TB, addr string, id model.Identity) *api.Client {
	t.Helper()
	if id.UID == 0 {
		return dialAs(t, addr, id, signerOf(t, addr))
	}
	return dialAs(t, addr, id, machineOf(t, addr, pki.Login, "login"))
}

// dialAs is dial by way of a member, which speaks for itself if no user is named.
func dialAs(t testing.TB, addr string, id model.Identity, as *pki.Credential) *api.Client {
	t.Helper()
	return dialTold(t, addr, id, as, nil)
}

// dialTold is dialAs with a function that is told as which user jobs run, see [api.Options].
func dialTold(
	t testing.TB, addr string, id model.Identity, as *pki.Credential, runAs func(string),
) *api.Client {
	t.Helper()
	h := http.Header{}
	if id.User != "" {
		identity.Vouch(h, id)
	}
	c, err := api.DialWith(addr, api.Options{Header: h, TLS: as.Client(pki.Controller), RunAs: runAs,
		Wrap: func(next http.RoundTripper) http.RoundTripper { return &contract{t: t, next: next} }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// contract is a transport that fails the test when an answer is not what the OpenAPI document says.
type contract struct {
	t    testing.TB
	next http.RoundTripper
}

var apiDocument = sync.OnceValues(server.Document)

// RoundTrip implements http.RoundTripper.
func (c *contract) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if !strings.Contains(resp.Header.Get("Content-Type"), "json") || resp.Request.URL.Path == "/openapi.json" {
		return resp, nil
	}
	b, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	resp.Body = io.NopCloser(strings.NewReader(string(b)))
	if err != nil {
		return resp, nil // cut off: the client will see it
	}
	// With fields, the items of a list have only those; the document describes whole ones.
	if err := conforms(r.Method, r.URL.Path, resp, b); err != nil && r.URL.Query().Get("fields") == "" {
		c.t.Errorf("%s %s answered %d %s\nnot as documented: %v", r.Method, r.URL.Path, resp.StatusCode, b, err)
	}
	if resp.Header.Get(api.HeaderIndex) == "" && resp.StatusCode == http.StatusOK {
		c.t.Errorf("%s %s answered without %s", r.Method, r.URL.Path, api.HeaderIndex)
	}
	return resp, nil
}

// conforms validates one answer against the document.
func conforms(method, path string, resp *http.Response, body []byte) error {
	doc, err := apiDocument()
	if err != nil {
		return err
	}
	op := operationOf(doc, method, path)
	if op == nil {
		if resp.StatusCode == http.StatusNotFound {
			return nil // there is no such route, and it says so
		}
		return errors.New("the operation is not in the document")
	}
	answer, media := op.Responses["200"], "application/json"
	if resp.StatusCode != http.StatusOK {
		answer, media = op.Responses["default"], "application/problem+json"
	}
	if got := resp.Header.Get("Content-Type"); got != media {
		return fmt.Errorf("content type %q, want %q", got, media)
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return err
	}
	var result huma.ValidateResult
	huma.Validate(doc.Components.Schemas, answer.Content[media].Schema, huma.NewPathBuffer(nil, 0),
		huma.ModeReadFromServer, value, &result)
	return errors.Join(result.Errors...)
}

// operationOf finds the operation that serves a path, a literal one first.
func operationOf(doc *huma.OpenAPI, method, path string) *huma.Operation {
	var found *huma.Operation
	for pattern, item := range doc.Paths {
		op := map[string]*huma.Operation{http.MethodGet: item.Get, http.MethodPost: item.Post}[method]
		if op == nil || !matches(pattern, path) {
			continue
		}
		if found == nil || !strings.Contains(pattern, "{") {
			found = op
		}
	}
	return found
}

func matches(pattern, path string) bool {
	a, b := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] && !strings.HasPrefix(a[i], "{") {
			return false
		}
	}
	return true
}

// eventually waits until f returns nil.
func eventually(t testing.TB, what string, f func() error) {
	t.Helper()
	limit := time.After(deadline)
	tick := time.NewTicker(25 * time.Millisecond) // a user may ask 50 times a second
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-limit:
			t.Fatalf("waiting for %s: %v", what, err)
		case <-tick.C:
		}
	}
}

// job is a small job.
func job(name string) *jobspec.Job {
	return &jobspec.Job{Name: name, Workdir: "/tmp", Groups: []jobspec.Group{{
		Name: "main", Tasks: []jobspec.Task{{Name: "main", Command: []string{"true"},
			Resources: jobspec.Resources{Cores: 1, Memory: jobspec.GiB}}},
	}}}
}

// wantProblem fails unless err is a problem with this code, and returns it.
func wantProblem(t testing.TB, err error, code string) *api.Problem {
	t.Helper()
	var p *api.Problem
	if !errors.As(err, &p) || p.Code != code {
		t.Fatalf("got %v, want a problem with code %q", err, code)
	}
	if p.Detail == "" || p.Title == "" || p.Type == "" || p.Status < 400 {
		t.Errorf("problem %+v is not complete", p)
	}
	return p
}

// fakeNode speaks the node protocol and finishes every worker at once, or when let go.
type fakeNode struct {
	t      testing.TB
	c      *api.Client
	node   model.Node
	hold   chan struct{} // commands end when it is closed; nil: at once
	echo   api.Echo
	mu     sync.Mutex
	starts map[string]int // by job.attempt.worker
}

func newNode(t testing.TB, addr, name string, gpus int) *fakeNode {
	n := &fakeNode{t: t, c: dialAs(t, addr, model.Identity{}, machineOf(t, addr, pki.Node, name)),
		starts: map[string]int{}}
	n.node = model.Node{Name: name, Addr: "127.0.0.1:1", BootID: "boot-" + name, Version: "test", Cores: 64,
		Memory:     256 * jobspec.GiB,
		SharedPath: []string{"/tmp"}, PortMin: 20000, PortMax: 20999}
	for i := range gpus {
		n.node.GPUs = append(n.node.GPUs, model.GPU{UUID: fmt.Sprintf("GPU-SIM-%s-%d", name, i), Model: "Simulated",
			Memory: 80 * jobspec.GiB,
			Minor:  -1, Healthy: true})
	}
	return n
}

// run registers and serves until the test ends.
func (n *fakeNode) run(ctx context.Context) {
	if _, err := n.c.Register(ctx, n.node.Name, api.RegisterRequest{Node: n.node}); err != nil {
		n.t.Fatalf("register %s: %v", n.node.Name, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	n.t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		var after uint64
		for ctx.Err() == nil {
			after = n.step(ctx, after)
		}
	}()
}

func (n *fakeNode) step(ctx context.Context, after uint64) uint64 {
	got, err := n.c.Allocs(ctx, n.node.Name, n.node.BootID, after, time.Second, n.echo)
	if err != nil || got.LeaseMS <= 0 {
		return after // between two leaders
	}
	if n.echo.Sent = got.Sent; got.Witnesses != nil {
		n.echo.Witnesses = got.Witnesses.Key()
	}
	var reports []model.WorkerReport
	for _, a := range got.Allocs {
		if r, ok := n.react(a); ok {
			reports = append(reports, r)
		}
	}
	if len(reports) > 0 {
		if _, err := n.c.Report(ctx, n.node.Name, api.ReportRequest{BootID: n.node.BootID, Workers: reports}); err != nil {
			return after
		}
	}
	if n.hold != nil && len(got.Allocs) > 0 {
		select {
		case <-n.hold:
			return 0 // look again: what was held back ends now
		default:
		}
	}
	return got.Index
}

// react says what became of one worker.
func (n *fakeNode) react(a api.Alloc) (model.WorkerReport, bool) {
	r := model.WorkerReport{Job: a.Job, Attempt: a.Attempt, Worker: a.Worker, State: model.WorkerCreated}
	n.mu.Lock()
	n.starts[fmt.Sprintf("%d.%d.%d", a.Job, a.Attempt, a.Worker)]++
	n.mu.Unlock()
	switch {
	case a.Stop != nil:
		r.State, r.Signal = model.WorkerExited, 15
	case !a.Released:
	case n.hold == nil:
		r.State = model.WorkerExited
	default:
		r.State = model.WorkerRunning
		select {
		case <-n.hold:
			r.State = model.WorkerExited
		default:
		}
	}
	return r, true
}

// controlled returns the error of [api.Client.Control] alone.
func controlled(_ *api.ControlResponse, err error) error { return err }
