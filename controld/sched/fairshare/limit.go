package fairshare

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/drf"
)

// LimitOf says whose limit keeps a job from starting, nothing if none does.
func (f *Accounts) LimitOf(j *model.Job) model.Reason {
	at, r := f.Leaf(j.Association()).Limited(f.AmountOf(j.Total()))
	if at == nil {
		return model.Reason{}
	}
	of := "account " + at.Name
	if at.User {
		of = "user " + at.Name + " in account " + at.Parent().Name
	}
	return model.Reason{Code: model.ReasonLimit, Want: j.Workers, Need: j.Request.Active,
		Text: fmt.Sprintf("%s may hold %s at once and holds %s",
			of, f.told(r, at.Terms().Limit[r]), f.told(r, at.Held()[r]))}
}

// Limited reports whether a limit keeps a job from starting wherever it is put.
func (f *Accounts) Limited(leaf *drf.Node, j *model.Job) bool {
	at, _ := leaf.Limited(f.AmountOf(j.Total()))
	return at != nil
}
