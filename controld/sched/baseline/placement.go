package baseline

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/place"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// put finds spots for a gang. The policy's placement selects the node of a single worker. It is the
// first node with room, the one with the least or the most left, or a random one. Placement frag
// selects the node on which least becomes useless to others.
func put(t *scratch.State, pack *place.Packer, g *fit.Gang) ([]fit.Spot, bool) {
	if g.Size() > 1 || t.Policy.Placement == "" || t.Policy.Placement == "best" {
		return t.Room.Place(g)
	}
	if t.Policy.Placement == "frag" {
		if pack.Usual() == nil {
			return t.Room.Place(g)
		}
		return pack.LeaveUsable(g, nil)
	}
	lifted := t.Room.Lift(g.For)
	defer lifted.Restore()
	nodes := slices.Collect(t.Room.Holding(g))
	if len(nodes) == 0 {
		return nil, false
	}
	node := nodes[0]
	switch t.Policy.Placement {
	case "worst":
		free := func(n int) float64 { return fit.Length(t.Room.Available(n).Active, t.Room.Total(n)) }
		node = slices.MaxFunc(nodes, func(a, b int) int { return cmp.Compare(free(a), free(b)) })
	case "random":
		node = nodes[draw(len(nodes), t.Policy.Seed, t.View.Index(), uint64(g.For))]
	}
	return t.Room.PlaceOn(g, node)
}

// draw returns a number below n that depends on nothing but the numbers given: chance that is the
// same on every replica.
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
