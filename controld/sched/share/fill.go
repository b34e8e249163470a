package share

import (
	"cmp"
	"math/bits"
	"slices"
)

// Settle works out what everybody is entitled to and what their shares are. What is noted later changes holdings only, until it is called
// again. influence, in thousandths, is how much past usage counts when that is divided which nobody is entitled to: 0 not at all; with
// 1000, who has used twice his part of late gets nothing of it as long as others want it.
func (t *Tree) Settle(influence int64) {
	t.root.ask()
	t.root.entitled = make([]entitlement, len(t.live))
	for r := range min(Models, len(t.live)) {
		if t.live[r] > 0 {
			t.root.entitled[r] = entitlement{one, true}
		}
	}
	t.nothing = make([]entitlement, len(t.live))
	t.root.entitle()
	t.root.measure(make(Amount, len(t.live)))
	t.root.due, t.root.share, t.root.line = one, one, one
	t.root.divide(influence)
}

// entitlement is what part of a resource a node is entitled to; not set for one that does not count.
type entitlement struct {
	part Fraction
	set  bool
}

// ask finds out who is active.
func (n *Node) ask() {
	n.active = !n.held.zero() || !n.wanted.zero()
	for _, c := range n.children {
		c.ask()
	}
}

// entitle divides what a node is entitled to among its children, and so on.
func (n *Node) entitle() {
	for r, l := range n.terms.Limit {
		if l != Unset && n.entitled[r].set {
			n.entitled[r].part = least(n.entitled[r].part, part(l, n.tree.live[r]))
		}
	}
	split := n.prepare()
	rest := one // what part of its own the node's configured children leave, of that resource of which they leave least
	for r, whole := range n.entitled {
		if n.tree.live[r] > 0 {
			rest = least(rest, n.grant(r, whole))
		}
	}
	if split > 0 {
		n.splitRest(rest.Over(fraction(int64(split), 1)))
	}
	for _, c := range n.children {
		c.entitle()
	}
}

// prepare makes place for what those children deserve of whom something is configured, and counts those who split what is left.
func (n *Node) prepare() (split int) {
	for _, c := range n.children {
		switch {
		case c.deserves():
			c.entitled = make([]entitlement, len(n.entitled))
		case c.active:
			split++
		default:
			c.entitled = n.tree.nothing
		}
	}
	return split
}

// splitRest gives a part of what a node is entitled to to each child that is active and deserves nothing by itself. They are all entitled to
// the same, so they share one list, but for those whose own limit will change it.
func (n *Node) splitRest(each Fraction) {
	parts := make([]entitlement, len(n.entitled))
	for r, whole := range n.entitled {
		if whole.set {
			parts[r] = entitlement{whole.part.Times(each), true}
		}
	}
	for _, c := range n.children {
		if !c.active || c.deserves() {
			continue
		}
		if c.entitled = parts; c.terms.Limit != nil {
			c.entitled = slices.Clone(parts)
		}
	}
}

// deserves reports whether something is configured that a node deserves.
func (n *Node) deserves() bool {
	return n.terms.Deserved != nil && slices.ContainsFunc(n.terms.Deserved, func(a int64) bool { return a != Unset })
}

// grant gives a node's children what they deserve of a resource by the configuration, scaled down to whole if it is more. What is not set
// sets no bound. It returns what part of whole is left.
func (n *Node) grant(r int, whole entitlement) Fraction {
	sum := zero
	for _, c := range n.children {
		if d := c.terms.Deserved; d != nil && d[r] != Unset {
			c.entitled[r] = entitlement{part(d[r], n.tree.configured[r]), true}
			sum = sum.Plus(c.entitled[r].part)
		}
	}
	if !whole.set || sum.Sign() == 0 {
		return one
	}
	if sum.Cmp(whole.part) <= 0 {
		return one.Minus(sum.Over(whole.part))
	}
	scale := whole.part.Over(sum)
	for _, c := range n.children {
		if d := c.terms.Deserved; d != nil && d[r] != Unset {
			c.entitled[r].part = c.entitled[r].part.Times(scale)
		}
	}
	return zero
}

// part returns what part of all an amount is; none of nothing.
func part(amount, all int64) Fraction {
	if all <= 0 || amount <= 0 {
		return zero
	}
	return fraction(amount, all)
}

// measure works out, from the leaves up, what each node is due and how much it could make use of, and adds the latter to sum: of no resource
// more than its limit.
func (n *Node) measure(sum Amount) {
	could := n.could
	if len(n.children) == 0 {
		for r := range could {
			could[r] = n.held[r] + n.wanted[r]
		}
	} else {
		clear(could)
	}
	for _, c := range n.children {
		c.measure(could)
	}
	for r := range could {
		if l := n.terms.Limit; l != nil && l[r] != Unset {
			could[r] = min(could[r], l[r])
		}
	}
	n.demand = n.dominant(could)
	n.due = zero
	for _, e := range n.entitled {
		if e.set && e.part.Cmp(n.due) > 0 {
			n.due = e.part
		}
	}
	sum.add(could)
}

// dominant returns the largest part of the live cluster that an amount is, over the resources that count for a node.
func (n *Node) dominant(a Amount) Fraction {
	best := -1
	for r := range n.entitled {
		if n.entitled[r].set && a[r] > 0 && n.tree.live[r] > 0 && (best < 0 || greater(a[r], n.tree.live[r], a[best], n.tree.live[best])) {
			best = r
		}
	}
	if best < 0 {
		return zero
	}
	return fraction(a[best], n.tree.live[best])
}

// greater reports whether a/b is greater than c/d; all are positive.
func greater(a, b, c, d int64) bool {
	hi1, lo1 := bits.Mul64(uint64(a), uint64(d))
	hi2, lo2 := bits.Mul64(uint64(c), uint64(b))
	return hi1 > hi2 || hi1 == hi2 && lo1 > lo2
}

// filling is one child while its parent's share is divided.
type filling struct {
	node *Node
	rate Fraction // in what proportion it gets what is over
	full Fraction // level at which it has all that it could make use of
}

// divide gives a node's share to its children, and so on.
func (n *Node) divide(influence int64) {
	if len(n.children) == 0 {
		return
	}
	left := n.share
	for _, c := range n.children {
		c.line = c.due
		c.share = least(c.due, c.demand)
		left = left.Minus(c.share)
	}
	if left.Sign() > 0 {
		rates := n.rates(influence)
		left = n.fill(left, rates)
		if left.Sign() > 0 { // whoever has used too much gets what the others leave
			for i, c := range n.children {
				if c.active && rates[i].Sign() == 0 {
					rates[i] = fraction(c.terms.Weight, 1)
				} else {
					rates[i] = zero
				}
			}
			n.fill(left, rates)
		}
	}
	for _, c := range n.children {
		c.divide(influence)
	}
}

// fill raises the level for all children with a rate until each has what it could make use of or left is used up, and returns what is left.
func (n *Node) fill(left Fraction, rates []Fraction) Fraction {
	line := make([]filling, 0, len(n.children))
	total, sated := zero, 0
	for i, c := range n.children {
		if rates[i].Sign() <= 0 {
			continue
		}
		total = total.Plus(rates[i])
		short := c.demand.Minus(c.share)
		line = append(line, filling{c, rates[i], short.Over(rates[i])})
		if short.Sign() == 0 { // they have enough at any level
			line[sated], line[len(line)-1] = line[len(line)-1], line[sated]
			sated++
		}
	}
	if len(line) == 0 {
		return left
	}
	slices.SortStableFunc(line[sated:], func(a, b filling) int { return cmp.Or(a.full.Cmp(b.full), cmp.Compare(a.node.Name, b.node.Name)) })
	level, over := zero, total
	for i := range line {
		f := &line[i]
		cost := f.full.Minus(level).Times(total)
		if cost.Cmp(left) > 0 {
			break
		}
		left = left.Minus(cost)
		level = f.full
		total = total.Minus(f.rate)
	}
	if total.Sign() > 0 { // else everybody has enough: the line goes on rising for all, but nothing is given away
		over = total
	}
	top := level.Plus(left.Over(over))
	if total.Sign() > 0 {
		left = zero
	}
	for i := range line {
		line[i].settle(top)
	}
	return left
}

// settle gives one child what it gets at a level.
func (f *filling) settle(level Fraction) {
	f.node.share = f.node.share.Plus(f.rate.Times(least(level, f.full)))
	f.node.line = f.node.due.Plus(f.rate.Times(level))
}

// rates returns in what proportion the children of a node get what nobody is entitled to: by weight, and less the more of late usage was
// theirs.
func (n *Node) rates(influence int64) []Fraction {
	weights, usage := int64(0), zero
	for _, c := range n.children {
		if c.active {
			weights += c.terms.Weight
			if influence > 0 {
				usage = usage.Plus(c.Usage())
			}
		}
	}
	rates := make([]Fraction, len(n.children))
	for i, c := range n.children {
		if !c.active {
			continue
		}
		rates[i] = fraction(c.terms.Weight, weights)
		if usage.Sign() > 0 {
			rates[i] = corrected(rates[i], c.Usage().Over(usage), fraction(influence, 1000))
		}
	}
	return rates
}

// corrected lowers a weight whose owner has had more than that part of late usage, and raises it if less; not below 0.
func corrected(weight, had, influence Fraction) Fraction {
	d := weight.Plus(weight.Minus(had).Times(influence))
	if d.Sign() < 0 {
		return zero
	}
	return d
}
