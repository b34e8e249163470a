package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

const example = `
name             = "c1"
http             = "10.0.0.1:7070"
join             = ["10.0.0.2:7072", "10.0.0.3:7072"]
allow_root_jobs  = false
operators        = ["alice"]

cluster {
  name = "alpha"
}

queue "default" {
  max_time = "2d"
}

queue "short" {
  on_node_lost  = "wait"
  default_class = "te"
  default_time  = "30m"
  te_max_gpus   = 4
}

policy {
  reserve_after = "5m"
  max_bypass    = 10
}

lease {
  duration  = "7d"
  margin    = "1m30s"
  node_down = "20s"
}
`

func TestReadsSettingsAndPolicy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster.hcl")
	if err := os.WriteFile(path, []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if *f.Name != "c1" || len(f.Join) != 2 || *f.AllowRootJobs || f.DataDir != nil {
		t.Errorf("settings are %+v", f)
	}
	cfg := f.Replicated()
	if !slices.Equal(cfg.Operators, []string{"alice"}) || cfg.Admins != nil || cfg.Private != nil {
		t.Errorf("roles are %q, %q, private is %q", cfg.Operators, cfg.Admins, cfg.Private)
	}
	def := cluster.DefaultConfig()
	want := def
	want.ClusterName = "alpha"
	want.Queues = map[string]cluster.Queue{"default": def.Queues["default"], "short": def.Queues["default"]}
	q := want.Queues["default"]
	q.MaxTime = 2 * 86400
	want.Queues["default"] = q
	q = want.Queues["short"]
	q.DefaultClass, q.DefaultTime, q.TEMaxGPUs, q.OnNodeLost = "te", 1800, 4, jobspec.NodeLossWait
	want.Queues["short"] = q
	if cfg.ClusterName != want.ClusterName || len(cfg.Queues) != 2 {
		t.Errorf("got %+v, want %+v", cfg, want)
	}
	for name := range want.Queues {
		if !reflect.DeepEqual(cfg.Queues[name], want.Queues[name]) {
			t.Errorf("queue %s is %+v, want %+v", name, cfg.Queues[name], want.Queues[name])
		}
	}
	if cfg.Policy.ReserveAfterMS != 300_000 || cfg.Policy.MaxBypass != 10 ||
		cfg.Policy.MaxRequeues != def.Policy.MaxRequeues {
		t.Errorf("policy is %+v", cfg.Policy)
	}
	if cfg.LeaseMS != 7*24*3600_000 || cfg.MarginMS != 90_000 || cfg.NodeDownMS != 20_000 {
		t.Errorf("lease is %d, margin %d, node_down %d", cfg.LeaseMS, cfg.MarginMS, cfg.NodeDownMS)
	}
}

// TestDefaultsKeepWithinMaxTime: a queue with nothing but a limit takes jobs that do not say their
// time.
func TestDefaultsKeepWithinMaxTime(t *testing.T) {
	f, err := Parse("c.hcl", []byte("queue \"gpu\" {\n max_time = \"1h\"\n}"))
	if err != nil {
		t.Fatal(err)
	}
	if q := f.Replicated().Queues["gpu"]; q.DefaultTime != 3600 || q.TEMaxTime != 3600 || q.MaxTime != 3600 {
		t.Errorf("%+v", q)
	}
}

func TestAFileWithoutPolicyLeavesTheCluster(t *testing.T) {
	f, err := Parse("c.hcl", []byte(`name = "c1"`))
	if err != nil {
		t.Fatal(err)
	}
	if cfg := f.Replicated(); cfg != nil {
		t.Errorf("it describes %+v", cfg)
	}
}

func TestMistakesAreShownWithTheirPlace(t *testing.T) {
	for src, want := range map[string]string{
		`nmae = "c1"`:                                                  `name`,
		`queue "q" { max_time = 30 }`:                                  `max_time`,
		`lease { duration = "soon" }`:                                  `duration`,
		`lease { duration = "10ms" }`:                                  `must be longer than node_down, 15s`,
		`lease { node_down = "1h" }`:                                   `must be longer than`,
		"lease {\n duration = \"2s\"\n node_down = \"2s\"\n}":          `must be longer than`,
		`lease { margin = "1ms" }`:                                     `shorter than 1s`,
		`queue "q" { default_class = "x" }`:                            `"be" or "te"`,
		`queue "q" { te_max_gpus = -3 }`:                               `-3`,
		`queue "q" { on_node_lost = "stay" }`:                          `unknown action for a lost node, "stay"`,
		`lease { duration = "7 days" }`:                                `"7 days" is not a duration; write a number with`,
		`queue "q" { max_requeues = -1 }`:                              `max_requeues = -1`,
		`queue "" { te_max_gpus = 3 }`:                                 `a name`,
		"queue \"q\" {}\nqueue \"q\" {}":                               `c.hcl:2`,
		"queue \"q\" {\n max_time = \"1h\"\n default_time = \"2h\"\n}": `c.hcl:3`,
		`name = `:                           `c.hcl:1`,
		"http = \"a\"\npolicy { bypass=1 }": `c.hcl:2`,
	} {
		_, err := Parse("c.hcl", []byte(src))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "c.hcl:") {
			t.Errorf("%s: got %v, want %q", src, err, want)
		}
	}
}

func TestRoles(t *testing.T) {
	f, err := Parse("cluster.hcl", []byte(`
operators = ["alice", "%staff"]
admins    = ["%wheel"]
private   = ["jobs", "usage"]

account "science" { coordinators = ["bob"] }
account "physics" {
  parent       = "science"
  coordinators = ["%leads"]
}
account "chemistry" { coordinators = [] }
`))
	if err != nil {
		t.Fatal(err)
	}
	cfg := f.Replicated()
	if !slices.Equal(cfg.Operators, []string{"alice", "%staff"}) || !slices.Equal(cfg.Admins, []string{"%wheel"}) ||
		!slices.Equal(cfg.Private, []string{"jobs", "usage"}) || cfg.Accounts["chemistry"].Coordinators != nil {
		t.Errorf("%+v", cfg)
	}
	if lists := cfg.CoordinatorLists("physics"); len(lists) != 2 || lists[0][0] != "%leads" || lists[1][0] != "bob" {
		t.Errorf("physics is coordinated by %q", lists)
	}
	if lists := cfg.CoordinatorLists("nowhere"); len(lists) != 0 {
		t.Errorf("an unknown account is coordinated by %q", lists)
	}
	for text, says := range map[string]string{
		`operators = [""]`:                              "operators",
		`admins = ["%"]`:                                "admins",
		`admins = ["a b"]`:                              `"a b"`,
		`operators = ["a,b"]`:                           `"a,b"`,
		`private = ["everything"]`:                      `"everything"`,
		`account "a" { coordinators = ["%%x"] }`:        "coordinators",
		`private = "jobs"`:                              "list",
		`account "a" { coordinators = ["root:wheel"] }`: "root:wheel",
	} {
		if _, err := Parse("cluster.hcl", []byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
