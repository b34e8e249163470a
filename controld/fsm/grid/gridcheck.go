package grid

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// CompareNode compares node n, at position i of g, with a grid that was made anew and has the node
// at position k. It also checks that the node is in its bucket and in no other. Claims are left
// out.
func (g *Grid) CompareNode(i int, n *model.Node, anew *Grid, k int) error {
	r, want := g.at(i), anew.at(k)
	switch {
	case g.nodes[i] != n || *r != *want || g.usable[i] != anew.usable[k] || g.total[i] != anew.total[k]:
		return fmt.Errorf("room on node %s is %+v, recomputed %+v", n.Name, *r, *want)
	case !slices.Equal(g.LentOn(i), anew.LentOn(k)):
		return fmt.Errorf("node %s has lent %d thousandths of GPUs, recomputed %d", n.Name, g.LentOn(i), anew.LentOn(k))
	case r.cores < 0 || r.memory < 0 || r.residentMem < 0 || r.residentGPU < 0:
		return fmt.Errorf("jobs hold more on node %s than it has: %+v", n.Name, *r)
	}
	for b := range g.Buckets() {
		in := g.Bucket(b)[i/64]&(1<<(i%64)) != 0
		if in != (r.up && !r.whole && bits.OnesCount64(r.gpus) == b) {
			return fmt.Errorf("bucket %d of the grid does not match node %s: %v", b, n.Name, in)
		}
	}
	return nil
}
