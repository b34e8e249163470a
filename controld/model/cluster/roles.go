package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Words of [Config.Private], as Slurm's PrivateData has them. Operators and admins see everything
// all the same, and coordinators what is of their accounts.
const (
	PrivateJobs     = "jobs"     // jobs of others
	PrivateUsage    = "usage"    // shares of other users, and ended jobs of others
	PrivateAccounts = "accounts" // accounts that the user is not in
	PrivateNodes    = "nodes"    // the nodes
	PrivateEvents   = "events"   // events, but for those of the user's own jobs
)

// PrivateWords are the words that [Config.Private] may have.
var PrivateWords = []string{PrivateAccounts, PrivateEvents, PrivateJobs, PrivateNodes, PrivateUsage}

// GroupMark begins the name of a Unix group where users are listed: "%wheel".
const GroupMark = "%"

// maxListed bounds a list of users and groups.
const maxListed = 1000

// CoordinatorLists returns the lists of users and groups that coordinate an account: its own and
// those of the accounts above it.
func (c *Config) CoordinatorLists(account string) [][]string {
	var lists [][]string
	for range maxDepth + 1 {
		a, ok := c.Accounts[account]
		if !ok {
			break
		}
		if len(a.Coordinators) > 0 {
			lists = append(lists, a.Coordinators)
		}
		account = a.Parent
	}
	return lists
}

// checkRoles says what is wrong with the lists of users, and with what is private.
func (c *Config) checkRoles(bad func(string, ...any)) {
	listed := func(of string, names []string) {
		if len(names) > maxListed {
			bad("%s: %d users and groups; at most %d are allowed", of, len(names), maxListed)
			return
		}
		for _, name := range names {
			if bare := strings.TrimPrefix(name, GroupMark); bare == "" || strings.ContainsAny(bare, " \t\r\n,%:") {
				bad("%s: %q is neither a user nor a Unix group with %% before it", of, name)
			}
		}
	}
	listed("operators", c.Operators)
	listed("admins", c.Admins)
	for _, name := range slices.Sorted(maps.Keys(c.Accounts)) {
		listed(fmt.Sprintf("account %q: coordinators", name), c.Accounts[name].Coordinators)
		listed(fmt.Sprintf("account %q: users and groups", name), c.Accounts[name].Members)
	}
	for _, word := range c.Private {
		if !slices.Contains(PrivateWords, word) {
			bad("private: %q cannot be private, only these can: %s", word, strings.Join(PrivateWords, ", "))
		}
	}
}
