package leader

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rota-hpc/rota/consensus"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/replica"
	"github.com/rota-hpc/rota/controld/telemetry"
	"github.com/rota-hpc/rota/jobspec"
)

// alone returns a leader on a log of its own, which leads but runs no loops.
func alone(t *testing.T) *Leader {
	t.Helper()
	cfg := consensus.DefaultConfig()
	cfg.Name, cfg.Dir, cfg.Addr = "c1", t.TempDir(), "127.0.0.1:0"
	r, err := replica.Open(cfg, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Abort() })
	if err := r.Bootstrap([]consensus.Member{r.Self()}); err != nil && !errors.Is(err, consensus.ErrBootstrapped) {
		t.Fatal(err)
	}
	if _, err := r.WaitLeader(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &Leader{Config: Config{Replica: r, Contacts: &telemetry.Contacts{}, Touch: &telemetry.Touch{},
		Log: slog.New(slog.DiscardHandler)}}
}

// TestATimeLimitIsKept runs a job for its time limit of one second. It notices a time limit that is
// 60 s too long, wherever between the state, the cycle and the leader's timer.
func TestATimeLimitIsKept(t *testing.T) {
	l := alone(t)
	l.metrics = newMetrics(prometheus.NewRegistry())
	l.Replica.StartClock()
	propose := func(c fsm.Command) any {
		t.Helper()
		got, err := l.Replica.Propose(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	propose(fsm.RegisterNode{Node: model.Node{Name: "n1", Addr: "127.0.0.1:1", BootID: "b", Cores: 4,
		Memory: jobspec.GiB}})
	spec := &jobspec.Job{Name: "j", TimeLimit: 1, Groups: []jobspec.Group{{Count: 1, Tasks: []jobspec.Task{{
		Command: []string{"true"}, Resources: jobspec.Resources{Cores: 1, Memory: jobspec.MiB}}}}}}
	owner := model.Identity{UID: 1000, User: "u1000"}
	id := propose(fsm.SubmitJobs{Owner: owner, Jobs: []*jobspec.Job{spec}}).([]model.JobID)[0]
	start := fsm.StartJob{Job: id, Places: []model.Place{{Node: "n1"}}}
	if refused := propose(fsm.CommitPlan{Actions: []fsm.Action{&start}}).([]error)[0]; refused != nil {
		t.Fatal(refused)
	}
	for _, state := range []model.WorkerState{model.WorkerCreated, model.WorkerRunning} {
		propose(fsm.NodeReport{Node: "n1", BootID: "b", Workers: []model.WorkerReport{{Job: id, Attempt: 1, State: state}}})
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.schedule(ctx) }()
	defer func() { cancel(); <-ended }()
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		v := l.Replica.View()
		a := v.Job(id).Live()
		if a == nil || a.Stop != nil && a.Stop.Cause != model.CauseTimeout {
			t.Fatalf("the job is %+v", v.Job(id))
		}
		if a.Stop != nil {
			if ran := v.At() - a.Started.At; ran < 1000 {
				t.Errorf("it was stopped after %d ms", ran)
			}
			return
		}
		if time.Since(begin) > 30*time.Second {
			t.Fatal("it runs on after its time limit")
		}
	}
}

// TestASilentNodeIsDownInAnyState has nodes that are up and drained fall silent and speak again. It
// notices that a silent drained node is never marked down: what ran there would wait for ever
// instead of running elsewhere.
func TestASilentNodeIsDownInAnyState(t *testing.T) {
	l := alone(t)
	propose := func(c fsm.Command) {
		t.Helper()
		if _, err := l.Replica.Propose(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"up", "drained"} {
		propose(fsm.RegisterNode{Node: model.Node{Name: name, Addr: "127.0.0.1:1", BootID: "b", Cores: 4,
			Memory: jobspec.GiB}})
	}
	propose(fsm.SetNodeState{Node: "drained", State: model.NodeDrained, Reason: "fan"})
	states := func() [2]model.NodeState {
		up, _ := l.Replica.View().Node("up")
		drained, _ := l.Replica.View().Node("drained")
		return [2]model.NodeState{up.State, drained.State}
	}
	began := time.Now()
	l.Contacts.Restart(began)
	silence := time.Duration(l.Replica.View().Config().NodeDownMS) * time.Millisecond
	check := func(at time.Time, want [2]model.NodeState) time.Duration {
		t.Helper()
		next, err := l.checkNodes(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		if got := states(); got != want {
			t.Errorf("%v after the leader began: %s, want %s", at.Sub(began), got, want)
		}
		return next
	}
	alive := [2]model.NodeState{model.NodeUp, model.NodeDrained}
	down := [2]model.NodeState{model.NodeDown, model.NodeDown}
	if next := check(began.Add(silence/4), alive); next <= 0 || next > silence*3/4+time.Millisecond {
		t.Errorf("nodes that may be silent for %v more are looked at after %v", silence*3/4, next)
	}
	check(began.Add(silence), alive) // so long is allowed
	check(began.Add(silence+time.Millisecond), down)
	for _, name := range []string{"up", "drained"} {
		l.Contacts.Heard(name, began.Add(2*silence), true)
	}
	check(began.Add(2*silence+time.Millisecond), alive)
}
