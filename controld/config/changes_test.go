package config

import (
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model/cluster"
)

// TestChangesNameWhatAFileSays: each setting of a file is a change to a cluster without it, under
// the file's own words.
func TestChangesNameWhatAFileSays(t *testing.T) {
	f, err := Parse("c.hcl", []byte(fairExample+`
cluster { name = "lab" }
operators = ["ann"]
admins = ["root"]
private = ["jobs"]
limits { max_requests = 5 }
lease { duration = "5m" }
queue "short" {
  max_time     = "1h"
  max_requeues = 0
  on_node_lost = "wait"
}
accounts { create = false }
`))
	if err != nil {
		t.Fatal(err)
	}
	before := cluster.DefaultConfig()
	var text []string
	for _, c := range Changes(&before, f.Replicated()) {
		text = append(text, c.String())
	}
	got := strings.Join(text, "\n") + "\n"
	for _, want := range []string{
		`cluster.name: rota -> lab`, `operators: (none) -> ["ann"]`, `limits.max_requests: (none) -> 5`,
		`lease.duration: "10m" -> "5m"`, `queue "short".max_time: (none) -> "1h"`,
		`queue "short".max_requeues: (none) -> 0`, `queue "short".on_node_lost: (none) -> "wait"`,
		`accounts.create: (none) -> false`,
		`policy.name: (none) -> "fairshare"`, `policy.half_life: (none) -> "24h"`, `policy.usage_influence: (none) -> 0.5`,
		`capacity.gpus: (none) -> 64`, `account "research".deserved.memory: (none) -> 2TiB`,
		`account "research".deserved.models["H100"]: (none) -> 8`, `account "vision".limit.gpus: (none) -> 24`,
		`account "vision".parent: (none) -> "research"`, `account "vision".user "ann".deserved.gpus: (none) -> 4`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("no line %q in\n%s", want, got)
		}
	}
	if same := Changes(f.Replicated(), f.Replicated()); len(same) > 0 {
		t.Errorf("it differs from itself: %v", same)
	}
}

// TestWhatNoFileCanDescribe is refused also when it comes without a file.
func TestWhatNoFileCanDescribe(t *testing.T) {
	for want, change := range map[string]func(*cluster.Config){
		"":                         func(*cluster.Config) {},
		`unknown policy "fastest"`: func(c *cluster.Config) { c.Policy.Name = "fastest" },
		`unknown policy "srtf"`:    func(c *cluster.Config) { c.Policy.Name = "srtf" },
		`policy "rota" has no parameter half_life`: func(c *cluster.Config) { c.Policy.HalfLifeMS = 5 },
		`must be longer than`:                      func(c *cluster.Config) { c.LeaseMS = c.NodeDownMS },
	} {
		c := cluster.InitialConfig()
		change(&c)
		err := CheckReplicated(&c)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
