package fairshare

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/drf"
)

// Quota is one configured number for an account or user and one resource, with the present
// holdings.
type Quota struct {
	Account, User string // User is "" for the account itself
	Kind          string // one of the kinds below
	Resource      string // "cores", "memory", "gpus" or the model of GPUs
	Used, Most    int64  // cores, MiB, or thousandths of a GPU
	Binds         bool   // the job in question would exceed it
	Text          string
	Holders       []Holder // the largest holders first
}

// Kinds of quotas.
const (
	KindLimit    = "limit"    // upper bound of holdings
	KindDeserved = "deserved" // guaranteed, whatever others ask for
	KindTE       = "te"       // upper bound for trial-and-error jobs
)

// Holder is one user's holdings under a quota.
type Holder struct {
	User, Account string
	Held          int64         // as Used
	Jobs          []model.JobID // the largest holders first
}

// maxHolders and maxHolderJobs bound the list of a quota's holders.
const (
	maxHolders    = 5
	maxHolderJobs = 8
)

// Quotas lists the quotas that apply to a job: of its user, of its account and of those above it.
func (f *Accounts) Quotas(j *model.Job) []Quota {
	var list []Quota
	asks := f.AmountOf(j.Total())
	for n := f.Leaf(j.Association()); n.Parent() != nil; n = n.Parent() {
		terms := n.Terms()
		list = append(list, f.quotasOf(n, terms.Limit, asks, KindLimit)...)
		list = append(list, f.quotasOf(n, terms.Deserved, asks, KindDeserved)...)
	}
	return list
}

func (f *Accounts) quotasOf(n *drf.TreeNode, most, asks drf.Amount, kind string) (list []Quota) {
	for r, amount := range most {
		if amount == drf.Unset {
			continue
		}
		used := n.Held()[r]
		q := Quota{Account: n.Name, Kind: kind, Resource: f.resource(r), Used: used, Most: amount,
			Binds: asks[r] > 0 && used+asks[r] > amount}
		if n.User {
			q.User, q.Account = n.Name, n.Parent().Name
		}
		verb := "deserves"
		if kind == KindLimit {
			verb = "may hold"
		}
		q.Text = fmt.Sprintf("%s %s %s and holds %s", nameOf(n), verb, f.told(r, amount), f.told(r, used))
		q.Holders = f.holders(r, func(j *model.Job) bool { return below(f.Leaf(j.Association()), n) })
		list = append(list, q)
	}
	return list
}

// resource names a resource.
func (f *Accounts) resource(r int) string {
	switch r {
	case drf.Cores:
		return "cores"
	case drf.Memory:
		return "memory"
	case drf.GPUs:
		return "gpus"
	}
	return f.Models[r-drf.Models]
}

// TEQuota is the quota of trial-and-error jobs that keeps a job from starting, as a policy has it.
// The text says what it is.
func (f *Accounts) TEQuota(j *model.Job, text string) Quota {
	q := Quota{Account: j.Account, Kind: KindTE, Resource: f.resource(drf.GPUs), Binds: true, Text: text,
		Most: f.state.Policy.TEAccountGPUs * model.WholeGPU}
	q.Holders = f.holders(drf.GPUs, func(o *model.Job) bool {
		return o.Class == j.Class && (o.Account == j.Account || o.Owner.User == j.Owner.User)
	})
	for _, h := range q.Holders {
		if h.Account == j.Account {
			q.Used += h.Held
		}
	}
	return q
}

// holders lists the users whose counted jobs hold some of a resource.
func (f *Accounts) holders(r int, counts func(*model.Job) bool) []Holder {
	type held struct {
		id     model.JobID
		amount int64
	}
	jobs := map[model.Association][]held{}
	for j := range f.state.View.Live() {
		if !counts(j) {
			continue
		}
		if amount := f.HeldBy(j, j.Live())[r]; amount > 0 {
			jobs[j.Association()] = append(jobs[j.Association()], held{j.ID, amount})
		}
	}
	var list []Holder
	for of, all := range jobs {
		slices.SortFunc(all, func(a, b held) int { return cmp.Or(cmp.Compare(b.amount, a.amount), cmp.Compare(a.id, b.id)) })
		h := Holder{User: of.User, Account: of.Account}
		for i, j := range all {
			h.Held += j.amount
			if i < maxHolderJobs {
				h.Jobs = append(h.Jobs, j.id)
			}
		}
		list = append(list, h)
	}
	slices.SortFunc(list, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(b.Held, a.Held), cmp.Compare(a.Account, b.Account), cmp.Compare(a.User, b.User))
	})
	return list[:min(len(list), maxHolders)]
}

// below reports whether a leaf is an account or user, or within it.
func below(leaf, n *drf.TreeNode) bool {
	for m := leaf; m != nil; m = m.Parent() {
		if m == n {
			return true
		}
	}
	return false
}
