package share

import (
	"cmp"
	"math/big"
)

// Share returns what part of the live cluster a node should have now, by its dominant resource. The caller must not change it.
func (n *Node) Share() *big.Rat { return n.share }

// Due returns what part of the cluster a node is entitled to whatever others ask for. The caller must not change it.
func (n *Node) Due() *big.Rat { return n.due }

// Holding returns what part of the live cluster a node holds together with more, which may be nil. The caller must not change it.
func (n *Node) Holding(more Amount) *big.Rat {
	if more == nil {
		return n.dominant(n.held)
	}
	sum := make(Amount, len(n.held))
	sum.add(n.held)
	sum.add(more)
	return n.dominant(sum)
}

// Above reports whether a node holds more than its share, and more than it is entitled to.
func (n *Node) Above() bool {
	h := n.Holding(nil)
	return h.Cmp(n.share) > 0 && h.Cmp(n.due) > 0
}

// Within reports whether a node that gets more is still within what it is entitled to in every resource that counts.
func (n *Node) Within(more Amount) bool {
	for r, e := range n.entitled {
		if e != nil && part(n.held[r]+more[r], n.tree.live[r]).Cmp(e) > 0 {
			return false
		}
	}
	return true
}

// Limited returns the node at or above n whose limit is in the way of more, and the resource; nil if none is.
func (n *Node) Limited(more Amount) (at *Node, resource int) {
	for m := n; m != nil; m = m.parent {
		for r, l := range m.terms.Limit {
			if l != Unset && more[r] > 0 && m.held[r]+more[r] > l {
				return m, r
			}
		}
	}
	return nil, 0
}

// Usage returns the dominant part that a node's past usage is of the live cluster, times the unit of time of [Node.Use].
func (n *Node) Usage() *big.Rat { return n.dominant(n.used) }

// Ratio returns a node's past usage over what it would have been had it always held what it is entitled to while it was active. Nil stands
// for some usage over nothing.
func (n *Node) Ratio() *big.Rat {
	return over(n.Usage(), new(big.Rat).Mul(n.due, big.NewRat(n.attended, 1)))
}

// over returns a/b, nil for infinite. Nothing over nothing is 0.
func over(a, b *big.Rat) *big.Rat {
	switch {
	case a.Sign() == 0:
		return zero
	case b.Sign() == 0:
		return nil
	}
	return new(big.Rat).Quo(a, b)
}

// compareRatios orders ratios, nil last.
func compareRatios(a, b *big.Rat) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return a.Cmp(b)
}

// HasUsedLess reports whether the usage ratio of a is below that of b.
func HasUsedLess(a, b *Node) bool { return compareRatios(a.Ratio(), b.Ratio()) < 0 }

// Saturation returns how full a node would be with more: its holding over its line; nil if it holds something and is due nothing.
func (n *Node) Saturation(more Amount) *big.Rat { return over(n.Holding(more), n.line) }

// Compare says which of two nodes comes first if each gets more: the less saturated one, then the one that would hold less, then the one that
// has used less in the past, then by name.
func Compare(a *Node, moreA Amount, b *Node, moreB Amount) int {
	if by := compareRatios(a.Saturation(moreA), b.Saturation(moreB)); by != 0 {
		return by
	}
	if by := a.Holding(moreA).Cmp(b.Holding(moreB)); by != 0 {
		return by
	}
	if by := compareRatios(a.Ratio(), b.Ratio()); by != 0 {
		return by
	}
	return cmp.Or(cmp.Compare(a.Name, b.Name), compareKinds(a, b))
}

// compareKinds puts accounts before users of the same name.
func compareKinds(a, b *Node) int {
	switch {
	case a.User == b.User:
		return 0
	case b.User:
		return -1
	}
	return 1
}

// CompareFullness orders siblings by how far they are above their shares, the furthest last.
func CompareFullness(a, b *Node) int {
	return compareRatios(over(a.Holding(nil), a.share), over(b.Holding(nil), b.share))
}

// Part returns the nodes at or above a and b that are siblings: where their ways from the root part. It is nil twice if one is above the
// other.
func Part(a, b *Node) (*Node, *Node) {
	for a.depth > b.depth {
		a = a.parent
	}
	for b.depth > a.depth {
		b = b.parent
	}
	if a == b {
		return nil, nil
	}
	for a.parent != b.parent {
		a, b = a.parent, b.parent
	}
	return a, b
}
