package sched

import "testing"

// TestMenusAgainstReference compares the cheapest set of victims, where elastic jobs may leave whole or give up workers, with the cheapest of all sets.
func TestMenusAgainstReference(t *testing.T) {
	given, whole, both := 0, 0, 0
	first, last := uint64(1), uint64(states(1_500))
	if *seedFlag != 0 {
		first, last = *seedFlag, *seedFlag
	}
	for seed := first; seed <= last; seed++ {
		c := newContest(seed, "rota", map[string]int{})
		names := ""
		for k := range 2 + c.random.IntN(3) {
			c.must("submit e%d elastic=%d-%d gpus=%d cores=%d memory=%d grace=%ds save=yes", k, 1+c.random.IntN(2), 3+c.random.IntN(4), c.random.IntN(2),
				1+c.random.IntN(2), 1+c.random.IntN(2), 1+c.random.IntN(600))
		}
		for k := range 1 + c.random.IntN(4) {
			c.must("submit v%d gpus=%d cores=%d memory=%d grace=%ds", k, c.random.IntN(3), 1+c.random.IntN(4), 1+c.random.IntN(6), 1+c.random.IntN(600))
		}
		c.must("cycle")
		for j := range c.state.View().Live() {
			names += " " + c.names[j.ID]
		}
		c.must("run%s", names)
		c.must("advance 1h")
		c.must("submit x class=te gpus=%d cores=%d memory=%d", 1+c.random.IntN(4), 1+c.random.IntN(6), 1+c.random.IntN(8))
		v := c.state.View()
		tr := trialOf(v, c.now)
		m := makerOn(tr)
		m.elastic = flexibles(tr)
		r, g := m.all(), tr.gang(v.Job(c.ids["x"]))
		plain := len(r.victims)
		withdraw := m.offerMenus(&g, func(*victim) int { return 0 })
		tr.room.WaiveSoft()
		got, want := newSearch(tr, r, &g, 0).best(), reference(tr, r, &g)
		if (got == nil) != (want < 0) || got != nil && (got.cost != want || got.inexact) {
			t.Fatalf("seed=%d: found %+v, the cheapest costs %d", seed, got, want)
		}
		if got != nil {
			dishes := 0
			for _, i := range got.victims {
				if r.victims[i].surplus != nil {
					dishes++
				}
			}
			switch {
			case dishes == 0 && len(got.victims) > 0:
				whole++
			case dishes > 0 && dishes == len(got.victims):
				given++
			case dishes > 0:
				both++
			}
		}
		if withdraw(); len(r.victims) != plain {
			t.Fatalf("seed=%d: %d victims are left of %d", seed, len(r.victims), plain)
		}
		for node := range r.on {
			for _, i := range r.on[node] {
				if int(i) >= plain || r.victims[i].twin != 0 {
					t.Fatalf("seed=%d: something of a menu is left on node %d", seed, node)
				}
			}
		}
	}
	t.Logf("%d sets of workers that jobs gave up, %d of whole jobs, %d of both", given, whole, both)
	if *seedFlag == 0 && (given == 0 || whole == 0 || both == 0) {
		t.Errorf("%d sets of workers that jobs gave up, %d of whole jobs, %d of both", given, whole, both)
	}
}
