package drf

import "cmp"

// Share returns the part of the live cluster that a node should have now, by its dominant resource.
func (n *TreeNode) Share() Fraction { return n.share }

// Due returns the part of the cluster that a node is entitled to whatever others ask for.
func (n *TreeNode) Due() Fraction { return n.due }

// DuePart returns the given thousandths of a node's entitlement.
func (n *TreeNode) DuePart(thousandths int64) Fraction {
	return n.due.Times(fraction(thousandths, 1000))
}

// Holding returns the part of the live cluster that a node holds together with more, which may be
// nil.
func (n *TreeNode) Holding(more Amount) Fraction {
	if more == nil {
		return n.dominant(n.held)
	}
	sum := n.could // of use only while shares are settled
	for r := range sum {
		sum[r] = n.held[r] + more[r]
	}
	return n.dominant(sum)
}

// Above reports whether a node holds more than its share, and more than it is entitled to.
func (n *TreeNode) Above() bool {
	h := n.Holding(nil)
	return h.Cmp(n.share) > 0 && h.Cmp(n.due) > 0
}

// Within reports whether a node with more stays within its entitlement in every resource that
// counts.
func (n *TreeNode) Within(more Amount) bool {
	for r, most := range n.entitled.most {
		if n.held[r]+more[r] > most {
			return false
		}
	}
	return true
}

// Guaranteed reports whether something is configured that a node, or one above it, deserves. All
// other entitlements follow from the number of nodes alone.
func (n *TreeNode) Guaranteed() bool {
	for m := n; m != nil; m = m.parent {
		if m.deserves() {
			return true
		}
	}
	return false
}

// Bounded reports whether a limit is configured of a node or of one above it.
func (n *TreeNode) Bounded() bool {
	for m := n; m != nil; m = m.parent {
		if m.terms.Limit != nil {
			return true
		}
	}
	return false
}

// Usage returns the dominant part that a node's past usage is of the live cluster, times the unit
// of time of [TreeNode.Use].
func (n *TreeNode) Usage() Fraction { return n.dominant(n.Used()) }

// Ratio returns a node's past usage relative to its entitlement over the time that it was active.
// Holdings of the node do not change it.
func (n *TreeNode) Ratio() Ratio {
	if n.ratio == nil {
		usage := n.Usage() // which also finds out for how long the node has been active
		r := ratio(usage, n.due.Times(fraction(n.attended, 1)))
		n.ratio = &r
	}
	return *n.ratio
}

// Ratio is one part over another. Something over nothing is infinite, nothing over nothing is 0.
type Ratio struct {
	value    Fraction
	infinite bool
}

func ratio(of, over Fraction) Ratio {
	switch {
	case of.Sign() == 0:
		return Ratio{value: zero}
	case over.Sign() == 0:
		return Ratio{infinite: true}
	}
	return Ratio{value: of.Over(over)}
}

// Value returns a ratio as a number, false if it is infinite.
func (r Ratio) Value() (Fraction, bool) { return r.value, !r.infinite }

// Compare orders ratios, infinite ones last and alike.
func (r Ratio) Compare(o Ratio) int {
	switch {
	case r.infinite == o.infinite:
		return r.value.cmp(&o.value)
	case r.infinite:
		return 1
	}
	return -1
}

// HasUsedLess reports whether the usage ratio of a is below that of b.
func HasUsedLess(a, b *TreeNode) bool { return a.Ratio().Compare(b.Ratio()) < 0 }

// Saturation returns how full a node would be with more: its holding over its line.
func (n *TreeNode) Saturation(more Amount) Ratio { return ratio(n.Holding(more), n.line) }

// Compare says which of two nodes comes first if each gets more.
func Compare(a *TreeNode, moreA Amount, b *TreeNode, moreB Amount) int {
	x, y := a.Candidate(moreA), b.Candidate(moreB)
	return x.Compare(&y)
}

// Candidate is a node with an additional amount. Its holdings are computed once for many
// comparisons.
type Candidate struct {
	node  *TreeNode
	holds Fraction
}

// Candidate returns the node with an additional amount. It is outdated when holdings change.
func (n *TreeNode) Candidate(more Amount) Candidate { return Candidate{n, n.Holding(more)} }

// Compare says which of two comes first: the less saturated one, then the smaller holding, then the
// smaller past usage, then the name.
func (c *Candidate) Compare(o *Candidate) int {
	a, b := c.node, o.node
	if a.line != b.line { // else the holdings decide
		if by := ratio(c.holds, a.line).Compare(ratio(o.holds, b.line)); by != 0 {
			return by
		}
	}
	if by := c.holds.cmp(&o.holds); by != 0 {
		return by
	}
	if by := a.Ratio().Compare(b.Ratio()); by != 0 {
		return by
	}
	return cmp.Or(cmp.Compare(a.Name, b.Name), compareKinds(a, b))
}

// compareKinds puts accounts before users of the same name.
func compareKinds(a, b *TreeNode) int {
	switch {
	case a.User == b.User:
		return 0
	case b.User:
		return -1
	}
	return 1
}

// CompareFullness orders siblings by how far they are above their shares, the furthest last.
func CompareFullness(a, b *TreeNode) int {
	return ratio(a.Holding(nil), a.share).Compare(ratio(b.Holding(nil), b.share))
}

// Part returns the nodes at or above a and b that are siblings: where their ways from the root
// part. It is nil twice if one is above the other.
func Part(a, b *TreeNode) (*TreeNode, *TreeNode) {
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
