package sched

import "github.com/rota-hpc/rota/controld/sched/fit"

// put finds spots for a gang. A single worker goes to the node that the policy's placement says: the first that has room, the one with the
// least left, the one with the most, any by chance, or the one on which least becomes useless to others.
func (t *trial) put(g *fit.Gang) ([]fit.Spot, bool) {
	if g.Size() > 1 || t.policy.Placement == "" || t.policy.Placement == "best" {
		return t.room.Place(g)
	}
	if t.policy.Placement == "frag" {
		if t.usual() == nil {
			return t.room.Place(g)
		}
		return t.leaveUsable(g, false)
	}
	defer t.room.Waive(g.For)()
	var nodes []int
	for i := range t.view.Nodes() {
		if t.room.Usable(i, &g.Part, g.Exclude) && t.room.Holds(i, &g.Part) {
			nodes = append(nodes, i)
		}
	}
	if len(nodes) == 0 {
		return nil, false
	}
	node := nodes[0]
	switch t.policy.Placement {
	case "worst":
		for _, n := range nodes {
			if length(t.room.Available(n).Active, t.room.Total(n)) > length(t.room.Available(node).Active, t.room.Total(node)) {
				node = n
			}
		}
	case "random":
		node = nodes[draw(len(nodes), t.policy.Seed, t.view.Index(), uint64(g.For))]
	}
	return t.room.PlaceOn(g, node)
}
