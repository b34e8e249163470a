package jobs

import (
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/present"
)

// listPriorities answers GET /v1/priorities: the jobs that wait, in the order in which the scheduler
// comes to them, with what decides it.
func (h *Handlers) listPriorities(x *exchange.Exchange) (*api.List[api.Priority], error) {
	now, policy := h.Replica.Now(x.View), x.View.Config().Policy
	shares := map[model.Association]api.Fairness{}
	for _, s := range sched.Shares(x.View, now, policy) {
		shares[model.Association{Account: s.Account, User: s.User}] = present.Fairness(&s)
	}
	list := exchange.NewList[api.Priority]("PriorityList", x.View)
	for _, p := range sched.Priorities(x.View, now, policy) {
		j := p.Job
		if !x.MayOn(access.PartJobs, j) {
			continue
		}
		item := api.Priority{Position: p.Position, ID: j.ID, Name: j.Spec.Name, Ref: present.Ref(x.View, j),
			User: j.Owner.User, Account: j.Account, Class: j.Class, OwnRoom: p.OwnRoom, AccountsOver: p.AccountsOver,
			UserOver: p.UserOver, Priority: p.Priority, Level: p.Level, Service: p.Service / 1000,
			Age: p.Age / 1000, Reserved: p.Reserved,
			AccountShare: shares[model.Association{Account: j.Account}], UserShare: shares[j.Association()],
			Reason: present.PublicReason(x.View, h.waiting.reason(x.View, now, j))}
		list.Items = append(list.Items, item)
	}
	return list, nil
}
