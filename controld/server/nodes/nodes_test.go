package nodes

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/identity"
	"github.com/rota-hpc/rota/controld/earlystop"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/exchange/exchangetest"
	"github.com/rota-hpc/rota/controld/server/servertest"
	"github.com/rota-hpc/rota/controld/telemetry"
	"github.com/rota-hpc/rota/jobspec"
)

// askAllocs is what a node asks for with its boot id.
func askAllocs(t *testing.T, s *site, node, bootID string, after uint64, wait string) (*api.NodeAllocs, error) {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/nodes/"+node+"/allocs", nil)
	r.SetPathValue("name", node)
	return s.allocs(exchangetest.On(s.Service, r, url.Values{"boot_id": {bootID}, "after": {fmt.Sprint(after)},
		"wait": {wait}}))
}

// TestALeaderWithoutAQuorumRenewsNoLease cuts the leader off and asks it before it notices. It
// notices that allocs does not call Verify: the answer of such a leader renews leases, while the
// others may have elected a leader that ends the same attempts.
func TestALeaderWithoutAQuorumRenewsNoLease(t *testing.T) {
	between := &servertest.Links{}
	s := leading(t, servertest.Leading(t, 3, between))
	servertest.Boot(t, s.Replica, "n1", "b1")
	if a, err := askAllocs(t, s, "n1", "b1", 0, ""); err != nil || a.LeaseMS == 0 {
		t.Fatalf("with a quorum: %+v, %v", a, err)
	}
	between.Cut()
	if a, err := askAllocs(t, s, "n1", "b1", 0, ""); err == nil {
		t.Errorf("a leader without a quorum renews leases: %+v", a)
	}
}

// TestALongPollOfAnEarlierBootIsRefused registers a node anew while a poll of its old boot waits. It
// notices that the boot id is not checked again after the long poll: the old daemon would be told to
// run what is meant for the new one, and its leases would be renewed.
func TestALongPollOfAnEarlierBootIsRefused(t *testing.T) {
	s := leading(t, servertest.Leading(t, 1, &servertest.Links{}))
	servertest.Boot(t, s.Replica, "n1", "b1")
	answered := make(chan error, 1)
	go func() {
		_, err := askAllocs(t, s, "n1", "b1", s.Replica.View().NodeModified("n1"), "20s")
		answered <- err
	}()
	for begin := time.Now(); s.Contacts.Seen("n1").IsZero(); time.Sleep(time.Millisecond) {
		if time.Since(begin) > servertest.Patience {
			t.Fatal("the poll does not begin")
		}
	}
	servertest.Boot(t, s.Replica, "n1", "b2")
	select {
	case err := <-answered:
		servertest.WantCode(t, err, api.CodeWrongState)
	case <-time.After(servertest.Patience):
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
	s := leading(t, servertest.Leading(t, 1, &servertest.Links{}))
	servertest.Boot(t, s.Replica, "n1", "b1")
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
	x := exchangetest.On(s.Service, r, nil)
	_, err := s.register(x, &api.RegisterRequest{Node: clone})
	servertest.WantCode(t, err, api.CodeWrongState)
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
	s := leading(t, servertest.Leading(t, 1, &servertest.Links{}))
	servertest.Boot(t, s.Replica, "n1", "b1")
	servertest.Boot(t, s.Replica, "n2", "b2")
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
		x := exchangetest.On(s.Service, r, nil)
		_, err := s.report(x, &api.ReportRequest{BootID: bootID, Workers: []model.WorkerReport{{Job: id, Attempt: 1,
			State: model.WorkerExited}}})
		if err != nil {
			t.Fatal(err)
		}
		return x.View.Job(id)
	}
	if j := say("n2", "b2"); j.State != model.Configuring {
		t.Errorf("a node that the worker is not on says that it has ended, and the job is %s", j.State)
	}
	if j := say("n1", "b1"); j.State != model.Completed {
		t.Errorf("its own node says that it has ended, and the job is %s", j.State)
	}
}

// TestWhatAReportLeaves: rows that are taken, rows that are refused, and samples of the attempt that runs.
func TestWhatAReportLeaves(t *testing.T) {
	s := newSite(t)
	s.Arrays = &earlystop.Arrays{}
	rows := []model.WorkerReport{{Job: s.Gang, Attempt: 1, Worker: 0, State: model.WorkerRunning},
		{Job: s.Gang, Attempt: 1, Worker: 9, State: model.WorkerRunning}}
	sample := func(id model.JobID, attempt int, step int64) api.Sample {
		return api.Sample{Job: id, Attempt: attempt, Step: step, Saved: 4, Metrics: map[string]float64{"loss": 2.5},
			Problem: "p"}
	}
	resp, err := s.report(s.Of(nil, "n1"), &api.ReportRequest{BootID: "bn1", Workers: rows,
		Samples: []api.Sample{sample(s.Gang, 1, 7), sample(s.Steps, 2, 8), sample(777, 1, 9)}})
	if err != nil || resp.Index != s.Replica.View().Index() || len(resp.Refused) > 1 {
		t.Fatalf("%+v, %v", resp, err)
	}
	if p := s.Samples.Of(s.Gang); p.Attempt != 1 || p.Step != 7 || p.Saved != 4 || p.Metrics["loss"] != 2.5 ||
		p.Problem != "p" {
		t.Errorf("the sample of the attempt that runs: %+v", p)
	}
	for _, id := range []model.JobID{s.Steps, 777} {
		if p := s.Samples.Of(id); p.Step != 0 {
			t.Errorf("a sample of another attempt of job %d is kept: %+v", id, p)
		}
	}
	before := s.Replica.View().Index()
	resp, err = s.report(s.Of(nil, "n1"), &api.ReportRequest{BootID: "bn1", Samples: []api.Sample{sample(s.Gang, 1, 9)}})
	if err != nil || s.Replica.View().Index() != before || resp.Index != before || s.Samples.Of(s.Gang).Step != 9 {
		t.Errorf("samples alone: %+v, %v, the log at %d", resp, err, s.Replica.View().Index())
	}
	for name, n := range map[string]int{"as many": 20_000, "one more": 20_001} {
		for what, req := range map[string]*api.ReportRequest{"workers": {Workers: make([]model.WorkerReport, n)},
			"samples": {Samples: make([]api.Sample, n)}, "steps": {Steps: make([]model.StepReport, n)}} {
			req.BootID = "another" // so that it is refused after its length
			if _, err := s.report(s.Of(nil, "n1"), req); (servertest.CodeOf(err) == api.CodeInvalid) != (n > 20_000) {
				t.Errorf("%s %s: %v", name, what, err)
			}
		}
	}
	got, err := s.allocs(s.Node("n1"))
	v := s.Replica.View()
	if err != nil || got.Index != v.Index() || got.LeaseMS != v.Config().LeaseMS || got.LeaseMS == 0 ||
		got.Generation != "0" || len(got.Allocs) != 5 || got.Now == 0 || got.Sent == "" {
		t.Errorf("%+v, %v", got, err)
	}
	gone, end := context.WithCancel(t.Context())
	end()
	x := s.Node("n1")
	x.Query["wait"], x.Query["after"] = []string{"30s"}, []string{fmt.Sprint(v.NodeModified("n1"))}
	x.Request = x.Request.WithContext(gone)
	if err := s.awaitNode(x, "n1"); err == nil {
		t.Error("a node that has left is answered")
	}
	s.Do(fsm.SetNodeState{Node: "n3", State: model.NodeDown, Reason: "silent"})
	if err := s.awaitUp(x, "n3"); err == nil || servertest.CodeOf(err) == api.CodeNoLeader {
		t.Errorf("a node that has left, and is down: %v", err)
	}
}

// TestGPUsOfHiddenJobs are shown as held, and not by which job.
func TestGPUsOfHiddenJobs(t *testing.T) {
	s := newSite(t)
	s.Do(fsm.RegisterNode{Node: model.Node{Name: "g", Addr: "127.0.0.1:1", BootID: "bg", Cores: 8, Memory: 8 * jobspec.GiB,
		GPUs: []model.GPU{{UUID: "a", Memory: jobspec.GiB, Healthy: true}, {UUID: "b", Memory: jobspec.GiB, Healthy: true}}}})
	id := s.Submit(func(j *jobspec.Job) { j.Groups[0].Tasks[0].Resources.GPUs = 1 })
	if errs := s.Do(fsm.CommitPlan{Actions: []fsm.Action{&fsm.StartJob{Job: id, Places: []model.Place{{Node: "g",
		GPUs: []int{1}}}}}}).([]error); errs[0] != nil {
		t.Fatal(errs)
	}
	s.Private(cluster.PrivateJobs)
	n, at := s.Replica.View().Node("g")
	for user, c := range map[*identity.Caller]model.JobID{servertest.Named("ann", 7): id, servertest.Named("bob", 8): 0} {
		x := s.Routed("GET", "/v1/nodes", user, "", "", "")
		got := presentNode(x, n, at)
		if got.GPUs[0].Job != 0 || got.GPUs[1].Job != c || got.GPUsUsed != 1 || (len(got.Jobs) == 1) != (c != 0) {
			t.Errorf("%s sees GPUs %+v of jobs %v", user.User.User, got.GPUs, got.Jobs)
		}
	}
}

// TestWhatMakesAnotherInventory: anything but the state, and the difference between none and an empty list.
func TestWhatMakesAnotherInventory(t *testing.T) {
	base := func() model.Node {
		return model.Node{Name: "n1", BootID: "b1", Cores: 4, Labels: map[string]string{"a": "b"},
			GPUs: []model.GPU{{UUID: "g"}}, SharedPath: []string{"/s"}}
	}
	for name, c := range map[string]struct {
		edit func(*model.Node)
		same bool
	}{
		"nothing": {func(*model.Node) {}, true}, "state": {func(n *model.Node) { n.State = model.NodeDown }, true},
		"reason": {func(n *model.Node) { n.Reason = "x" }, true}, "since": {func(n *model.Node) { n.Since.At = 7 }, true},
		"boot": {func(n *model.Node) { n.BootID = "b2" }, false}, "cores": {func(n *model.Node) { n.Cores++ }, false},
		"labels": {func(n *model.Node) { n.Labels = nil }, false}, "GPUs": {func(n *model.Node) { n.GPUs = nil }, false},
		"paths": {func(n *model.Node) { n.SharedPath = nil }, false},
	} {
		other := base()
		c.edit(&other)
		if sameInventory(base(), other) != c.same || sameInventory(other, base()) != c.same {
			t.Errorf("%s: the same %t", name, !c.same)
		}
	}
	empty := model.Node{Labels: map[string]string{}, GPUs: []model.GPU{}, SharedPath: []string{}}
	if !sameInventory(empty, model.Node{}) {
		t.Error("empty lists are others than none")
	}
}

// TestWhatChangesANode goes through what operators and nodes ask, and what of it is refused.
func TestWhatChangesANode(t *testing.T) {
	s := newSite(t)
	s.Contacts = &telemetry.Contacts{}
	s.Contacts.Restart(time.Now())
	long := strings.Repeat("x", exchange.MaxReason)
	set := func(to model.NodeState, node, reason string) (*api.Node, error) {
		return setNode(to)(s.Of(servertest.Named("ops", 9), node), &api.NodeRequest{Reason: reason})
	}
	s.Do(fsm.SetNodeState{Node: "n3", State: model.NodeDown, Reason: "silent"})
	for name, c := range map[string]struct {
		to           model.NodeState
		node, reason string
		code         string
	}{
		"no node":            {model.NodeDrained, "n9", "x", api.CodeNotFound},
		"no reason":          {model.NodeDrained, "n2", "", api.CodeInvalid},
		"a long reason":      {model.NodeDrained, "n2", long, ""},
		"one byte more":      {model.NodeDrained, "n2", long + "x", api.CodeInvalid},
		"up":                 {model.NodeUp, "n1", "", ""},
		"up, with a reason":  {model.NodeUp, "n1", long + "x", api.CodeInvalid},
		"up while it is not": {model.NodeUp, "n3", "", api.CodeWrongState},
		"drained while down": {model.NodeDrained, "n3", "disk", ""},
	} {
		if out, err := set(c.to, c.node, c.reason); servertest.CodeOf(err) != c.code || err == nil && out.Name != c.node {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
	}
	s.Do(fsm.SetNodeState{Node: "n2", State: model.NodeUp})
	register := func(path string, edit func(*model.Node)) (moved bool, err error) {
		known, _ := s.Replica.View().Node("n1")
		n := model.Node{Name: path, Addr: known.Addr, BootID: "bn1", Cores: 8, Memory: 32 * jobspec.GiB}
		edit(&n)
		before := s.Replica.View().Index()
		_, err = s.register(s.Of(nil, path), &api.RegisterRequest{Node: n})
		return s.Replica.View().Index() > before, err
	}
	down := func() { s.Do(fsm.SetNodeState{Node: "n1", State: model.NodeDown, Reason: "silent"}) }
	same := func(*model.Node) {}
	for _, c := range []struct {
		name   string
		before func()
		path   string
		edit   func(*model.Node)
		moved  bool
		code   string
	}{
		{"what is known", nil, "n1", same, false, ""},
		{"another inventory", nil, "n1", func(n *model.Node) { n.Cores = 9 }, true, ""},
		{"and back", nil, "n1", same, true, ""},
		{"one that is down", down, "n1", same, true, ""},
		{"a new node", nil, "n4", func(n *model.Node) { n.BootID = "b4" }, true, ""},
		{"another name in the path", nil, "n5", func(n *model.Node) { n.Name = "n6" }, false, api.CodeInvalid},
		{"no name", nil, "a b", same, false, api.CodeInvalid},
		{"another machine", nil, "n1", func(n *model.Node) { n.BootID = "other" }, false, api.CodeWrongState},
		{"another machine, without jobs", nil, "n2", func(n *model.Node) { n.BootID = "other" }, true, ""},
	} {
		if c.before != nil {
			c.before()
		}
		s.Contacts = &telemetry.Contacts{}
		s.Contacts.Restart(time.Now())
		moved, err := register(c.path, c.edit)
		if moved != c.moved || servertest.CodeOf(err) != c.code || s.Contacts.Seen(c.path).IsZero() == (c.code == "") {
			t.Errorf("%s: an entry %t, %v, heard of at %v", c.name, moved, err, s.Contacts.Seen(c.path))
		}
	}
	if n, _ := s.Replica.View().Node("n1"); n.State != model.NodeUp {
		t.Errorf("after all n1 is %s", n.State)
	}
	gone, end := context.WithCancel(t.Context())
	end()
	s.Alive = gone
	for node, code := range map[string]string{"n1": "", "n3": api.CodeNoLeader, "n9": ""} {
		if err := s.awaitUp(s.Of(nil, node), node); servertest.CodeOf(err) != code {
			t.Errorf("until %s is up: %v", node, err)
		}
	}
	for boot, code := range map[string]string{"bn1": "", "x": api.CodeWrongState} {
		s.Contacts = &telemetry.Contacts{}
		s.Contacts.Restart(time.Now())
		if _, err := s.nodeOf(s.Of(nil, "n1"), boot); servertest.CodeOf(err) != code ||
			s.Contacts.Seen("n1").IsZero() == (code == "") {
			t.Errorf("boot %s: %v", boot, err)
		}
	}
}

// TestWhichNodesAreConfirmedDead: those that are down, all or none.
func TestWhichNodesAreConfirmedDead(t *testing.T) {
	s := newSite(t)
	s.Do(fsm.SetNodeState{Node: "n1", State: model.NodeDown, Reason: "silent"})
	s.Do(fsm.SetNodeState{Node: "n3", State: model.NodeDown, Reason: "silent"})
	many := make([]string, model.MaxNodes+1)
	for i := range many {
		many[i] = fmt.Sprintf("m%05d", i)
	}
	confirm := func(req api.ConfirmDeadRequest) (*api.ConfirmedDead, string, error) {
		x := s.Of(servertest.Named("ops", 9), "")
		out, err := s.confirmDead(x, &req)
		return out, x.About.Object, err
	}
	for name, c := range map[string]struct {
		req  api.ConfirmDeadRequest
		code string
	}{
		"none":     {api.ConfirmDeadRequest{}, api.CodeInvalid},
		"too many": {api.ConfirmDeadRequest{Nodes: many}, api.CodeInvalid},
		"as many":  {api.ConfirmDeadRequest{Nodes: many[1:]}, api.CodeNotFound},
		"a long reason": {api.ConfirmDeadRequest{Nodes: []string{"n1"}, Reason: strings.Repeat("x", exchange.MaxReason+1)},
			api.CodeInvalid},
		"one that is up": {api.ConfirmDeadRequest{Nodes: []string{"n1", "n2"}, Reason: strings.Repeat("x",
			exchange.MaxReason)},
			api.CodeWrongState},
		"no node": {api.ConfirmDeadRequest{Nodes: []string{"n1", "n9"}}, api.CodeNotFound},
	} {
		before := s.Replica.View().Index()
		if _, _, err := confirm(c.req); servertest.CodeOf(err) != c.code || s.Replica.View().Index() != before {
			t.Errorf("%s: %v", name, err)
		}
	}
	want := []model.JobID{s.Gang, s.Leaving, s.Steps}
	for _, dry := range []bool{true, false} {
		before := s.Replica.View().Index()
		out, object, err := confirm(api.ConfirmDeadRequest{Nodes: []string{"n3", "n1", "n3"}, DryRun: dry})
		if err != nil || object != "n1,n3" || len(out.Items) != 2 || out.Items[0].Name != "n1" ||
			len(out.Items[1].Jobs) != 0 ||
			out.Items[0].Since == nil || (s.Replica.View().Index() == before) != dry {
			t.Errorf("dry run %t: %+v, %q, %v", dry, out, object, err)
		}
		if slices.Sort(out.Items[0].Jobs); !slices.Equal(out.Items[0].Jobs, want) {
			t.Errorf("dry run %t: the jobs %v, want %v", dry, out.Items[0].Jobs, want)
		}
	}
}

// TestHowLongANodeWaits: for news, and no longer than half of the silence after which it is down.
func TestHowLongANodeWaits(t *testing.T) {
	s := small(t)
	servertest.Boot(t, s.Replica, "n1", "b")
	cfg := *s.Replica.View().Config()
	cfg.NodeDownMS = 2000
	s.Do(fsm.SetConfig{Config: cfg})
	wait := func(after uint64, wait string) time.Duration {
		x := s.Of(nil, "n1")
		x.Query = url.Values{"after": {fmt.Sprint(after)}, "wait": {wait}}
		x.Request = x.Request.WithContext(t.Context())
		begin := time.Now()
		if err := s.awaitNode(x, "n1"); err != nil {
			t.Error(err)
		}
		return time.Since(begin)
	}
	modified := s.Replica.View().NodeModified("n1")
	if d := wait(modified-1, "60s"); d > 900*time.Millisecond {
		t.Errorf("there is news, and it waits %v", d)
	}
	if d := wait(modified, "60s"); d < 900*time.Millisecond || d > 1900*time.Millisecond {
		t.Errorf("there is no news, and it waits %v, of 1 s", d)
	}
	if d := wait(modified, "10ms"); d > 900*time.Millisecond {
		t.Errorf("it asks to wait 10 ms, and waits %v", d)
	}
}

// Node is a request of a node for its work that does not wait.
func (s *site) Node(name string) *exchange.Exchange {
	x := s.Of(nil, name)
	x.Query = map[string][]string{"boot_id": {"b" + name}}
	return x
}

// TestJobsOfOthersOnANode are not shown to users that may not see them.
func TestJobsOfOthersOnANode(t *testing.T) {
	s := newSite(t)
	s.Private(cluster.PrivateJobs)
	n, at := s.Replica.View().Node("n1")
	node := presentNode(s.Request("/v1/nodes", "", "", ""), n, at)
	ofOthers := s.Of(servertest.Named("bob", 8), "")
	ofOthers.Route = s.Request("/v1/nodes", "", "", "").Route
	if theirs := presentNode(ofOthers, n, at); len(node.Jobs) == 0 || len(theirs.Jobs) != 0 {
		t.Errorf("node n1 has jobs %v for ann, %v for bob", node.Jobs, theirs.Jobs)
	}
	s.Contacts = &telemetry.Contacts{}
	s.Contacts.Restart(time.Now())
	s.Contacts.Heard("n2", time.UnixMilli(7000), false)
	list, err := s.listNodes(s.Request("/v1/nodes", "", "", ""))
	if err != nil || len(list.Items) != 3 || list.Items[0].LastSeen != nil || list.Items[1].LastSeen == nil ||
		list.Items[1].LastSeen.UnixMilli() != 7000 {
		t.Errorf("nodes %+v, %v", list, err)
	}
}

// TestRefusedRowsAreAMetric that is there before the first row is refused.
func TestRefusedRowsAreAMetric(t *testing.T) {
	registry := prometheus.NewRegistry()
	New(Config{}, registry)
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "rota_refused_report_rows_total" ||
		families[0].Metric[0].Counter.GetValue() != 0 {
		t.Errorf("%v, %v", families, err)
	}
}
