package drf

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// plant is a random tree as a list of notes, from which the tree can be grown in any order of
// touch.
type plant struct {
	resources        int
	configured, live Amount
	influence        int64
	accounts         []plantNode // parents first
	users            []plantNode
	notes            []note
}

type plantNode struct {
	name   string
	parent int // -1: the root; of a user: never
	terms  Terms
}

type note struct {
	user int
	kind int // 0 hold, 1 want, 2 use
	a    Amount
}

// rounds is how many random trees each property is tried on.
func rounds() int {
	if os.Getenv("ROTA_TEST_LONG") != "" {
		return 1_000_000
	}
	return 20_000
}

// every calls do with random trees of one resource and of several. A failure names the seed of its
// tree.
func every(t *testing.T, do func(t *testing.T, r *rand.Rand, p *plant)) {
	base := rand.Uint64()
	for i := range uint64(rounds()) {
		r := rand.New(rand.NewPCG(base, i))
		p := seedling(r, []int{1, 3}[i%2])
		do(t, r, p)
		if t.Failed() {
			t.Fatalf("seed %d, tree %d: %+v", base, i, *p)
		}
	}
}

// seedling makes a tree. With one resource only GPUs count.
func seedling(r *rand.Rand, resources int) *plant {
	amount := func(most int64) Amount {
		a := make(Amount, Models)
		for i := range a {
			if resources > 1 || i == GPUs {
				a[i] = r.Int64N(most)
			}
		}
		return a
	}
	p := &plant{resources: resources, configured: amount(200), influence: []int64{0, 0, 500, 2000}[r.IntN(4)]}
	p.live = amount(240)
	for i := range r.IntN(6) + 1 {
		p.accounts = append(p.accounts, plantNode{fmt.Sprint("a", i), r.IntN(i+1) - 1, terms(r, amount, resources)})
	}
	for i := range r.IntN(8) + 1 {
		p.users = append(p.users, plantNode{fmt.Sprint("u", i), r.IntN(len(p.accounts)), terms(r, amount, resources)})
	}
	for range r.IntN(30) {
		p.notes = append(p.notes, note{r.IntN(len(p.users)), r.IntN(3), amount(60)})
	}
	return p
}

func terms(r *rand.Rand, amount func(int64) Amount, resources int) Terms {
	t := Terms{Weight: r.Int64N(4)}
	if r.IntN(2) == 0 {
		t.Deserved = partly(r, amount(120), resources)
	}
	if r.IntN(4) == 0 {
		t.Limit = partly(r, amount(300), resources)
		for i, d := range t.Deserved {
			if t.Limit[i] != Unset {
				t.Limit[i] = max(t.Limit[i], d)
			}
		}
	}
	return t
}

// partly leaves some resources unset.
func partly(r *rand.Rand, a Amount, resources int) Amount {
	for i := range a {
		if resources == 1 && i != GPUs || resources > 1 && r.IntN(3) == 0 {
			a[i] = Unset
		}
	}
	return a
}

// grow makes the tree, noting things in an order.
func (p *plant) grow(order []int) (*Tree, []*TreeNode) {
	t := New(p.configured, p.live)
	for _, a := range p.accounts {
		var parent *TreeNode
		if a.parent >= 0 {
			parent = t.Account(p.accounts[a.parent].name)
		}
		t.AddAccount(a.name, parent, a.terms)
	}
	users := make([]*TreeNode, len(p.users))
	for _, i := range order {
		if i < len(p.users) {
			u := p.users[i]
			users[i] = t.AddUser(t.Account(p.accounts[u.parent].name), u.name, u.terms)
		}
	}
	for _, i := range order {
		if i < len(p.users) {
			continue
		}
		n := p.notes[i-len(p.users)]
		[]func(Amount){users[n.user].Hold, users[n.user].Want, users[n.user].Use}[n.kind](n.a)
	}
	t.Settle(p.influence)
	return t, users
}

func (p *plant) inOrder() []int {
	order := make([]int, len(p.users)+len(p.notes))
	for i := range order {
		order[i] = i
	}
	return order
}

// walk calls do for a node and all below it.
func walk(n *TreeNode, do func(*TreeNode)) {
	do(n)
	for _, c := range n.children {
		walk(c, do)
	}
}

func sum(nodes []*TreeNode, of func(*TreeNode) Fraction) Fraction {
	total := zero
	for _, n := range nodes {
		total = total.Plus(of(n))
	}
	return total
}

// properties hold for every node of a settled tree. The returned text says what is wrong.
var properties = map[string]func(p *plant, n *TreeNode) error{
	"between due and demand": between, "entitlement conserved": entitlementConserved, "share conserved": shareConserved,
	"level": isLevel,
}

// TestProperties tries all of them on random trees.
func TestProperties(t *testing.T) {
	every(t, func(t *testing.T, _ *rand.Rand, p *plant) {
		tree, _ := p.grow(p.inOrder())
		walk(tree.root, func(n *TreeNode) {
			for name, holds := range properties {
				if err := holds(p, n); err != nil {
					t.Errorf("%s: %q: %v", name, n.Name, err)
				}
			}
		})
	})
}

// between: all get what they are due as far as they ask for it, and none more than it could make
// use of. So none is below its entitlement while another is above what it can use.
func between(_ *plant, n *TreeNode) error {
	if n.parent != nil && (n.share.Cmp(n.demand) > 0 || n.share.Cmp(least(n.due, n.demand)) < 0 || n.line.Cmp(n.due) < 0) {
		return fmt.Errorf("share %v, due %v, demand %v, line %v", n.share, n.due, n.demand, n.line)
	}
	return nil
}

// entitlementConserved: in every resource, children are entitled to no more than their parent.
func entitlementConserved(_ *plant, n *TreeNode) error {
	for r, whole := range n.entitled.parts {
		total := sum(n.children, func(c *TreeNode) Fraction { return c.entitled.parts[r].part })
		if whole.set && total.Cmp(whole.part) > 0 {
			return fmt.Errorf("resource %d: children are entitled to %v of %v", r, total, whole.part)
		}
	}
	return nil
}

// shareConserved: of one resource, children get exactly what their parent has or what they ask for,
// whichever is less. Of several, guarantees of different resources may add up to more than one
// dominant share, and then nothing is given beyond them.
func shareConserved(p *plant, n *TreeNode) error {
	if len(n.children) == 0 {
		return nil
	}
	got := sum(n.children, func(c *TreeNode) Fraction { return c.share })
	want := least(n.share, sum(n.children, func(c *TreeNode) Fraction { return c.demand }))
	due := sum(n.children, func(c *TreeNode) Fraction { return least(c.due, c.demand) })
	if p.resources > 1 && due.Cmp(want) > 0 {
		want = due
	}
	if got.Cmp(want) != 0 {
		return fmt.Errorf("children's shares add up to %v, not %v", got, want)
	}
	return nil
}

// isLevel: a node that wants more than it gets has, beyond what it is due, as much for its weight
// as any sibling.
func isLevel(p *plant, n *TreeNode) error {
	extra := func(n *TreeNode) Fraction {
		return n.share.Minus(least(n.due, n.demand)).Over(fraction(n.terms.Weight, 1))
	}
	for _, a := range n.children {
		for _, b := range n.children {
			if p.influence == 0 && a.share.Cmp(a.demand) < 0 && extra(a).Cmp(extra(b)) < 0 {
				return fmt.Errorf("%s wants more than its %v for its weight and %s has %v", a.Name, extra(a), b.Name, extra(b))
			}
		}
	}
	return nil
}

// TestShareIsMonotone: a node that asks for more, or has a greater weight, gets no less; with
// influence, one that has used less gets no less.
func TestShareIsMonotone(t *testing.T) {
	every(t, func(t *testing.T, r *rand.Rand, p *plant) {
		_, before := p.grow(p.inOrder())
		u := r.IntN(len(p.users))
		if !before[u].active {
			return // to become active makes what is left be split anew
		}
		what := r.IntN(3)
		more := Amount{r.Int64N(40), r.Int64N(40), r.Int64N(40)}
		switch what {
		case 0:
			p.notes = append(p.notes, note{u, 1, more})
		case 1:
			p.users[u].terms.Weight = p.users[u].terms.Weight + 1 + r.Int64N(5)
		case 2:
			p.notes = slices.DeleteFunc(slices.Clone(p.notes), func(n note) bool { return n.kind == 2 && n.user == u })
		}
		_, after := p.grow(p.inOrder())
		// A user's usage counts for its accounts too, so all notes of usage are about users of one
		// account.
		if what == 2 && after[u].parent.share.Cmp(before[u].parent.share) < 0 {
			t.Errorf("account %s has used less and its share fell", after[u].parent.Name)
		}
		if after[u].share.Cmp(before[u].share) < 0 {
			t.Errorf("user %d, change %d: share fell from %v to %v", u, what, before[u].share, after[u].share)
		}
	})
}

// TestShareIsIndependentOfOrder: it does not matter in which order users were added and things were
// noted.
func TestShareIsIndependentOfOrder(t *testing.T) {
	every(t, func(t *testing.T, r *rand.Rand, p *plant) {
		a, _ := p.grow(p.inOrder())
		b, _ := p.grow(r.Perm(len(p.users) + len(p.notes)))
		var left, right []string
		write := func(to *[]string) func(*TreeNode) {
			return func(n *TreeNode) {
				*to = append(*to, fmt.Sprint(n.Name, n.share, n.line, n.due, n.demand, n.held, n.Usage()))
			}
		}
		walk(a.root, write(&left))
		walk(b.root, write(&right))
		if !slices.Equal(left, right) {
			t.Errorf("one order:\n%v\nanother:\n%v", left, right)
		}
	})
}

// TestCompareIsAnOrder: of three siblings, each with something to get, the first comes before the
// last.
func TestCompareIsAnOrder(t *testing.T) {
	every(t, func(t *testing.T, r *rand.Rand, p *plant) {
		tree, _ := p.grow(p.inOrder())
		more := map[*TreeNode]Amount{}
		walk(tree.root, func(n *TreeNode) { more[n] = Amount{r.Int64N(9), r.Int64N(9), r.Int64N(9)} })
		walk(tree.root, func(n *TreeNode) {
			c := slices.Clone(n.children)
			r.Shuffle(len(c), func(i, j int) { c[i], c[j] = c[j], c[i] })
			before := func(a, b *TreeNode) int { return Compare(a, more[a], b, more[b]) }
			slices.SortFunc(c, before)
			for i := range c {
				for j := range c[:i] {
					if before(c[j], c[i]) >= 0 || before(c[i], c[j]) <= 0 {
						t.Errorf("%s and %s: %d and %d", c[j].Name, c[i].Name, before(c[j], c[i]), before(c[i], c[j]))
					}
				}
			}
		})
	})
}
