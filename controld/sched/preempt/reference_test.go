package preempt_test

import (
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// TestSearchAgainstReference compares the cheapest set of victims with the cheapest of all sets,
// tried one by one.
func TestSearchAgainstReference(t *testing.T) {
	found, several := 0, 0
	first, last := uint64(1), uint64(schedtest.States(4_000))
	if *schedtest.Seed != 0 {
		first, last = *schedtest.Seed, *schedtest.Seed
	}
	for seed := first; seed <= last; seed++ {
		c := schedtest.NewContest(seed, "rota", map[string]int{})
		for k := range 3 + c.Random.IntN(6) {
			workers := 1
			if seed%4 == 0 && c.Random.IntN(3) == 0 {
				workers = 2
			}
			c.Must("submit v%d gang=%dx%d per-node=1 cores=%d memory=%d grace=%ds", k, workers, c.Random.IntN(4),
				1+c.Random.IntN(4), 1+c.Random.IntN(6), 1+c.Random.IntN(600))
		}
		c.Must("cycle")
		c.Must("advance 1h")
		c.Must("submit x class=te gang=%dx%d per-node=%d cores=%d memory=%d", 1+c.Random.IntN(3), 1+c.Random.IntN(4),
			1+c.Random.IntN(2), 1+c.Random.IntN(6), 1+c.Random.IntN(8))
		v := c.State.View()
		tr := schedtest.TrialOf(v, c.Now)
		m := preemptorOn(tr)
		r := m.All()
		g := tr.Gang(v.Job(c.Ids["x"]))
		tr.Room.LiftHeads()
		got, want := preempt.NewSearch(tr, r, preempt.Question{Gang: &g}).Best(), reference(tr, r, &g)
		switch {
		case (got == nil) != (want < 0):
			t.Fatalf("seed=%d: found %+v, the cheapest costs %d: %+v %+v", seed, got, want, g, r)
		case got == nil:
			continue
		// victims on several nodes may hide the cheapest set of all
		case got.Cost < want, got.Cost > want && seed%4 != 0:
			t.Fatalf("seed=%d: found %+v, the cheapest costs %d", seed, got, want)
		}
		found++
		if len(got.Candidates) > 1 {
			several++
		}
	}
	if *schedtest.Seed == 0 && (found < int(last)/3 || several < int(last)/20) {
		t.Errorf("only %d sets found, %d of them of several victims", found, several)
	}
}

// reference returns the cost of the cheapest set of victims, -1 if there is none, by trying all.
func reference(t *scratch.State, r *preempt.Candidates, g *fit.Gang) int64 {
	best := int64(-1)
	for set := range 1 << len(r.List) {
		var cost int64
		freed := make([]model.Request, len(t.View.Nodes()))
		for i := range r.List {
			if set&(1<<i) == 0 {
				continue
			}
			if twin := r.List[i].Alternative(); twin != 0 && set&(1<<(twin-1)) != 0 {
				cost = preempt.Dear // both what a job has beyond its least and all of it
				break
			}
			cost += r.List[i].Score
			for _, s := range r.List[i].Rooms {
				freed[s.Node] = freed[s.Node].Plus(s.Room)
			}
		}
		if cost >= preempt.Dear {
			continue
		}
		var holds []int
		for n := range freed {
			holds = append(holds, preempt.WorkersIn(&g.Component, t.Room.Available(n).Plus(freed[n])))
		}
		slices.Sort(holds)
		left, nodes := g.Workers, int64(0)
		for _, n := range slices.Backward(holds) {
			if left > 0 && n > 0 {
				left -= n
				nodes++
			}
		}
		if cost += (nodes - 1) * preempt.One * preempt.NodeWeight / 1000; left <= 0 && (best < 0 || cost < best) {
			best = cost
		}
	}
	return best
}
