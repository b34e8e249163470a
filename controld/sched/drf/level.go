package drf

import "slices"

// filling is one child while its parent's share is divided.
type filling struct {
	node *TreeNode
	rate Fraction // its part of spare capacity relative to its siblings
	full Fraction // level at which it has all that it could make use of
}

// fill raises the level for all children with a rate until each can use no more or left is used up.
// It returns the remainder.
func (n *TreeNode) fill(left Fraction, rates []Fraction) Fraction {
	line := make([]filling, 0, len(n.children))
	all := zero
	for i, c := range n.children {
		if rates[i].Sign() > 0 {
			all = all.Plus(rates[i])
			line = append(line, filling{c, rates[i], c.demand.Minus(c.share).Over(rates[i])})
		}
	}
	if len(line) == 0 {
		return left
	}
	slices.SortFunc(line, func(a, b filling) int { return a.full.cmp(&b.full) })
	top, rest := level(line, left, all)
	top = top.reduced()
	var last *filling
	for i := range line {
		line[i].settle(&top, last)
		last = &line[i]
	}
	return rest
}

// level returns how high the level rises over a line, and the remainder. The line is in the order
// in which its members have enough, and total is the sum of their rates. It serves one member after
// another. When all have, it goes on rising for all, but nothing is given away.
func level(line []filling, left, total Fraction) (top, rest Fraction) {
	at, over := zero, total
	for i := range line {
		f := &line[i]
		cost := f.full.Minus(at).Times(over)
		if cost.cmp(&left) > 0 {
			break
		}
		left, at, over = left.Minus(cost), f.full, over.Minus(f.rate)
	}
	if over.Sign() > 0 {
		return at.Plus(left.Over(over)), zero
	}
	return at.Plus(left.Over(total)), left
}

// settle sets the share of one child at a level. It copies the line of another child with the same
// entitlements and rate, if one is known.
func (f *filling) settle(top *Fraction, like *filling) {
	n := f.node
	if like != nil && like.rate == f.rate && like.node.due == n.due {
		n.line = like.node.line
	} else {
		n.line = n.due.Plus(f.rate.Times(*top))
	}
	n.share = n.line // a node that wants more gets its entitlement, and then as much as all
	if f.full.cmp(top) <= 0 {
		n.share = n.demand
	}
}
