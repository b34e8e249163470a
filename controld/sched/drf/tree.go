// Package drf divides a cluster among accounts and users by dominant resource fairness, in a
// hierarchy and with weights and quotas. It computes the entitlement of each and finds the one
// furthest below it, which comes next.
//
// A [Tree] has accounts as inner nodes and users as leaves. Holdings, requests and past usage are
// noted at the leaves and add up towards the root. [Tree.Settle] then divides the cluster from the
// top down:
//
//   - Every node is *entitled* to some room whatever it asks for. That is its configured quota, or
//     else an equal part of the room that its siblings' quotas leave of its parent. The part is the
//     same for every resource, and the scarcest resource decides how large it is. Only children
//     that hold or ask for something count then. Where more is deserved below a node than it has
//     itself, all of it is scaled down.
//   - Its *share* is the room that it should have in view of all requests. First each node gets its
//     entitlement as far as it asks for it. Then the level rises for all nodes that want more, in
//     proportion to their weights, until the parent's share is used up.
//   - Its *line* is what its share would be if it asked for more than there is. The node furthest
//     below its line comes first.
//
// Resources are compared as parts of the live cluster. A node is measured by its dominant share:
// the largest such part over the resources that it is entitled to. Shares are exact fractions and
// depend on sums only, so it does not matter in which order anything was noted. A Tree is not for
// concurrent use.
package drf

import (
	"slices"
	"strings"
)

// The resources of an [Amount], in order. After these come the GPUs of each model that the caller
// tells apart.
const (
	Cores  = iota
	Memory // in whole MiB
	GPUs   // in thousandths, of any model
	Models // the first model, also in thousandths
)

// Unset marks a resource without a configured number in an Amount.
const Unset int64 = -1

// Amount is how much of each resource of a tree. All amounts of one tree are of the same length.
type Amount []int64

// Terms are the configuration of an account or a user.
type Terms struct {
	Weight   int64  // relative part of spare capacity; 0 counts as 1
	Deserved Amount // may have resources Unset; nil: nothing said
	Limit    Amount // likewise
}

// Tree is the accounts and users of a cluster.
type Tree struct {
	root       *TreeNode
	configured Amount // quotas are parts of it
	live       Amount // holdings are parts of it
	accounts   map[string]*TreeNode
	past       func(*TreeNode) // see Remember
	watch      func(*TreeNode) // see Watch
	nothing    *entitlements   // of nodes that are entitled to nothing
}

// TreeNode is an account or, as a leaf, a user in an account.
type TreeNode struct {
	Name string // of the account or the user; "" of the root
	User bool   // it is a user
	Mark int    // whatever the caller knows it by

	tree     *Tree
	parent   *TreeNode
	depth    int
	children []*TreeNode // by name
	terms    Terms

	held, wanted Amount
	used         Amount // by itself, as far as it is recalled; all of it once it is summed up
	could        Amount // scratch
	attended     int64  // for how long it has been active
	active       bool   // a node below holds or wants something
	summed       bool

	entitled *entitlements // parts of the cluster
	ratio    *Ratio        // see Ratio; nil until it is needed
	demand   Fraction      // dominant part that it could make use of
	due      Fraction      // dominant part of its entitlement
	share    Fraction
	line     Fraction
}

// New returns a tree of the root alone. configured is the whole cluster (quotas are fractions of
// it), and live is the capacity that is up now. When nodes are missing, all quotas shrink in
// proportion. Both have Models or more resources.
func New(configured, live Amount) *Tree {
	t := &Tree{configured: slices.Clone(configured), live: live, accounts: map[string]*TreeNode{}}
	for r := range live {
		t.configured[r] = max(t.configured[r], live[r]) // more than was foreseen gives no account a larger quota
	}
	t.nothing = (&entitlements{parts: make([]entitlement, len(live))}).settle(live)
	t.root = t.node("", false, nil, Terms{})
	return t
}

func (t *Tree) node(name string, user bool, parent *TreeNode, terms Terms) *TreeNode {
	terms.Weight = max(1, terms.Weight)
	n := &TreeNode{Name: name, User: user, tree: t, parent: parent, terms: terms, entitled: t.nothing, demand: zero,
		due: zero, share: zero, line: zero}
	k := len(t.live)
	all := make(Amount, 4*k)
	n.held, n.wanted, n.used, n.could = all[:k:k], all[k:2*k:2*k], all[2*k:3*k:3*k], all[3*k:]
	if parent != nil {
		n.depth = parent.depth + 1
		i, _ := parent.find(name, user)
		parent.children = slices.Insert(parent.children, i, n)
	}
	return n
}

// Root returns the root: the whole cluster.
func (t *Tree) Root() *TreeNode { return t.root }

// Account returns an account by its name, or nil.
func (t *Tree) Account(name string) *TreeNode { return t.accounts[name] }

// AddAccount adds an account below another, or below the root if parent is nil. The name must be
// new.
func (t *Tree) AddAccount(name string, parent *TreeNode, terms Terms) *TreeNode {
	if parent == nil {
		parent = t.root
	}
	n := t.node(name, false, parent, terms)
	t.accounts[name] = n
	return n
}

// AddUser adds a user to an account. The name must be new there.
func (t *Tree) AddUser(account *TreeNode, name string, terms Terms) *TreeNode {
	return t.node(name, true, account, terms)
}

// Children returns the direct children of a node: accounts, then users, each by name. The caller
// must not change it.
func (n *TreeNode) Children() []*TreeNode { return n.children }

// find returns where a child is by its name, users apart from accounts, or where it would be.
func (n *TreeNode) find(name string, user bool) (int, bool) {
	return slices.BinarySearchFunc(n.children, user, func(c *TreeNode, user bool) int {
		switch {
		case c.User == user:
			return strings.Compare(c.Name, name)
		case user:
			return -1
		}
		return 1
	})
}

// Depth returns how many nodes are above one: 0 of the root.
func (n *TreeNode) Depth() int { return n.depth }

// Parent returns the account that a node is in; the root of one at the top, nil of the root.
func (n *TreeNode) Parent() *TreeNode { return n.parent }

// Hold notes, at a leaf, that more is held; negative amounts that less is.
func (n *TreeNode) Hold(a Amount) {
	n.up(func(m *TreeNode) { m.held.add(a) })
	if n.tree.watch != nil {
		n.tree.watch(n)
	}
}

// Watch has a function called after every Hold, with the leaf: the order of those beside it and
// above it may have changed.
func (t *Tree) Watch(held func(leaf *TreeNode)) { t.watch = held }

// Want notes, at a leaf, that more is asked for than is held.
func (n *TreeNode) Want(a Amount) { n.up(func(m *TreeNode) { m.wanted.add(a) }) }

// Use notes past usage, in units of resources times one unit of time common to all. It is the usage
// of a user, or in an account the usage of users without a leaf there. Everything must be noted
// before nodes are compared.
func (n *TreeNode) Use(a Amount) { n.used.add(a) }

// Attend notes for how long a node has been active, in the unit of time of Use. Of an account it is
// at least as long as of any below it.
func (n *TreeNode) Attend(time int64) { n.attended = max(n.attended, time) }

// Remember lets past usage be fetched lazily, because most cycles need it for few nodes. past is
// called at most once for a node, and must call Use and Attend of that node.
func (t *Tree) Remember(past func(*TreeNode)) { t.past = past }

func (n *TreeNode) up(do func(*TreeNode)) {
	for m := n; m != nil; m = m.parent {
		do(m)
	}
}

// Held returns the holdings at a node and below. The caller must not change it.
func (n *TreeNode) Held() Amount { return n.held }

// Used returns the usage that was noted with Use at a node and below. The caller must not change
// it.
func (n *TreeNode) Used() Amount {
	if n.summed {
		return n.used
	}
	n.summed = true
	if n.tree.past != nil {
		n.tree.past(n)
	}
	for _, c := range n.children {
		n.used.add(c.Used())
		n.attended = max(n.attended, c.attended)
	}
	return n.used
}

// Terms returns a node's configuration, its weight at least 1.
func (n *TreeNode) Terms() Terms { return n.terms }

func (a Amount) add(b Amount) {
	for i := range b {
		a[i] += b[i]
	}
}

// Plus returns the sum of two amounts.
func (a Amount) Plus(b Amount) Amount {
	c := slices.Clone(a)
	c.add(b)
	return c
}

// Minus returns the difference of two amounts.
func (a Amount) Minus(b Amount) Amount { return a.Plus(b.Negative()) }

// Negative returns the amount with every sign turned round.
func (a Amount) Negative() Amount {
	b := slices.Clone(a)
	for i := range b {
		b[i] = -b[i]
	}
	return b
}

func (a Amount) zero() bool { return !slices.ContainsFunc(a, func(n int64) bool { return n != 0 }) }
