package grid

import (
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// Replace puts the node at position i, on which each of held runs, in place of what was there.
func (g *Grid) Replace(i int, nodes []*model.Node, held []Held) {
	g.sort(i, false)
	g.nodes, g.usable, g.total = nodes, slices.Clone(g.usable), slices.Clone(g.total)
	g.usable[i], g.total[i] = model.Healthy(nodes[i]), Capacity(nodes[i])
	g.settle(i, held)
	if len(nodes[i].GPUs) >= g.Buckets() {
		g.fillBuckets()
		return
	}
	g.sort(i, true)
}

// Insert adds a node, on which nothing runs, at position i.
func (g *Grid) Insert(i int, nodes []*model.Node) {
	g.nodes = nodes
	g.usable = slices.Insert(slices.Clone(g.usable), i, model.Healthy(nodes[i]))
	g.total = slices.Insert(slices.Clone(g.total), i, Capacity(nodes[i]))
	g.makePlace(i)
	if len(g.lent) > 0 {
		g.lent = slices.Insert(g.lent, i*g.stride, make([]uint16, g.stride)...)
	}
	g.settle(i, nil)
	g.fillBuckets()
}

// settle makes the room of node i anew without putting it into a bucket.
func (g *Grid) settle(i int, held []Held) {
	g.recall(i)
	rm := g.ownRoom(i)
	*rm = empty(g.nodes[i])
	rm.up = false
	for _, n := range held {
		g.Allocate(i, n.Request, n.GPUs)
	}
	rm.up = g.nodes[i].State == model.NodeUp
}

// Rebuild makes the free capacity of node i anew from what its workers hold.
func (g *Grid) Rebuild(i int, held []Held) {
	g.sort(i, false)
	g.settle(i, held)
	g.sort(i, true)
}

// makePlace moves the room on the nodes from position i on up by one, and leaves none there.
func (g *Grid) makePlace(i int) {
	g.resize()
	for k := len(g.nodes) - 1; k > i; k-- {
		to, from := g.ownPage(k/pageNodes), g.pages[(k-1)/pageNodes]
		to.room[k%pageNodes], to.claims[k%pageNodes] = from.room[(k-1)%pageNodes], from.claims[(k-1)%pageNodes]
	}
	p := g.ownPage(i / pageNodes)
	p.room[i%pageNodes], p.claims[i%pageNodes] = freeCapacity{}, model.Vector{}
}

// Held is what one worker holds of a node: its request and the GPUs that it was given.
type Held struct {
	Request model.Request
	GPUs    []int
}

// OrNone makes "no GPUs" differ from "any GPUs".
func OrNone(gpus []int) []int {
	if gpus == nil {
		return []int{}
	}
	return gpus
}
