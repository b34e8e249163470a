package controld

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// TestNobodyLosesTooEarly reports values in random orders: whoever is among the best in the end is never called a loser on the way, and in
// the end all others are.
func TestNobodyLosesTooEarly(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		n, goal := 1+r.IntN(20), []string{"min", "max"}[r.IntN(2)]
		state := cluster.New(cluster.DefaultConfig())
		index := uint64(0)
		apply := func(c cluster.Command) any {
			index++
			result, err := state.Apply(index, cluster.Entry{Stamp: cluster.Stamp{At: 1}, Command: c})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			return result
		}
		spec := job("contest")
		spec.Array = &jobspec.Array{Indices: "0-" + strconv.Itoa(n-1), Stop: &jobspec.ArrayStop{Metric: "loss", Goal: goal, AtStep: 10, Keep: "top 30%"}}
		if n == 1 {
			spec.Array.Indices = "0"
		}
		spec.Default()
		apply(cluster.RegisterNode{Node: cluster.Node{Name: "n1", BootID: "b", Cores: 64, Memory: 256 * jobspec.GiB}})
		apply(cluster.SubmitJobs{Owner: user(1), Jobs: specs(spec)})
		var plan cluster.CommitPlan
		for m := range n {
			plan.Actions = append(plan.Actions, cluster.Action{Start: &cluster.StartJob{Job: 1, Member: m + 1, Places: []cluster.Place{{Node: "n1"}}}})
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
		best := ranked(values, goal)[:max(1, (n*30+99)/100)]
		var c contests
		c.clear()
		for _, m := range r.Perm(n) {
			c.note(1, m+1, values[m+1])
			c.note(1, m+1, 1e9) // only the first counts
			for _, lost := range c.losers(state.View()) {
				for member := range lost.Members.All() {
					if slices.Contains(best, member) {
						t.Fatalf("seed %d: %d of %d lost although it is among the best: %v", seed, member, n, values)
					}
				}
			}
		}
		lost := 0
		for _, x := range c.losers(state.View()) {
			lost += x.Members.Len()
		}
		if lost != n-len(best) {
			t.Errorf("seed %d: %d of %d lost, %d are kept: %v", seed, lost, n, len(best), values)
		}
	}
}

// TestAnArrayIsPruned runs an array on a node that reports progress, prunes it by hand, and lets its own rule cancel the rest.
func TestAnArrayIsPruned(t *testing.T) {
	s := startOne(t)
	n := newNode(t, s.addrs.HTTP, "n1", 0)
	n.hold = make(chan struct{})
	n.run(t.Context())
	c := s.client(user(1000))
	spec := job("sweep")
	spec.Array = &jobspec.Array{Matrix: []jobspec.Axis{{Name: "lr", Values: []string{"1", "2", "3", "4"}}}}
	id, err := c.Submit(t.Context(), "", spec)
	if err != nil {
		t.Fatal(err)
	}
	waitFor := func(want int, codes ...string) {
		t.Helper()
		eventually(t, "jobs in the states "+strings.Join(codes, ","), func() error {
			list, _, err := c.Jobs(t.Context(), api.JobFilter{Refs: []string{"1_[0-3]"}, States: codes}, api.Read{})
			if err == nil && len(list.Items) != want {
				err = fmt.Errorf("%d jobs", len(list.Items))
			}
			return err
		})
	}
	waitFor(4, "R")
	one, _, err := c.JobBy(t.Context(), "1_2", api.Read{})
	if err != nil || one.ID != id+3 || one.Array.Job != id || *one.Array.Index != 2 || one.Array.Params["lr"] != "3" {
		t.Fatalf("element 2: %+v, %v", one, err)
	}
	tell := func(losses map[int]float64) {
		t.Helper()
		req := api.ReportRequest{BootID: n.node.BootID}
		for m, loss := range losses {
			req.Samples = append(req.Samples, api.Sample{Job: id + cluster.JobID(m), Attempt: 1, Step: 7, Metrics: map[string]float64{"loss": loss}})
		}
		if _, err := n.c.Report(t.Context(), "n1", req); err != nil {
			t.Fatal(err)
		}
	}
	tell(map[int]float64{1: 0.5, 2: 0.1, 3: 0.9})
	_, err = c.Prune(t.Context(), "1", api.PruneRequest{Metric: "loss", Keep: "some"})
	wantProblem(t, err, api.CodeInvalid)
	_, err = s.client(user(1001)).Prune(t.Context(), "1", api.PruneRequest{Metric: "loss", Keep: "top 1"})
	wantProblem(t, err, api.CodeDenied)
	got, err := c.Prune(t.Context(), "1", api.PruneRequest{Metric: "loss", Keep: "top 50%"})
	if err != nil || !slices.Equal(got.Kept, []int{1, 0}) || !slices.Equal(got.Cancelled, []int{2}) || !slices.Equal(got.Silent, []int{3}) {
		t.Fatalf("pruned: %+v, %v", got, err)
	}
	waitFor(1, "CA")
	minute := jobspec.Seconds(60)
	if _, err := c.Update(t.Context(), "1_1", api.UpdateRequest{AddTime: &minute}); err != nil {
		t.Fatal(err)
	}
	if one, _, err = c.JobBy(t.Context(), "1_1", api.Read{}); err != nil || one.TimeLimit != 24*3600+60 {
		t.Errorf("a minute was added: %+v, %v", one, err)
	}
	close(n.hold)
	waitFor(3, "CD")
	_, err = c.Update(t.Context(), "1_1", api.UpdateRequest{AddTime: &minute})
	wantProblem(t, err, api.CodeWrongState)
}

// TestTheRuleOfAnArrayCancelsTheRest lets elements run into stop { keep }.
func TestTheRuleOfAnArrayCancelsTheRest(t *testing.T) {
	s := startOne(t)
	n := newNode(t, s.addrs.HTTP, "n1", 0)
	n.hold = make(chan struct{})
	n.run(t.Context())
	c := s.client(user(1000))
	spec := job("contest")
	spec.Array = &jobspec.Array{Indices: "0-3", Stop: &jobspec.ArrayStop{Metric: "accuracy", Goal: "max", AtStep: 100, Keep: "top 1"}}
	if _, err := c.Submit(t.Context(), "", spec); err != nil {
		t.Fatal(err)
	}
	codes := func() string {
		list, _, err := c.Jobs(t.Context(), api.JobFilter{Refs: []string{"1_[0-3]"}}, api.Read{})
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, j := range list.Items {
			all = append(all, string(j.Code))
		}
		return strings.Join(all, " ")
	}
	until := func(want string) {
		t.Helper()
		eventually(t, want, func() error {
			if got := codes(); got != want {
				return fmt.Errorf("%s", got)
			}
			return nil
		})
	}
	until("R R R R")
	for i, accuracy := range []float64{0.3, 0.8, 0.5} {
		sample := api.Sample{Job: cluster.JobID(2 + i), Attempt: 1, Step: 100, Metrics: map[string]float64{"accuracy": accuracy}}
		if _, err := n.c.Report(t.Context(), "n1", api.ReportRequest{BootID: n.node.BootID, Samples: []api.Sample{sample}}); err != nil {
			t.Fatal(err)
		}
	}
	until("CA R CA R")
	close(n.hold)
	until("CA CD CA CD")
	if j, _, err := c.Job(t.Context(), 1, api.Read{Wait: time.Second}); err != nil || !j.Code.Final() {
		t.Errorf("the array: %+v, %v", j, err)
	}
}

// TestWhatIsReachedCounts whatever has been reported since.
func TestWhatIsReachedCounts(t *testing.T) {
	d := &daemon{}
	d.contests.clear()
	j := &cluster.Job{Parent: 1, Member: 2, Spec: &jobspec.Job{Array: &jobspec.Array{Stop: &jobspec.ArrayStop{Metric: "loss", AtStep: 10}}}}
	d.compete(j, &api.Sample{Step: 9, Metrics: map[string]float64{"loss": 1}})
	if len(d.contests.value) != 0 {
		t.Error("a step too early counts")
	}
	d.compete(j, &api.Sample{Step: 40, Metrics: map[string]float64{"loss": 0.1}, Reached: &api.Reached{Step: 11, Value: 0.5}})
	if got := d.contests.value[1][2]; got != 0.5 {
		t.Errorf("it counts as %v", got)
	}
}
