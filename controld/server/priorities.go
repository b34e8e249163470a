package server

import (
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/server/present"
)

// listPriorities answers GET /v1/priorities: the jobs that wait, in the order in which the scheduler
// comes to them, with what decides it.
func listPriorities(x *exchange) (*api.List[api.Priority], error) {
	now, policy := x.s.Replica.Now(x.view), x.view.Config().Policy
	shares := map[model.Association]api.Fairness{}
	for _, s := range sched.Shares(x.view, now, policy) {
		shares[model.Association{Account: s.Account, User: s.User}] = fairnessOf(&s)
	}
	list := newList[api.Priority]("PriorityList", x.view)
	for _, p := range sched.Priorities(x.view, now, policy) {
		j := p.Job
		if !x.mayOn(partJobs, j) {
			continue
		}
		item := api.Priority{Position: p.Position, ID: j.ID, Name: j.Spec.Name, Ref: present.Ref(x.view, j),
			User: j.Owner.User, Account: j.Account, Class: j.Class, OwnRoom: p.OwnRoom, AccountsOver: p.AccountsOver,
			UserOver: p.UserOver, Priority: p.Priority, Level: p.Level, Service: p.Service / 1000,
			Age: p.Age / 1000, Reserved: p.Reserved,
			AccountShare: shares[model.Association{Account: j.Account}], UserShare: shares[j.Association()],
			Reason: present.PublicReason(x.view, x.s.waiting.reason(x.view, now, j))}
		list.Items = append(list.Items, item)
	}
	return list, nil
}
