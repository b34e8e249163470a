package fsm

import (
	"errors"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// waits has a job wait for a node that is lost.
func waits(j *jobspec.Job) { j.OnNodeLost = jobspec.NodeLossWait }

func (w *world) down(nodes ...string) {
	w.t.Helper()
	for _, n := range nodes {
		w.must(SetNodeState{Node: n, BootID: "b1", State: model.NodeDown, Reason: "silent"})
	}
}

func lost(id model.JobID) Action {
	return &EndAttempt{Job: id, Attempt: 1, Cause: model.CauseNodeLost}
}

// TestAJobWaitsForItsNode: neither its lease nor any time ends it, its node's return and its own exit do
// what they do else.
func TestAJobWaitsForItsNode(t *testing.T) {
	w := newWorld(t)
	w.node("n1", 4)
	id := w.running(1, []string{"n1"}, waits)
	if !w.job(id).Live().Waits {
		t.Fatal("its attempt does not wait")
	}
	w.down("n1")
	w.wait(30 * 86400)
	if err := w.plan(lost(id)); !errors.Is(err, model.ErrAwaitsNode) {
		t.Errorf("after 30 days: %v", err)
	}
	w.must(SetNodeState{Node: "n1", BootID: "b1", State: model.NodeUp})
	w.report(id, 0, model.WorkerExited, code(0))
	if j := w.job(id); j.State != model.Completed || j.Attempt != 1 {
		t.Errorf("it is %s after %d attempts", j.State, j.Attempt)
	}
}

// TestWhatAnAttemptDoesAboutALostNodeIsFixed: neither another configuration nor more nodes change it,
// because the node hears of neither.
func TestWhatAnAttemptDoesAboutALostNodeIsFixed(t *testing.T) {
	w := newWorld(t)
	w.s = New(cluster.DefaultConfig())
	w.node("n1", 4)
	w.node("n2", 4)
	first := w.running(1, []string{"n1"})
	w.node("n3", 4)
	second := w.running(1, []string{"n1"})
	own := w.running(1, []string{"n1"}, waits)
	cfg := requeueing()
	w.must(SetConfig{Config: cfg})
	w.down("n1")
	w.wait(631)
	for id, want := range map[model.JobID]error{first: model.ErrAwaitsNode, second: nil, own: model.ErrAwaitsNode} {
		if err := w.plan(lost(id)); !errors.Is(err, want) {
			t.Errorf("job %d: %v, want %v", id, err, want)
		}
	}
	q := cfg.Queues[model.DefaultQueue]
	for _, c := range []struct {
		queue, job jobspec.NodeLoss
		nodes      int
		want       bool
	}{
		{0, 0, 1, true}, {0, 0, 2, true}, {0, 0, 3, false},
		{jobspec.NodeLossRequeue, 0, 1, false}, {jobspec.NodeLossWait, 0, 9, true},
		{jobspec.NodeLossWait, jobspec.NodeLossRequeue, 1, false}, {jobspec.NodeLossRequeue, jobspec.NodeLossWait, 9, true},
	} {
		q.OnNodeLost = c.queue
		cfg.Queues[model.DefaultQueue] = q
		j := &model.Job{Queue: model.DefaultQueue, Spec: &jobspec.Job{OnNodeLost: c.job}}
		if got := cfg.WaitsIfLost(j, c.nodes); got != c.want {
			t.Errorf("%+v: it waits: %v", c, got)
		}
	}
}

// TestNodesAreConfirmedDead: all of them or none, and only such as are down. Their jobs start elsewhere
// at once, whether they wait for them or their leases run.
func TestNodesAreConfirmedDead(t *testing.T) {
	w := newWorld(t)
	for _, n := range []string{"n1", "n2", "n3"} {
		w.node(n, 4)
	}
	waiting, leased := w.running(1, []string{"n1"}, waits), w.running(1, []string{"n2"})
	gang, other := w.running(2, []string{"n1", "n3"}, waits), w.running(1, []string{"n3"})
	w.down("n1")
	for _, c := range []struct {
		nodes []string
		want  error
	}{{[]string{"n1", "n2"}, model.ErrNodeNotDown}, {[]string{"n1", "n9"}, model.ErrNoNode}} {
		if _, err := w.apply(ConfirmDead{Nodes: c.nodes, By: "root"}); !errors.Is(err, c.want) {
			t.Errorf("%v: %v, want %v", c.nodes, err, c.want)
		}
		if s := w.job(waiting).State; s != model.Running {
			t.Fatalf("after a refusal the job is %s", s)
		}
	}
	w.down("n2")
	w.must(ConfirmDead{Nodes: []string{"n1", "n2"}, By: "root", Reason: "the rack is off"})
	for _, id := range []model.JobID{waiting, leased} {
		if j := w.job(id); j.State != model.Pending || j.Attempts[0].Cause != model.CauseNodeLost ||
			j.Counters.NodeLosses != 1 || !strings.Contains(j.Attempts[0].Workers[0].Message, "the rack is off") {
			t.Errorf("job %d is %s, attempt %+v", id, j.State, j.Attempts[0])
		}
	}
	if a := w.job(gang).Live(); a == nil || a.Stop == nil || a.Stop.Cause != model.CauseNodeLost ||
		a.Workers[1].State.Final() {
		t.Errorf("the gang that has another node, too: %+v", a)
	}
	if s := w.job(other).State; s != model.Running {
		t.Errorf("a job on another node is %s", s)
	}
	n, _ := w.s.v.Node("n1")
	if n.State != model.NodeDown || n.Reason != "confirmed dead by root: the rack is off" {
		t.Errorf("the node is %s: %q", n.State, n.Reason)
	}
}
