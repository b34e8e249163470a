package controld

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/api/pki"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/recovery"
)

// follower is a node that says itself which generation it follows.
type follower struct {
	*fakeNode
	generation string
}

// at is the node's client of one controller.
func (f *follower) at(s *running) *api.Client {
	f.t.Helper()
	c, err := api.DialWith(s.addrs.HTTP, api.Options{TLS: machineOf(f.t, s.addrs.HTTP, pki.Node, f.node.Name).
		Client(pki.Controller), Any4xx: true, RetryFor: time.Second,
		Header: http.Header{api.HeaderGeneration: {f.generation}}})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(c.Close)
	return c
}

// follow accepts the generation of a controller, and says what it knows.
func (f *follower) follow(s *running, known ...string) {
	f.t.Helper()
	c := f.at(s)
	if _, err := c.Register(f.t.Context(), f.node.Name, api.RegisterRequest{Node: f.node}); err != nil {
		f.t.Fatal(err)
	}
	g, err := c.Generation(f.t.Context(), f.node.Name, f.node.BootID)
	if err != nil {
		f.t.Fatal(err)
	}
	f.generation = g.Generation
	if _, err := f.at(s).AcceptGeneration(f.t.Context(), f.node.Name, api.AcceptGeneration{BootID: f.node.BootID,
		Generation: g.Generation, Known: known, Live: known}); err != nil {
		f.t.Fatal(err)
	}
}

// lostMajority is a cluster of three that has stopped, with three nodes and a job of which an attempt
// runs on n1.
func lostMajority(t *testing.T) (servers []*running, nodes []*follower, runs model.JobID) {
	t.Helper()
	servers = startThree(t, nil)
	for i := range 3 {
		nodes = append(nodes, &follower{newNode(t, servers[0].addrs.HTTP, fmt.Sprintf("n%d", i+1), 1), "0"})
	}
	ctx, cancel := context.WithCancel(t.Context())
	nodes[0].hold = make(chan struct{})
	nodes[0].run(ctx)
	c := servers[0].client(user(1000))
	runs, err := c.Submit(t.Context(), "", job("runs"))
	if err != nil {
		t.Fatal(err)
	}
	waitState(t, c, runs, model.Running)
	for _, n := range nodes[1:] {
		if _, err := n.at(servers[0]).Register(t.Context(), n.node.Name, api.RegisterRequest{Node: n.node}); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range servers {
		c := s.client(user(1000))
		eventually(t, "all nodes at "+s.cfg.Name, func() error {
			list, _, err := c.Nodes(t.Context(), api.Read{})
			if err == nil && len(list.Items) != 3 {
				err = fmt.Errorf("%d nodes", len(list.Items))
			}
			return err
		})
	}
	cancel()
	for _, s := range servers {
		s.stop()
	}
	return servers, nodes, runs
}

// recovered recovers a controller and starts it again.
func recovered(t *testing.T, s *running) (*running, *recovery.Result) {
	t.Helper()
	r, err := recovery.Recover(t.Context(), recovery.Options{DataDir: s.cfg.DataDir, Name: s.cfg.Name, User: "root"})
	if err != nil {
		t.Fatal(err)
	}
	again := start(t, s.cfg)
	again.ready()
	return again, r
}

func generationOf(t *testing.T, s *running) *api.Cluster {
	t.Helper()
	cl, _, err := s.client(user(1000)).Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

// TestTwoOfThreeAreLost: one survivor becomes a cluster of one. Nothing is taken until a majority of the
// nodes follows it; the job goes on in its attempt. The other two come back from before, elect a leader
// among them, and get neither nodes nor jobs.
func TestTwoOfThreeAreLost(t *testing.T) {
	servers, nodes, runs := lostMajority(t)
	one, r := recovered(t, servers[1])
	if r.Generation.Number != 1 || r.Nodes != 3 || r.Live != 1 {
		t.Errorf("recovered: %+v", r)
	}
	quick := func(s *running) *api.Client {
		h := http.Header{}
		identity.Vouch(h, user(1000))
		login := machineOf(t, s.addrs.HTTP, pki.Login, "l1")
		c, err := api.DialWith(s.addrs.HTTP, api.Options{TLS: login.Client(pki.Controller), RetryFor: time.Millisecond,
			Header: h})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	nodes[0].follow(one, fmt.Sprintf("%d.1.0", runs))
	_, err := quick(one).Submit(t.Context(), "", job("early"))
	wantProblem(t, err, api.CodeUnsettled)
	if _, err := nodes[0].at(one).Allocs(t.Context(), "n1", nodes[0].node.BootID, 0, 0, api.Echo{}); err == nil {
		t.Error("one of three nodes gets leases")
	}
	nodes[1].follow(one)
	got, err := nodes[0].at(one).Allocs(t.Context(), "n1", nodes[0].node.BootID, 0, 0, api.Echo{})
	if err != nil || len(got.Allocs) != 1 || got.Allocs[0].Job != runs || got.Allocs[0].Attempt != 1 ||
		got.Generation != r.Generation.String() {
		t.Fatalf("n1 is to run %+v, %v", got, err)
	}
	_, err = nodes[2].at(one).Allocs(t.Context(), "n3", nodes[2].node.BootID, 0, 0, api.Echo{})
	wantProblem(t, err, api.CodeGeneration)
	if _, err := quick(one).Submit(t.Context(), "", job("later")); err != nil {
		t.Error(err)
	}
	if cl := generationOf(t, one); !cl.Generation.Settled || !slices.Equal(cl.Generation.Missing, []string{"n3"}) {
		t.Errorf("rota cluster has %+v", cl.Generation)
	}
	two, three := start(t, servers[0].cfg), start(t, servers[2].cfg)
	two.ready()
	for _, n := range nodes[:2] {
		_, err := n.at(two).Allocs(t.Context(), n.node.Name, n.node.BootID, 0, 0, api.Echo{})
		wantProblem(t, err, api.CodeGeneration)
		_, err = n.at(three).Allocs(t.Context(), n.node.Name, n.node.BootID, 0, 0, api.Echo{})
		wantProblem(t, err, api.CodeGeneration)
	}
	leader, _ := leaderOf(t, []*running{two, three})
	for _, n := range nodes[:2] {
		_, err := n.at(leader).Allocs(t.Context(), n.node.Name, n.node.BootID, 0, 0, api.Echo{})
		wantProblem(t, err, api.CodeGeneration)
	}
	_, err = quick(leader).Submit(t.Context(), "", job("lost"))
	p := wantProblem(t, err, api.CodeGeneration)
	if !strings.Contains(p.Detail, "2 of 3 nodes follow another generation") {
		t.Errorf("the old leader says %q", p.Detail)
	}
	cl := generationOf(t, one)
	if v := slices.DeleteFunc(cl.Controllers, func(c api.Controller) bool { return !c.Voter }); len(v) != 1 ||
		cl.Leader != one.cfg.Name || cl.Generation.Generation != r.Generation.String() {
		t.Errorf("the recovered cluster has %+v", cl)
	}
	if j, _, err := one.client(user(1000)).Job(t.Context(), runs, api.Read{}); err != nil || j.Attempt != 1 {
		t.Errorf("the job: %+v, %v", j, err)
	}
}

// TestTwoSurvivorsRecover: a majority of the nodes decides which of them goes on. The other one says
// that it is refused, and goes on when it is recovered beyond.
func TestTwoSurvivorsRecover(t *testing.T) {
	servers, nodes, _ := lostMajority(t)
	one, _ := recovered(t, servers[0])
	two, r := recovered(t, servers[2])
	for _, n := range nodes[:2] {
		n.follow(one)
	}
	for _, n := range nodes[:2] {
		_, err := n.at(two).Generation(t.Context(), n.node.Name, n.node.BootID)
		p := wantProblem(t, err, api.CodeGeneration)
		if !strings.Contains(p.Detail, "has replaced this controller") || !strings.Contains(p.Hint, "rota-controld recover") {
			t.Errorf("the other one says %q, %q", p.Detail, p.Hint)
		}
	}
	nodes[2].follow(two)
	cl := generationOf(t, two)
	if cl.Generation.Settled || len(cl.RefusedBy) != 2 || !generationOf(t, one).Generation.Settled {
		t.Errorf("the other one has %+v, refused by %+v", cl.Generation, cl.RefusedBy)
	}
	if r.Generation.Number != 1 {
		t.Errorf("it had generation %s", r.Generation)
	}
	one.stop()
	two.stop()
	again, r := recovered(t, two)
	if r.Generation.Number != 2 {
		t.Errorf("recovered again, it has generation %s", r.Generation)
	}
	for _, n := range nodes {
		n.follow(again)
	}
	if cl := generationOf(t, again); !cl.Generation.Settled || len(cl.Generation.Missing) > 0 {
		t.Errorf("it has %+v", cl.Generation)
	}
}

// TestARunningControllerIsNotRecovered, and neither is a directory without a log.
func TestARunningControllerIsNotRecovered(t *testing.T) {
	s := startOne(t)
	o := recovery.Options{DataDir: s.cfg.DataDir, Name: s.cfg.Name}
	if _, err := recovery.Recover(t.Context(), o); err == nil || !strings.Contains(err.Error(), "stop it first") {
		t.Errorf("while it runs: %v", err)
	}
	s.ready()
	s.stop()
	o.Name = "c9"
	if _, err := recovery.Recover(t.Context(), o); err == nil || !strings.Contains(err.Error(), "--name is c9") {
		t.Errorf("under another name: %v", err)
	}
}
