package sched_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/introspect"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
	"github.com/rota-hpc/rota/jobspec"
)

// roaming plays random histories in which jobs take turns and move.
type roaming struct {
	*schedtest.World
	*rand.Rand
	policy string
	jobs   int
	seen   map[string]int
}

func (r *roaming) must(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if err := r.Run(line); err != nil {
		panic(fmt.Sprintf("%s: %v", line, err))
	}
}

// step submits jobs, ends one, has it report its rate, or lets time pass.
func (r *roaming) step() {
	waiting := 0
	for j := range r.State.View().Jobs() {
		if j.Waits() {
			waiting++
		}
	}
	switch n := r.IntN(6); {
	case n < 2 && waiting < 3:
		for range 1 + r.IntN(3) {
			r.jobs++
			class := [...]string{"te limit=1h", "be limit=100h", "be limit=100h", "be limit=100h"}[r.IntN(4)]
			gang := [...]string{"1x1", "1x2", "1x4", "2x1", "2x2", "3x1"}[r.IntN(6)]
			pauses := [...]string{"", "pause=yes"}[r.IntN(2)]
			if class == "te limit=1h" {
				pauses = ""
			}
			r.must("submit j%d called=k%d class=%s gang=%s per-node=3 grace=%ds %s %s steps=100000", r.jobs, r.IntN(2),
				class, gang, 1+r.IntN(60), pauses, [...]string{"", "save=yes", "save=yes"}[r.IntN(3)])
		}
		return
	case n == 2:
		r.must("advance %ds", 1+r.IntN(2*3600))
		return
	}
	var live []*model.Job
	for j := range r.State.View().Live() {
		live = append(live, j)
	}
	if len(live) == 0 {
		return
	}
	j := live[r.IntN(len(live))]
	name := r.Names[j.ID]
	switch a := j.Live(); {
	case a.Stop != nil:
		r.must("exit code=%d %s", []int{0, 85, 85, 85}[r.IntN(4)], name)
	case j.State == model.Running && a.Rate == 0 && r.IntN(3) > 0:
		r.must("rate %s is=%d", name, 1000*10/(8+a.NodeCount()*(1+r.IntN(3))))
	case j.State == model.Running && r.IntN(2) == 0:
		r.must("exit %s", name)
	}
}

// settle has nodes do as they are told and cycles until nothing changes.
func (r *roaming) settle() error {
	for range 20 {
		v := r.State.View()
		for j := range v.Live() {
			a := j.Live()
			switch {
			case a.Stop != nil:
			case j.State == model.Configuring:
				r.must("run %s", r.Names[j.ID])
			case a.Suspending():
				r.must("paused %s", r.Names[j.ID])
			case a.Resuming():
				r.must("continues %s", r.Names[j.ID])
			}
		}
		v = r.State.View()
		plan, _ := sched.Cycle(v, r.Now, v.Config().Policy)
		if len(plan.Actions) == 0 {
			return nil
		}
		for _, a := range plan.Actions {
			if err := r.lawful(v, a); err != nil {
				return err
			}
		}
		if err := r.Commit(plan); err != nil {
			return err
		}
		r.Out.Reset()
	}
	return fmt.Errorf("the cycle does not come to rest")
}

// lawful checks an action of a plan. Only permitted jobs move, no more often than they may, and
// never again after a move that was of no use.
func (r *roaming) lawful(v *state.View, a fsm.Action) error {
	id := model.JobID(0)
	move, _ := a.(*fsm.MoveJob)
	switch a := a.(type) {
	case *fsm.MoveJob:
		id = a.Job
	case *fsm.StopJob:
		if a.Cause != model.CauseMigrate || a.For != 0 {
			return nil
		}
		id = a.Job
	case *fsm.SuspendJob:
		r.seen["suspended"]++
		return nil
	default:
		return nil
	}
	j := v.Job(id)
	was := j.Live()
	moves, day := 0, r.Now-24*60*60*1000
	for i := range j.Attempts {
		for _, t := range j.Attempts[i].Trials {
			if t.At <= day {
				continue
			}
			if moves++; t.Undone {
				return fmt.Errorf("%s moves again in vain", r.Names[id])
			}
		}
	}
	switch {
	case moves >= 3:
		return fmt.Errorf("%s moves too often", r.Names[id])
	case v.Statistics().MovedSince(r.Now-60*60*1000) >= introspect.Limits.MovesPerHour:
		return fmt.Errorf("too many jobs move")
	case j.Class != jobspec.BE || j.Spec.Checkpoint == nil:
		return fmt.Errorf("%s moves and cannot save its state, or is %s", r.Names[id], j.Class)
	}
	switch {
	case was.Suspended() && move != nil:
		r.seen["suspended job to free room"]++
	case was.Suspended():
		r.seen["suspended job to others"]++
	case move == nil:
		r.seen["to even out nodes"]++
	case move.Expected > 0:
		r.seen["gang together"]++
	default:
		r.seen["fuller node"]++
	}
	return nil
}

// TestRandomMoves plays histories in which jobs take turns and move, under two policies.
func TestRandomMoves(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(schedtest.States(40)) {
		r := &roaming{World: schedtest.NewWorld(), Rand: rand.New(rand.NewPCG(seed, 23)),
			policy: []string{"standard", "rota"}[seed%2], seen: seen}
		r.must("policy name=%s te-gpus=64", r.policy)
		r.must("sharing migrate=yes oversubscribe=%d", 1+r.IntN(2))
		for i := range 2 + r.IntN(4) {
			r.must("node n%d gpus=%d cores=16 memory=%d", i, 4, 8+r.IntN(24))
		}
		for n := range 200 {
			r.step()
			if err := r.settle(); err != nil {
				t.Fatalf("seed %d step %d: %v", seed, n, err)
			}
		}
	}
	t.Log(seen)
	for _, what := range []string{"suspended", "suspended job to free room", "suspended job to others", "gang together",
		"fuller node"} {
		if seen[what] == 0 {
			t.Errorf("no %s: %v", what, seen)
		}
	}
}
