package drf

import (
	"math"
	"slices"
)

// Settle computes the entitlement and the share of each node. Later notes change holdings only,
// until it is called again. influence, in thousandths, is how much past usage counts when spare
// capacity is divided. 0 means not at all. With 1000, a node that recently used twice its part gets
// no spare capacity as long as others want it.
func (t *Tree) Settle(influence int64) {
	t.Entitle()
	t.root.due, t.root.share, t.root.line = one, one, one
	t.root.divide(influence)
}

// Entitle computes only the entitlements of all nodes, for [TreeNode.Within], [TreeNode.Holding]
// and [TreeNode.Limited].
func (t *Tree) Entitle() {
	t.root.ask()
	all := &entitlements{parts: make([]entitlement, len(t.live))}
	for r := range min(Models, len(t.live)) {
		if t.live[r] > 0 {
			all.parts[r] = entitlement{one, true}
		}
	}
	t.root.entitled = all.settle(t.live)
	t.root.entitle()
	t.root.measure(make(Amount, len(t.live)))
}

// entitlement is the part of one resource that a node is entitled to; not set if the resource does
// not count.
type entitlement struct {
	part Fraction
	set  bool
}

// entitlements are a node's entitlement for each resource. Siblings that are all entitled to the
// same share one, and it does not change then.
type entitlements struct {
	parts []entitlement
	most  Amount   // of each resource that is within the part
	due   Fraction // the greatest part
}

// limited returns entitlements that go no further than limits.
func (t *entitlements) limited(limit, live Amount) *entitlements {
	if limit == nil {
		return t
	}
	next := &entitlements{parts: slices.Clone(t.parts)}
	for r, l := range limit {
		if l != Unset && next.parts[r].set {
			next.parts[r].part = least(next.parts[r].part, part(l, live[r]))
		}
	}
	return next.settle(live)
}

// settle fills in the fields that follow from the parts.
func (t *entitlements) settle(live Amount) *entitlements {
	t.most, t.due = make(Amount, len(live)), zero
	for r := range t.parts {
		e := &t.parts[r]
		t.most[r] = math.MaxInt64
		if e.set && live[r] > 0 {
			t.most[r] = e.part.Of(live[r])
		}
		if e.set && e.part.cmp(&t.due) > 0 {
			t.due = e.part
		}
	}
	return t
}

// ask finds out which nodes are active.
func (n *TreeNode) ask() {
	n.active = !n.held.zero() || !n.wanted.zero()
	for _, c := range n.children {
		c.ask()
	}
}

// entitle divides a node's entitlement among its children, and so on.
func (n *TreeNode) entitle() {
	split := n.prepare()
	// The part of the node's entitlement that the configured children leave, of the scarcest resource.
	rest := one
	for r, whole := range n.entitled.parts {
		if n.tree.live[r] > 0 {
			rest = least(rest, n.grant(r, whole))
		}
	}
	if split > 0 {
		n.splitRest(rest.Over(fraction(int64(split), 1)))
	}
	for _, c := range n.children {
		if c.deserves() {
			c.entitled.settle(n.tree.live)
		}
		c.entitled = c.entitled.limited(c.terms.Limit, n.tree.live)
		if len(c.children) > 0 {
			c.entitle()
		}
	}
}

// prepare allocates the entitlements of children with a quota, and counts the children that split
// the rest.
func (n *TreeNode) prepare() (split int) {
	for _, c := range n.children {
		switch {
		case c.deserves():
			c.entitled = &entitlements{parts: make([]entitlement, len(n.entitled.parts))}
		case c.active:
			split++
		default:
			c.entitled = n.tree.nothing
		}
	}
	return split
}

// splitRest gives an equal part of the rest to each child that is active and has no quota.
func (n *TreeNode) splitRest(each Fraction) {
	t := &entitlements{parts: make([]entitlement, len(n.entitled.parts))}
	for r, whole := range n.entitled.parts {
		if whole.set {
			t.parts[r] = entitlement{whole.part.Times(each), true}
		}
	}
	t.settle(n.tree.live)
	for _, c := range n.children {
		if c.active && !c.deserves() {
			c.entitled = t
		}
	}
}

// deserves reports whether something is configured that a node deserves.
func (n *TreeNode) deserves() bool {
	return n.terms.Deserved != nil && slices.ContainsFunc(n.terms.Deserved, func(a int64) bool { return a != Unset })
}

// grant gives a node's children their configured quotas of a resource, scaled down to whole if they
// are more. An unset limit sets no bound. It returns the part of whole that is left.
func (n *TreeNode) grant(r int, whole entitlement) Fraction {
	sum := zero
	for _, c := range n.children {
		if d := c.terms.Deserved; d != nil && d[r] != Unset {
			c.entitled.parts[r] = entitlement{part(d[r], n.tree.configured[r]), true}
			sum = sum.Plus(c.entitled.parts[r].part)
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
			c.entitled.parts[r].part = c.entitled.parts[r].part.Times(scale)
		}
	}
	return zero
}

// part returns an amount as a part of all; zero if all is zero.
func part(amount, all int64) Fraction {
	if all <= 0 || amount <= 0 {
		return zero
	}
	return fraction(amount, all)
}

// measure computes, from the leaves up, the entitlement and the demand of each node, and adds the
// demand to sum. No resource counts beyond the node's limit.
func (n *TreeNode) measure(sum Amount) {
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
	n.demand, n.due, n.ratio = n.dominant(could), n.entitled.due, nil
	sum.add(could)
}

// dominant returns the largest part of the live cluster that an amount is, over the resources that
// count for a node.
func (n *TreeNode) dominant(a Amount) Fraction {
	best := zero
	for r := range n.entitled.parts {
		if n.entitled.parts[r].set {
			if p := part(a[r], n.tree.live[r]); p.cmp(&best) > 0 {
				best = p
			}
		}
	}
	return best
}

// divide gives a node's share to its children, and so on.
func (n *TreeNode) divide(influence int64) {
	given := zero
	for _, c := range n.children {
		c.line, c.share = c.due, c.due
		if c.demand.cmp(&c.due) < 0 {
			c.share = c.demand
		}
		given = given.Plus(c.share)
	}
	if left := n.share.Minus(given); left.Sign() > 0 {
		rates := n.rates(influence)
		left = n.fill(left, rates)
		if left.Sign() > 0 { // weights of overusers became 0: they get the others' leftovers
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
		if len(c.children) > 0 {
			c.divide(influence)
		}
	}
}

// rates returns the proportion in which a node's children get spare capacity: their weights,
// corrected by recent usage.
func (n *TreeNode) rates(influence int64) []Fraction {
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

// corrected lowers a weight if its owner used more than its part of late, and raises it if less. It
// never goes below 0.
func corrected(weight, had, influence Fraction) Fraction {
	d := weight.Plus(weight.Minus(had).Times(influence))
	if d.Sign() < 0 {
		return zero
	}
	return d
}
