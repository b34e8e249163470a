package submission

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// payer returns a user whose primary group has its name, and that is in further groups.
func payer(user string, groups ...string) *Payer {
	return &Payer{User: user, Group: user, GID: 7, Listed: func(names []string) bool {
		return slices.ContainsFunc(names, func(n string) bool {
			return n == user || strings.HasPrefix(n, "%") && slices.Contains(groups, n[1:])
		})
	}}
}

func chargedTo(account string) []*jobspec.Job {
	return []*jobspec.Job{{Name: "x", Account: account,
		Groups: []jobspec.Group{{Name: "main", Tasks: []jobspec.Task{{Name: "main", Command: []string{"true"},
			Resources: jobspec.Resources{Cores: 1, Memory: jobspec.GiB}}}}}}}
}

// TestJobsAreChargedToAccountsOfTheirUser: a job that names an account of others, or one that does
// not exist, is refused, with the accounts that its user may name. The bug "membership is not asked
// for an account that is configured" shows here.
func TestJobsAreChargedToAccountsOfTheirUser(t *testing.T) {
	cfg := cluster.DefaultConfig()
	cfg.Accounts = map[string]cluster.Account{
		"vision": {Members: []string{"ann", "%vis"}},
		"speech": {Users: map[string]cluster.Terms{"bob": {}}},
		"empty":  {},
		"lead":   {Coordinators: []string{"ann"}},
	}
	closed := cfg
	closed.NoNewAccounts = true
	for name, c := range map[string]struct {
		cfg     cluster.Config
		payer   *Payer
		account string // that the job names
		charged string // "" if it is refused
		create  string
		hint    string
	}{
		"its group's, by default":       {cfg: cfg, payer: payer("ann"), charged: "ann", create: "ann"},
		"its group's, by name":          {cfg: cfg, payer: payer("ann"), account: "ann", charged: "ann", create: "ann"},
		"one that lists it":             {cfg: cfg, payer: payer("ann"), account: "vision", charged: "vision"},
		"one that lists its group":      {cfg: cfg, payer: payer("eve", "vis"), account: "vision", charged: "vision"},
		"one with settings for it":      {cfg: cfg, payer: payer("bob"), account: "speech", charged: "speech"},
		"one of others":                 {cfg: cfg, payer: payer("eve"), account: "vision", hint: "name one of: eve"},
		"one that does not exist":       {cfg: cfg, payer: payer("ann"), account: "no", hint: "name one of: ann, vision"},
		"one without members":           {cfg: cfg, payer: payer("eve"), account: "empty", hint: "name one of: eve"},
		"one that it coordinates":       {cfg: cfg, payer: payer("ann"), account: "lead", hint: "name one of: ann, vision"},
		"the common one":                {cfg: cfg, payer: payer("ann"), account: "default", hint: "name one of: ann"},
		"its group's, and none is made": {cfg: closed, payer: payer("ann"), hint: "name one of: vision"},
		"by name, and none is made":     {cfg: closed, payer: payer("ann"), account: "ann", hint: "name one of: vision"},
		"none at all":                   {cfg: closed, payer: payer("eve"), hint: "ask an operator"},
		"its group's, which is there":   {cfg: closed, payer: payer("vision"), charged: "vision"},
		"a group that cannot be a name": {cfg: cfg, payer: &Payer{User: "x", Group: "domain users", GID: 70},
			charged: "gid-70", create: "gid-70"},
		"a group without a name": {cfg: cfg, payer: &Payer{User: "x", GID: 71}, charged: "gid-71", create: "gid-71"},
	} {
		t.Run(name, func(t *testing.T) {
			jobs := chargedTo(c.account)
			create, group, err := Accept(fsm.New(c.cfg).View(), model.Identity{User: c.payer.User}, c.payer, jobs)
			var p *api.Problem
			switch {
			case c.charged == "" && (!errors.As(err, &p) || p.Code != api.CodeDenied || !strings.HasPrefix(p.Hint, c.hint)):
				t.Errorf("it is not refused, or with another hint: %v", err)
			case c.charged != "" && (err != nil || jobs[0].Account != c.charged || create != c.create):
				t.Errorf("charged to %q, creates %q: %v", jobs[0].Account, create, err)
			case c.charged != "" && (c.account == "" || c.account == c.payer.Group) != (group != nil &&
				*group == cluster.GroupAccount{GID: c.payer.GID, Account: c.charged}):
				t.Errorf("the account of group %d becomes %+v", c.payer.GID, group)
			}
		})
	}
}

// TestDefaultAccount: a user's own default goes before the default of all users, and both before
// the account of the Unix group. The user may still name that one. A default account may be charged
// without membership.
func TestDefaultAccount(t *testing.T) {
	cfg := cluster.DefaultConfig()
	cfg.Accounts = map[string]cluster.Account{"common": {}, "vision": {}, "other": {}}
	cfg.Users = map[string]cluster.UserRules{cluster.EachUser: {DefaultAccount: "common"},
		"ann": {DefaultAccount: "vision"}, "bob": {}}
	closed := cfg
	closed.NoNewAccounts = true
	for _, c := range []struct {
		cfg            cluster.Config
		user, account  string
		charged, hints string
	}{
		{cfg, "ann", "", "vision", ""},
		{cfg, "bob", "", "common", ""},
		{cfg, "eve", "", "common", ""},
		{cfg, "eve", "common", "common", ""},
		{cfg, "eve", "eve", "eve", ""},
		{closed, "eve", "", "common", ""},
		{cfg, "ann", "common", "", "name one of: vision, ann"},
		{closed, "eve", "eve", "", "name one of: common"},
		{cfg, "eve", "other", "", "name one of: common, eve"},
	} {
		jobs := chargedTo(c.account)
		_, _, err := Accept(fsm.New(c.cfg).View(), model.Identity{User: c.user}, payer(c.user), jobs)
		var p *api.Problem
		switch {
		case c.charged == "" && (!errors.As(err, &p) || p.Hint != c.hints):
			t.Errorf("user %s, account %q: %v", c.user, c.account, err)
		case c.charged != "" && (err != nil || jobs[0].Account != c.charged):
			t.Errorf("user %s, account %q: charged to %q: %v", c.user, c.account, jobs[0].Account, err)
		}
	}
}

// TestTheRefusalDoesNotTellWhichAccountsExist: an account of others is refused in the same words as
// one that does not exist.
func TestTheRefusalDoesNotTellWhichAccountsExist(t *testing.T) {
	cfg := cluster.DefaultConfig()
	cfg.Accounts = map[string]cluster.Account{"hidden": {Members: []string{"ann"}}}
	v := fsm.New(cfg).View()
	var texts []string
	for _, account := range []string{"hidden", "absent"} {
		_, _, err := Accept(v, model.Identity{}, payer("eve"), chargedTo(account))
		texts = append(texts, strings.ReplaceAll(fmt.Sprint(err), account, "X"))
	}
	if texts[0] != texts[1] {
		t.Errorf("%q and %q", texts[0], texts[1])
	}
}

// TestALongRefusalIsCut: a user of very many accounts is told of some.
func TestALongRefusalIsCut(t *testing.T) {
	cfg := cluster.DefaultConfig()
	cfg.Accounts = map[string]cluster.Account{}
	for i := range 100 {
		cfg.Accounts[fmt.Sprintf("a%03d", i)] = cluster.Account{Members: []string{"ann"}}
	}
	_, _, err := Accept(fsm.New(cfg).View(), model.Identity{}, payer("ann"), chargedTo("no"))
	var p *api.Problem
	if !errors.As(err, &p) || !strings.HasSuffix(p.Hint, "a018 and 81 more") {
		t.Errorf("%+v", p)
	}
}
