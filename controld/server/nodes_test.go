package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/replica"
	"github.com/rota-hpc/rota/controld/telemetry"
	"github.com/rota-hpc/rota/jobspec"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// links are the connections between replicas.
type links struct {
	mu   sync.Mutex
	down bool
	open []net.Conn
}

// dial is a consensus.Dialer.
func (l *links) dial(ctx context.Context, to consensus.Member) (net.Conn, error) {
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

// cut breaks all links for good.
func (l *links) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = true
	for _, c := range l.open {
		c.Close()
	}
}

// leading opens n replicas and returns a server on the one that leads.
func leading(t *testing.T, n int, between *links) *Server {
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
		t.Cleanup(func() { r.Abort() })
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
		if time.Since(begin) > patience {
			t.Fatal("no replica leads")
		}
	}
	go leader.Watch(t.Context())
	leader.StartClock()
	leader.StartLeading()
	s := &Server{Config: Config{Replica: leader, Contacts: &telemetry.Contacts{}, Touch: &telemetry.Touch{},
		Log: slog.New(slog.DiscardHandler)}, alive: t.Context()}
	s.Contacts.Restart(time.Now())
	return s
}

// boot registers a node with a boot id.
func boot(t *testing.T, s *Server, node, id string) {
	t.Helper()
	n := model.Node{Name: node, Addr: "127.0.0.1:1", BootID: id, Cores: 4,
		Memory: 8 * jobspec.GiB}
	if _, err := s.Replica.Propose(t.Context(), fsm.RegisterNode{Node: n}); err != nil {
		t.Fatal(err)
	}
}

// askAllocs is what a node asks for with its boot id.
func askAllocs(t *testing.T, s *Server, node, bootID string, after uint64, wait string) (*api.NodeAllocs, error) {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/nodes/"+node+"/allocs", nil)
	r.SetPathValue("name", node)
	return allocs(&exchange{s: s, r: r, w: httptest.NewRecorder(), view: s.Replica.View(),
		query: url.Values{"boot_id": {bootID}, "after": {fmt.Sprint(after)}, "wait": {wait}}})
}

// TestALeaderWithoutAQuorumRenewsNoLease cuts the leader off and asks it before it notices. It
// notices that allocs does not call Verify: the answer of such a leader renews leases, while the
// others may have elected a leader that ends the same attempts.
func TestALeaderWithoutAQuorumRenewsNoLease(t *testing.T) {
	between := &links{}
	s := leading(t, 3, between)
	boot(t, s, "n1", "b1")
	if a, err := askAllocs(t, s, "n1", "b1", 0, ""); err != nil || a.LeaseMS == 0 {
		t.Fatalf("with a quorum: %+v, %v", a, err)
	}
	between.cut()
	if a, err := askAllocs(t, s, "n1", "b1", 0, ""); err == nil {
		t.Errorf("a leader without a quorum renews leases: %+v", a)
	}
}

// TestALongPollOfAnEarlierBootIsRefused registers a node anew while a poll of its old boot waits. It
// notices that the boot id is not checked again after the long poll: the old daemon would be told to
// run what is meant for the new one, and its leases would be renewed.
func TestALongPollOfAnEarlierBootIsRefused(t *testing.T) {
	s := leading(t, 1, &links{})
	boot(t, s, "n1", "b1")
	answered := make(chan error, 1)
	go func() {
		_, err := askAllocs(t, s, "n1", "b1", s.Replica.View().NodeModified("n1"), "20s")
		answered <- err
	}()
	for begin := time.Now(); s.Contacts.Seen("n1").IsZero(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > patience {
			t.Fatal("the poll does not begin")
		}
	}
	boot(t, s, "n1", "b2")
	select {
	case err := <-answered:
		wantCode(t, err, api.CodeWrongState)
	case <-time.After(patience):
		t.Fatal("the poll goes on although the node was booted anew")
	}
	if _, err := askAllocs(t, s, "n1", "b2", 0, ""); err != nil {
		t.Errorf("the new boot: %v", err)
	}
}

// TestAnotherMachineIsNotHeardOf registers a clone of a node that is down and may still run a job. It
// notices that the clone counts as the node: then the leader would have that up again, and tell the clone
// to run the job.
func TestAnotherMachineIsNotHeardOf(t *testing.T) {
	s := leading(t, 1, &links{})
	boot(t, s, "n1", "b1")
	owner := model.Identity{UID: 1000, User: "u1000"}
	spec := &jobspec.Job{Name: "j", Groups: []jobspec.Group{{Count: 1, Tasks: []jobspec.Task{{Command: []string{"true"},
		Resources: jobspec.Resources{Cores: 1, Memory: jobspec.GiB}}}}}}
	for _, c := range []fsm.Command{
		fsm.SubmitJobs{Owner: owner, Jobs: []*jobspec.Job{spec}},
		fsm.CommitPlan{Actions: []fsm.Action{&fsm.StartJob{Job: 1, Places: []model.Place{{Node: "n1"}}}}},
		fsm.SetNodeState{Node: "n1", BootID: "b1", State: model.NodeDown, Reason: "silent"},
	} {
		if _, err := s.Replica.Propose(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	clone := model.Node{Name: "n1", Addr: "127.0.0.1:1", BootID: "b2", Machine: "another", Cores: 4,
		Memory: 8 * jobspec.GiB}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/nodes/n1/register", nil)
	r.SetPathValue("name", "n1")
	x := &exchange{s: s, r: r, w: httptest.NewRecorder(), view: s.Replica.View()}
	_, err := register(x, &api.RegisterRequest{Node: clone})
	wantCode(t, err, api.CodeWrongState)
	for _, word := range []string{"n1", "b1", "lease may last another 10m", "--name"} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the refusal does not say %q: %v", word, err)
		}
	}
	if seen := s.Contacts.Seen("n1"); !seen.IsZero() {
		t.Errorf("the node counts as heard of at %v", seen)
	}
	if n, _ := s.Replica.View().Node("n1"); n.State != model.NodeDown || n.BootID != "b1" {
		t.Errorf("the node is %+v", n)
	}
}

// TestANodeReportsItsOwnWorkersOnly has a node report the end of a worker of another
// node. It notices that a report is accepted from a node that the worker is not on.
func TestANodeReportsItsOwnWorkersOnly(t *testing.T) {
	s := leading(t, 1, &links{})
	boot(t, s, "n1", "b1")
	boot(t, s, "n2", "b2")
	owner := model.Identity{UID: 1000, User: "u1000"}
	spec := &jobspec.Job{Name: "j", Groups: []jobspec.Group{{Count: 1, Tasks: []jobspec.Task{{Command: []string{"true"},
		Resources: jobspec.Resources{Cores: 1, Memory: jobspec.GiB}}}}}}
	ids, err := s.Replica.Propose(t.Context(), fsm.SubmitJobs{Owner: owner, Jobs: []*jobspec.Job{spec}})
	if err != nil {
		t.Fatal(err)
	}
	id := ids.([]model.JobID)[0]
	refusals, err := s.Replica.Propose(t.Context(), fsm.CommitPlan{Actions: []fsm.Action{&fsm.StartJob{Job: id,
		Places: []model.Place{{Node: "n1"}}}}})
	if err != nil || refusals.([]error)[0] != nil {
		t.Fatal(refusals, err)
	}
	say := func(node, bootID string) *model.Job {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/nodes/"+node+"/report", nil)
		r.SetPathValue("name", node)
		x := &exchange{s: s, r: r, w: httptest.NewRecorder(), view: s.Replica.View()}
		_, err := report(x, &api.ReportRequest{BootID: bootID, Workers: []model.WorkerReport{{Job: id, Attempt: 1,
			State: model.WorkerExited}}})
		if err != nil {
			t.Fatal(err)
		}
		return x.view.Job(id)
	}
	if j := say("n2", "b2"); j.State != model.Configuring {
		t.Errorf("a node that the worker is not on says that it has ended, and the job is %s", j.State)
	}
	if j := say("n1", "b1"); j.State != model.Completed {
		t.Errorf("its own node says that it has ended, and the job is %s", j.State)
	}
}
