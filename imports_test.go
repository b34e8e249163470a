package rota

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/rota-hpc/rota/"

// rule says what one package may import directly. Paths of ours are relative to the module; "x/..." covers everything below x.
type rule struct {
	ours  []string
	third []string
	pure  bool
	why   string // printed with a violation
}

// rules has a row for every package. A package without a row fails the test, so that a new one takes its place on purpose.
var rules = map[string]rule{
	".": {why: "the root holds no code"},
	"jobspec": {
		ours: []string{"jobspec/hostlist", "jobspec/template", "jobspec/typo"}, pure: true, why: "what a user asks for knows nothing of how it is read or run",
	},
	"jobspec/hostlist": {pure: true, why: "lists of host names are text"},
	"jobspec/template": {pure: true, why: "text with references is text"},
	"jobspec/typo":     {pure: true, why: "words are text"},
	"jobspec/hclfile": {
		ours: []string{"jobspec/template", "jobspec/typo"}, third: []string{"github.com/hashicorp/hcl/v2", "github.com/zclconf/go-cty"},
		why: "it loads HCL for anyone, so it knows no job",
	},
	"jobspec/jobfile": {
		ours: []string{"jobspec", "jobspec/hclfile", "jobspec/template"}, third: []string{"github.com/hashicorp/hcl/v2"},
		why: "it turns HCL into a job and needs nothing else",
	},
	"jobspec/explain":  {ours: []string{"jobspec/jobfile", "jobspec/typo"}, why: "it says what the language and its messages mean"},
	"jobspec/script":   {ours: []string{"jobspec", "jobspec/typo"}, pure: true, why: "it turns a script into a job and needs nothing else"},
	"controld/wire":    {why: "it writes and reads values of any type"},
	"controld/cluster": {ours: []string{"jobspec", "jobspec/hostlist", "controld/wire"}, pure: true, why: "replicas must compute the same state from the same log"},
	"controld/sched": {
		ours: []string{
			"controld/cluster", "controld/sched/baseline", "controld/sched/explain", "controld/sched/fairshare",
			"controld/sched/fit", "controld/sched/place", "controld/sched/policy", "controld/sched/preempt",
			"controld/sched/rota", "controld/sched/scratch",
		}, pure: true,
		why: "a cycle is a function from a view to a plan, the same live and simulated",
	},
	"controld/sched/share": {pure: true, why: "shares are arithmetic over a tree of accounts"},
	"controld/sched/fit":   {ours: []string{"controld/cluster", "jobspec"}, pure: true, why: "a placement is a function of the grid"},
	"controld/sched/scratch": {
		ours: []string{
			"controld/cluster", "controld/sched/fit",
		}, pure: true,
		why: "what a cycle works on, without a field for one policy",
	},
	"controld/sched/queue": {
		ours: []string{
			"controld/cluster", "controld/sched/fit", "controld/sched/scratch", "jobspec",
		}, pure: true,
		why: "the order of jobs needs no placement rule",
	},
	"controld/sched/reserve": {
		ours: []string{
			"controld/cluster", "controld/sched/fit", "controld/sched/queue", "controld/sched/scratch",
		}, pure: true,
		why: "reservations protect queue heads and know no policy",
	},
	"controld/sched/place": {
		ours: []string{
			"controld/cluster", "controld/sched/fit", "controld/sched/queue", "controld/sched/reserve",
			"controld/sched/scratch",
		}, pure: true,
		why: "it starts what fits, in the order that it is given",
	},
	"controld/sched/elastic": {
		ours: []string{
			"controld/cluster", "controld/sched/fit", "controld/sched/scratch",
		}, pure: true,
		why: "sizes of elastic jobs are computed without a search for room",
	},
	"controld/sched/preempt": {
		ours: []string{
			"controld/cluster", "controld/sched/elastic", "controld/sched/fit", "controld/sched/place",
			"controld/sched/scratch", "jobspec",
		}, pure: true,
		why: "what policies that preempt share: candidates, cost, search",
	},
	"controld/sched/policy": {
		ours: []string{
			"controld/cluster", "controld/sched/queue", "controld/sched/reserve", "controld/sched/scratch",
		}, pure: true,
		why: "what every policy is: hooks of the phases of a cycle",
	},
	"controld/sched/fairshare": {
		ours: []string{
			"controld/cluster", "controld/sched/fit", "controld/sched/policy", "controld/sched/preempt",
			"controld/sched/queue", "controld/sched/reserve", "controld/sched/scratch", "controld/sched/share",
		}, pure: true,
		why: "entitlement by the account tree, and reclaim",
	},
	"controld/sched/rota": {
		ours: []string{
			"controld/cluster", "controld/sched/elastic", "controld/sched/fairshare", "controld/sched/fit",
			"controld/sched/place", "controld/sched/policy", "controld/sched/preempt", "controld/sched/queue",
			"controld/sched/reserve", "controld/sched/scratch", "controld/sched/share", "jobspec",
		}, pure: true,
		why: "the rules of policy rota alone",
	},
	"controld/sched/baseline": {
		ours: []string{
			"controld/cluster", "controld/sched/elastic", "controld/sched/fit", "controld/sched/place",
			"controld/sched/policy", "controld/sched/preempt", "controld/sched/queue", "controld/sched/reserve",
			"controld/sched/scratch", "jobspec",
		}, pure: true,
		why: "policies to compare with, a file each",
	},
	"controld/sched/explain": {
		ours: []string{
			"controld/cluster", "controld/sched/fit", "controld/sched/policy", "controld/sched/queue",
			"controld/sched/scratch",
		}, pure: true,
		why: "it compares a cycle before and after, and decides nothing",
	},
	"controld/sched/schedtest": {
		ours: []string{
			"controld/cluster", "controld/sched", "controld/sched/fairshare", "controld/sched/fit",
			"controld/sched/policy", "controld/sched/preempt", "controld/sched/queue", "controld/sched/rota",
			"controld/sched/scratch", "controld/sched/share", "jobspec",
		},
		why: "it plays scenarios for tests of the scheduler",
	},
	"controld/sim/trace": {ours: []string{"jobspec", "controld/cluster"}, pure: true, why: "a trace is data"},
	"controld/sim": {
		ours: []string{"jobspec", "controld/cluster", "controld/sched", "controld/sim/trace"}, pure: true,
		why: "a simulation is repeatable from its seed",
	},
	"controld/sim/plot": {
		ours: []string{"jobspec", "controld/sim"}, third: []string{"gonum.org/v1/plot"}, why: "it draws what a simulation did and decides nothing",
	},
	"consensus": {
		third: []string{"github.com/hashicorp/raft", "github.com/hashicorp/raft-boltdb", "github.com/hashicorp/go-hclog", "go.etcd.io/bbolt", "github.com/klauspost/compress"},
		why:   "it replicates bytes and knows nothing of jobs",
	},
	"consensus/consensustest": {
		ours: []string{"consensus"}, why: "it runs members of consensus for tests",
	},
	"controld/config": {
		ours: []string{"jobspec", "controld/cluster", "jobspec/hclfile"},
		why:  "it turns a file into the replicated configuration and back",
	},
	"controld/member": {
		third: []string{"github.com/hashicorp/memberlist"}, why: "discovery carries identity only, no jobs",
	},
	"controld/api/identity": {ours: []string{"controld/cluster"}, why: "who asks is told to both daemons in the same way"},
	"controld/api":          {ours: []string{"jobspec", "controld/cluster", "controld/wire"}, why: "the command imports it and must start in milliseconds"},
	"controld/express":      {why: "it serves requests and knows nothing of jobs"},
	"controld/history":      {ours: []string{"controld/cluster"}, third: []string{"modernc.org/sqlite"}, why: "it stores finished jobs and decides nothing"},
	"controld": {
		ours: []string{
			"jobspec", "consensus", "controld/cluster", "controld/sched", "controld/sched/explain", "controld/member", "controld/api", "controld/api/identity",
			"controld/history", "controld/wire", "controld/express",
		},
		third: []string{"github.com/danielgtaylor/huma/v2", "github.com/prometheus", "golang.org/x/sync"},
		why:   "the daemon wires the control plane; job files and the simulator are for the command",
	},
	"noded/oci/launch": {pure: true, why: "the first process of every container reads it, so it is types alone"},
	"noded/oci": {
		ours: []string{"jobspec", "jobspec/hostlist", "jobspec/template", "controld/cluster", "noded/oci/launch"}, pure: true,
		third: []string{"github.com/opencontainers/runtime-spec"},
		why:   "a container's spec is a function of its allocation",
	},
	"noded/container": {
		third: []string{"golang.org/x/sys"},
		why:   "it keeps bundles and talks to shims; it decides nothing",
	},
	"noded/container/containertest": {
		ours: []string{"noded/container"}, third: []string{"golang.org/x/sys"}, why: "it stands in for containers in tests",
	},
	"noded/gpu":         {ours: []string{"controld/cluster"}, third: []string{"github.com/NVIDIA/go-nvml"}, why: "it knows devices, not jobs"},
	"noded/gpu/gputest": {why: "it stands in for devices in tests"},
	"noded/journal":     {ours: []string{"controld/cluster"}, why: "it writes intentions down and knows nothing of their meaning"},
	"noded/shim": {
		ours: []string{"jobspec", "noded/container"},
		third: []string{
			"github.com/opencontainers/runc", "github.com/opencontainers/cgroups", "github.com/opencontainers/runtime-spec", "golang.org/x/sys",
		},
		why: "it outlives the node daemon and shares only its protocol, and with jobspec how progress is read from output",
	},
	"noded": {
		ours: []string{
			"jobspec", "controld/cluster", "controld/api", "controld/api/identity", "controld/member", "noded/oci", "noded/container",
			"noded/gpu", "noded/journal",
		},
		third: []string{"golang.org/x/sync", "golang.org/x/sys", "github.com/opencontainers/runtime-spec"},
		why:   "the node daemon meets the control daemon in api and cluster, and the shim over its protocol",
	},
}

// trees are rules for all packages below a directory that have no row of their own.
var trees = map[string]string{
	"cmd/":      "commands may import anything",
	"examples/": "examples use the standard library, as a user's program would",
}

// technologies may each be imported in one place only, so that replacing one is work in one place.
var technologies = []struct {
	path string
	in   []string
	why  string
}{
	{"github.com/hashicorp/raft", []string{"consensus"}, "replication is behind consensus"},
	{"github.com/hashicorp/raft-boltdb", []string{"consensus"}, "the log's storage is behind consensus"},
	{"github.com/hashicorp/memberlist", []string{"controld/member"}, "gossip is behind member"},
	{"github.com/hashicorp/hcl/v2", []string{"jobspec/hclfile", "jobspec/jobfile"}, "HCL is loaded in hclfile, and its values read where the grammar of job files is known"},
	{"github.com/opencontainers/runc", []string{"noded/shim", "noded/shim/..."}, "libcontainer promises no API, so one package follows it"},
	{"github.com/NVIDIA/go-nvml", []string{"noded/gpu", "noded/gpu/..."}, "the driver can hang, so one package deals with it"},
	{"github.com/urfave/cli", []string{"cmd/..."}, "only commands parse command lines"},
	{"github.com/spf13/pflag", []string{"cmd/..."}, "only commands parse command lines"},
	{"modernc.org/sqlite", []string{"controld/history"}, "the database is behind history"},
	{"gonum.org/v1/plot", []string{"controld/sim/plot"}, "plots are drawn in one place"},
	{"github.com/danielgtaylor/huma", []string{"controld", "controld/..."}, "the OpenAPI library is too slow to load in the command"},
}

// impure packages of the standard library do what a pure function cannot repeat.
var impure = map[string]string{
	"os": "files and the environment", "os/exec": "processes", "net": "the network", "net/http": "the network", "log": "logging",
	"log/slog": "logging", "context": "cancellation from outside", "sync": "locks", "sync/atomic": "shared memory", "time": "the clock (time comes in as an Instant)",
	"math/rand": "a hidden random source", "crypto/rand": "a random source", "runtime": "the machine it runs on", "unsafe": "memory layout",
}

// pinned keeps modules in go.mod that no package imports yet.
const pinned = "cmd/warm"

// listed is what go list says about one package.
type listed struct {
	ImportPath string
	Imports    []string
	Deps       []string
}

func (l listed) name() string {
	if l.ImportPath+"/" == module {
		return "."
	}
	return strings.TrimPrefix(l.ImportPath, module)
}

func TestImports(t *testing.T) {
	packages := list(t)
	if len(packages) < 3 {
		t.Fatalf("go list found %d packages; the test would prove nothing", len(packages))
	}
	for _, p := range packages {
		for _, problem := range violations(p) {
			t.Error(problem)
		}
		for _, dir := range rules[p.name()].ours {
			if !slices.ContainsFunc(p.Imports, func(path string) bool { return matches(strings.TrimPrefix(path, module), []string{dir}) }) {
				t.Errorf("%s may import %s and does not: take it out of the import rules", p.name(), dir)
			}
		}
	}
}

// TestViolations shows that each kind of rule can fail.
func TestViolations(t *testing.T) {
	tests := []struct {
		name, path, imports string
		deps                string
		want                string // a part of the only problem, "" for none
	}{
		{"allowed", "controld/cluster", module + "jobspec", "", ""},
		{"upwards", "controld/cluster", module + "controld/sched", "", "may not import controld/sched"},
		{"third party", "jobspec", "github.com/zclconf/go-cty/cty", "", "may not import github.com/zclconf/go-cty/cty"},
		{"clock in a pure package", "controld/sched/fit", "time", "", "the clock"},
		{"clock elsewhere", "consensus", "time", "", ""},
		{"seeded randomness outside the simulator", "controld/sched", "math/rand/v2", "", "math/rand/v2"},
		{"seeded randomness in the simulator", "controld/sim", "math/rand/v2", "", ""},
		{"technology in a command", "cmd/rota", "github.com/hashicorp/raft", "", "replication is behind consensus"},
		{"version suffix is part of the technology", "cmd/rota", "github.com/hashicorp/raft-boltdb/v2", "", "the log's storage"},
		{"subtree of a technology's owner", "cmd/rota-noded", "github.com/spf13/pflag", "", ""},
		{"daemons apart", "noded", module + "controld/api", module + "controld", "noded reaches controld"},
		{"simulator in production", "cmd/rota-controld", "fmt", module + "controld/sim", "reaches controld/sim"},
		{"simulator in the command", "cmd/rota", "fmt", module + "controld/sim", ""},
		{"both daemons in the end-to-end tests", "cmd/e2e", "fmt", module + "controld " + module + "noded", ""},
		{"unknown package", "helpers", "fmt", "", "has no row"},
		{"command imported", "controld", module + "cmd/rota", "", "may not import cmd/rota"},
	}
	for _, test := range tests {
		got := violations(listed{ImportPath: module + test.path, Imports: strings.Fields(test.imports), Deps: strings.Fields(test.deps)})
		switch {
		case test.want == "" && len(got) > 0:
			t.Errorf("%s: unexpected problems %q", test.name, got)
		case test.want != "" && (len(got) == 0 || !strings.Contains(strings.Join(got, "\n"), test.want)):
			t.Errorf("%s: got %q, want one with %q", test.name, got, test.want)
		}
	}
}

func violations(p listed) []string {
	name := p.name()
	if name == pinned {
		return nil
	}
	problems := reaches(name, p.Deps)
	r, ok := rules[name]
	if !ok && !inTree(name) {
		return append(problems, fmt.Sprintf("%s has no row in the import rules: give it one, with what it may import and why", name))
	}
	for _, path := range p.Imports {
		if problem := forbidden(name, r, ok, path); problem != "" {
			problems = append(problems, problem)
		}
	}
	return problems
}

func forbidden(name string, r rule, hasRow bool, path string) string {
	for _, tech := range technologies {
		if within(path, tech.path) && !matches(name, tech.in) {
			return fmt.Sprintf("%s may not import %s: %s", name, path, tech.why)
		}
	}
	if !hasRow {
		return ""
	}
	if ours, ok := strings.CutPrefix(path, module); ok {
		if !matches(ours, r.ours) {
			return fmt.Sprintf("%s may not import %s: %s", name, ours, r.why)
		}
		return ""
	}
	if strings.Contains(strings.Split(path, "/")[0], ".") {
		if !slices.ContainsFunc(r.third, func(t string) bool { return within(path, t) }) {
			return fmt.Sprintf("%s may not import %s: %s", name, path, r.why)
		}
		return ""
	}
	return impurity(name, r, path)
}

func impurity(name string, r rule, path string) string {
	if !r.pure {
		return ""
	}
	if path == "math/rand/v2" && !strings.HasPrefix(name, "controld/sim") {
		return fmt.Sprintf("%s may not import math/rand/v2: only the simulator draws numbers, from a seed", name)
	}
	if what := impure[path]; what != "" {
		return fmt.Sprintf("%s is pure and may not import %s: it brings in %s", name, path, what)
	}
	return ""
}

// reaches finds what a package must not depend on even through others.
func reaches(name string, deps []string) []string {
	apart := []struct {
		from, to string
		except   []string
		why      string
	}{
		{"noded", "controld", nil, "the daemons meet in api and cluster only"},
		{"noded/...", "controld", nil, "the daemons meet in api and cluster only"},
		{"controld", "noded", nil, "the daemons meet in api and cluster only"},
		{"controld/...", "noded", nil, "the daemons meet in api and cluster only"},
		{"...", "controld/sim", []string{"controld/sim", "controld/sim/...", "cmd/rota", "cmd/rota-plot", "cmd/rota-papers", "cmd/rota-bench", "cmd/e2e"}, "production code does not carry the simulator"},
	}
	var problems []string
	for _, a := range apart {
		if a.from != "..." && !matches(name, []string{a.from}) || matches(name, a.except) || name == a.to {
			continue
		}
		if slices.Contains(deps, module+a.to) {
			problems = append(problems, fmt.Sprintf("%s reaches %s: %s", name, a.to, a.why))
		}
	}
	return problems
}

func inTree(name string) bool {
	for dir := range trees {
		if strings.HasPrefix(name, dir) {
			return true
		}
	}
	return false
}

// within reports whether path is the module tech, one of its later major versions, or a package in it.
func within(path, tech string) bool { return path == tech || strings.HasPrefix(path, tech+"/") }

// matches reports whether name is one of the patterns, of which "x/..." stands for all below x.
func matches(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if dir, ok := strings.CutSuffix(p, "/..."); ok {
			return strings.HasPrefix(name, dir+"/")
		}
		return name == p
	})
}

func list(t *testing.T) []listed {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", "./...")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	var packages []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatalf("read the output of go list: %v", err)
		}
		packages = append(packages, p)
	}
}
