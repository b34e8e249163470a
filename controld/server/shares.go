package server

import (
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/sched"
)

// milli is one whole GPU in the unit of the state, and a whole share.
const milli = 1000

// listShares answers GET /v1/shares: what each account and user holds now, and what they should.
func listShares(x *exchange) (*api.List[api.Share], error) {
	items := heldByAccount(x.view)
	for _, s := range sched.Shares(x.view, x.s.Replica.Now(x.view), x.view.Config().Policy) {
		item := shareOf(items, s.Account)
		fair := api.Fairness{
			Weight: s.Weight, Deserved: s.Deserved, Fair: s.Fair, Alloc: s.Alloc, Borrowed: s.Borrowed, Usage: s.Usage,
			Ratio: s.Ratio,
		}
		if s.User == "" {
			item.Parent, item.Fairness = s.Parent, fair
			continue
		}
		item.Users = append(item.Users, api.UserShare{User: s.User, GPUs: int(s.GPUs) / milli, Fairness: fair})
	}
	list := newList[api.Share]("ShareList", x.view)
	own := x.ownAccounts()
	for _, s := range items {
		if own[s.Account] || x.mayOnAccount(partUsage, s.Account) && x.mayOnAccount(partAccounts, s.Account) {
			list.Items = append(list.Items, x.visibleShare(s))
		}
	}
	slices.SortFunc(list.Items, func(a, b api.Share) int { return strings.Compare(a.Account, b.Account) })
	return list, nil
}

// visibleShare is the share of an account as the caller may see it.
func (x *exchange) visibleShare(s *api.Share) api.Share {
	out := *s
	if !x.mayOnAccount(partUsage, s.Account) {
		out.Users = slices.DeleteFunc(slices.Clone(s.Users), func(u api.UserShare) bool {
			return u.User != x.caller.User.User
		})
	}
	return out
}

// ownAccounts returns the accounts that name the caller, or in which it has jobs.
func (x *exchange) ownAccounts() map[string]bool {
	own, user := map[string]bool{}, x.caller.User.User
	for name, a := range x.view.Config().Accounts {
		_, own[name] = a.Users[user]
	}
	for _, id := range x.s.Replica.JobsOf(user) {
		if j := x.view.Job(id); j != nil {
			own[j.Account] = true
		}
	}
	return own
}

// heldByAccount counts the jobs and GPUs of accounts that have some.
func heldByAccount(v *state.View) map[string]*api.Share {
	held := map[string]*api.Share{}
	total := 0
	for j := range v.Jobs() {
		if j.State.Final() {
			continue
		}
		s := shareOf(held, j.Account)
		s.Jobs++
		if j.Live() != nil {
			gpus := int(j.Total().GPUs) / milli
			s.Running++
			s.GPUs += gpus
			total += gpus
		}
	}
	for _, s := range held {
		if total > 0 {
			s.Share = int64(s.GPUs) * milli / int64(total)
		}
	}
	return held
}

// shareOf returns the share of an account, which is added if it has none.
func shareOf(shares map[string]*api.Share, account string) *api.Share {
	s := shares[account]
	if s == nil {
		s = &api.Share{Account: account}
		shares[account] = s
	}
	return s
}
