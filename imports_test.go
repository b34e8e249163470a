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

// rule says what one package may import directly. Paths of ours are relative to the module; "x/..."
// covers everything below x.
type rule struct {
	ours  []string
	third []string
	pure  bool
	times bool   // a pure package that holds times; the linter forbids that it reads the clock
	why   string // printed with a violation
}

// rules has a row for every package. A package without a row fails the test, so that a new one
// takes its place on purpose.
var rules = map[string]rule{
	".":    {why: "the root holds no code"},
	"docs": {why: "the pages are text that the command has with it"},
	"jobspec": {
		ours: []string{"jobspec/duration", "jobspec/hostlist", "jobspec/typo"}, pure: true,
		why: "what a user asks for knows nothing of how it is read or run",
	},
	"jobspec/rules": {
		ours: []string{"jobspec", "jobspec/hostlist", "jobspec/template", "jobspec/typo"}, pure: true,
		why: "every way into the cluster checks a job by the same rules, so they are a function of the job",
	},
	"jobspec/convergence": {pure: true, why: "how far training has come follows from the metrics that a job reports"},
	"jobspec/duration":    {pure: true, why: "durations are text, and every file, flag and request writes them alike"},
	"jobspec/hostlist":    {pure: true, why: "lists of host names are text"},
	"jobspec/logpath":     {pure: true, why: "the node daemon writes to a path that the command line shows"},
	"jobspec/lossy":       {pure: true, why: "daemons and srun count lost output alike, and open no file for it"},
	"jobspec/template":    {pure: true, why: "text with references is text"},
	"jobspec/typo":        {pure: true, why: "words are text"},
	"jobspec/hclfile": {
		ours: []string{"jobspec/hclfile/layout",
			"jobspec/template", "jobspec/typo", "jobspec/hclfile/cost", "jobspec/hclfile/decode", "jobspec/hclfile/diagnostic",
			"jobspec/hclfile/functions",
		},
		third: []string{"github.com/hashicorp/hcl/v2", "github.com/zclconf/go-cty"},
		why:   "it loads HCL for every user, so it knows no job",
	},
	"jobspec/hclfile/cost": {
		ours: []string{"jobspec/hclfile/functions"}, third: []string{"github.com/hashicorp/hcl/v2",
			"github.com/zclconf/go-cty"},
		why: "it counts what expressions yield and knows no file",
	},
	"jobspec/hclfile/layout": {third: []string{"github.com/hashicorp/hcl/v2"},
		why: "it moves words of a file and knows no language"},
	"jobspec/hclfile/decode": {
		ours: []string{"jobspec/duration", "jobspec/hclfile/diagnostic"}, third: []string{"github.com/hashicorp/hcl/v2",
			"github.com/zclconf/go-cty"},
		why: "one value of HCL becomes one field, whatever block it stands in",
	},
	"jobspec/hclfile/diagnostic": {
		third: []string{"github.com/hashicorp/hcl/v2"}, why: "it says where in a file something is wrong and knows no rule",
	},
	"jobspec/hclfile/functions": {third: []string{"github.com/zclconf/go-cty"},
		why: "functions know their arguments only"},
	"jobspec/jobfile": {
		ours: []string{
			"jobspec", "jobspec/rules", "jobspec/hclfile", "jobspec/hclfile/decode", "jobspec/hclfile/diagnostic",
			"jobspec/template",
		},
		third: []string{"github.com/hashicorp/hcl/v2"},
		why:   "it turns HCL into a job and needs nothing else",
	},
	"jobspec/explain": {ours: []string{"docs", "jobspec/jobfile", "jobspec/typo"},
		why: "it says what the language and its messages mean"},
	"jobspec/script": {
		ours: []string{"jobspec", "jobspec/rules", "jobspec/script/shell", "jobspec/script/slurm", "jobspec/typo"},
		pure: true,
		why:  "it turns a script into a job and needs nothing else",
	},
	"jobspec/script/slurm": {ours: []string{"jobspec"}, pure: true, why: "it reads values and knows no flag"},
	"jobspec/script/shell": {third: []string{"mvdan.cc/sh/v3"}, why: "it finds the commands of a script and knows no job"},
	"controld/model": {ours: []string{"jobspec/lossy", "jobspec", "jobspec/convergence", "jobspec/hostlist",
		"controld/model/ranges"}, pure: true,
		why: "all daemons and the command share these types, and none needs the state machine"},
	"controld/model/cluster": {ours: []string{"jobspec", "jobspec/hostlist", "controld/model"}, pure: true,
		why: "what an administrator may set is data, and every daemon reads it"},
	"controld/model/trust": {ours: []string{"controld/model"}, pure: true,
		why: "which members and tokens count is data, and every daemon reads it"},
	"controld/model/generation": {ours: []string{"controld/model"}, pure: true,
		why: "which life of the cluster this is, is data, and every daemon reads it"},
	"controld/model/ranges": {pure: true, why: "ranges are numbers"},
	"controld/fsm/steering": {ours: []string{"controld/model"}, pure: true,
		why: "what operators tell the scheduler is data, whichever policy honours it"},
	"controld/fsm/versions": {ours: []string{"controld/model", "controld/model/cluster"}, pure: true,
		why: "which configurations were in force is a list"},
	"controld/fsm": {
		ours: []string{"controld/fsm/state", "controld/fsm/steering", "controld/fsm/versions",
			"jobspec", "controld/model", "controld/model/witness", "controld/fsm/grid",
			"controld/fsm/lifecycle", "controld/fsm/admission", "controld/fsm/jobs", "controld/fsm/attempts",
			"controld/model/cluster", "controld/model/generation", "controld/model/ranges", "controld/model/trust",
		}, pure: true,
		why: "replicas must compute the same state from the same log",
	},
	"controld/fsm/attempts": {
		ours: []string{"controld/fsm/jobs", "controld/fsm/state", "controld/fsm/lifecycle", "controld/model", "jobspec",
			"jobspec/convergence", "jobspec/lossy"}, pure: true,
		why: "the life of an attempt knows no command",
	},
	"controld/fsm/jobs": {
		ours: []string{"controld/fsm/state", "controld/fsm/lifecycle", "controld/model", "controld/model/ranges", "jobspec"},
		pure: true,
		why:  "what follows from a change of a job is the same whichever command changed it",
	},
	"controld/fsm/state": {
		ours: []string{
			"jobspec", "controld/model", "controld/model/witness", "controld/fsm/table", "controld/fsm/index",
			"controld/fsm/groups",
			"controld/fsm/grid", "controld/fsm/topology", "controld/fsm/estimate", "controld/fsm/texts",
			"controld/fsm/lifecycle", "controld/fsm/admission", "controld/fsm/steering", "controld/fsm/versions",
			"controld/fsm/limits", "jobspec/hostlist", "controld/model/cluster", "controld/model/generation",
			"controld/model/trust",
		}, pure: true,
		why: "what a replica holds; it knows no command",
	},
	"controld/fsm/index": {ours: []string{"controld/model", "controld/fsm/table"}, pure: true,
		why: "what finds jobs by something else than an id follows from the jobs"},
	"controld/fsm/texts": {ours: []string{"jobspec", "controld/model"}, pure: true,
		why: "jobs that are alike share memory, whatever the state does"},
	"controld/fsm/formattest": {why: "tests of formats need it, and nothing else does"},
	"controld/fsm/table":      {pure: true, why: "a map with free views knows nothing of what it keeps"},
	"controld/fsm/groups": {ours: []string{"jobspec", "controld/model", "controld/fsm/table"}, pure: true,
		why: "which pending jobs are alike follows from the jobs"},
	"controld/fsm/grid": {ours: []string{"jobspec", "controld/model"}, pure: true,
		why: "what is free on nodes is arithmetic"},
	"controld/fsm/topology": {ours: []string{"jobspec", "jobspec/hostlist", "controld/model", "controld/fsm/grid"},
		pure: true, why: "which nodes meet a condition follows from what they are"},
	"controld/fsm/limits": {ours: []string{"jobspec", "controld/model", "controld/model/cluster", "controld/fsm/table"},
		pure: true, why: "what an account, a user or a queue has of its limits follows from the jobs"},
	"controld/fsm/admission": {ours: []string{"jobspec", "jobspec/rules", "controld/model", "controld/fsm/limits",
		"controld/model/cluster"}, pure: true,
		why: "whether a job may be submitted follows from its text and its queue"},
	"controld/fsm/lifecycle": {ours: []string{"jobspec", "controld/model", "controld/model/ranges"}, pure: true,
		why: "what the end of an attempt means follows from the job alone"},
	"controld/fsm/estimate": {ours: []string{"jobspec", "controld/model", "controld/fsm/table"}, pure: true,
		why: "what is learned of jobs that have ended is bounded arithmetic"},
	"controld/sched": {
		ours: []string{
			"controld/model", "controld/fsm", "controld/fsm/state", "controld/fsm/steering",
			"controld/sched/baseline",
			"controld/sched/compare", "controld/sched/explain",
			"controld/sched/fairshare",
			"controld/sched/fit", "controld/sched/introspect", "controld/sched/place", "controld/sched/policy",
			"controld/sched/preempt", "controld/sched/queue", "controld/sched/rota", "controld/sched/scratch",
			"controld/model/cluster",
		}, pure: true,
		why: "a cycle is a function from a view to a plan, the same live and simulated",
	},
	"controld/replay": {ours: []string{"controld/model", "controld/fsm", "controld/fsm/state",
		"controld/sched", "controld/model/cluster"},
		pure: true, why: "what was decided is decided again by the same functions"},
	"controld/replay/datadir": {ours: []string{"consensus", "controld/fsm", "controld/fsm/state",
		"controld/replay",
		"controld/model/cluster"}, why: "it reads what a controller has left on disk, and writes nothing"},
	"controld/sched/drf": {pure: true, why: "shares are arithmetic over a tree of accounts"},
	"controld/sched/fit": {ours: []string{"controld/model", "controld/fsm/state", "controld/fsm/grid",
		"controld/fsm/topology",
		"controld/fsm/estimate"}, pure: true, why: "a placement is a function of the grid"},
	"controld/sched/scratch": {
		ours: []string{
			"controld/model", "controld/fsm", "controld/fsm/state", "controld/fsm/steering",
			"controld/fsm/estimate", "controld/fsm/groups", "controld/fsm/limits",
			"controld/sched/fit", "controld/model/cluster",
		}, pure: true,
		why: "what a cycle works on, without a field for one policy",
	},
	"controld/sched/queue": {
		ours: []string{
			"controld/model", "controld/fsm/groups", "controld/sched/fit", "controld/sched/scratch", "jobspec",
		}, pure: true,
		why: "the order of jobs needs no placement rule",
	},
	"controld/sched/reserve": {
		ours: []string{
			"controld/model", "controld/fsm", "controld/fsm/groups", "controld/sched/fit", "controld/sched/queue",
			"controld/sched/scratch",
		}, pure: true,
		why: "reservations protect queue heads and know no policy",
	},
	"controld/sched/place": {
		ours: []string{
			"controld/model", "controld/fsm/state", "controld/fsm/grid", "controld/fsm/estimate",
			"controld/sched/fit",
			"controld/sched/queue", "controld/sched/reserve",
			"controld/sched/scratch",
		}, pure: true,
		why: "it starts what fits, in the order that it is given",
	},
	"controld/sched/elastic": {
		ours: []string{
			"controld/model", "controld/fsm", "controld/fsm/estimate", "controld/sched/fit",
			"controld/sched/scratch",
		}, pure: true,
		why: "sizes of elastic jobs are computed without a search for room",
	},
	"controld/sched/preempt": {
		ours: []string{
			"controld/model", "controld/fsm/state", "controld/fsm/estimate", "controld/sched/elastic",
			"controld/sched/fit", "controld/sched/scratch", "jobspec", "controld/model/cluster",
		}, pure: true,
		why: "what policies that preempt share: candidates, cost, search",
	},
	"controld/sched/policy": {
		ours: []string{
			"controld/model", "controld/fsm", "controld/fsm/state", "controld/fsm/estimate",
			"controld/sched/fit", "controld/sched/queue",
			"controld/sched/reserve",
			"controld/sched/scratch",
		}, pure: true,
		why: "what every policy is: its phases of a cycle and its answers",
	},
	"controld/sched/fairshare": {
		ours: []string{"controld/sched/drf",
			"controld/model", "controld/fsm", "controld/fsm/state", "controld/fsm/groups", "controld/fsm/estimate",
			"controld/sched/fit",
			"controld/sched/policy", "controld/sched/preempt",
			"controld/sched/queue", "controld/sched/reserve", "controld/sched/scratch", "controld/model/cluster",
		}, pure: true,
		why: "entitlement by the account tree, and reclaim",
	},
	"controld/sched/rota": {
		ours: []string{"controld/sched/drf",
			"controld/model", "controld/fsm", "controld/fsm/state", "controld/fsm/groups", "controld/fsm/estimate",
			"controld/fsm/steering", "controld/sched/elastic",
			"controld/sched/fairshare", "controld/sched/fit",
			"controld/sched/place", "controld/sched/policy", "controld/sched/preempt", "controld/sched/queue",
			"controld/sched/reserve", "controld/sched/scratch", "jobspec", "controld/model/cluster",
		}, pure: true,
		why: "the rules of policy rota alone",
	},
	"controld/sched/baseline": {
		ours: []string{
			"controld/model", "controld/fsm/steering", "controld/sched/fit",
			"controld/sched/place",
			"controld/sched/policy", "controld/sched/preempt", "controld/sched/queue", "controld/sched/reserve",
			"controld/sched/scratch", "jobspec",
		}, pure: true,
		why: "the simple policies that a cluster may run",
	},
	"controld/sched/compare": {
		ours: []string{
			"controld/model", "controld/fsm", "controld/fsm/steering", "controld/sched/baseline",
			"controld/sched/elastic",
			"controld/sched/fit", "controld/sched/policy", "controld/sched/preempt", "controld/sched/queue",
			"controld/sched/reserve", "controld/sched/scratch",
		}, pure: true,
		why: "policies for the simulator to compare with, a file each",
	},
	"controld/sched/explain": {
		ours: []string{"controld/fsm/estimate", "controld/fsm/topology",
			"controld/model", "controld/fsm", "jobspec", "controld/fsm/steering", "controld/sched/fairshare",
			"controld/sched/fit",
			"controld/sched/policy", "controld/sched/preempt",
			"controld/sched/queue",
			"controld/sched/scratch",
		}, pure: true,
		why: "it compares a cycle before and after, and decides nothing",
	},
	"controld/sched/introspect": {
		ours: []string{
			"controld/model", "controld/fsm", "controld/fsm/estimate", "controld/fsm/steering",
			"controld/sched/fit",
			"controld/sched/policy", "controld/sched/preempt", "controld/sched/queue",
			"controld/sched/scratch", "jobspec",
			"jobspec/convergence", "controld/model/cluster",
		}, pure: true,
		why: "how jobs share nodes comes beside any policy",
	},
	"controld/sched/schedtest": {
		ours: []string{
			"controld/fsm/steering", "controld/model", "controld/fsm", "controld/fsm/state", "controld/fsm/grid",
			"controld/sched", "controld/sched/drf",
			"controld/sched/fairshare",
			"controld/sched/fit",
			"controld/sched/policy", "controld/sched/preempt", "controld/sched/queue", "controld/sched/rota",
			"controld/sched/scratch", "jobspec", "controld/model/cluster", "controld/model/ranges",
		},
		why: "it plays scenarios for tests of the scheduler",
	},
	"controld/sim/trace/field": {ours: []string{"jobspec"}, pure: true, why: "numbers and times in a file are text"},
	"controld/sim/trace": {
		ours: []string{"jobspec", "controld/model", "controld/sim/trace/field"}, pure: true, why: "a trace is data",
	},
	"controld/sim/trace/synth": {
		ours: []string{"jobspec", "controld/model", "controld/sim/trace", "controld/sim/trace/field"}, pure: true,
		why: "a workload is a function of its seed",
	},
	"cmd/lab/specon": {
		ours: []string{"controld/model", "controld/sched/introspect", "jobspec/convergence"}, pure: true,
		why: "an experiment of a paper is repeatable from its seed",
	},
	"controld/sim/interference": {pure: true, why: "how jobs slow each other down is data"},
	"controld/sim": {
		ours: []string{"jobspec", "controld/model", "controld/fsm", "controld/fsm/state", "controld/fsm/grid",
			"controld/fsm/estimate", "controld/earlystop/judge",
			"controld/sched", "controld/sim/interference", "controld/sim/trace", "controld/sim/trace/synth",
			"controld/model/cluster", "controld/model/ranges"}, pure: true,
		why: "a simulation is repeatable from its seed",
	},
	"consensus": {
		ours: []string{"consensus/boltfile", "consensus/durable", "consensus/entry", "consensus/logcache", "consensus/mark",
			"consensus/raftlog"},
		third: []string{"github.com/hashicorp/raft", "github.com/hashicorp/raft-boltdb", "github.com/hashicorp/go-hclog",
			"go.etcd.io/bbolt", "github.com/klauspost/compress"},
		why: "it replicates bytes and knows nothing of jobs",
	},
	"consensus/entry": {third: []string{"github.com/hashicorp/raft", "github.com/klauspost/compress"},
		why: "the content of an entry is bytes, and knows no member"},
	"consensus/boltfile": {why: "it reads a file and knows no entry"},
	"consensus/durable":  {why: "it writes files and knows no format"},
	"consensus/logcache": {third: []string{"github.com/hashicorp/raft"},
		why: "it keeps entries, whatever log they are in"},
	"consensus/raftlog": {third: []string{"github.com/hashicorp/go-hclog"}, why: "it forwards messages"},
	"consensus/mark":    {ours: []string{"consensus/entry"}, why: "how far a member has come is five numbers"},
	"consensus/powertest": {third: []string{"golang.org/x/sys"},
		why: "it cuts the power of disks for tests, whatever is on them"},
	"consensus/consensustest": {
		ours: []string{"consensus"}, why: "it runs members of consensus for tests",
	},
	"controld/config": {
		ours: []string{"jobspec", "jobspec/duration", "controld/model", "jobspec/hclfile",
			"jobspec/hclfile/diagnostic", "controld/model/cluster"},
		why: "it turns a file into the replicated configuration and back",
	},
	"controld/model/witness": {
		pure: true,
		why:  "what may happen in an outage of the controllers is proven, so it is a function",
	},
	"controld/member": {
		ours:  []string{"controld/api/clock", "controld/api/pki"},
		third: []string{"github.com/hashicorp/memberlist", "github.com/hashicorp/go-msgpack/v2"},
		why:   "discovery carries identity only, no jobs",
	},
	"controld/api/directory": {why: "both daemons and the command look users up in the same way"},
	"controld/api/identity": {ours: []string{"controld/api/directory", "controld/api/pki", "controld/model",
		"controld/model/cluster"},
		why: "both daemons identify their callers in the same way"},
	"controld/api/clock": {third: []string{"golang.org/x/sys"},
		why: "every daemon has one wall clock, and one clock that no setting moves"},
	"controld/api/pki": {ours: []string{"controld/api/clock"},
		why: "certificates, keys and join tokens know nothing of jobs"},
	"controld/api/pki/pkitest": {ours: []string{"controld/api/pki"},
		why: "tests of both daemons make clusters and members of them"},
	"controld/api/serve": {ours: []string{"controld/api/identity"},
		why: "both daemons listen and serve HTTP in the same way"},
	"controld/api": {ours: []string{"controld/api/pki", "controld/api/stream", "jobspec", "controld/model",
		"controld/model/witness", "controld/model/cluster", "controld/model/trust"},
		why: "the command imports it and must start in milliseconds"},
	"controld/api/stream": {why: "the shim has it too, so that it knows frames and no HTTP"},
	"controld/history": {ours: []string{"controld/model",
		"controld/model/ranges"}, third: []string{"modernc.org/sqlite"},
		why: "it stores finished jobs and decides nothing"},
	"controld/forecast": {
		ours: []string{"controld/fsm", "controld/fsm/estimate", "controld/fsm/state", "controld/fsm/steering",
			"controld/model", "controld/sched"}, pure: true,
		why: "when jobs start follows from the same decisions and the same state machine",
	},
	"controld/telemetry": {ours: []string{"controld/model", "controld/model/witness"},
		why: "what nodes report in memory decides nothing by itself"},
	"controld/earlystop": {
		ours: []string{"controld/model", "controld/fsm", "controld/fsm/state", "controld/api",
			"controld/earlystop/judge"},
		why: "the leader keeps what tasks of arrays reported, in memory only",
	},
	"controld/earlystop/judge": {ours: []string{"jobspec", "controld/model", "controld/fsm/state",
		"controld/model/ranges"}, pure: true,
		why: "which tasks have lost follows from what they reported, live and simulated"},
	"controld/replica": {
		ours: []string{"consensus", "controld/api/clock", "controld/model", "controld/fsm",
			"controld/fsm/state", "controld/model/cluster"},
		third: []string{"github.com/prometheus"},
		why:   "the state behind the log, for the server and the leader alike",
	},
	"controld/peers": {
		ours: []string{"consensus", "controld/model", "controld/api", "controld/api/identity", "controld/member"},
		why:  "the other controllers are found and asked in one place",
	},
	"controld/backup": {third: []string{"github.com/klauspost/compress"},
		why: "it writes and reads a file, whatever its parts are"},
	"controld/recovery": {
		ours: []string{"consensus", "controld/api/clock", "controld/api/pki", "controld/backup", "controld/fsm",
			"controld/fsm/state", "controld/history", "controld/model", "controld/model/cluster",
			"controld/model/generation"},
		why: "it makes a log of a controller that does not run, and serves nothing",
	},
	"controld/leader": {
		ours: []string{
			"consensus", "controld/api/clock", "controld/model", "controld/model/witness", "controld/fsm",
			"controld/fsm/state",
			"controld/sched", "controld/member", "controld/history", "controld/replica",
			"controld/peers", "controld/telemetry", "controld/earlystop", "controld/api/pki",
			"controld/model/cluster", "controld/model/trust",
		},
		third: []string{"github.com/prometheus", "golang.org/x/sync"},
		why:   "only the leader proposes by itself; it serves no request",
	},
	"controld/server/problem": {
		ours: []string{"consensus", "controld/model", "controld/fsm", "controld/api", "controld/api/identity",
			"controld/history", "controld/model/generation", "controld/model/trust"},
		why: "each error has one status and one code",
	},
	"controld/server/openapi": {
		ours: []string{"controld/api"}, third: []string{"github.com/danielgtaylor/huma/v2"},
		why: "it describes the API and serves nothing",
	},
	"controld/server/present": {
		ours: []string{
			"controld/api", "controld/fsm/lifecycle", "controld/fsm/state", "controld/fsm/steering",
			"controld/model", "controld/model/cluster", "controld/model/generation", "controld/model/ranges",
			"controld/sched/fairshare", "controld/telemetry", "jobspec",
		},
		why: "what users see is a function of the state",
	},
	"controld/server/submission": {
		ours: []string{"jobspec", "jobspec/rules", "controld/model", "controld/fsm/state", "controld/api",
			"controld/server/problem", "controld/model/cluster"},
		why: "whether a job is accepted is a function of the state",
	},
	"controld/server/jobref": {
		ours: []string{
			"jobspec", "controld/model", "controld/fsm", "controld/fsm/state", "controld/api", "controld/history",
			"controld/replica",
			"controld/server/problem",
			"controld/server/submission", "controld/model/ranges",
		},
		why: "names of jobs are resolved in one place",
	},
	"controld/server/access": {
		ours: []string{
			"controld/model/cluster",
		},
		why: "what a rule allows follows from roles, whatever the request is",
	},
	"controld/server/audit": {
		ours: []string{
			"controld/history", "controld/model", "controld/replica",
		},
		why: "the audit log waits here for the disk, and knows no request",
	},
	"controld/server/servertest": {
		ours: []string{
			"consensus", "controld/api", "controld/api/identity", "controld/api/pki", "controld/api/stream",
			"controld/fsm", "controld/history", "controld/member", "controld/model", "controld/model/cluster",
			"controld/peers", "controld/replica", "controld/server/problem", "jobspec",
		},
		third: []string{"github.com/prometheus"},
		why:   "tests of the rooms need it, and nothing else does",
	},
	"controld/server/exchange": {
		ours: []string{
			"consensus", "controld/api", "controld/api/identity", "controld/api/pki", "controld/fsm",
			"controld/fsm/state", "controld/history", "controld/model", "controld/model/cluster",
			"controld/model/generation", "controld/model/ranges", "controld/model/trust", "controld/peers",
			"controld/replica", "controld/server/access", "controld/server/audit", "controld/server/jobref",
			"controld/server/openapi", "controld/server/problem", "jobspec/duration",
		},
		third: []string{"github.com/prometheus", "golang.org/x/sys", "golang.org/x/time"},
		why:   "what requests share: callers, rules, bodies, limits, and the way to the leader; it knows no room",
	},
	"controld/server/exchange/exchangetest": {
		ours: []string{
			"controld/api/identity", "controld/fsm", "controld/peers", "controld/replica",
			"controld/server/access", "controld/server/audit", "controld/server/exchange",
			"controld/server/openapi", "controld/server/servertest",
		},
		third: []string{"github.com/prometheus"},
		why:   "tests of the rooms need it, and nothing else does",
	},
	"controld/server/jobs": {
		ours: []string{
			"controld/api", "controld/api/identity", "controld/earlystop/judge", "controld/forecast", "controld/fsm",
			"controld/fsm/state", "controld/history", "controld/model", "controld/model/ranges",
			"controld/model/trust", "controld/replica", "controld/sched", "controld/sched/explain",
			"controld/sched/fairshare", "controld/server/access", "controld/server/exchange",
			"controld/server/jobref", "controld/server/openapi", "controld/server/present",
			"controld/server/problem", "controld/server/submission", "controld/telemetry", "jobspec",
		},
		why: "a room of the API; rooms do not know each other",
	},
	"controld/server/relay": {
		ours: []string{
			"controld/api", "controld/api/identity", "controld/api/pki", "controld/model",
			"controld/model/trust", "controld/replica", "controld/server/access", "controld/server/exchange",
			"controld/server/openapi", "controld/server/present", "controld/server/problem", "jobspec",
		},
		why: "a room of the API; it passes requests on to nodes",
	},
	"controld/server/nodes": {
		ours: []string{
			"controld/api", "controld/api/clock", "controld/earlystop", "controld/fsm", "controld/fsm/state",
			"controld/history", "controld/member", "controld/model", "controld/model/generation",
			"controld/replica", "controld/server/access", "controld/server/exchange",
			"controld/server/openapi", "controld/server/present", "controld/server/problem",
			"controld/telemetry",
		},
		third: []string{"github.com/prometheus"},
		why:   "a room of the API; rooms do not know each other",
	},
	"controld/server/accounts": {
		ours: []string{
			"controld/api", "controld/fsm/state", "controld/replica", "controld/sched",
			"controld/sched/fairshare", "controld/server/access", "controld/server/exchange",
			"controld/server/openapi", "controld/server/present", "controld/server/problem",
		},
		why: "a room of the API; rooms do not know each other",
	},
	"controld/server/settings": {
		ours: []string{
			"controld/api", "controld/config", "controld/fsm", "controld/fsm/state", "controld/fsm/steering",
			"controld/fsm/versions", "controld/model/cluster", "controld/server/access",
			"controld/server/exchange", "controld/server/present", "controld/server/problem",
		},
		why: "a room of the API; rooms do not know each other",
	},
	"controld/server/members": {
		ours: []string{
			"consensus", "controld/api", "controld/api/clock", "controld/api/pki", "controld/api/serve",
			"controld/fsm", "controld/fsm/state", "controld/history", "controld/member", "controld/model",
			"controld/model/trust", "controld/peers", "controld/replica", "controld/server/access",
			"controld/server/exchange", "controld/server/openapi", "controld/server/present",
			"controld/server/problem", "controld/telemetry",
		},
		third: []string{"golang.org/x/time"},
		why:   "a room of the API; rooms do not know each other",
	},
	"controld/server/tokens": {
		ours: []string{
			"controld/api", "controld/api/identity", "controld/fsm", "controld/model", "controld/model/trust",
			"controld/replica", "controld/server/access", "controld/server/exchange",
			"controld/server/openapi", "controld/server/problem", "jobspec",
		},
		why: "a room of the API; rooms do not know each other",
	},
	"controld/server/system": {
		ours: []string{
			"controld/api", "controld/api/clock", "controld/api/identity", "controld/api/pki",
			"controld/backup", "controld/fsm/state", "controld/history", "controld/model", "controld/peers",
			"controld/replica", "controld/server/access", "controld/server/audit", "controld/server/exchange",
			"controld/server/openapi", "controld/server/present", "controld/server/problem",
		},
		why: "a room of the API; rooms do not know each other",
	},
	"controld/server/figures": {
		ours: []string{
			"controld/fsm/state", "controld/fsm/steering", "controld/model", "controld/model/cluster",
			"controld/replica", "controld/sched", "controld/sched/fairshare", "controld/server/access",
			"controld/server/exchange", "controld/server/present",
		},
		third: []string{"github.com/prometheus"},
		why:   "a room of the API; rooms do not know each other",
	},
	"controld/server": {
		ours: []string{
			"controld/earlystop", "controld/fsm/state", "controld/server/access", "controld/server/accounts",
			"controld/server/exchange", "controld/server/figures", "controld/server/jobs",
			"controld/server/members", "controld/server/nodes", "controld/server/openapi",
			"controld/server/relay", "controld/server/settings", "controld/server/system",
			"controld/server/tokens", "controld/telemetry",
		},
		third: []string{"github.com/danielgtaylor/huma/v2"},
		why:   "it wires the rooms; what the leader does by itself is elsewhere",
	},
	"controld": {
		ours: []string{
			"consensus/durable",
			"consensus", "controld/model", "controld/fsm", "controld/fsm/state", "controld/member", "controld/api",
			"controld/api/pki",
			"controld/api/identity",
			"controld/api/serve",
			"controld/history", "controld/replica", "controld/peers", "controld/telemetry", "controld/earlystop",
			"controld/leader", "controld/recovery",
			"controld/server", "controld/server/audit", "controld/server/exchange", "controld/model/cluster",
			"controld/model/trust",
		},
		third: []string{"github.com/prometheus", "golang.org/x/sync"},
		why:   "it wires the control plane; job files and the simulator are for the command",
	},
	"noded/oci/launch": {pure: true, why: "rota-init imports it and must stay small, so it holds only types"},
	"noded/oci": {
		ours: []string{
			"jobspec", "jobspec/hostlist", "jobspec/logpath", "jobspec/template", "controld/api", "controld/model",
			"noded/container", "noded/oci/launch",
		}, pure: true,
		third: []string{"github.com/opencontainers/runtime-spec"},
		why:   "a container's spec is a function of its allocation; of container it has the type of a root alone",
	},
	"noded/container": {
		ours: []string{"jobspec/lossy", "controld/api/clock", "controld/api/stream"}, third: []string{"golang.org/x/sys"},
		why: "it talks to shims and decides nothing",
	},
	"noded/container/containertest": {
		ours: []string{"noded/container"}, third: []string{"golang.org/x/sys"}, why: "it stands in for containers in tests",
	},
	"noded/config": {ours: []string{"jobspec/hclfile"}, why: "it turns a file into settings and knows no default"},
	"noded/requirements": {third: []string{"golang.org/x/sys"},
		why: "the daemon and the command check a machine in the same way"},
	"noded/requirements/criutest": {ours: []string{"noded/requirements"},
		why: "tests of the shim and of whole clusters use the same CRIU"},
	"noded/gpu": {ours: []string{"controld/model"}, why: "it knows devices, not jobs"},
	"noded/gpu/nvml": {
		ours: []string{"controld/model", "noded/gpu"}, third: []string{"github.com/NVIDIA/go-nvml"},
		why: "it needs cgo, and the command that reads the same inventory has none",
	},
	"noded/gpu/gputest": {why: "it stands in for devices in tests"},
	"noded/gpu/cuda": {why: "it moves the memory of processes and knows neither jobs nor containers; " +
		"it needs cgo"},
	"noded/gpu/cuda/cudatest": {why: "it stands in for the driver in tests"},
	"noded/machine": {
		ours:  []string{"jobspec", "controld/model", "controld/api", "controld/api/clock"},
		third: []string{"golang.org/x/sys"},
		why:   "it describes the machine and knows no jobs",
	},
	"noded/profile": {pure: true, why: "what a series of samples says follows from the samples"},
	"noded/progress": {
		ours:  []string{"jobspec", "jobspec/convergence", "controld/api", "controld/model", "noded/container"},
		third: []string{"golang.org/x/sys"},
		why:   "it reads progress files and reports nothing itself",
	},
	"noded/logs": {
		ours: []string{"jobspec", "controld/api", "controld/api/pki", "controld/api/identity", "noded/container"},
		why:  "it keeps and serves the output of containers and does not run them",
	},
	"noded/checkpoint": {
		ours: []string{
			"jobspec", "controld/api", "controld/api/pki", "controld/api/identity", "controld/model",
			"noded/container",
		},
		third: []string{"golang.org/x/sys"},
		why:   "it carries folders from node to node, whatever a job makes of them",
	},
	"noded/bundle": {
		ours: []string{"controld/api/directory",
			"jobspec", "controld/model", "controld/api", "noded/container", "noded/logs", "noded/oci",
			"noded/progress",
		},
		third: []string{"golang.org/x/sys", "github.com/opencontainers/runtime-spec", "github.com/moby/profiles"},
		why:   "it writes what a container is made from and does not run it",
	},
	"noded/journal": {ours: []string{"controld/model"}, why: "it stores records and does not interpret them"},
	"noded/reconcile": {
		ours: []string{
			"jobspec/lossy",
			"jobspec", "controld/api", "controld/model", "noded/container", "noded/journal", "noded/oci",
		}, pure: true, times: true,
		why: "what is due for a container follows from the facts about it",
	},
	"noded/retry":    {why: "all rooms wait in the same way before they try again"},
	"noded/datafile": {why: "files of the data directory are written in one way"},
	"noded/checkpoints": {
		ours: []string{"controld/api", "controld/api/identity", "controld/api/pki", "noded/container",
			"noded/datafile"},
		why: "it decides which folders stay, and asks through functions what runs",
	},
	"noded/gpus": {ours: []string{"controld/model", "noded/gpu", "noded/reconcile"},
		why: "the health of the GPUs has a lock of its own and knows no jobs"},
	"noded/mps": {ours: []string{"noded/bundle", "noded/requirements", "noded/retry"},
		third: []string{"golang.org/x/sys"}, why: "one control daemon serves all jobs and knows none"},
	"noded/report": {
		ours: []string{"jobspec/lossy", "jobspec/convergence", "controld/api", "controld/model", "noded/container",
			"noded/retry"},
		why: "it delivers reports and makes none",
	},
	"noded/place": {
		ours: []string{"noded/container", "noded/journal"},
		why:  "one rule says how anything of a worker is removed",
	},
	"noded/run": {
		ours: []string{
			"jobspec", "jobspec/hostlist", "controld/api", "controld/model", "noded/checkpoint", "noded/container",
			"noded/gpus", "noded/jobsteps", "noded/journal", "noded/machine", "noded/place", "noded/reconcile", "noded/report",
		},
		why: "it carries out actions, decides nothing and holds no lock",
	},
	"noded/measure": {
		ours: []string{
			"jobspec", "controld/api", "controld/api/identity", "controld/api/pki", "controld/model",
			"noded/container",
			"noded/gpu", "noded/gpus", "noded/journal", "noded/profile", "noded/progress", "noded/reconcile", "noded/report",
		},
		third: []string{"golang.org/x/sync"},
		why:   "it measures workers and decides nothing about them; it has a lock of its own",
	},
	"noded/jobsteps": {
		ours: []string{
			"jobspec/lossy",
			"jobspec", "controld/model", "controld/api", "controld/api/clock", "controld/api/identity",
			"controld/api/pki",
			"controld/api/stream", "noded/container", "noded/jobsteps/choose", "noded/journal", "noded/oci",
			"noded/oci/launch", "noded/profile",
		},
		third: []string{"golang.org/x/sys/unix"},
		why:   "which steps of a job run where, beside what the node daemon does of its own accord",
	},
	"noded/jobsteps/choose": {ours: []string{"jobspec", "controld/api", "controld/model", "noded/oci"}, pure: true,
		why: "which places and cores a step gets follows from the job and the steps beside it"},
	"noded/shim": {
		ours: []string{
			"jobspec/lossy",
			"controld/api/clock", "controld/api/stream", "jobspec", "noded/container", "noded/gpu/cuda", "noded/oci/launch",
			"noded/shim/criu", "noded/shim/jobsocket", "noded/shim/keyring", "noded/shim/lifecycle", "noded/shim/oom",
			"noded/shim/output", "noded/shim/session", "noded/shim/userfiles",
		},
		third: []string{
			"github.com/opencontainers/runc", "github.com/opencontainers/cgroups", "github.com/opencontainers/runtime-spec",
			"golang.org/x/sys",
		},
		why: "it outlives the node daemon and shares only the protocols with it and with rota-init",
	},
	"noded/shim/criu": {ours: []string{"noded/container", "noded/shim/keyring"},
		third: []string{"github.com/opencontainers/runc", "golang.org/x/sys"},
		why:   "it saves and restores processes, and knows neither orders nor tasks"},
	"noded/shim/keyring": {third: []string{"golang.org/x/sys"}, why: "it asks the kernel for keyrings"},
	"noded/shim/jobsocket": {ours: []string{"noded/container"},
		why: "it hears the processes of a job and decides nothing"},
	"noded/shim/lifecycle": {ours: []string{"noded/container"}, third: []string{"golang.org/x/sys"}, pure: true,
		why: "which tasks start and stop follows from the states of all"},
	"noded/shim/oom": {ours: []string{"jobspec", "noded/container", "noded/oci/launch"},
		third: []string{"golang.org/x/sys"}, why: "it reads cgroups and the kernel's log, and knows no task"},
	"noded/shim/output": {ours: []string{"jobspec/lossy", "jobspec", "noded/container"},
		third: []string{"golang.org/x/sys"},
		why:   "it keeps output, and shares with jobspec the pattern of progress in it"},
	"noded/shim/session": {ours: []string{"controld/api/stream", "noded/container", "noded/oci/launch"},
		third: []string{"golang.org/x/sys"}, why: "it passes frames on, and asks the supervisor to start processes"},
	"noded/shim/userfiles": {ours: []string{"noded/container"}, third: []string{"golang.org/x/sys"},
		why: "it opens files with the rights of a job's user, and starts nothing"},
	"noded/shim/shimtest": {ours: []string{"noded/container"}, why: "the rooms of the shim share it in tests"},
	"packaging/python":    {why: "it is the module that jobs import, as text"},
	"noded/controllers": {
		ours: []string{
			"controld/api", "controld/api/identity", "controld/api/pki", "controld/api/stream", "controld/member",
			"controld/model", "noded/checkpoints", "controld/model/generation",
		},
		why: "it reaches the control plane and knows no container",
	},
	"noded/follow": {
		ours: []string{
			"controld/api", "controld/api/identity", "controld/api/pki", "controld/model", "controld/model/witness",
			"noded/container", "noded/controllers", "noded/datafile", "noded/retry", "controld/model/generation",
		},
		third: []string{"golang.org/x/sync"},
		why:   "it hears the leader and counts leases, and tells the workers through an interface; it has a lock of its own",
	},
	"noded/workers": {
		ours: []string{
			"jobspec/lossy",
			"controld/api", "controld/model", "noded/container", "noded/follow", "noded/jobsteps", "noded/journal",
			"noded/machine", "noded/measure", "noded/reconcile", "noded/report", "noded/retry", "noded/run",
		},
		why: "it compares what should exist with what exists, behind one lock",
	},
	"noded": {
		ours: []string{
			"jobspec", "controld/model", "controld/api", "controld/api/pki",
			"controld/api/serve", "controld/api/identity", "controld/api/stream", "controld/member",
			"noded/bundle", "noded/jobsteps", "noded/oci", "noded/checkpoint", "noded/checkpoints", "noded/container",
			"noded/controllers", "noded/datafile", "noded/follow", "noded/workers",
			"noded/gpu", "noded/gpus", "noded/journal", "noded/logs", "noded/machine", "noded/measure", "noded/mps",
			"noded/place", "noded/report", "noded/requirements", "noded/run",
			"packaging/python",
		},
		third: []string{"golang.org/x/sync", "golang.org/x/sys"},
		why:   "the node daemon shares api and cluster with the control daemon, and a protocol with the shim",
	},
}

// laboratory is the folder of the module that measures and tests the product from outside.
const laboratory = "cmd/lab"

// trees are rules for all packages below a directory that have no row of their own.
var trees = map[string]string{
	"cmd/":      "commands, and the laboratory that runs them, may import anything",
	"examples/": "examples use the standard library, as a user's program would",
}

// rotaShared are the packages below cmd/rota that its groups of commands share. The other packages
// there are groups, which main alone imports.
var rotaShared = []string{"command", "complete", "exit", "follow", "input", "listing", "show", "table", "terminal",
	"terminal/progress", "rotatest"}

// sharedBy are the packages inside one group of commands that others inside it share, and which do.
var sharedBy = map[string][]string{
	"slurm/tool":   {"slurm/actions", "slurm/fields", "slurm/queries", "slurm/slurmtest", "slurm/steps"},
	"slurm/fields": {"slurm/queries"},
}

// technologies may each be imported in one place only, so that replacing one is work in one place.
// The last rows hold walls of our own in the same way.
var technologies = []struct {
	path string
	in   []string
	why  string
}{
	{"github.com/hashicorp/raft", []string{"consensus", "consensus/..."}, "replication is behind consensus"},
	{"github.com/hashicorp/raft-boltdb", []string{"consensus"}, "the log's storage is behind consensus"},
	{"github.com/hashicorp/memberlist", []string{"controld/member"}, "gossip is behind member"},
	{"github.com/hashicorp/hcl/v2", []string{"jobspec/hclfile", "jobspec/hclfile/...", "jobspec/jobfile"},
		"HCL is loaded in hclfile, and its values read where the grammar of job files is known"},
	{"github.com/opencontainers/runc", []string{"noded/shim", "noded/shim/..."},
		"libcontainer promises no API, so one package follows it"},
	{"github.com/NVIDIA/go-nvml", []string{"noded/gpu/nvml"},
		"the driver can hang, so one package deals with it"},
	{"github.com/urfave/cli", []string{"cmd/..."}, "only commands parse command lines"},
	{"github.com/spf13/pflag", []string{"cmd/..."}, "only commands parse command lines"},
	{"modernc.org/sqlite", []string{"controld/history"}, "the database is behind history"},
	{"mvdan.cc/sh/v3", []string{"jobspec/script/shell"}, "shell scripts are parsed in one place"},
	{"github.com/anishathalye/porcupine", []string{"cmd/lab/chaos"}, "histories are checked in one place"},
	{"github.com/danielgtaylor/huma", []string{"controld", "controld/..."},
		"the OpenAPI library is too slow to load in the command"},
	{module + "controld/sim", []string{"controld/sim", "controld/sim/...", "cmd/rota", "cmd/rota/...",
		"cmd/lab/..."},
		"only rota sim and measurement tools simulate"},
	{module + laboratory, []string{laboratory, laboratory + "/..."}, "the product does not import the laboratory"},
}

// impure packages of the standard library do what a pure function cannot repeat.
var impure = map[string]string{
	"os": "files and the environment", "os/exec": "processes", "net": "the network", "net/http": "the network",
	"log":      "logging",
	"log/slog": "logging", "context": "cancellation from outside", "sync": "locks", "sync/atomic": "shared memory",
	"time":      "the clock (time comes in as an Instant)",
	"math/rand": "a hidden random source", "crypto/rand": "a random source", "runtime": "the machine it runs on",
	"unsafe": "memory layout",
}

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
	for _, p := range append(list(t, "."), list(t, laboratory)...) {
		for _, problem := range violations(p) {
			t.Error(problem)
		}
		for _, dir := range rules[p.name()].ours {
			if !slices.ContainsFunc(p.Imports, func(path string) bool {
				return matches(strings.TrimPrefix(path, module),
					[]string{dir})
			}) {
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
		{"allowed", "controld/fsm", module + "jobspec", "", ""},
		{"upwards", "controld/fsm", module + "controld/sched", "", "may not import controld/sched"},
		{"third party", "jobspec", "github.com/zclconf/go-cty/cty", "", "may not import github.com/zclconf/go-cty/cty"},
		{"clock in a pure package", "controld/sched/fit", "time", "", "the clock"},
		{"clock elsewhere", "consensus", "time", "", ""},
		{"times in a pure package that may hold them", "noded/reconcile", "time", "", ""},
		{"seeded randomness outside the simulator", "controld/sched", "math/rand/v2", "", "math/rand/v2"},
		{"seeded randomness in the simulator", "controld/sim", "math/rand/v2", "", ""},
		{"technology in a command", "cmd/rota", "github.com/hashicorp/raft", "", "replication is behind consensus"},
		{"version suffix is part of the technology", "cmd/rota", "github.com/hashicorp/raft-boltdb/v2", "",
			"the log's storage"},
		{"subtree of a technology's owner", "cmd/rota-noded", "github.com/spf13/pflag", "", ""},
		{"daemons apart", "noded", module + "controld/api", module + "controld", "noded reaches controld"},
		{"a part of the other daemon", "noded/logs", module + "controld/api", module + "controld/fsm",
			"noded/logs reaches"},
		{"the other daemon", "controld/replica", "fmt", module + "noded/gpu", "the daemons share controld/api"},
		{"the common ground in both", "noded/logs", module + "controld/api", module + "controld/model/witness", ""},
		{"a daemon in the common ground", "controld/api", module + "controld/model", module + "controld/history",
			"knows nothing else of controld"},
		{"simulator in production", "cmd/rota-controld", "fmt", module + "controld/sim", "reaches controld/sim"},
		{"simulator in the command", "cmd/rota", "fmt", module + "controld/sim", ""},
		{"both daemons in the end-to-end tests", "cmd/lab/e2e", "fmt", module + "controld " + module + "noded", ""},
		{"trace readers in a daemon", "cmd/rota-noded", module + "controld/sim/trace", "",
			"only rota sim and measurement tools simulate"},
		{"one measurement tool in another", "cmd/lab/chaos", module + "cmd/lab/training", "", ""},
		{"simulator in a measurement tool", "cmd/lab/papers", module + "controld/sim", "", ""},
		{"measurement tool in the command", "cmd/rota", module + "cmd/lab/figures", "",
			"does not import the laboratory"},
		{"unknown package", "helpers", "fmt", "", "has no row"},
		{"one group of commands in another", "cmd/rota/views", module + "cmd/rota/submit", "", "groups of commands"},
		{"a package of one group in another", "cmd/rota/views", module + "cmd/rota/slurm/tool", "", "groups of commands"},
		{"a package of the group itself", "cmd/rota/slurm", module + "cmd/rota/slurm/steps/pmi", "", ""},
		{"what packages inside a group share", "cmd/rota/slurm/steps", module + "cmd/rota/slurm/tool", "", ""},
		{"packages inside a group", "cmd/rota/slurm/steps", module + "cmd/rota/slurm/queries", "", "groups of commands"},
		{"what groups of commands share", "cmd/rota/views", module + "cmd/rota/listing", "", ""},
		{"the simulator in one group of commands", "cmd/rota/simulate", "fmt", module + "controld/sim", ""},
		{"command imported", "controld", module + "cmd/rota", "", "may not import cmd/rota"},
	}
	for _, test := range tests {
		got := violations(listed{ImportPath: module + test.path, Imports: strings.Fields(test.imports),
			Deps: strings.Fields(test.deps)})
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
	problems := reaches(name, p.Deps)
	r, ok := rules[name]
	if !ok && !inTree(name) {
		return append(problems, fmt.Sprintf(
			"%s has no row in the import rules: give it one, with what it may import and why", name))
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
	if group, ok := strings.CutPrefix(path, module+"cmd/rota/"); ok && name != "cmd/rota" &&
		!slices.Contains(rotaShared, group) && !strings.HasPrefix(path, module+name+"/") &&
		!slices.Contains(sharedBy[group], strings.TrimPrefix(name, "cmd/rota/")) {
		return fmt.Sprintf("%s may not import cmd/rota/%s: groups of commands are independent of each other", name, group)
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
	if path == "math/rand/v2" && !strings.HasPrefix(name, "controld/sim") && name != laboratory+"/specon" {
		return fmt.Sprintf("%s may not import math/rand/v2: only simulators draw numbers, from a seed", name)
	}
	if what := impure[path]; what != "" && !(r.times && path == "time") {
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
		{"...", "controld/sim", []string{"controld/sim", "controld/sim/...", "cmd/rota", "cmd/rota/...",
			"cmd/lab/..."},
			"production code does not carry the simulator"},
	}
	problems := acrossDaemons(name, deps)
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

// commonGround are packages below controld that both daemons and the command build on: the types,
// the protocol and the discovery of members. They know nothing else of controld.
var commonGround = []string{"controld/api", "controld/api/...", "controld/model", "controld/model/...",
	"controld/member"}

// acrossDaemons finds what a daemon has of the other one, and what the common ground has of a daemon,
// even through other packages.
func acrossDaemons(name string, deps []string) (problems []string) {
	below := func(path, dir string) bool { return strings.HasPrefix(path+"/", dir+"/") }
	common := matches(name, commonGround)
	for _, dep := range deps {
		dep = strings.TrimPrefix(dep, module)
		control := below(dep, "controld") && !matches(dep, commonGround)
		switch {
		case common && control:
			problems = append(problems, fmt.Sprintf("%s reaches %s: what both daemons share knows nothing else of controld",
				name, dep))
		case below(name, "noded") && control, below(name, "controld") && below(dep, "noded"):
			problems = append(problems, fmt.Sprintf("%s reaches %s: the daemons share %s only", name, dep,
				strings.Join(commonGround, ", ")))
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

// within reports whether path is the module tech, one of its later major versions, or a package in
// it.
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

// list asks go for the packages of the module in dir.
func list(t *testing.T, dir string) []listed {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", "./...")
	cmd.Dir, cmd.Stderr = dir, &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	var packages []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			if len(packages) < 3 {
				t.Fatalf("go list found %d packages in %s; the test would prove nothing", len(packages), dir)
			}
			return packages
		}
		if err != nil {
			t.Fatalf("read the output of go list: %v", err)
		}
		packages = append(packages, p)
	}
}
