package drf

import (
	"cmp"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// oracle is what Settle should come to, worked out in math/big alone and by the book: one resource,
// one child, one step at a time.
type oracle struct {
	entitled                 []*big.Rat // nil for a resource that does not count
	demand, due, share, line *big.Rat
	could                    Amount
}

// oracles are those of all nodes of a tree.
type oracles struct {
	tree *Tree
	of   map[*TreeNode]*oracle
}

func settleSlowly(t *Tree, influence int64) map[*TreeNode]*oracle {
	o := &oracles{t, map[*TreeNode]*oracle{}}
	walk(t.root, func(n *TreeNode) { o.of[n] = &oracle{entitled: make([]*big.Rat, len(t.live))} })
	root := o.of[t.root]
	for r := range min(Models, len(t.live)) {
		if t.live[r] > 0 {
			root.entitled[r] = big.NewRat(1, 1)
		}
	}
	o.entitle(t.root)
	o.measure(t.root)
	root.due, root.share, root.line = big.NewRat(1, 1), big.NewRat(1, 1), big.NewRat(1, 1)
	o.divide(t.root, big.NewRat(influence, 1000))
	return o.of
}

func ratPart(amount, all int64) *big.Rat {
	if all <= 0 || amount <= 0 {
		return new(big.Rat)
	}
	return big.NewRat(amount, all)
}

func leastRat(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) <= 0 {
		return a
	}
	return b
}

func (o *oracles) entitle(n *TreeNode) {
	own := o.of[n].entitled
	for r, l := range n.terms.Limit {
		if l != Unset && own[r] != nil {
			own[r] = leastRat(own[r], ratPart(l, o.tree.live[r]))
		}
	}
	rest := big.NewRat(1, 1)
	for r, whole := range own {
		if o.tree.live[r] > 0 {
			rest = leastRat(rest, o.grant(n, r, whole))
		}
	}
	var split []*TreeNode
	for _, c := range n.children {
		if c.active && !c.deserves() {
			split = append(split, c)
		}
	}
	for _, c := range split {
		for r, whole := range own {
			if whole != nil {
				each := new(big.Rat).Quo(rest, big.NewRat(int64(len(split)), 1))
				o.of[c].entitled[r] = each.Mul(each, whole)
			}
		}
	}
	for _, c := range n.children {
		o.entitle(c)
	}
}

func (o *oracles) grant(n *TreeNode, r int, whole *big.Rat) *big.Rat {
	sum := new(big.Rat)
	for _, c := range n.children {
		if d := c.terms.Deserved; d != nil && d[r] != Unset {
			o.of[c].entitled[r] = ratPart(d[r], o.tree.configured[r])
			sum.Add(sum, o.of[c].entitled[r])
		}
	}
	if whole == nil || sum.Sign() == 0 {
		return big.NewRat(1, 1)
	}
	if sum.Cmp(whole) <= 0 {
		return sum.Sub(big.NewRat(1, 1), sum.Quo(sum, whole))
	}
	for _, c := range n.children {
		if d := c.terms.Deserved; d != nil && d[r] != Unset {
			e := o.of[c].entitled[r]
			e.Mul(e, new(big.Rat).Quo(whole, sum))
		}
	}
	return new(big.Rat)
}

func (o *oracles) measure(n *TreeNode) {
	own := o.of[n]
	own.could = make(Amount, len(n.held))
	if len(n.children) == 0 {
		own.could.add(n.held)
		own.could.add(n.wanted)
	}
	for _, c := range n.children {
		o.measure(c)
		own.could.add(o.of[c].could)
	}
	for r := range own.could {
		if l := n.terms.Limit; l != nil && l[r] != Unset {
			own.could[r] = min(own.could[r], l[r])
		}
	}
	own.demand, own.due = o.dominant(n, own.could), new(big.Rat)
	for _, e := range own.entitled {
		if e != nil && e.Cmp(own.due) > 0 {
			own.due = e
		}
	}
}

func (o *oracles) dominant(n *TreeNode, a Amount) *big.Rat {
	most := new(big.Rat)
	for r, e := range o.of[n].entitled {
		if e != nil {
			if p := ratPart(a[r], o.tree.live[r]); p.Cmp(most) > 0 {
				most = p
			}
		}
	}
	return most
}

func (o *oracles) divide(n *TreeNode, influence *big.Rat) {
	left := new(big.Rat).Set(o.of[n].share)
	var open []*TreeNode
	for _, c := range n.children {
		own := o.of[c]
		own.line, own.share = own.due, leastRat(own.due, own.demand)
		left.Sub(left, own.share)
		if c.active {
			open = append(open, c)
		}
	}
	rates := o.rates(n, influence)
	if left.Sign() > 0 {
		o.fill(left, open, func(c *TreeNode) *big.Rat { return rates[c] })
	}
	if left.Sign() > 0 {
		o.fill(left, open, func(c *TreeNode) *big.Rat {
			if rates[c].Sign() > 0 {
				return new(big.Rat)
			}
			return big.NewRat(c.terms.Weight, 1)
		})
	}
	for _, c := range n.children {
		o.divide(c, influence)
	}
}

// fill raises the level from child to child, the one that is sated first before the others.
func (o *oracles) fill(left *big.Rat, open []*TreeNode, rate func(*TreeNode) *big.Rat) {
	full := map[*TreeNode]*big.Rat{}
	var line []*TreeNode
	total := new(big.Rat)
	for _, c := range open {
		if r := rate(c); r.Sign() > 0 {
			short := new(big.Rat).Sub(o.of[c].demand, o.of[c].share)
			full[c] = short.Quo(short, r)
			line = append(line, c)
			total.Add(total, r)
		}
	}
	slices.SortStableFunc(line, func(a, b *TreeNode) int {
		return cmp.Or(full[a].Cmp(full[b]), cmp.Compare(a.Name, b.Name))
	})
	level, all := new(big.Rat), new(big.Rat).Set(total)
	for _, c := range line {
		cost := new(big.Rat).Sub(full[c], level)
		if cost.Mul(cost, total).Cmp(left) > 0 {
			break
		}
		left.Sub(left, cost)
		level.Set(full[c])
		total.Sub(total, rate(c))
	}
	switch {
	case total.Sign() > 0:
		level.Add(level, new(big.Rat).Quo(left, total))
		left.SetInt64(0)
	case all.Sign() > 0:
		level.Add(level, new(big.Rat).Quo(left, all))
	}
	for _, c := range line {
		more := new(big.Rat).Mul(rate(c), leastRat(level, full[c]))
		o.of[c].share = more.Add(more, o.of[c].share)
		line := new(big.Rat).Mul(rate(c), level)
		o.of[c].line = line.Add(line, o.of[c].due)
	}
}

func (o *oracles) rates(n *TreeNode, influence *big.Rat) map[*TreeNode]*big.Rat {
	rates := map[*TreeNode]*big.Rat{}
	weights, usage := int64(0), new(big.Rat)
	for _, c := range n.children {
		if c.active {
			weights += c.terms.Weight
			usage.Add(usage, o.dominant(c, c.Used()))
		}
	}
	for _, c := range n.children {
		if rates[c] = new(big.Rat); !c.active {
			continue
		}
		w := big.NewRat(c.terms.Weight, weights)
		if rates[c] = w; influence.Sign() > 0 && usage.Sign() > 0 {
			d := new(big.Rat).Sub(w, new(big.Rat).Quo(o.dominant(c, c.Used()), usage))
			if rates[c] = d.Add(d.Mul(d, influence), w); d.Sign() < 0 {
				rates[c] = new(big.Rat)
			}
		}
	}
	return rates
}

// TestSettleIsExact: every number of a settled tree is the one that the oracle comes to.
func TestSettleIsExact(t *testing.T) {
	every(t, func(t *testing.T, r *rand.Rand, p *plant) {
		if r.IntN(2) == 0 {
			p.enlarge(r)
		}
		tree, _ := p.grow(p.inOrder())
		agree(t, tree, settleSlowly(tree, p.influence))
	})
}

// enlarge gives a tree the ugly amounts of a real cluster, whose parts have great and different
// denominators.
func (p *plant) enlarge(r *rand.Rand) {
	factor := Amount{1 + r.Int64N(1<<12), 1 + r.Int64N(1<<30), 1 + r.Int64N(1<<20)}
	scale := func(a Amount) {
		for i := range a {
			if a[i] > 0 {
				a[i] = a[i]*factor[i] + r.Int64N(factor[i])
			}
		}
	}
	scale(p.configured)
	scale(p.live)
	for _, n := range p.notes {
		scale(n.a)
	}
	for _, list := range [][]plantNode{p.accounts, p.users} {
		for i := range list {
			scale(list[i].terms.Deserved)
			scale(list[i].terms.Limit)
		}
	}
}

func agree(t *testing.T, tree *Tree, want map[*TreeNode]*oracle) {
	walk(tree.root, func(n *TreeNode) {
		o := want[n]
		for what, pair := range map[string]struct {
			got  Fraction
			want *big.Rat
		}{"demand": {n.demand, o.demand}, "due": {n.due, o.due}, "share": {n.share, o.share}, "line": {n.line, o.line}} {
			if pair.got.Rat().Cmp(pair.want) != 0 {
				t.Errorf("%s of %q is %v, the oracle says %v", what, n.Name, pair.got, pair.want)
			}
		}
		for r, e := range n.entitled.parts {
			if e.set != (o.entitled[r] != nil) || e.set && e.part.Rat().Cmp(o.entitled[r]) != 0 {
				t.Errorf("%q is entitled to %v of resource %d, the oracle says %v", n.Name, e, r, o.entitled[r])
			}
		}
	})
}

// TestFractions compares every operation with that of math/big, on numbers of all sizes: those that
// fit 64 bits and those that do not.
func TestFractions(t *testing.T) {
	base := rand.Uint64()
	for i := range uint64(10 * rounds()) {
		r := rand.New(rand.NewPCG(base, i))
		a, b := randomRat(r), randomRat(r)
		if r.IntN(8) == 0 {
			b = new(big.Rat).Set(a)
		}
		checkFractions(t, r, a, b)
		if t.Failed() {
			t.Fatalf("seed %d, pair %d: %v and %v", base, i, a, b)
		}
	}
}

// randomRat has numerator and denominator of up to 160 bits.
func randomRat(r *rand.Rand) *big.Rat {
	whole := func() *big.Int {
		n := new(big.Int)
		for range 1 + r.IntN(5) {
			n.Lsh(n, 32)
			n.Or(n, big.NewInt(int64(r.Uint32())))
		}
		return n.Rsh(n, uint(r.IntN(160)))
	}
	n, d := whole(), whole()
	if d.Sign() == 0 {
		d.SetInt64(1)
	}
	f := new(big.Rat).SetFrac(n, d)
	if r.IntN(3) == 0 {
		f.Neg(f)
	}
	return f
}

// unreduced returns a number as operations may leave it, with a factor in common above and below.
func unreduced(r *rand.Rand, x *big.Rat) Fraction {
	f := narrow(new(big.Rat).Set(x))
	k := 1 + r.Int64N(1<<r.IntN(62))
	n, ok1 := product(f.num, k)
	d, ok2 := product(f.den, k)
	if f.rat != nil || !ok1 || !ok2 {
		return f
	}
	return fraction(n, d)
}

func checkFractions(t *testing.T, r *rand.Rand, a, b *big.Rat) {
	f, g := unreduced(r, a), unreduced(r, b)
	results := map[string][2]*big.Rat{
		"+": {f.Plus(g).Rat(), new(big.Rat).Add(a, b)},
		"-": {f.Minus(g).Rat(), new(big.Rat).Sub(a, b)},
		"*": {f.Times(g).Rat(), new(big.Rat).Mul(a, b)},
	}
	if b.Sign() != 0 {
		results["/"] = [2]*big.Rat{f.Over(g).Rat(), new(big.Rat).Quo(a, b)}
	}
	for what, pair := range results {
		if pair[0].Cmp(pair[1]) != 0 {
			t.Errorf("a %s b is %v, want %v", what, pair[0], pair[1])
		}
	}
	if f.Cmp(g) != a.Cmp(b) || f.Sign() != a.Sign() || g.Cmp(f) != b.Cmp(a) {
		t.Errorf("a and b compare as %d and %d, signs %d", f.Cmp(g), a.Cmp(b), f.Sign())
	}
	if f.Rat().Cmp(a) != 0 || least(f, g).Rat().Cmp(leastRat(a, b)) != 0 {
		t.Errorf("a is %v, the lesser one %v", f, least(f, g))
	}
}

// TestWithinIsExact: a node is within what it is entitled to exactly if each resource, as a part of
// the cluster, is.
func TestWithinIsExact(t *testing.T) {
	every(t, func(t *testing.T, r *rand.Rand, p *plant) {
		if r.IntN(2) == 0 {
			p.enlarge(r)
		}
		tree, _ := p.grow(p.inOrder())
		want := settleSlowly(tree, p.influence)
		walk(tree.root, func(n *TreeNode) {
			more, within := make(Amount, len(n.held)), true
			for i := range more {
				if more[i] = r.Int64N(1 + n.tree.live[i]/4); r.IntN(3) == 0 && n.entitled.most[i] < 1<<62 {
					more[i] = n.entitled.most[i] - n.held[i] + r.Int64N(3) - 1
				}
				e := want[n].entitled[i]
				within = within && (e == nil || ratPart(n.held[i]+more[i], n.tree.live[i]).Cmp(e) <= 0)
			}
			if n.Within(more) != within {
				t.Errorf("%q with %v more: within is %v", n.Name, more, n.Within(more))
			}
		})
	})
}
