package fit

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// A gang that may have more workers on a node than any node holds gets the fewest nodes. So does a
// gang whose bound is the capacity of the largest node.
func TestPlaceManyOnANode(t *testing.T) {
	placed, several := 0, 0
	eachSeed(t, 2000, func(seed uint64) error {
		ports := 50
		if seed%3 == 0 {
			ports = 2
		}
		s := newSmall(seed, ports)
		g := NewGang(s.state.View(), s.submit(9+s.random.IntN(8), 1, jobspec.Resources{Cores: 1,
			Memory: jobspec.GiB / 4, GPUs: s.random.IntN(4) / 3}))
		v := s.state.View()
		room := NewRoom(v)
		g.PerNode = 8 // cores of the largest node
		narrow, want := room.Place(&g)
		narrow = slices.Clone(narrow)
		g.PerNode = 8 + 1 + s.random.IntN(100)
		spots, ok := room.Place(&g)
		if ok != want || !slices.EqualFunc(spots, narrow, func(a, b Spot) bool { return a.Node == b.Node }) {
			return fmt.Errorf("%v, and %v where a node may have 8, for %+v", spots, narrow, g)
		}
		nodes := map[int]bool{}
		for _, spot := range spots {
			nodes[spot.Node] = true
		}
		if n := fewest(v, g, 0, g.Workers, false) - 1; ok != (n > 0) || ok && ports == 50 && len(nodes) != n {
			return fmt.Errorf("%d nodes, %d would do, for %+v: %v", len(nodes), n, g, spots)
		}
		if ok {
			placed++
		}
		if len(nodes) > 1 {
			several++
		}
		return nil
	})
	if *seedFlag == 0 && (placed < 200 || several < 50) {
		t.Errorf("only %d of 2000 cases were placed, %d of them on several nodes: they prove too little", placed, several)
	}
}

// BenchmarkWideGang asks whether 4,096 workers fit on 1,000 nodes that have room for 4 each.
func BenchmarkWideGang(b *testing.B) {
	s := &small{state: fsm.New(cluster.DefaultConfig())}
	for n := range 1000 {
		s.apply(fsm.RegisterNode{Node: model.Node{Name: fmt.Sprintf("n%d", n), Addr: "127.0.0.1:1", BootID: "boot",
			Version: "test", Cores: 4, Memory: 512 * jobspec.GiB, PortMin: 29000, PortMax: 29100}})
	}
	for _, perNode := range []int{1, 4, 4096} {
		b.Run(fmt.Sprintf("pernode=%d", perNode), func(b *testing.B) {
			g := NewGang(s.state.View(), s.submit(4096, perNode, jobspec.Resources{Cores: 1, Memory: jobspec.GiB}))
			room := NewRoom(s.state.View())
			for b.Loop() {
				room.Fits(&g)
			}
		})
	}
}
