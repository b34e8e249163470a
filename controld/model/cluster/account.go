package cluster

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// Account is what is configured of an account. Accounts that are not configured are at the top,
// with nothing said of them.
type Account struct {
	Parent string `json:"parent,omitempty"` // "": at the top
	Terms
	Users map[string]Terms `json:"users,omitempty"` // in this account, as far as something is said of them
	// users and "%group"s that act on the jobs of this account, and of those below it
	Coordinators []string `json:"coordinators,omitempty"`
	Members      []string `json:"members,omitempty"` // users and "%group"s that may charge it
	Sharing
}

// Terms are what is due to an account or to a user in an account, and what it may have at most.
type Terms struct {
	Weight   int    `json:"weight,omitempty"`   // in what proportion it gets what no account is entitled to; 0: 1
	Deserved *Quota `json:"deserved,omitempty"` // nil: an equal part of what is left of its parent's
	Limit    *Limit `json:"limit,omitempty"`    // at once; nil: none
}

// Quota is amounts of some resources; nil says nothing of a resource.
type Quota struct {
	Cores  *int64           `json:"cores,omitempty"`
	Memory *jobspec.Bytes   `json:"memory,omitempty"`
	GPUs   *int64           `json:"gpus,omitempty"`   // in thousandths, of any model
	Models map[string]int64 `json:"models,omitempty"` // of one model each, in thousandths
}

// CheckAccounts returns every reason why what a configuration says of accounts cannot be used,
// joined, or nil. [fsm.SetConfig] refuses such a configuration.
func CheckAccounts(c *Config) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(c.Accounts) > MaxAccounts {
		bad("%d accounts, at most %d", len(c.Accounts), MaxAccounts)
		return errors.Join(errs...)
	}
	c.Capacity.check("capacity", bad)
	c.checkRoles(bad)
	c.checkUsers(bad)
	c.checkQueues(bad)
	names := slices.Sorted(maps.Keys(c.Accounts))
	for _, name := range names {
		a := c.Accounts[name]
		if name == "" {
			bad("an account lacks a name")
		}
		a.check("account "+quote(name), bad)
		for _, user := range slices.Sorted(maps.Keys(a.Users)) {
			terms := a.Users[user]
			of := "account " + quote(name) + ", user " + quote(user)
			terms.check(of, bad)
			if user == EachUser {
				terms.checkPattern(of, bad)
			}
		}
		c.checkParents(name, bad)
	}
	if len(errs) == 0 {
		c.checkSums(names, bad)
	}
	return errors.Join(errs...)
}

func quote(name string) string { return fmt.Sprintf("%q", name) }

// checkParents says whether the way up from an account ends.
func (c *Config) checkParents(name string, bad func(string, ...any)) {
	at := name
	for range maxDepth {
		parent := c.Accounts[at].Parent
		if parent == "" {
			return
		}
		if _, ok := c.Accounts[parent]; !ok {
			if at == name { // else it is said of the account in between
				bad("account %q: its parent, account %q, does not exist", name, parent)
			}
			return
		}
		at = parent
	}
	bad("account %q: its parents form a cycle, or are more than %d", name, maxDepth)
}

func (t *Terms) check(of string, bad func(string, ...any)) {
	if t.Weight < 0 || t.Weight > MaxWeight {
		bad("%s: weight %d: must be from 1 to %d", of, t.Weight, MaxWeight)
	}
	t.Deserved.check(of+": deserved", bad)
	t.Limit.check(of+": limit", bad)
	limit, deserved := t.Limit.Amounts().amounts(), t.Deserved.amounts()
	for _, r := range slices.Sorted(maps.Keys(limit)) {
		if d, ok := deserved[r]; ok && d > limit[r] {
			bad("%s: %s: the quota (deserved) of %s is above the limit of %s", of, r, inUnits(r, d), inUnits(r, limit[r]))
		}
	}
}

// checkPattern refuses settings for each user of an account that only one user can have.
func (t *Terms) checkPattern(of string, bad func(string, ...any)) {
	if t.Weight != 0 || t.Deserved != nil {
		bad("%s: weight and deserved are for a user by name; each user has an equal part without them", of)
	}
	t.Limit.noModels(of, bad)
}

func (q *Quota) check(of string, bad func(string, ...any)) {
	amounts := q.amounts()
	for _, r := range slices.Sorted(maps.Keys(amounts)) {
		if amounts[r] < 0 || amounts[r] > MaxQuota {
			bad("%s: %s: %s is negative, or more than any cluster can have", of, r, inUnits(r, amounts[r]))
		}
	}
}

// amounts lists what a quota says, by resource.
func (q *Quota) amounts() map[string]int64 {
	all := map[string]int64{}
	if q == nil {
		return all
	}
	if q.Cores != nil {
		all["cores"] = *q.Cores
	}
	if q.Memory != nil {
		all["memory"] = int64(*q.Memory)
	}
	if q.GPUs != nil {
		all["gpus"] = *q.GPUs
	}
	for model, n := range q.Models {
		all["gpus of model "+quote(model)] = n
	}
	return all
}

// inUnits writes an amount as users write it, memory in bytes.
func inUnits(resource string, n int64) string {
	if strings.HasPrefix(resource, "gpus") {
		return strconv.FormatFloat(float64(n)/1000, 'f', -1, 64)
	}
	return strconv.FormatInt(n, 10)
}

// checkSums says whether more is deserved below an account, or in all, than there is.
func (c *Config) checkSums(names []string, bad func(string, ...any)) {
	sums := map[string]map[string]int64{} // by parent, then by resource
	add := func(parent string, q *Quota) {
		if sums[parent] == nil {
			sums[parent] = map[string]int64{}
		}
		for r, n := range q.amounts() {
			sums[parent][r] = min(sums[parent][r]+n, maxSum)
		}
	}
	for _, name := range names {
		a := c.Accounts[name]
		add(a.Parent, a.Deserved)
		for _, u := range a.Users {
			add(name, u.Deserved)
		}
	}
	exceeds := func(parent, of string, whole *Quota) {
		have := whole.amounts()
		for _, r := range slices.Sorted(maps.Keys(sums[parent])) {
			if most, ok := have[r]; ok && sums[parent][r] > most {
				bad("%s: %s: the quotas add up to %s, but there are only %s", of, r, inUnits(r, sums[parent][r]), inUnits(r, most))
			}
		}
	}
	exceeds("", "all accounts", c.Capacity)
	for _, name := range names {
		exceeds(name, "below account "+quote(name), c.Accounts[name].Deserved)
	}
}

// Bounds of what is configured of accounts.
const (
	MaxAccounts = 10_000
	MaxGroups   = 20_000 // Unix groups whose account is remembered
	MaxWeight   = 1_000_000
	maxDepth    = 8       // accounts above an account
	MaxQuota    = 1 << 50 // of any resource: far beyond what a cluster can have
	maxSum      = 1 << 60 // of quotas: more is no more too much
)
