package synth

import (
	"math"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/jobspec"
)

// drawFamily draws 20,000 jobs unless text says otherwise.
func drawFamily(t *testing.T, text string) *trace.Trace {
	t.Helper()
	if !strings.Contains(text, ":") {
		text += ":jobs=20000"
	} else if !strings.Contains(text, "jobs=") {
		text += ",jobs=20000"
	}
	return generate(t, text, 5)
}

// TestFamilyBringsItsLoad: the GPU time of all jobs is the given part of the cluster's, from the
// first arrival to the last. It holds for any length of the tail, although some jobs have no GPUs.
func TestFamilyBringsItsLoad(t *testing.T) {
	const gpus = 84 * 8
	for text, want := range map[string]float64{
		"similar:load=1.05": 1.05, "similar:load=0.8,jobs=300": 0.8, "mixed:load=1.15,sigma=2.5": 1.15,
		"mixed:load=0.9,cpu=30%,elastic=100%": 0.9,
	} {
		tr := drawFamily(t, text)
		asked := 0.0
		for i := range tr.Jobs {
			j := &tr.Jobs[i]
			rate := j.Rate(trace.Layout{PerNode: []int{j.Workers}})
			alone := float64(j.Work) * float64(trace.FullRate) / float64(rate)
			asked += float64(j.Demand(j.Workers).GPUs) / 1000 * alone
			if i > 0 && j.Submit < tr.Jobs[i-1].Submit {
				t.Fatalf("%s: job %d of the trace arrives before the one ahead of it", text, i)
			}
		}
		window := float64(tr.Jobs[len(tr.Jobs)-1].Submit - tr.Jobs[0].Submit)
		if got := asked / window / gpus; math.Abs(got-want) > 0.02*want {
			t.Errorf("%s: a load of %.3f, want %.3f", text, got, want)
		}
	}
}

// TestFamilyLengths: run times have the mean and the spread that were asked for.
func TestFamilyLengths(t *testing.T) {
	for text, want := range map[string]struct{ mean, sigma float64 }{
		"similar": {12 * 60, 0.15}, "similar:mean=1h,sigma=0": {60, 0}, "mixed:mean=8h,sigma=1,te=0%,elastic=0%": {480, 1},
	} {
		tr := drawFamily(t, text)
		var minutes, logs []float64
		for i := range tr.Jobs {
			m := float64(tr.Jobs[i].Work) / float64(minute)
			minutes, logs = append(minutes, m), append(logs, math.Log(m))
		}
		mean, _ := moments(minutes)
		_, sigma := moments(logs)
		if math.Abs(mean-want.mean) > 0.04*want.mean || math.Abs(sigma-want.sigma) > 0.02 {
			t.Errorf("%s: %.1f minutes with a sigma of %.3f, want %+v", text, mean, sigma, want)
		}
	}
}

// TestFamilyShares: each kind of job has its share, and differs from the others as it should.
func TestFamilyShares(t *testing.T) {
	tr := drawFamily(t, "mixed:te=20%,cpu=10%,elastic=50%,saves=60%,gpus=4/0/0/0/1")
	te, bare, elastic, saves, gangs := 0, 0, 0, 0, 0
	for i := range tr.Jobs {
		j := &tr.Jobs[i]
		if j.Account != "default" {
			t.Fatalf("job %s is in account %s", j.ID, j.Account)
		}
		if j.Saves == trace.SavesSignal {
			saves++
		}
		if j.Class == jobspec.TE {
			te++
			if j.Elastic() || j.Demand(j.Workers).GPUs > trialMost*gpu {
				t.Fatalf("a trial-and-error job is elastic or large: %s", dumpJob(j))
			}
		}
		switch {
		case j.Request.GPUs == 0:
			bare++
		case j.Elastic():
			elastic++
			if j.MaxWorkers != 2*j.Workers || j.Request.GPUs != gpu {
				t.Fatalf("an elastic job: %s", dumpJob(j))
			}
		case j.Demand(j.Workers).GPUs == 16*gpu:
			gangs++
			if j.Workers != 2 {
				t.Fatalf("a job of two nodes has %d workers", j.Workers)
			}
		}
	}
	n := len(tr.Jobs)
	near(t, "trial-and-error", te, n*20/100)
	near(t, "without GPUs", bare, n*10/100)
	near(t, "elastic", elastic, n*80/100*90/100*50/100)
	near(t, "that save", saves, n*60/100)
	near(t, "gangs", gangs, n*80/100*90/100*50/100/5)

	similar := drawFamily(t, "similar:jobs=500")
	for i := range similar.Jobs {
		if j := &similar.Jobs[i]; j.Class != jobspec.BE || j.Elastic() || j.Request.GPUs == 0 ||
			j.Saves != "" {
			t.Fatalf("not a rigid best-effort job: %s", dumpJob(j))
		}
	}
}

// TestFamilyUsers: they differ in how much they ask for.
func TestFamilyUsers(t *testing.T) {
	count := map[string]int{}
	for _, j := range drawFamily(t, "similar:users=6").Jobs {
		count[j.User]++
	}
	if len(count) != 6 {
		t.Fatalf("%d users, want 6: %v", len(count), count)
	}
	near(t, "of the first user", count["u01"], 8163) // 1 of 2.45
	near(t, "of the last", count["u06"], 8163/6)
}

// TestFamilyAccounts: users belong to accounts in turn, which changes nothing else.
func TestFamilyAccounts(t *testing.T) {
	one, three := generate(t, "mixed:jobs=500,users=7", 1), generate(t, "mixed:jobs=500,users=7,accounts=3", 1)
	accounts := map[string]string{}
	for i := range three.Jobs {
		accounts[three.Jobs[i].User] = three.Jobs[i].Account
		three.Jobs[i].Account = "default"
	}
	for user, want := range map[string]string{"u01": "a01", "u02": "a02", "u03": "a03", "u04": "a01", "u07": "a01"} {
		if accounts[user] != want {
			t.Errorf("user %s is in account %s, want %s", user, accounts[user], want)
		}
	}
	if three.Name = one.Name; digest(one) != digest(three) {
		t.Error("more accounts are another workload")
	}
}

// TestFamilyCluster: a workload says for which nodes it is, and its gangs fill these nodes.
func TestFamilyCluster(t *testing.T) {
	g, err := ParseGenerator("similar:jobs=200,nodes=12,node_gpus=4,gpus=0/0/0/1/1")
	if err != nil {
		t.Fatal(err)
	}
	spec, given := g.Cluster()
	if spec != "12x16c/128g/4gpu" || !given {
		t.Fatalf("for %s, given %v", spec, given)
	}
	nodes, err := trace.ParseNodes(spec)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := g.Trace(1, trace.Capacity(nodes))
	if err != nil {
		t.Fatal(err)
	}
	for i := range tr.Jobs {
		if j := &tr.Jobs[i]; j.Request.GPUs != 4*gpu || j.Workers != 2 && j.Workers != 4 {
			t.Fatalf("not a gang of two or four whole nodes: %s", dumpJob(j))
		}
	}
	for text, want := range map[string]string{"similar": "8x32c/256g/8gpu", "mixed": "8x32c/256g/8gpu", "fitgpp": ""} {
		if g, err = ParseGenerator(text); err != nil {
			t.Fatal(err)
		}
		if spec, given = g.Cluster(); spec != want || given {
			t.Errorf("%s: for %q, given %v, want %q", text, spec, given, want)
		}
	}
}

// TestFamilySeeds: a seed says everything, and one parameter changes nothing else.
func TestFamilySeeds(t *testing.T) {
	for _, text := range []string{"similar:jobs=300", "mixed:jobs=300"} {
		one, again, other := generate(t, text, 1), generate(t, text, 1), generate(t, text, 2)
		if digest(one) != digest(again) || digest(one) == digest(other) {
			t.Errorf("%s: the seed does not say what is drawn", text)
		}
	}
	byID := func(text string) map[string]trace.Job {
		all := map[string]trace.Job{}
		for _, j := range generate(t, text, 1).Jobs {
			all[j.ID] = j
		}
		return all
	}
	loaded := byID("similar:jobs=300,load=2,users=40")
	for id, j := range byID("similar:jobs=300") {
		if o := loaded[id]; o.Work != j.Work || o.Request != j.Request || o.Workers != j.Workers {
			t.Errorf("job %s is another with more users and a higher load", id)
		}
	}
}

// TestFamilyRefuses names the parameter and the range.
func TestFamilyRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"similar:users=0":         `generator similar: users is a whole number from 1 to 1000, and not "0"`,
		"mixed:nodes=0":           "nodes is a whole number from 1 to",
		"mixed:node_gpus=6":       `node_gpus is 1, 2, 4, 8 or 16, and not "6"`,
		"mixed:accounts=0":        "accounts is a whole number from 1 to 1000",
		"mixed:users=1001":        "users is a whole number from 1 to 1000",
		"mixed:jobs=0":            "jobs is a whole number from 1 to",
		"mixed:mean=12":           "mean is a duration from 1m to 30d",
		"mixed:mean=59s":          "mean is a duration from 1m to 30d",
		"mixed:mean=31d":          "mean is a duration from 1m to 30d",
		"similar:sigma=-1":        `sigma is a number from 0 to 4, and not "-1"`,
		"similar:sigma=4.1":       "sigma is a number from 0 to 4",
		"similar:load=0":          "load is a number from 0.01 to 100",
		"similar:load=":           "load is a number from 0.01 to 100",
		"similar:gap=1m":          `unknown key "gap": the keys are jobs, nodes, node_gpus, users, accounts, mean`,
		"mixed:gpus=1/2/3":        "gpus is 5 whole numbers from 0 to 1000000",
		"mixed:gpus=0/0/0/0/0":    "not all zero",
		"mixed:gpus=1/1/1/1/-1":   "gpus is 5 whole numbers",
		"mixed:te=0.2":            "te is a percentage from 0% to 100%",
		"mixed:cpu=101%":          "cpu is a percentage from 0% to 100%",
		"mixed:elastic=-1%":       "elastic is a percentage",
		"mixed:saves=all":         "saves is a percentage",
		"mixed:users=2,users=3":   "users is given twice",
		"similar:load=1,color=no": `unknown key "color"`,
	} {
		if _, err := ParseGenerator(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
	g, err := ParseGenerator("mixed:load=0.01,mean=30d,jobs=100000")
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := trace.ParseNodes("1x32c/256g/8gpu")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Trace(1, trace.Capacity(nodes)); err == nil || !strings.Contains(err.Error(), "more than ten years") {
		t.Errorf("arrivals over centuries: %v", err)
	}
}
