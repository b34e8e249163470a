package jobs

import (
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/explain"
	"github.com/rota-hpc/rota/controld/sched/fairshare"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/present"
)

// presentQuotas shows the quotas that apply to a job as the caller may see them.
func presentQuotas(x *exchange.Exchange, quotas []fairshare.Quota) []api.Quota {
	list := make([]api.Quota, 0, len(quotas))
	for i := range quotas {
		q := &quotas[i]
		out := api.Quota{Account: q.Account, User: q.User, Kind: q.Kind, Resource: q.Resource, Used: q.Used,
			Most: q.Most, Binds: q.Binds, Text: q.Text, Holders: []api.Holder{}}
		for _, h := range q.Holders {
			holder := api.Holder{User: h.User, Account: h.Account, Held: h.Held, Jobs: visible(x, h.Jobs)}
			if h.User != x.Caller.User.User && !access.PartUsage.Allows(x.Roles, x.Config().Private) {
				holder.User = ""
			}
			out.Holders = append(out.Holders, holder)
		}
		list = append(list, out)
	}
	return list
}

// maxSparedShown bounds the jobs that are listed for one rule.
const maxSparedShown = 8

// presentAfter shows what would be after preemption as the caller may see it.
func presentAfter(x *exchange.Exchange, a *explain.AfterPreemption) *api.AfterPreemption {
	if a == nil {
		return nil
	}
	out := &api.AfterPreemption{By: a.By, Jobs: a.Jobs, Fits: a.Fits, Lawful: a.Lawful, Text: a.Text,
		Spared: []api.Spared{}}
	for _, s := range a.Spared {
		shown := visible(x, s.Jobs)
		out.Spared = append(out.Spared, api.Spared{Rule: s.Rule, Count: len(s.Jobs),
			Jobs: shown[:min(len(shown), maxSparedShown)]})
	}
	return out
}

// visible returns the jobs that the caller may see.
func visible(x *exchange.Exchange, ids []model.JobID) []model.JobID {
	list := []model.JobID{}
	for _, id := range ids {
		if maySeeJob(x, id) {
			list = append(list, id)
		}
	}
	return list
}

// presentForeseen shows which jobs would have to leave for one that is planned.
func presentForeseen(x *exchange.Exchange, f *sched.Foreseen, resp *api.PlanResponse) {
	for i := range f.Displacements {
		d := present.Displacement(&f.Displacements[i])
		d.Since, d.For = nil, 0
		switch j := x.View.Job(d.Job); {
		case !maySeeJob(x, d.Job):
			d.Job, d.Attempt = 0, 0
		case j != nil:
			d.User, d.Account = j.Owner.User, j.Account
		}
		resp.Displaces = append(resp.Displaces, d)
	}
	if len(resp.Displaces) > 0 {
		resp.DisplacesAfter = int64(f.After+999) / 1000
	}
}
