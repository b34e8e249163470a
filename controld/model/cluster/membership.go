package cluster

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// CreatedAccount is an account that the configuration did not name when the first job of a Unix
// group was submitted. It stands at the top of the tree, with a weight of 1 and without a quota.
type CreatedAccount struct {
	Name    string      `json:"name"`
	By      string      `json:"by"` // user that submitted the job
	Created model.Stamp `json:"created"`
}

// GroupAccount says which account a Unix group has, on every controller. See [AccountOfGroup].
type GroupAccount struct {
	GID     uint32 `json:"gid"`
	Account string `json:"account"`
}

// AccountOfGroup returns the name of the account of a Unix group. A group without a name, or with
// one that no account can have, goes by its number.
func AccountOfGroup(name string, gid uint32) string {
	if !jobspec.ValidName(name) {
		return fmt.Sprintf("gid-%d", gid)
	}
	return name
}

// IsMember reports whether an account is configured with settings for a user, or with a list of
// members that has the user. listed says whether a list of users and "%group"s has it.
func (c *Config) IsMember(account, user string, listed func(names []string) bool) bool {
	a := c.Accounts[account]
	_, named := a.Users[user]
	return named || listed(a.Members)
}

// AccountsOf returns the accounts that a user is a member of, see [Config.IsMember], in order.
func (c *Config) AccountsOf(user string, listed func(names []string) bool) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(c.Accounts)) {
		if c.IsMember(name, user, listed) {
			names = append(names, name)
		}
	}
	return names
}
