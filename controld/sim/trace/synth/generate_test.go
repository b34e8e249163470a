package synth

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/jobspec"
)

var update = flag.Bool("update", false, "rewrite golden files")

// golden compares got with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; got:\n%s", path, got)
	}
}

// dumpJob writes all fields of a job. The digests of seeds.golden were made of this text.
func dumpJob(j *trace.Job) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d: %s %s %s/%s at %d work %d: %d x (%dc %v %dmg)", j.Line, j.ID, j.Class, j.Account, j.User,
		j.Submit, j.Work, j.Workers,
		j.Request.Cores, j.Request.Memory, j.Request.GPUs)
	for _, f := range []struct {
		what string
		v    any
		show bool
	}{
		{"name", j.Name, j.Name != ""}, {"qos", j.QoS, j.QoS != ""}, {"app", j.App, j.App != ""}, {"batch", j.Batch,
			j.Batch != 0},
		{"steps", j.Steps, j.Steps != 0}, {"progress", j.Progress, j.Progress != 0}, {"grace", j.Grace,
			j.Grace != trace.Unknown}, {"restart", j.Restart, j.Restart != trace.Unknown},
		{"limit", j.Limit, j.Limit != 0}, {"estimate", j.Estimate, j.Estimate != 0}, {"priority", j.Priority,
			j.Priority != trace.MidPriority},
		{"min", j.MinWorkers, j.Elastic()}, {"max", j.MaxWorkers, j.Elastic()}, {"pernode", j.PerNode, j.PerNode != 0},
		{"servers", j.Servers, j.Servers != 0}, {"models", j.Models, len(j.Models) > 0}, {"unplaced", true, j.Unplaced},
		{"locality", j.Locality, j.Locality != trace.Locality{}}, {"saves", j.Saves, j.Saves != ""}, {"every", j.Every,
			j.Every != 0},
	} {
		if f.show {
			fmt.Fprintf(&b, " %s=%v", f.what, f.v)
		}
	}
	if j.Scaling != nil {
		b.WriteString(" rates=")
		for n := 1; n <= min(8, j.MaxWorkers); n++ {
			fmt.Fprintf(&b, "%d,", j.Scaling.Rate(trace.Layout{PerNode: []int{n}}))
		}
	}
	return b.String() + "\n"
}

// digest is a short name for a whole trace.
func digest(t *trace.Trace) string {
	h := fnv.New64a()
	for i := range t.Jobs {
		h.Write([]byte(dumpJob(&t.Jobs[i])))
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

func generate(t *testing.T, text string, seed uint64) *trace.Trace {
	t.Helper()
	nodes, err := trace.ParseNodes("84x32c/256g/8gpu")
	if err != nil {
		t.Fatal(err)
	}
	g, err := ParseGenerator(text)
	if err != nil {
		t.Fatal(err)
	}
	got, err := g.Trace(seed, trace.Capacity(nodes))
	if err != nil {
		t.Fatal(err)
	}
	for i := range got.Jobs {
		if err := got.Jobs[i].Check(); err != nil {
			t.Fatalf("%s, seed %d, job %d: %v", text, seed, i, err)
		}
	}
	return got
}

// TestSeedsStable fixes what a seed means, so that published results can be reproduced.
func TestSeedsStable(t *testing.T) {
	var b strings.Builder
	for _, text := range []string{
		"gen:fitgpp:jobs=2000", "gen:fitgpp:jobs=2000,load=2,te=50%,users=7,grace=4", "gen:poisson:jobs=2000",
		"gen:poisson:jobs=500,gap=1m",
		"gen:similar:jobs=200", "gen:mixed:jobs=200", "gen:mixed:jobs=200,saves=60%,users=3,elastic=40%",
		"kubeflow", "kubeflow:experiment=2", "kubeflow:experiment=3",
	} {
		for _, seed := range []uint64{1, 2, 1 << 63} {
			got := generate(t, text, seed)
			again := generate(t, text, seed)
			if digest(got) != digest(again) {
				t.Errorf("%s, seed %d: not the same twice", text, seed)
			}
			fmt.Fprintf(&b, "%s seed=%d name=%s jobs=%d last=%d digest=%s\n", text, seed, got.Name, len(got.Jobs),
				got.Jobs[len(got.Jobs)-1].Submit, digest(got))
			if seed == 1 {
				for i := range got.Jobs[:4] {
					b.WriteString(dumpJob(&got.Jobs[i]))
				}
			}
		}
	}
	golden(t, "seeds.golden", b.String())
}

// TestJobsIndependent draws the same job whatever was drawn before, and the same demands with
// another grace period.
func TestJobsIndependent(t *testing.T) {
	m := PaperModel()
	long := m.ScaleGrace(8)
	for _, i := range []int{0, 7, 4095} {
		a, b := m.job(5, i), m.job(5, i)
		if dumpJob(&a) != dumpJob(&b) {
			t.Errorf("job %d differs from itself", i)
		}
		c := long.job(5, i)
		if c.Work != a.Work || c.Request != a.Request || c.Class != a.Class || c.User != a.User {
			t.Errorf("job %d: a longer grace period changed more than that", i)
		}
		d := m.job(6, i)
		if dumpJob(&a) == dumpJob(&d) {
			t.Errorf("job %d is the same with another seed", i)
		}
	}
}

func moments(values []float64) (mean, sd float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		sd += (v - mean) * (v - mean) / float64(len(values))
	}
	return mean, math.Sqrt(sd)
}

// TestFitGppModel compares the jobs with the moments and the bounds of their distributions.
func TestFitGppModel(t *testing.T) {
	tr := generate(t, "fitgpp:jobs=40000", 3)
	values := map[string][]float64{}
	users, te := map[string]int{}, 0
	for i := range tr.Jobs {
		j := &tr.Jobs[i]
		if j.Class == jobspec.TE {
			te++
		}
		users[j.User]++
		values["work "+string(j.Class)] = append(values["work "+string(j.Class)], float64(j.Work/minute))
		values["grace"] = append(values["grace"], float64(j.Grace/minute))
		values["gpus "+string(j.Class)] = append(values["gpus "+string(j.Class)], float64(j.Request.GPUs/gpu))
		values["cores"] = append(values["cores"], float64(j.Request.Cores))
		values["gib"] = append(values["gib"], float64(j.Request.Memory/jobspec.GiB))
		if j.Work%minute != 0 || j.Grace%minute != 0 || j.Workers != 1 || j.Account != trace.FitGppAccount {
			t.Fatalf("job %d: %+v", i, j)
		}
	}
	if te < 11600 || te > 12400 {
		t.Errorf("%d of 40000 jobs are TE, want about 30 %%", te)
	}
	if len(users) != 50 {
		t.Errorf("%d users", len(users))
	}
	// Means and deviations of the truncated distributions, rounded as the model rounds, integrated
	// numerically.
	for what, want := range map[string]struct{ mean, sd, least, most float64 }{
		"work te": {trunc(5, 3, 0, 30, math.Ceil), 0, 1, 30}, "work be": {trunc(30, 10, 1, 1440, math.Ceil), 0, 1, 1440},
		"gpus te": {trunc(2, 1.2, 0, 8, math.Round), 0, 0, 8}, "gpus be": {trunc(3, 1.2, 0, 8, math.Round), 0, 0, 8},
		"grace": {trunc(3, 1, 0, 20, math.Ceil), 0, 0, 20},
		"cores": {trunc(10, 10, 1, 32, math.Round), 0, 1, 32}, "gib": {trunc(96, 60, 1, 256, math.Round), 0, 1, 256},
	} {
		mean, sd := moments(values[what])
		if tolerance := 4 * sd / math.Sqrt(float64(len(values[what]))); math.Abs(mean-want.mean) > tolerance+1e-9 {
			t.Errorf("%s: mean %.3f, want %.3f within %.3f", what, mean, want.mean, tolerance)
		}
		if least, most := slices.Min(values[what]), slices.Max(values[what]); least < want.least || most > want.most {
			t.Errorf("%s: from %g to %g", what, least, most)
		}
	}
}

// trunc is the mean of a normal distribution cut off at both ends and then rounded, by summing over
// a fine grid.
func trunc(mean, sd, least, most float64, round func(float64) float64) float64 {
	const steps = 400_000
	weight, sum := 0.0, 0.0
	for i := range steps {
		x := least + (most-least)*(float64(i)+0.5)/steps
		w := math.Exp(-(x - mean) * (x - mean) / (2 * sd * sd))
		weight += w
		sum += w * round(x)
	}
	return sum / weight
}

// TestArrive draws arrivals in order, with the given mean.
func TestArrive(t *testing.T) {
	tr := &trace.Trace{Jobs: make([]trace.Job, 20000)}
	if err := Arrive(tr, 10_000, 9); err != nil {
		t.Fatal(err)
	}
	var gaps []float64
	for i := range tr.Jobs[1:] {
		gap := tr.Jobs[i+1].Submit - tr.Jobs[i].Submit
		if gap < 0 {
			t.Fatalf("job %d comes before job %d", i+1, i)
		}
		gaps = append(gaps, float64(gap))
	}
	mean, sd := moments(gaps)
	if math.Abs(mean-10_000) > 300 || math.Abs(sd-10_000) > 400 {
		t.Errorf("gaps of %.0f +- %.0f ms, want 10000 of both as in a Poisson process", mean, sd)
	}
	for _, gap := range []int64{0, -1, trace.MaxTime, trace.MaxTime + 1} {
		if err := Arrive(tr, gap, 9); err == nil {
			t.Errorf("a gap of %d ms is accepted for %d jobs", gap, len(tr.Jobs))
		}
	}
}

// TestGapFor brings the given load.
func TestGapFor(t *testing.T) {
	capacity := model.Vector{Cores: 100, Memory: 1000 * jobspec.GiB, GPUs: 10 * gpu}
	jobs := []trace.Job{
		{Workers: 1, Work: 1000, Request: model.Vector{Cores: 10, Memory: jobspec.GiB, GPUs: 5 * gpu}},
		{Workers: 2, Work: 3000, Request: model.Vector{Cores: 10, Memory: jobspec.GiB}},
	}
	// Cores are scarcest: (10*1000 + 20*3000)/100 = 700 ms of the whole cluster for two jobs.
	for load, want := range map[int64]int64{1000: 350, 500: 700, 2000: 175} {
		if got, err := GapFor(jobs, capacity, load); err != nil || got != want {
			t.Errorf("load %d: gap %d, %v; want %d", load, got, err, want)
		}
	}
	if _, err := GapFor(jobs, model.Vector{Cores: 1, Memory: 1}, 1000); err == nil {
		t.Error("jobs with GPUs have a load on a cluster without")
	}
	if _, err := GapFor(jobs, capacity, 0); err == nil {
		t.Error("a load of nothing is accepted")
	}
}

func TestLoad(t *testing.T) {
	capacity := model.Vector{Cores: 100, Memory: 1000, GPUs: 10 * gpu}
	if got := Load(model.Vector{Cores: 50, Memory: 2000, GPUs: 5 * gpu}, capacity); got != 2000 {
		t.Errorf("load %d, want 2000 by memory", got)
	}
	if got := Load(model.Vector{Cores: 50, GPUs: 5}, model.Vector{Cores: 100}); got != 500 {
		t.Errorf("load %d, want 500: there are no GPUs to load", got)
	}
}

// TestSource hands out the given number of jobs, without submit times.
func TestSource(t *testing.T) {
	g, err := ParseGenerator("fitgpp:jobs=3")
	if err != nil {
		t.Fatal(err)
	}
	s, err := g.Source(1)
	if err != nil {
		t.Fatal(err)
	}
	taken := Take("x", s)
	if _, more := s.Next(); more || len(taken.Jobs) != 3 || taken.Jobs[2].ID != "2" || taken.Jobs[2].Submit != 0 {
		t.Errorf("%d jobs, the last %+v", len(taken.Jobs), taken.Jobs[len(taken.Jobs)-1])
	}
	for _, text := range []string{"poisson", "kubeflow"} {
		g, err := ParseGenerator(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Source(1); err == nil {
			t.Errorf("%s can feed a closed loop", text)
		}
	}
}

func TestCountsRefused(t *testing.T) {
	m, mix := PaperModel(), DefaultMix()
	for _, count := range []int{0, -1, trace.MaxJobs + 1} {
		if _, err := m.Source(1, count); err == nil {
			t.Errorf("%d jobs: no error", count)
		}
		if _, err := mix.Generate(1, count); err == nil {
			t.Errorf("mix of %d jobs: no error", count)
		}
	}
}

// TestMix draws each kind by its weight, and users by their rank.
func TestMix(t *testing.T) {
	tr := generate(t, "poisson:jobs=20000", 11)
	kinds, users, elastic := map[string]int{}, map[string]int{}, 0
	for i := range tr.Jobs {
		kinds[tr.Jobs[i].Account]++
		users[tr.Jobs[i].User]++
		if tr.Jobs[i].Elastic() {
			elastic++
		}
	}
	for kind, want := range map[string]int{"trial": 8000, "train": 9000, "wide": 1000, "elastic": 2000} {
		if got := kinds[kind]; math.Abs(float64(got-want)) > 5*math.Sqrt(float64(want)) {
			t.Errorf("%d jobs of kind %s, want about %d", got, kind, want)
		}
	}
	if elastic != kinds["elastic"] {
		t.Errorf("%d elastic jobs, %d of their kind", elastic, kinds["elastic"])
	}
	if first, tenth := users["train-1"], users["train-10"]; first < 7*tenth || first > 14*tenth {
		t.Errorf("the first user has %d jobs, the tenth %d: want ten times as many", first, tenth)
	}
}

func TestKubeflow(t *testing.T) {
	for e, want := range []string{"1c 2GiB 1..8", "2c 6GiB 1..4", "4c 12GiB 1..3"} {
		tr, err := Kubeflow(e + 1)
		if err != nil {
			t.Fatal(err)
		}
		for i := range tr.Jobs {
			j := &tr.Jobs[i]
			if got := fmt.Sprintf("%dc %v %d..%d", j.Request.Cores, j.Request.Memory, j.MinWorkers, j.MaxWorkers); got != want {
				t.Errorf("experiment %d, job %d: %s, want %s", e+1, i, got, want)
			}
			if err := j.Check(); err != nil || j.Submit != int64(i)*30_000 ||
				j.Rate(trace.Layout{PerNode: []int{1}}) != trace.FullRate {
				t.Errorf("experiment %d, job %d: %v, at %d", e+1, i, err, j.Submit)
			}
			if high := j.Priority > trace.MidPriority; high != (e == 2 && i == 1) {
				t.Errorf("experiment %d, job %d has priority %d", e+1, i, j.Priority)
			}
		}
	}
	if _, err := Kubeflow(4); err == nil {
		t.Error("there is a fourth experiment")
	}
	if nodes, err := trace.ParseNodes(KubeflowNodes); err != nil || len(nodes) != 3 {
		t.Errorf("%d nodes, %v", len(nodes), err)
	}
}

func TestParseGeneratorRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "gandiva, gandiva-a, gandiva-b, six, search, kubeflow",
		"slurm":                     `unknown generator "slurm"`,
		"fitgpp:color=1":            "the keys are jobs, load, gap, te, users, grace",
		"fitgpp:jobs=0":             "jobs is zero",
		"fitgpp:jobs=5,jobs=6":      "jobs is given twice",
		"fitgpp:jobs":               "jobs is empty",
		"fitgpp:load=0":             "load 0 is zero",
		"fitgpp:load=-1":            "load -1 is negative",
		"fitgpp:load=1,gap=1m":      "give one",
		"fitgpp:gap=10":             "gap",
		"fitgpp:gap=0s":             "gap 0s is zero",
		"fitgpp:":                   `unknown key "": the keys are jobs`,
		"fitgpp:te=0.3":             "te is a percentage, such as 30%, and not 0.3",
		"fitgpp:te=101%":            "te 101 is more than 100",
		"fitgpp:users=0":            "users is zero",
		"poisson:te=5%":             `unknown key "te"`,
		"search:jobs=4":             "the keys are configs, behind, keep, at_step, noise, gpus",
		"search:configs=0":          "configs is zero",
		"search:gpus=6":             "gpus 6 is not a multiple of 4",
		"search:noise=2":            "noise 2 is more than 1",
		"search:at_step=0":          "at_step is zero",
		"search:at_step=90":         "at_step sets early stopping, which needs keep",
		"search:noise=0.1,keep=0":   "noise sets early stopping, which needs keep",
		"kubeflow:experiment=4":     "4 is more than 3",
		"fitgpp:jobs=9999999999999": "more than",
	} {
		if _, err := ParseGenerator(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
	g, err := ParseGenerator("fitgpp:jobs=2,grace=1000")
	if err == nil {
		t.Errorf("a factor of 1000 on grace periods is accepted: %v", g)
	}
}

// TestStreamsApart checks that close seeds, purposes and jobs do not give equal numbers.
func TestStreamsApart(t *testing.T) {
	seen := map[uint64]string{}
	base := rand.Uint64()
	for seed := base; seed != base+20; seed++ {
		for stream := streamJob; stream <= streamRedraw; stream++ {
			for index := range uint64(50) {
				at := fmt.Sprintf("seed %d stream %d job %d", seed, stream, index)
				x := source(seed, stream, index).Uint64()
				if other, twice := seen[x]; twice {
					t.Fatalf("%s draws the same as %s", at, other)
				}
				seen[x] = at
			}
		}
	}
}

func TestDemandOfServers(t *testing.T) {
	k, err := Kubeflow(2)
	if err != nil {
		t.Fatal(err)
	}
	d := k.Jobs[0].Demand(3)
	if d.Cores != 7 || d.Memory != 20*jobspec.GiB || d.GPUs != 0 {
		t.Errorf("three workers and a server need %+v", d)
	}
}
