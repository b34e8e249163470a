package synth

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/controld/sim/trace/field"
	"github.com/rota-hpc/rota/jobspec"
)

// GeneratorPrefix begins the name of a generated trace, where the name of a file could stand.
const GeneratorPrefix = "gen:"

// Generator is a workload to be drawn, as a user described it.
type Generator struct {
	text  string // as it was described, without the prefix
	kind  string
	jobs  int
	gap   int64 // ms; 0: from load
	load  int64 // thousandths; 0: from gap
	timed bool  // one of them was given
	model FitGppModel
	mix   Mix
	which int // experiment of kubeflow
	// search is set if the workload is one.
	search *Search
	// family is set if the workload is a member of one.
	family *Family
	placed bool // the description says for how many nodes
}

// generatorRow is one kind of workload.
type generatorRow struct {
	kind string
	what string
	keys []generatorKey
}

// generatorKey is one parameter of it.
type generatorKey struct{ name, what string }

var (
	jobsKey = generatorKey{"jobs", "their number (1000)"}
	loadKey = generatorKey{"load", "demand for the cluster's scarcest resource, relative to its capacity (0.9)"}
	gapKey  = generatorKey{"gap", "mean time between arrivals, such as 30s, instead of load"}
)

// generators are the kinds of workloads, in the order in which users see them.
var generators = []generatorRow{
	{"fitgpp", "the synthetic workload of the FitGpp paper", []generatorKey{
		jobsKey, loadKey, gapKey, {"te", "share of trial-and-error jobs (30%)"},
		{"users", "number of equal users (50)"}, {"grace", "factor for all grace periods (1)"},
	}},
	{"poisson", "independent arrivals of trials, training, wide gangs and elastic jobs",
		[]generatorKey{jobsKey, loadKey, gapKey}},
	{"similar", "rigid jobs of nearly one length, for nodes of 8 GPUs", familyKeys(SimilarFamily())},
	{"mixed", "run times with a heavy tail; trials, elastic jobs and jobs without GPUs too", familyKeys(MixedFamily())},
	{"gandiva", "jobs of Gandiva's mix, which take turns, for " + GandivaNodes, []generatorKey{jobsKey}},
	{"gandiva-a", "nine days of jobs that can take turns, load 0.95, for " + GandivaTraceNodes,
		[]generatorKey{{"jobs", "their number (8800)"}}},
	{"gandiva-b", "the same with a load of 1.15, run times nearly alike", []generatorKey{{"jobs", "their number (8800)"}}},
	{"six", "equal jobs that take turns on four GPUs, for " + SixNodes, []generatorKey{{"jobs", "their number (6)"}}},
	{"search", "a search for a configuration of high accuracy, as one array, for " + searchCluster(), []generatorKey{
		{"configs", "number of configurations to try, for 30 min each (46)"},
		{"behind", "jobs of 8 h that arrive just before the search (0)"},
		{"keep", "early stopping: how many tasks continue after at_step; 0: all (0)"},
		{"at_step", "with keep: mini-batches of 1 s after which tasks are compared (60)"},
		{"noise", "with keep: standard deviation of the accuracy that tasks report then, such as 0.03 (0)"},
		{"gpus", "GPUs of the cluster, four on a node (16)"},
	}},
	{"kubeflow", "four elastic jobs for " + KubeflowNodes, []generatorKey{{"experiment", "1 to 3 (1)"}}},
	{"seed000", "the same, by the name of the experiment",
		[]generatorKey{{"e1", "workers of 1 core"}, {"e2", "of 2 cores"},
			{"e3", "of 4 cores, the second job of high priority"}}},
}

// Known describes the workloads that can be drawn: a line for each, and a line for each of its
// parameters.
func Known() []string {
	var list []string
	for _, g := range generators {
		list = append(list, fmt.Sprintf("%-16s %s", GeneratorPrefix+g.kind, g.what))
		for _, k := range g.keys {
			list = append(list, fmt.Sprintf("  %-14s %s", k.name, k.what))
		}
	}
	return list
}

func (g *generatorRow) names() []string {
	names := make([]string, len(g.keys))
	for i, k := range g.keys {
		names[i] = k.name
	}
	return names
}

func generatorNames() []string {
	names := make([]string, len(generators))
	for i := range generators {
		names[i] = generators[i].kind
	}
	return names
}

// usualJobs is how many jobs a kind of workload has unless the user says so.
func usualJobs(kind string) int {
	switch kind {
	case "gandiva-a", "gandiva-b":
		return 8800
	case "six":
		return 6
	}
	return 1000
}

// ParseGenerator reads the description of a generated workload, with or without [GeneratorPrefix]:
//
//	fitgpp[:key=value,…]      the synthetic workload of FitGpp
//	poisson[:key=value,…]     independent arrivals of trials, training, wide gangs and elastic jobs
//	similar[:key=value,…]     a [Family] of jobs of nearly one length
//	mixed[:key=value,…]       a [Family] of all kinds of jobs, with a heavy tail
//	gandiva[:jobs=1000]       the mix of Gandiva's measurements, for [GandivaNodes]
//	gandiva-a, gandiva-b      nine days of such jobs, for [GandivaTraceNodes]
//	six[:jobs=6]              equal jobs for four GPUs
//	search[:key=value,…]      a [Search] for a configuration of high accuracy
//	kubeflow[:experiment=1]   four elastic jobs on 3x8c/30g
//	seed000:e1                the same, by the name of an experiment: e1, e2 or e3
//
// jobs is the number of jobs (1000). load is their demand of the cluster's scarcest resource (0.9);
// gap is the mean time between arrivals instead. te is the share of TE jobs (30%), users the number
// of users (50), grace a factor on grace periods (1).
func ParseGenerator(text string) (*Generator, error) {
	text = strings.TrimPrefix(text, GeneratorPrefix)
	kind, rest, given := strings.Cut(text, ":")
	i := slices.IndexFunc(generators, func(g generatorRow) bool { return g.kind == kind })
	if i < 0 {
		return nil, fmt.Errorf("unknown generator %q: the generators are %s", field.Shorten(kind),
			strings.Join(generatorNames(), ", "))
	}
	g := &Generator{text: text, kind: kind, jobs: usualJobs(kind), model: PaperModel(), mix: DefaultMix(), which: 1,
		family: familyOf(kind)}
	if kind == "search" {
		s := DefaultSearch()
		g.search = &s
	}
	seen := map[string]bool{}
	for word := range strings.SplitSeq(rest, ",") {
		if !given {
			break
		}
		key, value, _ := strings.Cut(word, "=")
		if !slices.Contains(generators[i].names(), key) {
			return nil, fmt.Errorf("generator %s: unknown key %q: the keys are %s", kind, field.Shorten(key),
				strings.Join(generators[i].names(), ", "))
		}
		if seen[key] {
			return nil, fmt.Errorf("generator %s: %s is given twice", kind, key)
		}
		seen[key] = true
		if err := g.set(key, value); err != nil {
			return nil, fmt.Errorf("generator %s: %s %w", kind, key, err)
		}
	}
	if kind == "seed000" && len(seen) > 1 {
		return nil, fmt.Errorf("generator %s: %s name several experiments: give one", kind, field.Shorten(rest))
	}
	if g.search != nil {
		if err := g.search.check(seen); err != nil {
			return nil, fmt.Errorf("generator %s: %w", kind, err)
		}
	}
	if seen["load"] && seen["gap"] {
		return nil, fmt.Errorf("generator %s: load and gap both set how often jobs arrive: give one of them", kind)
	}
	if g.timed = seen["load"] || seen["gap"]; !g.timed {
		g.load = 900
	}
	return g, nil
}

func (g *Generator) set(key, value string) (err error) {
	if g.family != nil {
		return g.setFamily(key, value)
	}
	if g.search != nil {
		return g.search.set(key, value)
	}
	var n int64
	switch key {
	case "jobs":
		n, err = field.Whole(value, 1, trace.MaxJobs)
		g.jobs = int(n)
	case "e1", "e2", "e3":
		if value != "" {
			return fmt.Errorf("is the name of an experiment and takes no value such as %s", field.Shorten(value))
		}
		g.which = int(key[1] - '0')
	case "experiment":
		n, err = field.Whole(value, 1, KubeflowExperiments)
		g.which = int(n)
	case "users":
		n, err = field.Whole(value, 1, 1_000_000)
		g.model.Users = int(n)
	case "load":
		if g.load, err = field.Scaled(value, 1000, 1_000_000); err == nil && g.load == 0 {
			err = fmt.Errorf("%s is zero", value)
		}
	case "te":
		digits, percent := strings.CutSuffix(value, "%")
		if !percent {
			return fmt.Errorf("is a percentage, such as 30%%, and not %s", field.Shorten(value))
		}
		g.model.TEShare, err = field.Scaled(digits, 10, 1000)
	case "grace":
		n, err = field.Scaled(value, 1000, 100_000)
		g.model = g.model.ScaleGrace(float64(n) / 1000)
	case "gap":
		var s jobspec.Seconds
		s, err = jobspec.ParseSeconds(value)
		if g.gap = int64(s) * second; err == nil && g.gap == 0 {
			err = fmt.Errorf("%s is zero", value)
		}
	}
	return err
}

// String is the description as it was read, with its prefix. Different workloads have different
// descriptions.
func (g *Generator) String() string { return GeneratorPrefix + g.text }

// Cluster describes the nodes of a workload that has its own, for [trace.ParseNodes]. It is empty
// for the others. given reports whether the user described them.
func (g *Generator) Cluster() (spec string, given bool) {
	switch g.kind {
	case "gandiva":
		return GandivaNodes, false
	case "gandiva-a", "gandiva-b":
		return GandivaTraceNodes, false
	case "six":
		return SixNodes, false
	case "search":
		return g.search.Cluster(), false
	}
	if g.family == nil {
		return "", false
	}
	return g.family.Cluster(), g.placed
}

// Source returns the jobs one by one for a closed loop. A workload with arrival times of its own is
// an error.
func (g *Generator) Source(seed uint64) (Source, error) {
	if g.kind != "fitgpp" {
		return nil, fmt.Errorf("generator %s: only the fitgpp workload can feed a closed loop", g.kind)
	}
	if g.timed {
		return nil, fmt.Errorf("generator %s: leave out load and gap, because the closed loop sets how often jobs arrive",
			g.kind)
	}
	return g.model.Source(seed, g.jobs)
}

// Trace draws the workload with arrivals for a cluster of that capacity.
func (g *Generator) Trace(seed uint64, capacity model.Vector) (*trace.Trace, error) {
	if g.family != nil {
		t, err := g.family.Generate(g.String(), seed, g.jobs, capacity)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", g.String(), err)
		}
		return t, nil
	}
	var t *trace.Trace
	switch g.kind {
	case "kubeflow", "seed000":
		return Kubeflow(g.which)
	case "gandiva":
		return Gandiva(g.String(), seed, g.jobs), nil
	case "gandiva-a", "gandiva-b":
		return gandivaTraces[g.kind].draw(g.String(), seed, g.jobs), nil
	case "search":
		return g.search.Generate(g.String(), seed), nil
	case "six":
		return Six(g.String(), g.jobs), nil
	case "poisson":
		var err error
		if t, err = g.mix.Generate(seed, g.jobs); err != nil {
			return nil, err
		}
	default:
		s, err := g.model.Source(seed, g.jobs)
		if err != nil {
			return nil, err
		}
		t = Take(g.kind, s)
	}
	t.Name = g.String()
	gap := g.gap
	if gap == 0 {
		var err error
		if gap, err = GapFor(t.Jobs, capacity, g.load); err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
	}
	return t, Arrive(t, gap, seed)
}
