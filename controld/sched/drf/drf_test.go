package drf

import (
	"math/big"
	"testing"
)

// gpus is an amount of whole GPUs.
func gpus(n int64) Amount { return Amount{0, 0, n * 1000} }

// deserves is terms that name GPUs alone.
func deserves(n, weight int64) Terms {
	return Terms{Weight: weight, Deserved: Amount{Unset, Unset, n * 1000}}
}

// cluster is a tree over so many GPUs.
func cluster(n int64) *Tree { return New(gpus(n), gpus(n)) }

func wantShares(t *testing.T, of map[*TreeNode]*big.Rat) {
	t.Helper()
	for n, want := range of {
		if n.Share().Rat().Cmp(want) != 0 {
			t.Errorf("share of %s is %v, want %v", n.Name, n.Share(), want)
		}
	}
}

func TestWhatIsOverGoesByWeight(t *testing.T) {
	tree := cluster(20)
	a, b := tree.AddAccount("a", nil, deserves(4, 1)), tree.AddAccount("b", nil, deserves(4, 3))
	tree.AddUser(a, "ann", Terms{}).Want(gpus(20))
	tree.AddUser(b, "bob", Terms{}).Want(gpus(20))
	tree.Settle(0)
	wantShares(t, map[*TreeNode]*big.Rat{a: big.NewRat(4+3, 20), b: big.NewRat(4+9, 20)})
}

func TestSharesAreNotRounded(t *testing.T) {
	tree := cluster(10)
	team := tree.AddAccount("team", nil, Terms{})
	for _, name := range []string{"ann", "bob", "cid"} {
		tree.AddUser(team, name, Terms{}).Want(gpus(10))
	}
	tree.Settle(0)
	for _, u := range team.Children() {
		wantShares(t, map[*TreeNode]*big.Rat{u: big.NewRat(1, 3)})
	}
}

func TestOnlyActiveUsersSplit(t *testing.T) {
	tree := cluster(20)
	a, b := tree.AddAccount("a", nil, deserves(10, 1)), tree.AddAccount("b", nil, deserves(10, 1))
	ann, idle := tree.AddUser(a, "ann", Terms{}), tree.AddUser(a, "idle", Terms{})
	bob := tree.AddUser(b, "bob", Terms{})
	ann.Hold(gpus(20))
	bob.Want(gpus(20))
	tree.Settle(0)
	half := big.NewRat(1, 2)
	wantShares(t, map[*TreeNode]*big.Rat{a: half, ann: half, b: half, bob: half, idle: new(big.Rat)})
	if !a.Above() || !ann.Above() || b.Above() {
		t.Errorf("above their shares: a %v, ann %v, b %v", a.Above(), ann.Above(), b.Above())
	}
	if !b.Within(gpus(10)) || b.Within(gpus(11)) {
		t.Error("b deserves 10 GPUs and no more")
	}
}

func TestMissingNodesLowerWhatIsDeserved(t *testing.T) {
	tree := New(gpus(20), gpus(10))
	a, b := tree.AddAccount("a", nil, deserves(10, 1)), tree.AddAccount("b", nil, deserves(10, 1))
	tree.AddUser(a, "ann", Terms{}).Want(gpus(20))
	tree.AddUser(b, "bob", Terms{}).Want(gpus(20))
	tree.Settle(0)
	if !a.Within(gpus(5)) || a.Within(gpus(6)) || !b.Within(gpus(5)) || b.Within(gpus(6)) {
		t.Error("of half the cluster each deserves 5 GPUs")
	}
}

func TestPastUsageLowersWhatIsOver(t *testing.T) {
	tree := cluster(20)
	a, b := tree.AddAccount("a", nil, deserves(4, 1)), tree.AddAccount("b", nil, deserves(4, 1))
	ann, bob := tree.AddUser(a, "ann", Terms{}), tree.AddUser(b, "bob", Terms{})
	ann.Want(gpus(20))
	bob.Want(gpus(20))
	ann.Use(gpus(300))
	bob.Use(gpus(100))
	tree.Settle(1000)
	// Rates 1/2 + (1/2 - 3/4) = 1/4 and 1/2 + (1/2 - 1/4) = 3/4 of the 12 GPUs that are no part of
	// a quota.
	wantShares(t, map[*TreeNode]*big.Rat{a: big.NewRat(4+3, 20), b: big.NewRat(4+9, 20)})
	tree.Settle(0)
	wantShares(t, map[*TreeNode]*big.Rat{a: big.NewRat(1, 2), b: big.NewRat(1, 2)})
}

func TestTheDominantResourceCounts(t *testing.T) {
	tree := New(Amount{100, 1000, 10_000}, Amount{100, 1000, 10_000})
	a, b := tree.AddAccount("a", nil, Terms{}), tree.AddAccount("b", nil, Terms{})
	ann, bob := tree.AddUser(a, "ann", Terms{}), tree.AddUser(b, "bob", Terms{})
	ann.Hold(Amount{60, 10, 0})
	bob.Hold(Amount{10, 10, 5_000})
	tree.Settle(0)
	if a.Holding(nil).Cmp(fraction(6, 10)) != 0 || b.Holding(nil).Cmp(fraction(5, 10)) != 0 {
		t.Errorf("a holds %v, b %v", a.Holding(nil), b.Holding(nil))
	}
	ann.Use(Amount{1, 0, 0})
	if HasUsedLess(a, b) || !HasUsedLess(b, a) {
		t.Error("a has used something although it was never active, b nothing")
	}
	if Compare(a, Amount{1, 1, 0}, b, Amount{1, 1, 0}) < 0 {
		t.Error("b holds less of its dominant resource and comes first")
	}
	if Compare(a, Amount{1, 1, 0}, b, Amount{1, 1, 2_000}) > 0 {
		t.Error("with its next job b would hold more, so a comes first")
	}
}

func TestLimits(t *testing.T) {
	tree := cluster(20)
	a := tree.AddAccount("a", nil, Terms{Limit: Amount{Unset, Unset, 8_000}})
	ann := tree.AddUser(a, "ann", Terms{})
	ann.Hold(gpus(6))
	ann.Want(gpus(20))
	tree.Settle(0)
	wantShares(t, map[*TreeNode]*big.Rat{a: big.NewRat(8, 20), ann: big.NewRat(8, 20)})
	if at, r := ann.Limited(gpus(3)); at != a || r != GPUs {
		t.Errorf("3 more GPUs are stopped by %v, resource %d", at, r)
	}
	if at, _ := ann.Limited(gpus(2)); at != nil {
		t.Errorf("2 more GPUs are stopped by %s", at.Name)
	}
}

func TestWhereWaysPart(t *testing.T) {
	tree := cluster(20)
	top := tree.AddAccount("top", nil, Terms{})
	a, b := tree.AddAccount("a", top, Terms{}), tree.AddAccount("b", top, Terms{})
	ann, bob := tree.AddUser(a, "ann", Terms{}), tree.AddUser(b, "ann", Terms{})
	if x, y := Part(ann, bob); x != a || y != b {
		t.Errorf("they part at %s and %s", x.Name, y.Name)
	}
	if x, y := Part(ann, a); x != nil || y != nil {
		t.Error("a user and its own account do not part")
	}
	namesake := tree.AddUser(top, "a", Terms{})
	if tree.Account("a") != a || len(top.Children()) != 3 || top.Children()[2] != namesake {
		t.Error("names of users and accounts are apart")
	}
}
