package state

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// CreatedAccounts returns the accounts that were created for Unix groups, by name. The caller must
// not change it.
func (v *View) CreatedAccounts() []*cluster.CreatedAccount { return v.accounts }

// KnowsAccount reports whether an account is configured, or was created for a Unix group.
func (v *View) KnowsAccount(name string) bool {
	_, configured := v.config.Accounts[name]
	_, created := v.findAccount(name)
	return configured || created
}

func (v *View) findAccount(name string) (int, bool) {
	return slices.BinarySearchFunc(v.accounts, name,
		func(a *cluster.CreatedAccount, name string) int { return strings.Compare(a.Name, name) })
}

// AddAccount adds an account that the state does not have.
func (s *State) AddAccount(a *cluster.CreatedAccount) {
	i, _ := s.v.findAccount(a.Name)
	s.v.accounts = slices.Insert(slices.Clone(s.v.accounts), i, a)
}

// checkAccounts says whether the created accounts are in order, once each, and not too many.
func (v *View) checkAccounts() error {
	if len(v.accounts) > cluster.MaxAccounts {
		return fmt.Errorf("%d accounts were created, at most %d may be", len(v.accounts), cluster.MaxAccounts)
	}
	for i, a := range v.accounts {
		if !jobspec.ValidName(a.Name) || i > 0 && v.accounts[i-1].Name >= a.Name {
			return fmt.Errorf("created account %q is out of order, or has no name of an account", a.Name)
		}
	}
	return nil
}
