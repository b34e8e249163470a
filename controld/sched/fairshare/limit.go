package fairshare

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched/drf"
)

// LimitOf says whose limit keeps a job from starting, nothing if none does.
func (f *Accounts) LimitOf(j *model.Job) model.Reason {
	at, r := f.Leaf(j.Association()).Limited(f.AmountOf(j.Total()))
	if at == nil {
		return model.Reason{}
	}
	of, code := nameOf(at), cluster.LimitGPUs
	switch r {
	case drf.Cores:
		code = cluster.LimitCores
	case drf.Memory:
		code = cluster.LimitMemory
	}
	return model.Reason{Code: cluster.Owner{Kind: cluster.WholeAccount}.Reason(code), Want: j.Workers,
		Need: j.Request.Active,
		Text: fmt.Sprintf("%s may hold %s at once and holds %s",
			of, f.told(r, at.Terms().Limit[r]), f.told(r, at.Held()[r]))}
}

// SparedByShare returns the rule of reclaim that spares a running job from leaving for a job of an
// account below its entitlement; "" if none does.
func (f *Accounts) SparedByShare(j, running *model.Job) string {
	mine, theirs := drf.Part(f.Leaf(j.Association()), f.Leaf(running.Association()))
	switch {
	case mine == nil:
		return "of the same account"
	case !f.mayReclaim(mine) || !mine.Within(f.Asks(j)):
		return fmt.Sprintf("out of reach: %s has no quota left with this job", nameOf(mine))
	}
	for n := f.Leaf(running.Association()); n != theirs.Parent(); n = n.Parent() {
		if !n.Above() {
			return fmt.Sprintf("within its fair share: %s", nameOf(n))
		}
	}
	if !drf.HasUsedLess(mine, theirs) {
		return fmt.Sprintf("past usage: %s has used no more of its share than %s", nameOf(theirs), nameOf(mine))
	}
	return ""
}

// nameOf says which account or user a node is.
func nameOf(n *drf.TreeNode) string {
	if n.User {
		return "user " + n.Name + " in account " + n.Parent().Name
	}
	return "account " + n.Name
}

// Limited reports whether a limit keeps a job from starting wherever it is put.
func (f *Accounts) Limited(leaf *drf.TreeNode, j *model.Job) bool {
	at, _ := leaf.Limited(f.AmountOf(j.Total()))
	return at != nil
}
