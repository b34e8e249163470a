package share

import (
	"cmp"
	"math/big"
	"math/bits"
	"slices"
)

// zero and one are never changed.
var (
	zero = new(big.Rat)
	one  = big.NewRat(1, 1)
)

// Settle works out what everybody is entitled to and what their shares are. What is noted later changes holdings only, until it is called
// again. influence, in thousandths, is how much past usage counts when that is divided which nobody is entitled to: 0 not at all; with
// 1000, who has used twice his part of late gets nothing of it as long as others want it.
func (t *Tree) Settle(influence int64) {
	t.root.ask()
	t.root.entitled = make([]*big.Rat, len(t.live))
	for r := range min(Models, len(t.live)) {
		if t.live[r] > 0 {
			t.root.entitled[r] = one
		}
	}
	t.root.entitle()
	t.root.measure()
	t.root.due, t.root.share, t.root.line = one, one, one
	t.root.divide(big.NewRat(influence, 1000))
}

// ask finds out who is active.
func (n *Node) ask() {
	n.active = !n.held.zero() || !n.wanted.zero()
	for _, c := range n.children {
		c.ask()
		n.attended = max(n.attended, c.attended)
	}
}

// entitle divides what a node is entitled to among its children, and so on.
func (n *Node) entitle() {
	for r, l := range n.terms.Limit {
		if l != Unset && n.entitled[r] != nil {
			n.entitled[r] = least(n.entitled[r], part(l, n.tree.live[r]))
		}
	}
	var split []*Node
	for _, c := range n.children {
		c.entitled = make([]*big.Rat, len(n.entitled))
		if c.active && !c.deserves() {
			split = append(split, c)
		}
	}
	rest := one // what part of its own the node's configured children leave, of that resource of which they leave least
	for r, whole := range n.entitled {
		if n.tree.live[r] > 0 {
			rest = least(rest, n.grant(r, whole))
		}
	}
	if len(split) > 0 {
		each := new(big.Rat).Quo(rest, big.NewRat(int64(len(split)), 1))
		for r, whole := range n.entitled {
			if whole == nil {
				continue
			}
			part := new(big.Rat).Mul(whole, each)
			for _, c := range split {
				c.entitled[r] = part
			}
		}
	}
	for _, c := range n.children {
		c.entitle()
	}
}

// deserves reports whether something is configured that a node deserves.
func (n *Node) deserves() bool {
	return slices.ContainsFunc(n.terms.Deserved, func(a int64) bool { return a != Unset })
}

// grant gives a node's children what they deserve of a resource by the configuration, scaled down to whole if it is more. Nil sets no
// bound. It returns what part of whole is left.
func (n *Node) grant(r int, whole *big.Rat) *big.Rat {
	sum := new(big.Rat)
	for _, c := range n.children {
		if d := c.terms.Deserved; d != nil && d[r] != Unset {
			c.entitled[r] = part(d[r], n.tree.configured[r])
			sum.Add(sum, c.entitled[r])
		}
	}
	if whole == nil || sum.Sign() == 0 {
		return one
	}
	if sum.Cmp(whole) <= 0 {
		return sum.Sub(one, sum.Quo(sum, whole))
	}
	scale := new(big.Rat).Quo(whole, sum)
	for _, c := range n.children {
		if d := c.terms.Deserved; d != nil && d[r] != Unset {
			c.entitled[r] = new(big.Rat).Mul(c.entitled[r], scale)
		}
	}
	return zero
}

// part returns what part of all an amount is; none of nothing.
func part(amount, all int64) *big.Rat {
	if all <= 0 || amount <= 0 {
		return zero
	}
	return big.NewRat(amount, all)
}

// measure works out, from the leaves up, what each node is due and how much it could make use of, and returns the latter by resource: no
// more than its limit.
func (n *Node) measure() Amount {
	could := make(Amount, len(n.held))
	if len(n.children) == 0 {
		could.add(n.held)
		could.add(n.wanted)
	}
	for _, c := range n.children {
		could.add(c.measure())
	}
	for r := range could {
		if l := n.terms.Limit; l != nil && l[r] != Unset {
			could[r] = min(could[r], l[r])
		}
	}
	n.demand = n.dominant(could)
	n.due = zero
	for _, e := range n.entitled {
		if e != nil && e.Cmp(n.due) > 0 {
			n.due = e
		}
	}
	return could
}

// dominant returns the largest part of the live cluster that an amount is, over the resources that count for a node.
func (n *Node) dominant(a Amount) *big.Rat {
	best := -1
	for r, e := range n.entitled {
		if e != nil && a[r] > 0 && n.tree.live[r] > 0 && (best < 0 || greater(a[r], n.tree.live[r], a[best], n.tree.live[best])) {
			best = r
		}
	}
	if best < 0 {
		return zero
	}
	return big.NewRat(a[best], n.tree.live[best])
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
	rate *big.Rat // in what proportion it gets what is over
	full *big.Rat // level at which it has all that it could make use of
}

// divide gives a node's share to its children, and so on.
func (n *Node) divide(influence *big.Rat) {
	left := new(big.Rat).Set(n.share)
	var open []*Node
	for _, c := range n.children {
		c.line = c.due
		c.share = least(c.due, c.demand)
		left.Sub(left, c.share)
		if c.active {
			open = append(open, c)
		}
	}
	rates := n.rates(influence)
	if left.Sign() > 0 {
		fill(left, open, func(c *Node) *big.Rat { return rates[c] })
	}
	if left.Sign() > 0 { // whoever has used too much gets what the others leave
		fill(left, open, func(c *Node) *big.Rat {
			if rates[c].Sign() > 0 {
				return zero
			}
			return big.NewRat(c.terms.Weight, 1)
		})
	}
	for _, c := range n.children {
		c.divide(influence)
	}
}

func least(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) <= 0 {
		return a
	}
	return b
}

// fill raises the level for all of open with a rate until each has what it could make use of or left is used up, which it reduces.
func fill(left *big.Rat, open []*Node, rate func(*Node) *big.Rat) {
	var line []filling
	total := new(big.Rat)
	for _, c := range open {
		if r := rate(c); r.Sign() > 0 {
			short := new(big.Rat).Sub(c.demand, c.share)
			line = append(line, filling{c, r, short.Quo(short, r)})
			total.Add(total, r)
		}
	}
	slices.SortStableFunc(line, func(a, b filling) int { return cmp.Or(a.full.Cmp(b.full), cmp.Compare(a.node.Name, b.node.Name)) })
	level, all := new(big.Rat), new(big.Rat).Set(total)
	for i := range line {
		f := &line[i]
		step := new(big.Rat).Sub(f.full, level)
		cost := step.Mul(step, total)
		if cost.Cmp(left) > 0 {
			break
		}
		left.Sub(left, cost)
		level.Set(f.full)
		total.Sub(total, f.rate)
	}
	over := total
	if total.Sign() == 0 && all.Sign() > 0 { // everybody has enough: the line goes on rising for all, but nothing is given away
		over = all
	}
	top := new(big.Rat).Set(level)
	if over.Sign() > 0 {
		top.Add(top, new(big.Rat).Quo(left, over))
	}
	if total.Sign() > 0 {
		left.SetInt64(0)
	}
	for i := range line {
		line[i].settle(top)
	}
}

// settle gives one child what it gets at a level.
func (f *filling) settle(level *big.Rat) {
	more := new(big.Rat).Mul(f.rate, least(level, f.full))
	f.node.share = more.Add(more, f.node.share)
	line := new(big.Rat).Mul(f.rate, level)
	f.node.line = line.Add(line, f.node.due)
}

// rates returns in what proportion the children of a node get what nobody is entitled to: by weight, and less the more of late usage was theirs.
func (n *Node) rates(influence *big.Rat) map[*Node]*big.Rat {
	rates := make(map[*Node]*big.Rat, len(n.children))
	weights, usage := int64(0), new(big.Rat)
	for _, c := range n.children {
		if c.active {
			weights += c.terms.Weight
			usage.Add(usage, c.Usage())
		}
	}
	for _, c := range n.children {
		if !c.active {
			rates[c] = zero
			continue
		}
		w := big.NewRat(c.terms.Weight, weights)
		if influence.Sign() > 0 && usage.Sign() > 0 {
			w = corrected(w, new(big.Rat).Quo(c.Usage(), usage), influence)
		}
		rates[c] = w
	}
	return rates
}

// corrected lowers a weight whose owner has had more than that part of late usage, and raises it if less; not below 0.
func corrected(weight, had, influence *big.Rat) *big.Rat {
	d := new(big.Rat).Sub(weight, had)
	d.Mul(d, influence)
	d.Add(d, weight)
	if d.Sign() < 0 {
		return zero
	}
	return d
}
