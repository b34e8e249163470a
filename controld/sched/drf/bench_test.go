package drf

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// grove is a tree of some accounts with users on a cluster of 84 nodes, all with something held and
// asked for.
func grove(accounts, users int) *Tree {
	r := rand.New(rand.NewPCG(1, 2))
	all := Amount{84 * 32, 84 * 257_893, 84 * 8000} // the memory of real nodes is no round number
	t := New(all, all)
	for i := range users {
		name := fmt.Sprintf("a%d", i%accounts)
		account := t.Account(name)
		if account == nil {
			account = t.AddAccount(name, nil, Terms{})
		}
		u := t.AddUser(account, fmt.Sprintf("u%d", i), Terms{})
		u.Hold(Amount{r.Int64N(100), r.Int64N(200_000), 1000 * r.Int64N(8)})
		u.Want(Amount{r.Int64N(100), r.Int64N(200_000), 1000 * r.Int64N(8)})
		u.Use(Amount{r.Int64N(1 << 40), r.Int64N(1 << 40), r.Int64N(1 << 40)})
	}
	return t
}

// BenchmarkSettle is dividing the cluster anew, as every cycle does, and in math/big alone.
func BenchmarkSettle(b *testing.B) {
	for _, influence := range []int64{0, 500} {
		for _, size := range [][2]int{{1, 50}, {8, 400}} {
			t := grove(size[0], size[1])
			name := fmt.Sprintf("influence=%d/accounts=%d/users=%d/", influence, size[0], size[1])
			b.Run(name+"fractions", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					t.Settle(influence)
				}
			})
			b.Run(name+"big", func(b *testing.B) {
				for b.Loop() {
					settleSlowly(t, influence)
				}
			})
		}
	}
}

// BenchmarkCompare is finding out whose turn it is among siblings.
func BenchmarkCompare(b *testing.B) {
	t := grove(1, 50)
	t.Settle(0)
	users := t.Account("a0").Children()
	ask := Amount{4, 10_000, 1000}
	for b.Loop() {
		best := users[0]
		for _, u := range users[1:] {
			if Compare(u, ask, best, ask) < 0 {
				best = u
			}
		}
	}
}
