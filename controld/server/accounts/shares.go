package accounts

import (
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/fairshare"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/present"
	"github.com/rota-hpc/rota/controld/server/problem"
)

// milli is one whole GPU in the unit of the state, and a whole share.
const milli = 1000

// listShares answers GET /v1/shares: what each account and user holds now, and what they should.
func (h *Handlers) listShares(x *exchange.Exchange) (*api.List[api.Share], error) {
	items := heldByAccount(x.View)
	for _, s := range sched.Shares(x.View, h.Replica.Now(x.View), x.View.Config().Policy) {
		item := shareOf(items, s.Account)
		fair := present.Fairness(&s)
		if s.User == "" {
			item.Parent, item.Fairness = s.Parent, fair
			continue
		}
		item.Users = append(item.Users, api.UserShare{User: s.User, GPUs: present.WholeGPUs(s.GPUs),
			GPUThousandths: present.Thousandths(s.GPUs), Fairness: fair})
	}
	list := exchange.NewList[api.Share]("ShareList", x.View)
	own := x.OwnAccounts()
	if account := x.Query.Get("explain"); account != "" {
		item := items[account]
		if item == nil || !seesAccount(x, own, account) {
			return nil, problem.NotFound("unknown account %q, or this caller may not see it: `rota share` lists accounts",
				account)
		}
		item.Explanation = presentShare(x, sched.ExplainShare(x.View, h.Replica.Now(x.View), x.View.Config().Policy,
			account), own)
	}
	for _, s := range items {
		if seesAccount(x, own, s.Account) {
			list.Items = append(list.Items, visibleShare(x, s))
		}
	}
	slices.SortFunc(list.Items, func(a, b api.Share) int { return strings.Compare(a.Account, b.Account) })
	return list, nil
}

// seesAccount reports whether the caller may see the share of an account.
func seesAccount(x *exchange.Exchange, own map[string]bool, account string) bool {
	return own[account] || x.MayOnAccount(access.PartUsage, account) && x.MayOnAccount(access.PartAccounts, account)
}

// presentShare shows how a share comes about, as far as the caller may see the accounts.
func presentShare(x *exchange.Exchange, e *fairshare.ShareExplanation, own map[string]bool) *api.ShareExplanation {
	if e == nil {
		return nil
	}
	out := &api.ShareExplanation{Promised: e.Promised, HalfLife: e.HalfLife, Influence: e.Influence, Reclaims: e.Reclaims,
		Over: e.Over}
	for _, s := range e.Steps {
		out.Steps = append(out.Steps, api.ShareStep(s))
	}
	of := func(list []fairshare.ShareOf) (shown []api.ShareOf) {
		for _, s := range list {
			if seesAccount(x, own, s.Account) {
				shown = append(shown, api.ShareOf(s))
			}
		}
		return shown
	}
	out.From, out.By = of(e.From), of(e.By)
	return out
}

// visibleShare is the share of an account as the caller may see it.
func visibleShare(x *exchange.Exchange, s *api.Share) api.Share {
	out := *s
	if !x.MayOnAccount(access.PartUsage, s.Account) {
		out.Users = slices.DeleteFunc(slices.Clone(s.Users), func(u api.UserShare) bool {
			return u.User != x.Caller.User.User
		})
	}
	return out
}

// heldByAccount counts the jobs and GPUs of accounts that have some.
func heldByAccount(v *state.View) map[string]*api.Share {
	held := map[string]*api.Share{}
	total, gpus := int64(0), map[string]int64{}
	for j := range v.Jobs() {
		if j.State.Final() {
			continue
		}
		s := shareOf(held, j.Account)
		s.Jobs++
		if j.Live() != nil {
			s.Running++
			gpus[j.Account] += j.Total().GPUs
			total += j.Total().GPUs
		}
	}
	for _, s := range held {
		s.GPUs, s.GPUThousandths = present.WholeGPUs(gpus[s.Account]), present.Thousandths(gpus[s.Account])
		if total > 0 {
			s.Share = gpus[s.Account] * milli / total
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
