package simulate

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/sim"
)

// tinyTrace is three jobs in the form of fitgpp, and a line that makes no sense.
const tinyTrace = `job_id,class,user,submit_min,cpus,ram_gb,gpus,exec_min,grace_min
0,BE,u01,0,8,64,8,10,0
1,TE,u02,1,8,64,8,5,0
2,BE,u01,2,8,64,99,5,0
3,BE,u01,x,8,64,1,5,0
`

func tinyFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "tiny.csv")
	if err := os.WriteFile(name, []byte(tinyTrace), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// simulate runs rota sim and returns what it printed.
func simulate(t *testing.T, args ...string) (code int, out, complaint string) {
	t.Helper()
	return simulateWithin(t, t.Context(), args...)
}

func simulateWithin(t *testing.T, ctx context.Context, args ...string) (code int, out, complaint string) {
	t.Helper()
	var stdout, stderr strings.Builder
	env := command.System()
	env.Stdout, env.Stderr = &stdout, &stderr
	code = command.Run(ctx, append([]string{"rota", "sim"}, args...), env, Commands())
	return code, stdout.String(), stderr.String()
}

func TestSimJSON(t *testing.T) {
	code, out, complaint := simulate(t, "--trace", tinyFile(t), "--nodes", "1x8c/64g/8gpu", "--policy", "fifo",
		"--check", "-o", "json")
	var r sim.Result
	if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil {
		t.Fatalf("exit %d, %v\n%s%s", code, err, out, complaint)
	}
	if r.Schema != 1 || r.Policy != "fifo" || r.Jobs != 2 || r.Classes["te"].JCTS.Max != 14*60 ||
		r.MakespanS != 15*60 || r.SkippedN != 2 {
		t.Errorf("got %s", out)
	}
	for _, want := range []string{"line 4", "line 5"} {
		if !strings.Contains(complaint, want) {
			t.Errorf("%q does not name %s", complaint, want)
		}
	}
}

// TestSimShapes checks which runs there are, and in which order: by trace, seed, policy.
func TestSimShapes(t *testing.T) {
	file := tinyFile(t)
	code, out, _ := simulate(t, file, file, "--nodes", "1x8c/64g/8gpu", "--policy", "fifo", "--compare",
		"rota:max_bypass=1,reserve_hold=1h,backfill", "-o", "json")
	var list []sim.Result
	if err := json.Unmarshal([]byte(out), &list); code != 0 || err != nil {
		t.Fatalf("exit %d, %v", code, err)
	}
	var got []string
	for _, r := range list {
		got = append(got, fmt.Sprintf("%s%v", r.Policy, r.Params))
	}
	want := []string{"fifomap[]", "rotamap[max_bypass:1 reserve_hold:1h]", "backfillmap[]"}
	if want = append(want, want...); !slices.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestSimSeeds(t *testing.T) {
	args := []string{"--trace", "gen:fitgpp:jobs=200,load=1.2", "--nodes", "4x32c/256g/8gpu", "--policy", "fifo",
		"--seeds", "1..3", "-o"}
	code, out, complaint := simulate(t, append(args, "json")...)
	var g struct {
		Seeds          []int
		Mean, Interval map[string]any
		Runs           []sim.Result
	}
	if err := json.Unmarshal([]byte(strings.Replace(out, `"interval95"`, `"interval"`, 1)), &g); code != 0 || err != nil {
		t.Fatalf("exit %d, %v\n%s", code, err, complaint)
	}
	mean, half := sim.Interval([]float64{g.Runs[0].MakespanS, g.Runs[1].MakespanS, g.Runs[2].MakespanS})
	if len(g.Seeds) != 3 || g.Mean["makespan_s"] != mean || g.Interval["makespan_s"] != half || half == 0 {
		t.Errorf("seeds %v, makespan %v ± %v, want %v ± %v", g.Seeds, g.Mean["makespan_s"], g.Interval["makespan_s"], mean,
			half)
	}
	if _, ok := g.Mean["classes"].(map[string]any)["be"].(map[string]any)["slowdown"].(map[string]any)["p95"]; !ok {
		t.Error("no mean of what is deeper")
	}
	code, out, _ = simulate(t, append(args, "table")...)
	if code != 0 || !strings.Contains(out, "±") {
		t.Errorf("exit %d, no interval in\n%s", code, out)
	}
	code, out, _ = simulate(t, append(args, "csv")...)
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if code != 0 || err != nil || len(rows) != 1+3*3+2*3 {
		t.Fatalf("exit %d, %v, %d lines of csv\n%s", code, err, len(rows), out)
	}
	at := slices.Index(rows[0], "makespan_s")
	for _, row := range rows[1:] {
		want := map[string]float64{"mean": mean, "interval95": half}[row[2]]
		if f, err := strconv.ParseFloat(row[at], 64); err != nil || want != 0 && f != want {
			t.Errorf("%v: makespan %s, want %g", row[:4], row[at], want)
		}
	}
}

// TestSimClusterOfWorkload: workloads that say for which nodes they are need no --nodes.
func TestSimClusterOfWorkload(t *testing.T) {
	own := []string{"--trace", "gen:similar:jobs=20,nodes=2,node_gpus=4", "--trace",
		"gen:mixed:jobs=20,nodes=2,node_gpus=4"}
	given := []string{"--trace", "gen:similar:jobs=20,node_gpus=4", "--trace", "gen:mixed:jobs=20,node_gpus=4", "--nodes",
		"2x16c/128g/4gpu"}
	var makespans [2][]float64
	for i, args := range [][]string{own, given} {
		code, out, complaint := simulate(t, append(args, "-o", "json")...)
		var results []sim.Result
		if err := json.Unmarshal([]byte(out), &results); code != 0 || err != nil {
			t.Fatalf("exit %d, %v\n%s", code, err, complaint)
		}
		for _, r := range results {
			makespans[i] = append(makespans[i], r.MakespanS)
		}
	}
	if len(makespans[0]) != 2 || !slices.Equal(makespans[0], makespans[1]) {
		t.Errorf("with nodes of their own the workloads took %v s, with --nodes %v s", makespans[0], makespans[1])
	}
}

// TestSimRefuses names what is wrong with a command line.
func TestSimRefuses(t *testing.T) {
	file := tinyFile(t)
	deserved := filepath.Join(t.TempDir(), "deserved")
	if err := os.WriteFile(deserved, []byte("# shares\na,4\nb,-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	stranger := filepath.Join(t.TempDir(), "stranger")
	if err := os.WriteFile(stranger, []byte("nobody,4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	base := []string{"--trace", file, "--nodes", "1x8c/64g/8gpu"}
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--nodes", "1x8c"}, "no workload given"},
		{[]string{"--trace", file}, "no cluster given"},
		{[]string{"--trace", "gen:fitgpp"}, "no cluster given"},
		{[]string{"--trace", "gen:similar:nodes=4", "--nodes", "8x32c/8gpu"}, "both describe the cluster"},
		{[]string{"--trace", "gen:similar:nodes=4", "--trace", "gen:mixed"}, "meant for different clusters"},
		{[]string{"--trace", "gen:similar", "--trace", file}, "meant for different clusters"},
		{[]string{"--trace", file, "--nodes", "0x8c"}, "nodes, column 1"},
		{[]string{"--trace", file, "--nodes", "4x32c/256q"}, "nodes, column 7"},
		{[]string{"--trace", file + "x", "--nodes", "1x8c"}, "no such file"},
		{[]string{"--trace", "gen:nobody", "--nodes", "1x8c"}, "the generators are fitgpp, poisson, similar, mixed, gandiva"},
		{append(base, "--policy", "nobody"), "the policies are rota, fairshare"},
		{append(base, "--policy", "rota:x=1"), "there are reserve_after"},
		{append(base, "--compare", "fifo,nobody"), `policy "nobody"`},
		{append(base, "--format", "xml"), "fitgpp, philly, swf"},
		{append(base, "--format", "philly"), "num_gpus"},
		{append(base, "--seeds", "8..1"), "--seeds 8..1"},
		{append(base, "--seeds", "1..2", "--seed", "3"), "exclude each other"},
		{append(base, "--seed", "-1"), "--seed -1"},
		{append(base, "--networks", "nowhere.csv"), "--networks: open nowhere.csv"},
		{append(base, "--networks", deserved), "--networks"},
		{append(base, "--tick", "0s"), "--tick must not be zero"},
		{append(base, "--tick", "-1m"), "--tick"},
		{append(base, "--until", "99999999d"), "--until"},
		{append(base, "--closed-loop", "2.0"), "LOAD@POLICY"},
		{append(base, "--closed-loop", "-2@fifo"), "--closed-loop -2"},
		{append(base, "--closed-loop", "2@nobody"), `--closed-loop: policy "nobody"`},
		{append(base, "--te-noise", "30%"), "--te-noise 30%"},
		{append(base, "--te-noise", "130%,1%"), "--te-noise"},
		{append(base, "--grace", "20m:3m"), "MEAN:MAX"},
		{append(base, "--checkpoint", "none:30%"), "add up to 30 %"},
		{append(base, "--estimates", "0.5"), "from 1 to 1000"},
		{append(base, "--estimates", "3"), "but neither --policy nor --compare names it"},
		{append(base, "--te-below", "0s"), "--te-below must not be zero"},
		{append(base, "--policy", "lrtp:s=4"), "there are p ("},
		{[]string{"--trace", "gen:fitgpp", "--format", "swf", "--nodes", "1x8c"}, "no --trace names a file"},
		{[]string{"--trace", "gen:fitgpp", "--profiles", ".", "--nodes", "1x8c"}, "generated workloads have no profiles"},
		{[]string{"--trace", "gen:fitgpp", "--nodes", "1x8c"}, "need GPUs, but the cluster has none"},
		{append(base, "--inflate", "0"), "--inflate 0"},
		{append(base, "--inflate", "NaN"), "--inflate NaN"},
		{append(base, "--inflate", "1.3", "--until", "1d"), "cannot be combined"},
		{append(base, "--inflate", "1.3", "--rate", "95%"), "cannot be combined"},
		{append(base, "--inflate", "1.3", "--redraw"), "cannot be combined"},
		{append(base, "--rate", "95"), "--rate 95"},
		{append(base, "--rate", "0%"), "--rate 0%"},
		{append(base, "--rate", "-5%"), "--rate -5%"},
		{append(base, "--rate", "NaN%"), "--rate NaN%"},
		{[]string{"--trace", "gen:fitgpp", "--redraw", "--nodes", "1x8c/8gpu"}, "already drawn from the seed"},
		{append(base, "--deserved", deserved), "line 3"},
		{append(base, "--deserved", t.TempDir()), "is a directory"},
		{append(base, "--deserved", os.DevNull), "no line with an account's quota"},
		{append(base, "--deserved", stranger), "unknown account nobody: the accounts of the jobs are "},
		{append(base, "--compare", ","), "has an empty name"},
		{append(base, "--compare", ""), "--compare is empty"},
		{append(base, "--inflate", ""), "--inflate is empty"},
		{[]string{"--trace", file, "--nodes", ""}, "--nodes is empty"},
		{append(base, "--nodes", "2x8c"), "--nodes is given twice"},
		{append(base, "--compare", "easy", "--compare=las"), "--compare is given twice"},
		{append(base, ""), "a trace has an empty name"},
		{append(base, "--compare", "fifo,rota"), "--compare names policy rota twice"},
		{append(base, "--closed-loop", "@fifo"), "LOAD@POLICY"},
		{append(base, "--seed", "99999999999999999999"), "from 0 to 18446744073709551615"},
		{[]string{"--trace", file, "--nodes", "-1x8c"}, "nodes, column 1"},
		{[]string{"--from-history", file, "--nodes", "1x8c"}, "not JSON"},
		{[]string{"--from-history", file, "--nodes", "1x8c", "--format", "fitgpp"}, "--trace"},
		{[]string{"--trace", "gen:fitgpp:load=0.5", "--closed-loop", "2@fifo", "--nodes", "1x32c/8gpu"},
			"leave out load and gap"},
		{append(base, "--compare", "fifo,,las"), `"fifo,,las" has an empty name`},
		{[]string{"--trace", file, "--nodes", "nodes.txt"}, "--nodes nodes.txt: no such file"},
		{[]string{"--trace", os.DevNull, "--nodes", "1x8c"}, "no job in the trace"},
		{append(base, "--plot", filepath.Join(t.TempDir(), "no", "x.svg")), "no directory"},
		{append(base, "--list"), "cannot be combined"},
		{[]string{"--list", "more"}, "cannot be combined"},
		{[]string{"--trace", "gen:seed000:e1,e2", "--nodes", "3x8c/30g"}, "several experiments"},
		{append(base, "--plot", "x.png"), "must end in .svg"},
		{append(base, "--nonsense"), "its options are --addr --bound"},
		{append(base, "-o", "yaml"), "table, json, csv"},
	} {
		code, out, complaint := simulate(t, test.args...)
		if code != exit.Usage || !strings.Contains(complaint, test.want) || out != "" {
			t.Errorf("%s: exit %d, %q, want %q", strings.Join(test.args, " "), code, complaint, test.want)
		}
	}
}

// TestSimReadsOnce replays what comes through a pipe with several seeds: it is read once, and every
// run gets it as it was.
func TestSimReadsOnce(t *testing.T) {
	args := []string{"--nodes", "1x8c/64g/8gpu", "--policy", "fifo", "--te-below", "7m", "--te-noise", "50%,50%",
		"--seeds", "1..8", "-o", "json", "--trace"}
	_, want, complaint := simulate(t, append(args, tinyFile(t))...)
	if strings.Count(complaint, "line 4") != 1 {
		t.Errorf("lines that are left out are not named once: %s", complaint)
	}
	var stdout, stderr strings.Builder
	env := command.System()
	env.Stdin, env.Stdout, env.Stderr = iotest.OneByteReader(strings.NewReader(tinyTrace)), &stdout, &stderr
	code := command.Run(t.Context(), append(append([]string{"rota", "sim"}, args...), "-"), env, Commands())
	var groups [2]struct {
		Trace string
		Runs  []sim.Result
	}
	for i, text := range []string{want, stdout.String()} {
		if err := json.Unmarshal([]byte(text), &groups[i]); code != 0 || err != nil {
			t.Fatalf("exit %d, %v\n%s", code, err, stderr.String())
		}
	}
	if groups[1].Trace != "-" || len(groups[1].Runs) != 8 {
		t.Errorf("%d runs of %s", len(groups[1].Runs), groups[1].Trace)
	}
	for i, r := range groups[1].Runs {
		file := groups[0].Runs[i]
		if *r.Classes["te"] != *file.Classes["te"] || *r.Classes["all"] != *file.Classes["all"] {
			t.Errorf("seed %d: from a pipe %+v, from a file %+v", r.Seed, r.Classes["te"], file.Classes["te"])
		}
	}
}

// TestSimKeepsResults prints the results although the plot cannot be written.
func TestSimKeepsResults(t *testing.T) {
	full := filepath.Join(t.TempDir(), "x.svg")
	if err := os.Symlink("/dev/full", full); err != nil {
		t.Fatal(err)
	}
	code, out, complaint := simulate(t, "--trace", tinyFile(t), "--nodes", "1x8c/64g/8gpu", "--plot", full, "-o", "csv")
	if code != exit.Failed || !strings.Contains(out, "rota,") || !strings.Contains(complaint, "x.svg") {
		t.Errorf("exit %d, %q, complaint %q", code, out, complaint)
	}
	if info, err := os.Stat("/dev/full"); err != nil || info.Mode().IsRegular() {
		t.Errorf("the device is gone: %v", err)
	}
}

// TestSimNamesDrawsInVain: an option that changes no job says so.
func TestSimNamesDrawsInVain(t *testing.T) {
	_, _, complaint := simulate(t, "--trace", tinyFile(t), "--nodes", "1x8c/64g/8gpu", "--grace", "3m:20m",
		"--checkpoint", "none", "--overhead", "1m", "--seeds", "1..2")
	if want := "--grace has no effect: every job of the trace already has a grace period"; strings.Count(complaint,
		want) != 1 {
		t.Errorf("%q does not say once: %s", complaint, want)
	}
	for _, option := range []string{"--checkpoint has no effect", "--overhead has no effect"} {
		if strings.Contains(complaint, option) {
			t.Errorf("%s, it says: %s", option, complaint)
		}
	}
}

// TestReadShares names the line of a file of shares that makes no sense.
func TestReadShares(t *testing.T) {
	shares, err := readShares(strings.NewReader("\ufeffa, 4\r\n# comment\n\nb,0.5"))
	if err != nil || len(shares) != 2 || shares["a"] != 4000 || shares["b"] != 500 {
		t.Errorf("%v, %v", shares, err)
	}
	for text, want := range map[string]string{
		"a": "line 1: \"a\" is not account,gpus", "a,": "line 1: \"a,\" is not account,gpus", ",4": "is not account,gpus",
		"a,4\na,5": "line 2: account a is given twice", "a,nan": "line 1: the number of GPUs nan",
		"a,1e99":                               "line 1: the number of GPUs 1e99",
		"a,4\n" + strings.Repeat("x", 100_000): "line 2: longer than", "": "no line with",
	} {
		if _, err := readShares(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", text, err, want)
		}
	}
}

// TestSimTablesOfNothing shows no number where there is nothing that it could be about: here no
// trials, no wide jobs, no shares.
func TestSimTablesOfNothing(t *testing.T) {
	code, out, complaint := simulate(t, "--trace", "gen:fitgpp:jobs=30,te=0%", "--nodes", "4x32c/256g/8gpu", "--policy",
		"fifo", "--seeds", "1..2")
	_, means, _ := strings.Cut(out, "MEANS OF")
	lines := strings.Split(out, "\n")
	cost := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "WIDE_P95_H") })
	if code != 0 || cost < 0 || strings.Contains(out, "TE jobs") {
		t.Fatalf("exit %d, %s\n%s", code, complaint, out)
	}
	titles, cells := strings.Fields(lines[cost]), strings.Fields(lines[cost+1])
	for _, column := range []string{"WIDE_P95_H", "RHO"} {
		if at := slices.Index(titles, column); at < 0 || cells[at] != "-" {
			t.Errorf("column %s is not - in\n%s\n%s", column, lines[cost], lines[cost+1])
		}
	}
	if n := strings.Count(means, " - "); n != 2 {
		t.Errorf("%d of the means, not the 2 of TE, are - in\n%s", n, means)
	}
}

// TestSimClosedLoop closes the loop over a generated workload and over a file, whose own submit
// times then do not count.
func TestSimClosedLoop(t *testing.T) {
	for _, from := range []string{"gen:fitgpp:jobs=300", tinyFile(t)} {
		code, out, complaint := simulate(t, "--trace", from, "--nodes", "2x32c/256g/8gpu", "--closed-loop", "1.0@fifo",
			"--policy", "fifo", "--progress",
			"--te-below", "10m", "-o", "json")
		var r sim.Result
		if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil {
			t.Fatalf("%s: exit %d, %v\n%s", from, code, err, complaint)
		}
		if r.Classes["all"].Count != r.Jobs || r.Classes["all"].Slowdown.P50 > 10 || r.Classes["te"].Count == 0 {
			t.Errorf("%s: %d of %d jobs, slowdown %g, %d te", from, r.Classes["all"].Count, r.Jobs,
				r.Classes["all"].Slowdown.P50, r.Classes["te"].Count)
		}
	}
}

// TestSimArrivals draws another workload with every seed, and lets jobs come more slowly.
func TestSimArrivals(t *testing.T) {
	makespans := func(args ...string) (list []float64) {
		t.Helper()
		code, out, complaint := simulate(t, append([]string{"--trace", tinyFile(t), "--nodes", "8x32c/256g/8gpu",
			"--policy", "fifo", "-o", "json"}, args...)...)
		var g struct{ Runs []sim.Result }
		if err := json.Unmarshal([]byte(out), &g); code != 0 || err != nil {
			t.Fatalf("%v: exit %d, %v\n%s", args, code, err, complaint)
		}
		for _, r := range g.Runs {
			list = append(list, r.MakespanS)
		}
		return list
	}
	as, slow := makespans("--seeds", "1..2"), makespans("--seeds", "1..2", "--rate", "1%")
	if as[0] != as[1] || slow[0] <= as[0] {
		t.Errorf("makespans of %v, and at a hundredth of the rate %v", as, slow)
	}
	if _, _, complaint := simulate(t, "--trace", tinyFile(t), "--nodes", "8x32c/256g/8gpu", "--policy", "fifo",
		"--compare", "rand", "--seeds", "1..3"); !strings.Contains(complaint, "fifo: all seeds gave the same result") {
		t.Errorf("no message that the seed needs random fit: %s", complaint)
	}
	if drawn := makespans("--seeds", "1..8", "--redraw"); slices.Min(drawn) == slices.Max(drawn) {
		t.Errorf("eight seeds, all with a makespan of %g", drawn[0])
	}
}

// TestSimInterrupted prints what was simulated so far.
func TestSimInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code, out, complaint := simulateWithin(t, ctx, "--trace", "gen:fitgpp:jobs=2000", "--nodes", "4x32c/256g/8gpu",
		"--policy", "fifo", "-o", "json")
	var r sim.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if n := r.Classes["all"].Count; code != exit.Interrupted || !r.Stopped || n == 0 || n >= 2000 ||
		!strings.Contains(complaint, "results are incomplete") || !strings.Contains(complaint, `"code":"interrupted"`) {
		t.Errorf("exit %d, stopped %v after %d jobs, %q", code, r.Stopped, n, complaint)
	}
}

// TestSimInterruptedReading ends also while it waits for a pipe without a writer.
func TestSimInterruptedReading(t *testing.T) {
	in, into, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer into.Close() // which ends the reading
	var out, complaint strings.Builder
	env := command.System()
	env.Stdin, env.Stdout, env.Stderr = in, &out, &complaint
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code := command.Run(ctx, []string{"rota", "sim", "--trace", "-", "--nodes", "1x8c/8gpu", "--policy", "fifo"}, env,
		Commands())
	if code != exit.Interrupted || out.Len() > 0 || !strings.Contains(complaint.String(), "nothing was simulated") {
		t.Errorf("exit %d, %q, %q", code, out.String(), complaint.String())
	}
}

// TestSimMeansOfClasses has means over those seeds only that have something to say.
func TestSimMeansOfClasses(t *testing.T) {
	args := []string{"--trace", "gen:fitgpp:jobs=3", "--nodes", "8x32c/256g/8gpu", "--seeds", "1..8", "--policy",
		"fifo", "-o", "json"}
	code, out, complaint := simulate(t, args...)
	var g seedGroup
	if err := json.Unmarshal([]byte(out), &g); code != 0 || err != nil {
		t.Fatalf("exit %d, %v\n%s%s", code, err, out, complaint)
	}
	without := slices.ContainsFunc(g.Runs, func(r *sim.Result) bool { return r.Classes["te"].Count == 0 })
	classes, _ := g.Mean["classes"].(map[string]any)
	te, _ := classes["te"].(map[string]any)
	slowdown, _ := te["slowdown"].(map[string]any)
	if mean, _ := slowdown["p95"].(float64); !without || mean < 1 {
		t.Errorf("a mean slowdown of %g where some seeds have no such job (%v)", mean, without)
	}
}

// TestSimNamesWhatIsLeftOut also where arrivals are made by a loop.
func TestSimNamesWhatIsLeftOut(t *testing.T) {
	for _, more := range [][]string{nil, {"--closed-loop", "1.0@fifo"}} {
		args := append([]string{"--trace", tinyFile(t), "--nodes", "2x32c/32g/8gpu,1x32c/256g/4gpu", "--policy", "fifo",
			"-o", "json"}, more...)
		code, out, _ := simulate(t, args...)
		if code != exit.Usage {
			t.Errorf("%v: exit %d: no job of it fits\n%s", more, code, out)
		}
		args[3] = "2x32c/64g/8gpu"
		code, out, complaint := simulate(t, append(args, "--te-below", "6m")...)
		var r sim.Result
		if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil || r.Jobs != 2 || r.SkippedN != 2 ||
			!strings.Contains(complaint, "line 5") {
			t.Errorf("%v: exit %d, %v, %d jobs, %d lines left out\n%s", more, code, err, r.Jobs, r.SkippedN, complaint)
		}
	}
	code, out, _ := simulate(t, "--trace", "gen:fitgpp:jobs=60", "--nodes", "2x32c/256g/4gpu", "--closed-loop",
		"1.0@fifo", "--policy", "fifo", "-o", "json")
	var r sim.Result
	if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil {
		t.Fatalf("exit %d, %v", code, err)
	}
	if n := len(r.Excluded); n == 0 || r.Jobs != 60 || r.Classes["all"].Count != 60-n ||
		!strings.Contains(r.Excluded[0], "no node has") {
		t.Errorf("%d jobs, %d ended, %d left out: %q", r.Jobs, r.Classes["all"].Count, n, r.Excluded)
	}
}

// TestSimCtrlC interrupts a real process and gets what was simulated so far, whole.
func TestSimCtrlC(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "sim", "--trace", "gen:fitgpp:jobs=400000", "--nodes",
		"84x32c/256g/8gpu",
		"--policy", "fifo", "--compare", "fitgpp", "--progress", "-o", "json")
	cmd.Env = append(os.Environ(), rotatest.AsRota+"=1")
	var out strings.Builder
	cmd.Stdout = &out
	complaint, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(complaint)
	if !lines.Scan() || !strings.Contains(lines.Text(), "of 400000 jobs arrived") {
		t.Errorf("no progress but %q", lines.Text())
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	last := ""
	for lines.Scan() {
		last = lines.Text()
	}
	_ = cmd.Wait()
	var results []sim.Result
	if err := json.Unmarshal([]byte(out.String()), &results); err != nil || len(results) != 2 {
		t.Fatalf("%v: %.200s", err, out.String())
	}
	for _, r := range results {
		if n := r.Classes["all"].Count; !r.Stopped || r.Jobs != 400000 || n >= r.Jobs {
			t.Errorf("%s: interrupted %v after %d of %d jobs", r.Policy, r.Stopped, n, r.Jobs)
		}
	}
	if code := cmd.ProcessState.ExitCode(); code != exit.Interrupted || !strings.Contains(last, "results are incomplete") {
		t.Errorf("exit %d, last words %q", code, last)
	}
}

// TestSimSweeps keeps results apart whose traces or policies differ in a parameter.
func TestSimSweeps(t *testing.T) {
	code, out, complaint := simulate(t, "--trace", "gen:fitgpp:jobs=150,te=10%", "--trace",
		"gen:fitgpp:jobs=150,te=90%", "--nodes", "2x32c/256g/8gpu",
		"--policy", "fitgpp:s=0", "--compare", "fitgpp:s=8", "--seeds", "1..2", "-o", "json")
	var groups []struct {
		Trace  string
		Params map[string]string
		Seeds  []int
		Mean   struct {
			Classes map[string]struct{ Count float64 }
		}
	}
	if err := json.Unmarshal([]byte(out), &groups); code != 0 || err != nil || len(groups) != 4 {
		t.Fatalf("exit %d, %v, %d groups\n%s", code, err, len(groups), complaint)
	}
	for i, g := range groups {
		many := strings.HasSuffix(g.Trace, "te=90%")
		if len(g.Seeds) != 2 || many != (i > 1) || g.Params["s"] != []string{"0", "8"}[i%2] ||
			many != (g.Mean.Classes["te"].Count > 75) {
			t.Errorf("group %d is %+v", i, g)
		}
	}
}

func TestSplitPolicies(t *testing.T) {
	got := splitPolicies("fifo, rota:a=1,b=2,las:min_run=2h,easy")
	if want := []string{"fifo", "rota:a=1,b=2", "las:min_run=2h", "easy"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestSimDecisions pins the format of --decisions: builds of any age are compared by it.
func TestSimDecisions(t *testing.T) {
	name := filepath.Join(t.TempDir(), "decisions")
	code, _, complaint := simulate(t, "--trace", tinyFile(t), "--nodes", "1x8c/64g/8gpu", "--policy", "fitgpp",
		"--compare", "fifo", "--decisions", name)
	got, err := os.ReadFile(name)
	if code != 0 || err != nil {
		t.Fatalf("exit %d, %v: %s", code, err, complaint)
	}
	lines := []string{
		"# tiny.csv, seed 1, policy fitgpp",
		"0 S 1 1 0 n1:0:1:2:3:4:5:6:7",
		"60000 D 1 1 6 n1:0:1:2:3:4:5:6:7",
		"60000 E 1 1 6 n1:0:1:2:3:4:5:6:7",
		"60000 S 2 1 0 n1:0:1:2:3:4:5:6:7",
		"360000 E 2 1 1 n1:0:1:2:3:4:5:6:7",
		"360000 S 1 2 0 n1:0:1:2:3:4:5:6:7",
		"900000 E 1 2 1 n1:0:1:2:3:4:5:6:7",
		"# tiny.csv, seed 1, policy fifo",
		"0 S 1 1 0 n1:0:1:2:3:4:5:6:7",
		"600000 E 1 1 1 n1:0:1:2:3:4:5:6:7",
		"600000 S 2 1 0 n1:0:1:2:3:4:5:6:7",
		"900000 E 2 1 1 n1:0:1:2:3:4:5:6:7",
	}
	if want := strings.Join(lines, "\n") + "\n"; string(got) != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	for _, bad := range []string{filepath.Join(name, "below-a-file"), t.TempDir()} {
		if code, _, complaint := simulate(t, "--trace", tinyFile(t), "--nodes", "1x8c/64g/8gpu", "--decisions",
			bad); code != exit.Usage || !strings.Contains(complaint, bad) {
			t.Errorf("--decisions %s: exit %d: %s", bad, code, complaint)
		}
	}
}
