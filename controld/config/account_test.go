package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

const fairExample = `
capacity { gpus = 64 }

policy {
  name            = "fairshare"
  min_runtime     = "5m"
  half_life       = "1d"
  usage_influence = 0.5
}

account "research" {
  weight = 2
  deserved {
    gpus   = 40
    cores  = 512
    memory = "2TiB"
    models = { H100 = 8 }
  }
}

account "vision" {
  parent = "research"
  limit { gpus = 24 }
  user "ann" {
    deserved { gpus = 4 }
  }
}
`

func TestReadsAccounts(t *testing.T) {
	f, err := Parse("c.hcl", []byte(fairExample))
	if err != nil {
		t.Fatal(err)
	}
	cfg := f.Replicated()
	if p := cfg.Policy; p.Name != "fairshare" || p.MinRuntimeMS != 300_000 || p.HalfLifeMS != 86_400_000 ||
		p.UsageInfluence != 500 {
		t.Errorf("policy is %+v", p)
	}
	if *cfg.Capacity.GPUs != 64_000 || cfg.Capacity.Cores != nil {
		t.Errorf("capacity is %+v", cfg.Capacity)
	}
	d := cfg.Accounts["research"].Deserved
	if cfg.Accounts["research"].Weight != 2 || *d.GPUs != 40_000 || *d.Cores != 512 || *d.Memory != 2048*jobspec.GiB ||
		d.Models["H100"] != 8000 {
		t.Errorf("research is %+v", cfg.Accounts["research"])
	}
	v := cfg.Accounts["vision"]
	if v.Parent != "research" || v.Deserved != nil || *v.Limit.GPUs != 24_000 || v.Limit.Memory != nil ||
		*v.Users["ann"].Deserved.GPUs != 4000 {
		t.Errorf("vision is %+v", v)
	}
}

func TestMistakesOfAccountsAreShown(t *testing.T) {
	for src, want := range map[string]string{
		`account "a" { weight = 0 }`:                                        `account "a": weight = 0: must be from 1`,
		`account "a" { parent = "b" }`:                                      `its parent, account "b", does not exist`,
		`account "a" {}` + "\n" + `account "a" {}`:                          `account "a" is written twice`,
		"account \"a\" {\n deserved { gpus = -1 }\n}":                       `gpus`,
		"account \"a\" {\n deserved { gpu = 1 }\n}":                         `gpus`,
		"account \"a\" {\n limit { memory = 5 }\n}":                         `memory`,
		"account \"a\" {\n deserved { memory = \"9000000000GiB\" }\n}":      `memory`,
		"account \"a\" {\n limit { cores = 9007199254740993 }\n}":           `cores`,
		`account "a" { deserved = 4 }`:                                      `deserved`,
		`account "a" { oversubscribe = 0 }`:                                 `account "a": oversubscribe = 0: must be from 1`,
		`queue "q" { oversubscribe = -2 }`:                                  `queue "q": oversubscribe = -2: must be from 1`,
		`queue "q" { oversubscribe = 61 }`:                                  `to 60`,
		`queue "q" { oversubscribe = 1.5 }`:                                 `oversubscribe`,
		`queue "q" { pack = "yes" }`:                                        `pack`,
		"account \"a\" {\n deserved { gpus = 4 }\n limit { gpus = 2 }\n}":   `(deserved) of 4 is above the limit of 2`,
		"capacity { gpus = 4 }\naccount \"a\" {\n deserved { gpus = 5 }\n}": `the quotas add up to 5, but there are only 4`,
	} {
		if _, err := Parse("c.hcl", []byte(src)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\ngot %v\nwant %q", src, err, want)
		}
	}
}

// TestMembersOfAccounts: users and Unix groups that may charge an account become one list. An
// invalid user or group is refused with the account's name.
func TestMembersOfAccounts(t *testing.T) {
	f, err := Parse("cluster.hcl", []byte(`
account "vision" {
  users  = ["ann", "bob"]
  groups = ["staff"]
}
account "speech" {}
accounts { create = false }
`))
	if err != nil {
		t.Fatal(err)
	}
	cfg := f.Replicated()
	if got := cfg.Accounts["vision"].Members; !slices.Equal(got, []string{"ann", "bob", "%staff"}) || !cfg.NoNewAccounts {
		t.Errorf("members %q, no new accounts: %t", got, cfg.NoNewAccounts)
	}
	if cfg.Accounts["speech"].Members != nil {
		t.Error("an account without members has some")
	}
	for _, text := range []string{"accounts { create = true }", "accounts {}"} {
		if f, err := Parse("cluster.hcl", []byte(text)); err != nil || f.Replicated() == nil || f.Replicated().NoNewAccounts {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, says := range map[string]string{
		`account "a" { users = [""] }`:     `account "a": users and groups`,
		`account "a" { groups = [""] }`:    `account "a": users and groups`,
		`account "a" { groups = ["%g"] }`:  `account "a": users and groups`,
		`account "a" { groups = ["a b"] }`: `"%a b"`,
		`accounts { make = false }`:        "make",
	} {
		if _, err := Parse("cluster.hcl", []byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestSharing: a queue or an account lets its jobs share GPUs, and so does an account above it. A
// node with as much as it has room for is no sharing.
func TestSharing(t *testing.T) {
	f, err := Parse("cluster.hcl", []byte(`
queue "burst" {
  oversubscribe = 2
  migrate       = true
}
queue "plain" { oversubscribe = 1 }
account "research" {
  oversubscribe = 3
  pack          = true
}
account "vision" { parent = "research" }
account "speech" { parent = "vision" }
`))
	if err != nil {
		t.Fatal(err)
	}
	cfg := f.Replicated()
	for _, c := range []struct {
		queue, account string
		want           cluster.Sharing
	}{
		{"burst", "other", cluster.Sharing{Oversubscribe: 2, Migrate: true}},
		{"plain", "other", cluster.Sharing{}},
		{"default", "speech", cluster.Sharing{Oversubscribe: 3, Pack: true}},
		{"burst", "research", cluster.Sharing{Oversubscribe: 3, Pack: true, Migrate: true}},
	} {
		if got := cfg.SharingOf(&model.Job{Queue: c.queue, Account: c.account}); got != c.want {
			t.Errorf("queue %s, account %s: %+v, want %+v", c.queue, c.account, got, c.want)
		}
	}
	if !cfg.Shares() {
		t.Error("no job shares")
	}
	def := cluster.DefaultConfig()
	if def.Shares() {
		t.Error("jobs share by default")
	}
	var changed []string
	for _, c := range Changes(&def, cfg) {
		changed = append(changed, c.String())
	}
	for _, want := range []string{`queue "burst".oversubscribe: (none) -> 2`, `queue "burst".migrate: (none) -> true`,
		`account "research".pack: (none) -> true`} {
		if !slices.Contains(changed, want) {
			t.Errorf("%q is not among the changes %q", want, changed)
		}
	}
	cfg.Queues["burst"] = cluster.Queue{Sharing: cluster.Sharing{Oversubscribe: -1}}
	if err := cfg.CheckSharing(); err == nil {
		t.Error("a negative height is accepted")
	}
}
