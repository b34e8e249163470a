package sched

import (
	"math/bits"

	"github.com/rota-hpc/rota/controld/sched/fit"
)

// put finds spots for a gang. A single worker goes to the node that the policy's placement says: the first that has room, the one with the
// least left, the one with the most, any by chance, or the one on which least becomes useless to others.
func put(t *packer, g *fit.Gang) ([]fit.Spot, bool) {
	if g.Size() > 1 || t.policy.Placement == "" || t.policy.Placement == "best" {
		return t.room.Place(g)
	}
	if t.policy.Placement == "frag" {
		if t.usual() == nil {
			return t.room.Place(g)
		}
		return t.leaveUsable(g, nil)
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
			if fit.Length(t.room.Available(n).Active, t.room.Total(n)) > fit.Length(t.room.Available(node).Active, t.room.Total(node)) {
				node = n
			}
		}
	case "random":
		node = nodes[draw(len(nodes), t.policy.Seed, t.view.Index(), uint64(g.For))]
	}
	return t.room.PlaceOn(g, node)
}

// draw returns a number below n that depends on nothing but the numbers given: chance that is the same on every replica.
func draw(n int, seeds ...uint64) int {
	x := uint64(0x9e3779b97f4a7c15)
	for _, s := range seeds {
		x = mix(x ^ s)
	}
	hi, _ := bits.Mul64(x, uint64(n))
	return int(hi)
}

// mix is the finaliser of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
