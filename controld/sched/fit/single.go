package fit

// Holds reports whether a node has room for one worker of a part beside what others claim.
func (r *Room) Holds(node int, p *Part) bool { return r.holds(node, p.Request, 1) }

// PlaceOn is Place on one node only.
func (r *Room) PlaceOn(g *Gang, node int) ([]Spot, bool) {
	only := *g
	only.Nodes = make([]uint64, (r.grid.Len()+63)/64)
	only.Nodes[node/64] |= 1 << (node % 64)
	return r.Place(&only)
}
