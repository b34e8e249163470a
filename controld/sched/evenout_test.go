package sched_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/convergence"
)

// sharedWorld is a cluster whose jobs take turns and may move, with nodes that do what they are
// told.
type sharedWorld struct {
	*schedtest.World
	t     *testing.T
	moves []string // of jobs that were told to move, each with its node before
}

func newSharedWorld(t *testing.T, nodes ...model.Node) *sharedWorld {
	w := &sharedWorld{World: schedtest.NewWorld(), t: t}
	c := cluster.DefaultConfig()
	q := c.Queues["default"]
	q.Sharing = cluster.Sharing{Oversubscribe: 6, Migrate: true}
	c.Queues["default"] = q
	w.State, w.Now = fsm.New(c), 60_000 // turns end at whole multiples of 5 s
	for _, n := range nodes {
		w.must(fsm.RegisterNode{Node: n})
	}
	return w
}

func (w *sharedWorld) must(c fsm.Command) {
	w.t.Helper()
	if _, err := w.Apply(c); err != nil {
		w.t.Fatal(err)
	}
}

func (w *sharedWorld) submit(name, account string, gpus int) {
	w.t.Helper()
	spec := &jobspec.Job{Name: name, Class: jobspec.BE, Queue: "default", Account: account, Workdir: "/",
		Preemption: &jobspec.Preemption{Mode: jobspec.PreemptSuspend, GracePeriod: 10},
		Checkpoint: &jobspec.Checkpoint{ExitCode: 85},
		Groups: []jobspec.Group{{Name: "main", Count: 1, Tasks: []jobspec.Task{{Name: "main", Command: []string{"true"},
			Resources: jobspec.Resources{Cores: 1, Memory: jobspec.GiB, GPUs: gpus}}}}}}
	if err := w.AddAs("ada", name, spec); err != nil {
		w.t.Fatal(err)
	}
}

func (w *sharedWorld) job(name string) *model.Job { return w.State.View().Job(w.Ids[name]) }

// nodeOf is where a job is, "" if it is nowhere.
func (w *sharedWorld) nodeOf(name string) string {
	if a := w.job(name).Live(); a != nil {
		return a.Workers[0].Node
	}
	return ""
}

func (w *sharedWorld) report(j *model.Job, r model.WorkerReport) {
	w.t.Helper()
	r.Job, r.Attempt = j.ID, j.Attempt
	if r.State == "" {
		r.State = model.WorkerRunning
	}
	n, _ := w.State.View().Node(j.Live().Workers[0].Node)
	w.must(fsm.NodeReport{Node: n.Name, BootID: n.BootID, Workers: []model.WorkerReport{r}})
}

func (w *sharedWorld) class(name string, c convergence.Class) {
	w.report(w.job(name), model.WorkerReport{Class: c})
}

// settle runs cycles until nothing happens any more, and has the nodes do at once as they are told.
func (w *sharedWorld) settle() {
	w.t.Helper()
	for range 50 {
		v := w.State.View()
		plan, _ := sched.Cycle(v, w.Now, v.Config().Policy)
		for _, a := range plan.Actions {
			if a, ok := a.(*fsm.StopJob); ok && a.Cause == model.CauseMigrate {
				w.moves = append(w.moves, fmt.Sprintf("%s from %s", w.Names[a.Job], w.nodeOf(w.Names[a.Job])))
			}
		}
		refused, err := w.Apply(plan)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, err := range refused.([]error) {
			if err != nil {
				w.t.Fatal(err)
			}
		}
		if did := w.obey(); !did && len(plan.Actions) == 0 {
			return
		}
	}
	w.t.Fatal("it goes on for ever")
}

// obey has the nodes carry out what they were told, and reports whether that was anything.
func (w *sharedWorld) obey() (did bool) {
	w.t.Helper()
	for run := range w.State.View().LiveAttempts() {
		a := run.Attempt
		switch {
		case a.Stop != nil:
			w.report(run.Job, model.WorkerReport{State: model.WorkerExited, ExitCode: 85})
		case a.Workers[0].State == model.WorkerAssigned:
			w.report(run.Job, model.WorkerReport{State: model.WorkerRunning})
		case a.Switch != nil && !a.Switched():
			w.report(run.Job, model.WorkerReport{Switch: a.Switch.Number})
		default:
			continue
		}
		did = true
	}
	return did
}

// turns lets time pass in slices.
func (w *sharedWorld) turns(minutes int) {
	w.t.Helper()
	for range minutes {
		w.Now += 60_000
		w.settle()
	}
}

func (w *sharedWorld) on(node string) (n int) {
	for run := range w.State.View().LiveAttempts() {
		if run.Attempt.Workers[0].Node == node {
			n++
		}
	}
	return n
}

func oneGPU(name string) model.Node { return schedtest.MakeNode(name, 1, 32, 64, 100) }

// crowdedNode is a world in which five jobs of an account take turns on n1, and n2 is new.
func crowdedNode(t *testing.T) *sharedWorld {
	w := newSharedWorld(t, oneGPU("n1"))
	for i := range 5 {
		w.submit(fmt.Sprint("j", i+1), "vision", 1)
		w.settle()
	}
	w.turns(1)
	if w.on("n1") != 5 {
		t.Fatalf("%d jobs take turns", w.on("n1"))
	}
	return w
}

// TestConvergedJobsMoveFirst: if a node has two jobs too many, the two that converged last move.
// Each starts on the node to which it was told to move.
func TestConvergedJobsMoveFirst(t *testing.T) {
	w := crowdedNode(t)
	w.turns(30)
	w.class("j1", convergence.Watching)
	for _, name := range []string{"j2", "j4", "j3"} {
		w.class(name, convergence.Converged)
		w.turns(10)
	}
	w.must(fsm.RegisterNode{Node: oneGPU("n2")})
	w.settle()
	if got := fmt.Sprint(w.moves); got != "[j3 from n1 j4 from n1]" {
		t.Errorf("%s moved", got)
	}
	if w.on("n1") != 3 || w.on("n2") != 2 || w.nodeOf("j3") != "n2" || w.nodeOf("j4") != "n2" {
		t.Errorf("%d and %d jobs", w.on("n1"), w.on("n2"))
	}
	if n := w.job("j3").Counters.Migrations; n != 1 {
		t.Errorf("it counts %d moves", n)
	}
	w.moves = nil
	w.turns(60)
	if len(w.moves) > 0 {
		t.Errorf("%v move, although the nodes are even", w.moves)
	}
}

// TestMovesAreEvenWithoutMetrics: jobs that report nothing are evened out by their number, once
// they have run for several times as long as a move takes.
func TestMovesAreEvenWithoutMetrics(t *testing.T) {
	w := crowdedNode(t)
	w.must(fsm.RegisterNode{Node: oneGPU("n4")})
	w.settle()
	if len(w.moves) != 0 {
		t.Fatalf("%v move at once", w.moves)
	}
	w.must(fsm.SetNodeState{Node: "n4", State: model.NodeDown})
	w.must(fsm.RegisterNode{Node: oneGPU("n2")})
	w.must(fsm.RegisterNode{Node: oneGPU("n3")})
	w.turns(40)
	if a, b, c := w.on("n1"), w.on("n2"), w.on("n3"); a != 2 || a+b+c != 5 || max(b, c) > 2 {
		t.Errorf("%d, %d and %d jobs", a, b, c)
	}
}

// TestMovesArePaused: an operator keeps jobs where they are, and so does a queue that does not say
// that they may move.
func TestMovesArePaused(t *testing.T) {
	w := crowdedNode(t)
	w.must(fsm.Steer{What: steering.Migration, On: true, By: "op"})
	w.must(fsm.RegisterNode{Node: oneGPU("n2")})
	w.turns(40)
	if len(w.moves) > 0 {
		t.Errorf("%v move while that is paused", w.moves)
	}
	w.must(fsm.Steer{What: steering.Migration, By: "op"})
	w.settle()
	if len(w.moves) == 0 {
		t.Error("no job moves afterwards")
	}
}

// TestMovesAreBounded: a job moves three times in a day at most, however often nodes come and go.
func TestMovesAreBounded(t *testing.T) {
	w := crowdedNode(t)
	w.must(fsm.RegisterNode{Node: oneGPU("n2")})
	w.must(fsm.RegisterNode{Node: oneGPU("n3")})
	for i := range 20 {
		from, to := fmt.Sprintf("n%d", i%2+2), fmt.Sprintf("n%d", (i+1)%2+2)
		w.must(fsm.SetNodeState{Node: to, State: model.NodeUp})
		w.turns(5)
		w.must(fsm.SetNodeState{Node: from, State: model.NodeDown})
		for id := range w.Names {
			if a := w.State.View().Job(id).Live(); a != nil && a.Workers[0].Node == from {
				w.report(w.State.View().Job(id), model.WorkerReport{State: model.WorkerExited, ExitCode: 85})
			}
		}
	}
	for name := range w.Ids {
		j := w.job(name)
		for i := range j.Attempts {
			first, n := j.Attempts[i].Stop, 0
			if first == nil || first.Cause != model.CauseMigrate {
				continue
			}
			for k := i; k < len(j.Attempts); k++ {
				if s := j.Attempts[k].Stop; s != nil && s.Cause == model.CauseMigrate && s.At < first.At+3_600_000 {
					n++
				}
			}
			if n > 3 {
				t.Errorf("%s moved %d times in an hour", name, n)
			}
		}
	}
}

// shares returns for how long the GPU of n1 was each account's within some minutes, in ms.
func (w *sharedWorld) shares(minutes int) map[string]int64 {
	got := map[string]int64{}
	for range minutes * 6 {
		w.Now += 10_000
		w.settle()
		for run := range w.State.View().LiveAttempts() {
			if !run.Attempt.Suspended() {
				got[run.Job.Account] += 10_000
				got[run.Job.Spec.Name] += 10_000
			}
		}
	}
	return got
}

// TestWeightsStayWithinAnAccount (A11): jobs that still learn get longer turns than converged ones
// of their account. The other account gets what it got before, and a job that keeps changing its
// class takes nothing from it.
func TestWeightsStayWithinAnAccount(t *testing.T) {
	world := func() *sharedWorld {
		w := newSharedWorld(t, oneGPU("n1"))
		for _, name := range []string{"a1", "a2", "a3", "b1"} {
			account := map[byte]string{'a': "vision", 'b': "speech"}[name[0]]
			w.submit(name, account, 1)
			w.settle()
		}
		w.turns(10)
		return w
	}
	w := world()
	w.class("a1", convergence.Progressing)
	w.class("a2", convergence.Converged)
	w.class("a3", convergence.Converged)
	w.turns(20)
	got := w.shares(240)
	if r := float64(got["a1"]) / float64(got["a2"]); r < 1.7 || r > 2.3 {
		t.Errorf("a job that learns gets %.2f times as much as one that has converged: %v", r, got)
	}
	if r := float64(got["speech"]) / (240 * 60_000); r < 0.235 || r > 0.265 {
		t.Errorf("the other account gets %.3f of the GPU, want a quarter", r)
	}

	w = world()
	r := rand.New(rand.NewPCG(1, 1))
	before, mine := int64(0), int64(0)
	for range 240 {
		for _, name := range []string{"a1", "a2", "a3"} {
			w.class(name, convergence.Classes[r.IntN(3)])
		}
		got := w.shares(1)
		before += got["vision"]
		mine += got["speech"]
	}
	if share := float64(mine) / float64(mine+before); share < 0.235 {
		t.Errorf("jobs that keep changing their class leave the other account %.3f of the GPU", share)
	}
}
