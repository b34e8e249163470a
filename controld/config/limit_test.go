package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model/cluster"
)

const limitExample = `
default_account = "common"

user "ann" { default_account = "vision" }
user "*" {
  limit {
    running = 8
    gpus    = 16
  }
}
account "common" {}
account "vision" {
  limit {
    submitted   = 1000
    gpu_minutes = 5000
  }
  user "*" {
    limit { running = 4 }
  }
  user "bob" {
    limit {
      running = 10
      nodes   = 2
    }
  }
}
queue "short" {
  max_time = "1h"
  accounts = ["vision"]
  nodes    = ["gpu[01-08]", "big"]
  labels   = { tier = "fast" }
  limit { gpus = 32 }
  user "*" {
    limit {
      submitted = 5
      max_time  = "30m"
    }
  }
}
`

// TestLimits: a file's limits reach the jobs that they are about, in the order of the checks. A
// setting of a user by name goes before that of each user, field by field.
func TestLimits(t *testing.T) {
	f, err := Parse("c.hcl", []byte(limitExample))
	if err != nil {
		t.Fatal(err)
	}
	cfg := f.Replicated()
	var owners []string
	bounds := cfg.Bounds("vision", "bob", "short")
	for _, b := range bounds {
		owners = append(owners, b.Owner.String())
	}
	if want := []string{"user bob in queue short", "queue short", "user bob", "user bob in account vision",
		"account vision"}; !slices.Equal(owners, want) {
		t.Fatalf("owners %q, want %q", owners, want)
	}
	if l := bounds[0].Limit; *l.Submitted != 5 || l.MaxTime != 1800 || l.Running != nil {
		t.Errorf("in the queue: %+v", l)
	}
	if l := bounds[3].Limit; *l.Running != 10 || *l.Nodes != 2 {
		t.Errorf("bob in vision: %+v", l)
	}
	for _, b := range cfg.Bounds("vision", "ann", "default") {
		if b.Owner.Kind == cluster.UserInAccount && *b.Limit.Running != 4 {
			t.Errorf("ann in vision: %+v", b.Limit)
		}
	}
	if got := []string{cfg.DefaultAccountOf("ann"), cfg.DefaultAccountOf("eve")}; !slices.Equal(got,
		[]string{"vision", "common"}) {
		t.Errorf("default accounts %q", got)
	}
	if cfg.IsMember("vision", "eve", func([]string) bool { return false }) {
		t.Error("a limit of each user makes every user a member")
	}
	q := cfg.Queues["short"]
	if !q.Has("gpu03", map[string]string{"tier": "fast"}) || q.Has("gpu03", nil) ||
		q.Has("gpu09", map[string]string{"tier": "fast"}) || !cfg.MayUse("short", "vision") || cfg.MayUse("short", "common") {
		t.Errorf("the nodes or the accounts of the queue are wrong: %+v", q)
	}
	def := cluster.DefaultConfig()
	if def.HasLimits() || !cfg.HasLimits() {
		t.Error("which configuration has limits")
	}
	var changed []string
	for _, c := range Changes(&def, cfg) {
		changed = append(changed, c.String())
	}
	for _, want := range []string{`user "*".limit.running: (none) -> 8`, `user "ann".default_account: (none) -> "vision"`,
		`account "vision".user "*".limit.running: (none) -> 4`, `queue "short".user "*".limit.max_time: (none) -> "30m"`,
		`queue "short".labels["tier"]: (none) -> "fast"`, `queue "short".nodes: (none) -> ["gpu[01-08]" "big"]`,
		`queue "short".accounts: (none) -> ["vision"]`, `account "vision".limit.gpu_minutes: (none) -> 5000`} {
		if !slices.Contains(changed, want) {
			t.Errorf("%q is not among the changes %q", want, changed)
		}
	}
}

// TestMistakesOfLimitsAreShown: nothing that a limit cannot say is ignored.
func TestMistakesOfLimitsAreShown(t *testing.T) {
	for _, c := range [][2]string{
		{`default_account = "no"`, `there is no account block "no"`},
		{`default_account = ""`, `default_account is empty`},
		{`user "ann" { default_account = "no" }`, `user "ann": default_account`},
		{"user \"ann\" {}\nuser \"ann\" {}", `user "ann" is written twice`},
		{`user "ann" { limit { running = -1 } }`, `running: -1 is not from 0`},
		{`user "ann" { limit { jobs = 1 } }`, `jobs`},
		{`user "*" { limit { models = { H100 = 1 } } }`, `models is for an account`},
		{`queue "q" { limit { max_time = "1h" } }`, `max_time is an attribute of the queue`},
		{`queue "q" { user "*" {} }`, `queue "q", user "*" has no limit block`},
		{`queue "q" { nodes = ["gpu[1-"] }`, `queue "q": nodes`},
		{`queue "q" { labels = { "a b" = "c" } }`, `queue "q": labels`},
		{`queue "q" { accounts = [""] }`, `an account has a name`},
		{`account "a" { user "*" { weight = 2 } }`, `weight and deserved are for a user by name`},
		{"account \"c\" {}\ndefault_account = \"c\"\nuser \"*\" { default_account = \"c\" }", `written twice for all users`},
	} {
		src := strings.NewReplacer("{ ", "{\n", " }", "\n}").Replace(c[0])
		if _, err := Parse("c.hcl", []byte(src)); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s:\ngot %v\nwant %q", c[0], err, c[1])
		}
	}
}
