package earlystop

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/earlystop/judge"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// TestNoTaskLosesTooEarly reports values in random orders. A task that is among the best in the end
// never loses on the way, and in the end all others have lost.
func TestNoTaskLosesTooEarly(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		n, goal := 1+r.IntN(20), []string{"min", "max"}[r.IntN(2)]
		state := fsm.New(cluster.DefaultConfig())
		index := uint64(0)
		apply := func(c fsm.Command) any {
			index++
			result, err := state.Apply(index, fsm.Entry{Stamp: model.Stamp{At: 1}, Command: c})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			return result
		}
		spec := &jobspec.Job{Name: "sweep", Workdir: "/tmp", Groups: []jobspec.Group{{
			Name: "main", Tasks: []jobspec.Task{{Name: "main", Command: []string{"true"},
				Resources: jobspec.Resources{Cores: 1, Memory: jobspec.GiB}}}}}}
		spec.Array = &jobspec.Array{Indices: "0-" + strconv.Itoa(n-1),
			Stop: &jobspec.ArrayStop{Metric: "loss", Goal: goal, AtStep: 10, Keep: "top 30%"}}
		if n == 1 {
			spec.Array.Indices = "0"
		}
		spec.Default()
		apply(fsm.RegisterNode{Node: model.Node{Name: "n1", BootID: "b", Cores: 64, Memory: 256 * jobspec.GiB}})
		apply(fsm.SubmitJobs{Owner: model.Identity{UID: 1, User: "ada"}, Jobs: []*jobspec.Job{spec}})
		var plan fsm.CommitPlan
		for m := range n {
			plan.Actions = append(plan.Actions, &fsm.StartJob{Job: 1, TaskNumber: m + 1,
				Places: []model.Place{{Node: "n1"}}})
		}
		for i, err := range apply(plan).([]error) {
			if err != nil {
				t.Fatalf("seed %d: start %d: %v", seed, i, err)
			}
		}
		values := map[int]float64{}
		for m := 1; m <= n; m++ {
			values[m] = float64(r.IntN(10))
		}
		best := judge.Ranked(values, goal)[:max(1, (n*30+99)/100)]
		var a Arrays
		a.Clear()
		for _, m := range r.Perm(n) {
			a.put(1, m+1, values[m+1])
			a.put(1, m+1, 1e9) // only the first counts
			for _, lost := range a.Losers(state.View()) {
				for member := range lost.Tasks.All() {
					if slices.Contains(best, member) {
						t.Fatalf("seed %d: %d of %d lost although it is among the best: %v", seed, member, n, values)
					}
				}
			}
		}
		lost := 0
		for _, x := range a.Losers(state.View()) {
			lost += x.Tasks.Len()
		}
		if lost != n-len(best) {
			t.Errorf("seed %d: %d of %d lost, %d are kept: %v", seed, lost, n, len(best), values)
		}
	}
}

// TestWhatIsReachedCounts whatever has been reported since.
func TestWhatIsReachedCounts(t *testing.T) {
	var a Arrays
	a.Clear()
	spec := &jobspec.Job{Array: &jobspec.Array{Stop: &jobspec.ArrayStop{Metric: "loss", AtStep: 10}}}
	j := &model.Job{Parent: 1, TaskNumber: 2, Spec: spec}
	a.Report(j, &api.Sample{Step: 9, Metrics: map[string]float64{"loss": 1}})
	if len(a.values) != 0 {
		t.Error("a step too early counts")
	}
	a.Report(j, &api.Sample{Step: 40, Metrics: map[string]float64{"loss": 0.1},
		Reached: &api.Reached{Step: 11, Value: 0.5}})
	if got := a.values[1][2]; got != 0.5 {
		t.Errorf("it counts as %v", got)
	}
}
