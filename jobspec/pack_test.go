package jobspec

import "testing"

// TestWorkersShareNodesByDefault notices workers that take more nodes than they need, and ones that
// share a node although each is to have one for itself.
func TestWorkersShareNodesByDefault(t *testing.T) {
	no := false
	launch := func(l Launch) func(*Group) { return func(g *Group) { g.Tasks[0].Launch = &l } }
	for name, c := range map[string]struct {
		edit func(*Group)
		want int
	}{
		"one":               {func(g *Group) { g.Count = 0 }, 1},
		"several":           {func(*Group) {}, 5},
		"as written":        {func(g *Group) { g.MaxWorkersPerNode = 2 }, 2},
		"elastic":           {func(g *Group) { g.Count, g.Elastic = 0, &Elastic{Min: 2, Max: 7} }, 7},
		"too many":          {func(g *Group) { g.Count = MaxWorkers + 1 }, MaxWorkers},
		"one by one":        {func(g *Group) { g.Gang = &no }, 5},
		"whole nodes":       {func(g *Group) { g.Exclusive = true }, 1},
		"each a whole node": {func(g *Group) { g.Gang, g.Exclusive = &no, true }, 5},
		"steps":             {launch(Launch{Type: LaunchSteps, Nproc: 4}), 1},
		"c10d":              {launch(Launch{Type: "torchrun", Rdzv: "c10d"}), 1},
		"torchrun":          {launch(Launch{Type: "torchrun"}), 5},
		"ranks":             {launch(Launch{Type: "slurm", Nproc: 4}), 5},
		"a rank a GPU":      {launch(Launch{Type: "per_gpu"}), 5},
	} {
		g := Group{Count: 5, Tasks: []Task{{Name: "main"}}}
		c.edit(&g)
		for range 2 { // a second time changes nothing
			if g.Default(); g.MaxWorkersPerNode != c.want {
				t.Errorf("%s: %d on a node, want %d", name, g.MaxWorkersPerNode, c.want)
			}
		}
	}
}
