package cluster

import "slices"

// replace puts the node at position i, on which each of held runs, in place of what was there.
func (g *Grid) replace(i int, nodes []*Node, held []Held) {
	g.sort(i, false)
	g.nodes, g.usable, g.total = nodes, slices.Clone(g.usable), slices.Clone(g.total)
	g.usable[i], g.total[i] = healthy(nodes[i]), capacity(nodes[i])
	g.settle(i, held)
	if len(nodes[i].GPUs) >= g.Buckets() {
		g.fillBuckets()
		return
	}
	g.sort(i, true)
}

// insert adds a node, on which nothing runs, at position i.
func (g *Grid) insert(i int, nodes []*Node) {
	g.nodes = nodes
	g.usable = slices.Insert(slices.Clone(g.usable), i, healthy(nodes[i]))
	g.total = slices.Insert(slices.Clone(g.total), i, capacity(nodes[i]))
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
		g.Take(i, n.Request, n.GPUs)
	}
	rm.up = g.nodes[i].State == NodeUp
}

// rebuild makes the free capacity of node i anew from what its workers hold.
func (g *Grid) rebuild(i int, held []Held) {
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
	p.room[i%pageNodes], p.claims[i%pageNodes] = freeCapacity{}, Vector{}
}

// Held is what one worker holds of a node: its request and the GPUs that it was given.
type Held struct {
	Request Request
	GPUs    []int
}

// heldOn returns what the workers on a node hold.
func (s *State) heldOn(i int) []Held {
	h, _ := s.v.holdings.get(int64(i))
	needs := make([]Held, 0, len(h.workers))
	for _, w := range h.workers {
		needs = append(needs, s.v.Job(w.job).needOf(w.worker))
	}
	return needs
}

// orNone makes "no GPUs" differ from "any GPUs".
func orNone(gpus []int) []int {
	if gpus == nil {
		return []int{}
	}
	return gpus
}

// regrid returns the grid made anew from nodes, what runs on them, and reservations.
func (s *State) regrid() *Grid {
	g := newGrid(s.v.nodes)
	for i := range s.v.nodes {
		g.rebuild(i, s.heldOn(i))
	}
	for _, r := range s.v.reservations {
		s.v.eachClaim(r, g.Claim)
	}
	return g
}
