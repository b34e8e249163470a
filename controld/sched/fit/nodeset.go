package fit

import "slices"

// NodeSet is a set of nodes, as bits by position; nil stands for all.
type NodeSet []uint64

// Nodes returns a set of some nodes.
func (r *Room) Nodes(nodes ...int) NodeSet {
	set := make(NodeSet, (r.grid.Len()+63)/64)
	for _, n := range nodes {
		set[n/64] |= 1 << (n % 64)
	}
	return set
}

// Has reports whether a node is in a set.
func (s NodeSet) Has(node int) bool { return s == nil || s[node/64]&(1<<(node%64)) != 0 }

// and returns the nodes that are in two sets.
func (s NodeSet) and(o NodeSet) NodeSet {
	switch {
	case s == nil:
		return o
	case o == nil:
		return s
	}
	set := slices.Clone(s)
	for i := range set {
		set[i] &= o[i]
	}
	return set
}
