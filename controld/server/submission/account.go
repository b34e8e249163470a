package submission

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// Payer is the user whose jobs are charged to accounts.
type Payer struct {
	User string
	// Group is the name of the user's primary group, "" if the group has none. Its account is the
	// user's own.
	Group string
	GID   uint32 // of that group
	// Listed says whether a list of users and "%group"s has the user.
	Listed func(names []string) bool
}

// own returns the account of the payer's primary group. Machines may name a group differently, or not know
// it. So the first name by which a job is charged stays, whichever controller answers later.
func (p *Payer) own(v *state.View) string {
	known, named := v.AccountOfGroup(p.GID), cluster.AccountOfGroup(p.Group, p.GID)
	if known == "" || known == cluster.AccountOfGroup("", p.GID) || !v.KnowsAccount(known) {
		return named
	}
	return known
}

// usual returns the account that is charged for jobs that name none.
func (p *Payer) usual(v *state.View) string {
	return cmp.Or(v.Config().DefaultAccountOf(p.User), p.own(v))
}

// mayCharge reports whether the payer may charge an account other than its own.
func (p *Payer) mayCharge(v *state.View, account string) bool {
	return account == v.Config().DefaultAccountOf(p.User) || v.Config().IsMember(account, p.User, p.Listed)
}

// exists reports whether the payer's own account is there, or would be created.
func (p *Payer) exists(v *state.View) bool {
	return !v.Config().NoNewAccounts || v.KnowsAccount(p.own(v))
}

// usable returns the accounts that the payer may charge, its usual one first, then its own.
func (p *Payer) usable(v *state.View) []string {
	own := p.own(v)
	names := v.Config().AccountsOf(p.User, p.Listed)
	first := []string{p.usual(v)}
	if p.exists(v) {
		first = append(first, own)
	} else if first[0] == own {
		first = nil
	}
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(first, name) })
	return append(slices.Compact(first), names...)
}

// charge fills in the payer's usual account, and refuses jobs for an account that the payer may not
// charge. It returns what [Accept] does.
func (p *Payer) charge(
	v *state.View, jobs []*jobspec.Job,
) (create string, group *cluster.GroupAccount, err error) {
	own := p.own(v)
	for i, j := range jobs {
		j.Account = cmp.Or(j.Account, p.usual(v))
		switch {
		case j.Account == own:
			if !p.exists(v) {
				return "", nil, p.refusal(v, Prefix(jobs, i)+fmt.Sprintf("account %q, named after the Unix group of user "+
					"%s, does not "+
					"exist, and this cluster does not create accounts", own, p.User))
			}
			if !v.KnowsAccount(own) {
				create = own
			}
			if v.AccountOfGroup(p.GID) != own {
				group = &cluster.GroupAccount{GID: p.GID, Account: own}
			}
		case !p.mayCharge(v, j.Account):
			return "", nil, p.refusal(v, Prefix(jobs, i)+fmt.Sprintf("user %s may not charge account %q", p.User, j.Account))
		}
	}
	return create, group, nil
}

// maxNamed is how many accounts a refusal names.
const maxNamed = 20

// refusal says what is wrong, and which accounts the payer may use. It is the same for an account
// that does not exist and for one of others.
func (p *Payer) refusal(v *state.View, what string) error {
	names := p.usable(v)
	hint := "ask an operator to add you to an account"
	if len(names) > 0 {
		hint = "name one of: " + strings.Join(names[:min(len(names), maxNamed)], ", ")
	}
	if more := len(names) - maxNamed; more > 0 {
		hint += fmt.Sprintf(" and %d more", more)
	}
	return &api.Problem{Status: http.StatusForbidden, Code: api.CodeDenied, Detail: what, Hint: hint}
}
