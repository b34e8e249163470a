package fairshare

import (
	"math/big"

	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched/drf"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Share compares the holdings of an account or user with its entitlement. Parts of the cluster are
// dominant shares: thousandths of the capacity that is up, of the resource with the largest part.
type Share struct {
	Account, Parent string
	User            string // "" for the account itself
	Weight          int64
	Deserved        int64 // entitlement, whatever others ask for
	Fair            int64 // its share now, in view of all requests
	Alloc           int64 // what it holds
	Borrowed        int64 // holdings beyond the entitlement
	GPUs            int64 // held, in thousandths of a GPU
	Usage           int64 // seconds for which it has held the whole cluster, those long ago counted less
	// usage in thousandths of its entitlement over the time that it was active; -1: it is entitled
	// to nothing
	Ratio int64
}

// Shares lists accounts, parents first, each followed by its users. It is the same whatever the
// policy is.
func Shares(v *state.View, now model.Instant, p cluster.Policy) []Share {
	f := NewAccounts(&queue.Order{State: scratch.New(v, now, p, new(fit.Room))})
	var list []Share
	for _, n := range f.Tree.Root().Children() {
		list = appendShares(list, n)
	}
	return list
}

func appendShares(list []Share, n *drf.TreeNode) []Share {
	s := Share{
		Account: n.Name, Parent: n.Parent().Name, Weight: n.Terms().Weight, GPUs: n.Held()[drf.GPUs],
		Deserved: thousandths(n.Due()), Fair: thousandths(n.Share()), Alloc: thousandths(n.Holding(nil)),
		Usage: thousandths(n.Usage()) / 1000, Ratio: -1,
	}
	if n.User {
		s.User, s.Account, s.Parent = n.Name, n.Parent().Name, ""
	}
	if over := n.Holding(nil).Minus(n.Due()); over.Sign() > 0 {
		s.Borrowed = thousandths(over)
	}
	if r, finite := n.Ratio().Value(); finite {
		s.Ratio = thousandths(r)
	}
	list = append(list, s)
	children := n.Children()
	for _, users := range []bool{true, false} {
		for _, c := range children {
			if c.User == users {
				list = appendShares(list, c)
			}
		}
	}
	return list
}

// thousandths rounds to the nearest.
func thousandths(f drf.Fraction) int64 {
	r := f.Rat()
	n := new(big.Int).Mul(r.Num(), big.NewInt(2000))
	n.Add(n, r.Denom())
	return n.Quo(n, new(big.Int).Mul(r.Denom(), big.NewInt(2))).Int64()
}
