package state

import (
	"cmp"
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

// AccountOfGroup returns the account to which jobs of a Unix group are charged, "" if there was none yet.
func (v *View) AccountOfGroup(gid uint32) string {
	if i, ok := v.findGroup(gid); ok {
		return v.groupAccounts[i].Account
	}
	return ""
}

// GroupAccounts returns how many groups have accounts.
func (v *View) GroupAccounts() int { return len(v.groupAccounts) }

func (v *View) findGroup(gid uint32) (int, bool) {
	return slices.BinarySearchFunc(v.groupAccounts, gid,
		func(g cluster.GroupAccount, gid uint32) int { return cmp.Compare(g.GID, gid) })
}

// SetGroupAccount gives a Unix group its account, in place of another one.
func (s *State) SetGroupAccount(g cluster.GroupAccount) {
	i, ok := s.v.findGroup(g.GID)
	s.v.groupAccounts = slices.Clone(s.v.groupAccounts)
	if ok {
		s.v.groupAccounts[i] = g
		return
	}
	s.v.groupAccounts = slices.Insert(s.v.groupAccounts, i, g)
}

// checkAccounts says whether the created accounts and those of groups are in order, once each, and not too
// many.
func (v *View) checkAccounts() error {
	if len(v.groupAccounts) > cluster.MaxGroups {
		return fmt.Errorf("%d groups have accounts, at most %d may", len(v.groupAccounts), cluster.MaxGroups)
	}
	for i, g := range v.groupAccounts {
		if !jobspec.ValidName(g.Account) || i > 0 && v.groupAccounts[i-1].GID >= g.GID {
			return fmt.Errorf("account %q of group %d is out of order, or has no name of an account", g.Account, g.GID)
		}
	}
	if len(v.accounts) > cluster.MaxAccounts {
		return fmt.Errorf("%d accounts were created; at most %d are allowed", len(v.accounts), cluster.MaxAccounts)
	}
	for i, a := range v.accounts {
		if !jobspec.ValidName(a.Name) || i > 0 && v.accounts[i-1].Name >= a.Name {
			return fmt.Errorf("created account %q is out of order, or has an invalid name", a.Name)
		}
	}
	return nil
}
