package preempt_test

import (
	"testing"

	"github.com/rota-hpc/rota/controld/sched/elastic"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
)

// TestMenusAgainstReference compares the cheapest set of victims, where elastic jobs may leave
// whole or give up workers, with the cheapest of all sets.
func TestMenusAgainstReference(t *testing.T) {
	given, whole, both := 0, 0, 0
	first, last := uint64(1), uint64(schedtest.States(1_500))
	if *schedtest.Seed != 0 {
		first, last = *schedtest.Seed, *schedtest.Seed
	}
	for seed := first; seed <= last; seed++ {
		c := schedtest.NewContest(seed, "rota", map[string]int{})
		names := ""
		for k := range 2 + c.Random.IntN(3) {
			c.Must("submit e%d elastic=%d-%d gpus=%d cores=%d memory=%d grace=%ds save=yes", k, 1+c.Random.IntN(2),
				3+c.Random.IntN(4), c.Random.IntN(2),
				1+c.Random.IntN(2), 1+c.Random.IntN(2), 1+c.Random.IntN(600))
		}
		for k := range 1 + c.Random.IntN(4) {
			c.Must("submit v%d gpus=%d cores=%d memory=%d grace=%ds", k, c.Random.IntN(3), 1+c.Random.IntN(4),
				1+c.Random.IntN(6), 1+c.Random.IntN(600))
		}
		c.Must("cycle")
		for j := range c.State.View().Live() {
			names += " " + c.Names[j.ID]
		}
		c.Must("run%s", names)
		c.Must("advance 1h")
		c.Must("submit x class=te gpus=%d cores=%d memory=%d", 1+c.Random.IntN(4), 1+c.Random.IntN(6), 1+c.Random.IntN(8))
		v := c.State.View()
		tr := schedtest.TrialOf(v, c.Now)
		m := preemptorOn(tr)
		m.Elastic = elastic.Running(tr)
		r, g := m.All(), tr.Gang(v.Job(c.Ids["x"]))
		plain := len(r.List)
		atOnce := func(*preempt.Candidate) int { return 0 }
		q := m.Ask(&g, atOnce)
		before := m.OfferPartial(&q, atOnce)
		tr.Room.LiftHeads()
		got, want := preempt.NewSearch(tr, r, q).Best(), reference(tr, r, &g)
		if (got == nil) != (want < 0) || got != nil && (got.Cost != want || got.Inexact) {
			t.Fatalf("seed=%d: found %+v, the cheapest costs %d", seed, got, want)
		}
		if got != nil {
			partial := 0
			for _, i := range got.Candidates {
				if r.List[i].Surplus != nil {
					partial++
				}
			}
			switch {
			case partial == 0 && len(got.Candidates) > 0:
				whole++
			case partial > 0 && partial == len(got.Candidates):
				given++
			case partial > 0:
				both++
			}
		}
		if r.Withdraw(before); len(r.List) != plain {
			t.Fatalf("seed=%d: %d victims are left of %d", seed, len(r.List), plain)
		}
		for node := range r.On {
			for _, i := range r.On[node] {
				if int(i) >= plain || r.List[i].Alternative() != 0 {
					t.Fatalf("seed=%d: something of a menu is left on node %d", seed, node)
				}
			}
		}
	}
	t.Logf("%d sets of workers that jobs gave up, %d of whole jobs, %d of both", given, whole, both)
	if *schedtest.Seed == 0 && (given == 0 || whole == 0 || both == 0) {
		t.Errorf("%d sets of workers that jobs gave up, %d of whole jobs, %d of both", given, whole, both)
	}
}
