package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sim"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/jobspec"
)

// maxSeeds bounds --seeds: each is a run of its own.
const maxSeeds = 1000

// readSimulation reads the command line of sim.
func (w *world) readSimulation(c *cli.Context) (*simulation, error) {
	s := &simulation{world: w, traces: slices.Concat(c.StringSlice("trace"), c.StringSlice("from-history"), c.Args().Slice()), plot: c.String("plot"), speeds: c.String("profiles")}
	if len(s.traces) == 0 {
		return nil, usagef("which workload? rota sim --trace FILE, or --trace gen:fitgpp:jobs=8192")
	}
	s.setup.Check = c.Bool("check")
	if c.Bool("progress") {
		s.setup.Progress = func(sim.Progress) {}
	}
	for _, read := range []func(*cli.Context) error{
		s.readFormat, s.readNodes, s.readPolicies, s.readSeeds, s.readLoop, s.readTimes, s.readDeserved, s.readShaping, s.readInflate, s.readArrivals, s.readPlot,
	} {
		if err := read(c); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *simulation) readFormat(c *cli.Context) error {
	text := c.String("format")
	if text != "" && !slices.Contains(trace.Formats, trace.Format(text)) {
		return usagef("--format %q is not known: %s", text, formatNames())
	}
	if generated := !slices.ContainsFunc(s.traces, func(name string) bool { return !strings.HasPrefix(name, trace.GeneratorPrefix) }); generated {
		for _, flag := range []string{"format", "profiles"} {
			if c.IsSet(flag) {
				return usagef("--%s says how a file is to be read: generated workloads have none", flag)
			}
		}
	}
	s.options.Format = trace.Format(text)
	return nil
}

// readNodes reads --nodes: a description, or the name of a file.
func (s *simulation) readNodes(c *cli.Context) error {
	text := c.String("nodes")
	if text == "" {
		return usagef("on which cluster? --nodes 84x32c/256g/8gpu, or a file")
	}
	f, err := os.Open(text)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if s.setup.Nodes, err = trace.ParseNodes(text); err != nil && strings.Trim(text[:1], "0123456789") != "" {
			err = errors.New("there is no such file") // a description begins with a number
		}
	case err == nil:
		defer closeQuietly(f)
		s.setup.Nodes, err = trace.ReadNodes(f)
	}
	if err != nil {
		return &usageError{text: fmt.Sprintf("--nodes %s: %v", text, err), hint: "groups such as 84x32c/256g/8gpu with commas, or a file of nodes"}
	}
	for i := range s.setup.Nodes {
		s.options.NodeGPUs = max(s.options.NodeGPUs, len(s.setup.Nodes[i].GPUs))
	}
	return nil
}

func (s *simulation) readPolicies(c *cli.Context) error {
	var others []string
	if c.IsSet("compare") {
		others = splitPolicies(c.String("compare"))
	}
	if slices.Contains(others, "") {
		return usagef("--compare %q names no policy between two commas, or none at all", c.String("compare"))
	}
	for _, text := range append([]string{c.String("policy")}, others...) {
		p, err := sim.ParsePolicy(text)
		if err != nil {
			return &usageError{text: err.Error()}
		}
		s.policies = append(s.policies, p)
	}
	return nil
}

// splitPolicies splits a list of policies at its commas, but for those between the parameters of one.
func splitPolicies(text string) []string {
	var list []string
	for part := range strings.SplitSeq(text, ",") {
		switch part = strings.TrimSpace(part); {
		case len(list) > 0 && strings.Contains(part, "=") && !strings.Contains(part, ":"):
			list[len(list)-1] += "," + part
		default:
			list = append(list, part)
		}
	}
	return list
}

// readSeeds reads --seed and --seeds.
func (s *simulation) readSeeds(c *cli.Context) error {
	text := c.String("seeds")
	if text == "" {
		n, err := strconv.ParseUint(c.String("seed"), 10, 64)
		if err != nil {
			return usagef("--seed %s is not a whole number", c.String("seed"))
		}
		s.seeds = []uint64{n}
		return nil
	}
	if c.IsSet("seed") {
		return usagef("give --seed or --seeds, not both")
	}
	first, last, ok := strings.Cut(text, "..")
	a, err := strconv.ParseUint(first, 10, 32)
	b, errB := strconv.ParseUint(last, 10, 32)
	if !ok || err != nil || errB != nil || b < a || b-a >= maxSeeds {
		return usagef("--seeds %s: write 1..8, at most %d of them", text, maxSeeds)
	}
	for n := a; n <= b; n++ {
		s.seeds = append(s.seeds, n)
	}
	s.several = true
	return nil
}

// readLoop reads --closed-loop LOAD@POLICY.
func (s *simulation) readLoop(c *cli.Context) error {
	text := c.String("closed-loop")
	if text == "" {
		return nil
	}
	load, policy, ok := strings.Cut(text, "@")
	if !ok {
		return usagef("--closed-loop %s: write LOAD@POLICY, such as 2.0@fifo", text)
	}
	thousandths, err := factor("--closed-loop", load, 100)
	if err != nil {
		return err
	}
	p, err := sim.ParsePolicy(policy)
	if err != nil {
		return &usageError{text: "--closed-loop: " + err.Error()}
	}
	s.loop = &closedLoop{thousandths, p}
	return nil
}

// factor reads a positive number as thousandths.
func factor(flag, text string, most float64) (int64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f >= 0.001 && f <= most) {
		return 0, usagef("%s %s is not a number from 0.001 to %s", flag, text, strconv.FormatFloat(most, 'f', -1, 64))
	}
	return int64(f*1000 + 0.5), nil
}

// milliseconds reads a duration flag; 0 if it is not given.
func milliseconds(c *cli.Context, flag string) (int64, error) {
	text := c.String(flag)
	if text == "" {
		return 0, nil
	}
	d, err := jobspec.ParseSeconds(text)
	if err != nil {
		return 0, usagef("--%s %v", flag, err)
	}
	if d < 0 || d > jobspec.MaxDuration {
		return 0, usagef("--%s %s is out of bounds: up to 3650d", flag, text)
	}
	return int64(d) * 1000, nil
}

func (s *simulation) readTimes(c *cli.Context) error {
	for _, f := range []struct {
		flag  string
		field *int64
	}{{"tick", &s.setup.Tick}, {"overhead", &s.setup.Overhead}, {"bound", &s.setup.Bound}, {"until", &s.setup.Until}} {
		ms, err := milliseconds(c, f.flag)
		if err != nil {
			return err
		}
		if ms == 0 && c.IsSet(f.flag) && f.flag != "overhead" {
			return usagef("--%s is zero", f.flag)
		}
		*f.field = ms
	}
	return nil
}

// readDeserved reads --deserved.
func (s *simulation) readDeserved(c *cli.Context) error {
	name := c.String("deserved")
	switch name {
	case "":
		return nil
	case "equal":
		s.setup.Deserved.Equal = true
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		return &usageError{text: "--deserved: " + err.Error()}
	}
	defer closeQuietly(f)
	s.setup.Deserved.GPUs = map[string]int64{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		account, gpus, ok := strings.Cut(line, ",")
		thousandths, err := factor("the number of GPUs", strings.TrimSpace(gpus), cluster.MaxNodes*cluster.MaxGPUsPerNode)
		account = strings.TrimSpace(account)
		_, twice := s.setup.Deserved.GPUs[account]
		switch {
		case !ok || account == "":
			return usagef("%s, line %d: %q is not account,gpus", name, n, line)
		case err != nil:
			return usagef("%s, line %d: %v", name, n, err)
		case twice:
			return usagef("%s, line %d: account %s is there already", name, n, account)
		}
		s.setup.Deserved.GPUs[account] = thousandths
	}
	switch err := lines.Err(); {
	case err != nil:
		return &usageError{text: "--deserved: " + err.Error()}
	case len(s.setup.Deserved.GPUs) == 0:
		return usagef("--deserved %s has no line of account,gpus", name)
	}
	return nil
}

// checkDeserved refuses shares of accounts that none of the workloads has: nobody would get them.
func (s *simulation) checkDeserved(workloads []*trace.Trace) error {
	known := map[string]bool{}
	for _, t := range workloads {
		for i := range t.Jobs {
			known[t.Jobs[i].Account] = true
		}
	}
	for _, account := range slices.Sorted(maps.Keys(s.setup.Deserved.GPUs)) {
		if known[account] {
			continue
		}
		names := slices.Sorted(maps.Keys(known))
		text := strings.Join(names[:min(len(names), accountsShown)], ", ")
		if len(names) > accountsShown {
			text += fmt.Sprintf(" and %d more", len(names)-accountsShown)
		}
		return usagef("--deserved: no job is of account %s; there are %s", account, text)
	}
	return nil
}

// accountsShown is how many accounts of a workload are named.
const accountsShown = 12

// shaping is how a workload is changed before it is replayed.
type shaping struct {
	teBelow       int64
	missed, extra int64 // thousandths
	noisy         bool
	graceMean     int64
	graceMost     int64
	grace         bool
	saves         []trace.MixPart
	estimates     int64 // thousandths; 0: none
}

// apply changes a workload. Drawn numbers depend on the seed and the job alone.
func (h *shaping) apply(t *trace.Trace, seed uint64) error {
	if h.teBelow > 0 {
		if err := trace.LabelTE(t, h.teBelow); err != nil {
			return err
		}
	}
	if h.noisy {
		if err := trace.NoiseTE(t, h.missed, h.extra, seed); err != nil {
			return err
		}
	}
	if h.grace {
		if err := trace.DrawGrace(t, h.graceMean, h.graceMost, seed); err != nil {
			return err
		}
	}
	if h.saves != nil {
		trace.DrawSaves(t, h.saves, seed)
	}
	if h.estimates > 0 {
		return trace.DrawEstimates(t, h.estimates, seed)
	}
	return nil
}

func (s *simulation) readShaping(c *cli.Context) (err error) {
	h := &s.shape
	if h.teBelow, err = milliseconds(c, "te-below"); err != nil {
		return err
	}
	if h.teBelow == 0 && c.IsSet("te-below") {
		return usagef("--te-below is zero: no job is shorter")
	}
	if text := c.String("te-noise"); text != "" {
		missed, extra, _ := strings.Cut(text, ",")
		var errs [2]error
		h.missed, errs[0] = percent(missed)
		h.extra, errs[1] = percent(extra)
		if errors.Join(errs[:]...) != nil {
			return usagef("--te-noise %s: write MISSED,FALSE in percent, such as 30%%,10%%", text)
		}
		h.noisy = true
	}
	if err := h.readGrace(c.String("grace")); err != nil {
		return err
	}
	if text := c.String("checkpoint"); text != "" {
		if h.saves, err = trace.ParseSaves(text); err != nil {
			return &usageError{text: "--checkpoint: " + err.Error()}
		}
	}
	if text := c.String("estimates"); text != "" {
		if h.estimates, err = factor("--estimates", text, 1000); err != nil {
			return err
		}
		if h.estimates < 1000 {
			return usagef("--estimates %s: from 1, which is exact", text)
		}
		if !s.uses("easy") {
			return usagef("--estimates is what policy easy is told, and none of the policies here is easy")
		}
	}
	return nil
}

// uses reports whether a policy is simulated or makes the arrivals.
func (s *simulation) uses(policy string) bool {
	return s.loop != nil && s.loop.policy.Name == policy || slices.ContainsFunc(s.policies, func(p sim.Policy) bool { return p.Name == policy })
}

func (h *shaping) readGrace(text string) error {
	if text == "" {
		return nil
	}
	mean, most, ok := strings.Cut(text, ":")
	a, err := jobspec.ParseSeconds(mean)
	b, errB := jobspec.ParseSeconds(most)
	if !ok || err != nil || errB != nil || a < 0 || b < a {
		return usagef("--grace %s: write MEAN:MAX, such as 3m:20m", text)
	}
	h.grace, h.graceMean, h.graceMost = true, int64(a)*1000, int64(b)*1000
	return nil
}

// percent reads 30% as thousandths.
func percent(text string) (int64, error) {
	digits, ok := strings.CutSuffix(strings.TrimSpace(text), "%")
	f, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || !(f >= 0 && f <= 100) {
		return 0, usagef("%q is not a percentage", text)
	}
	return int64(f*10 + 0.5), nil
}

func (s *simulation) readInflate(c *cli.Context) (err error) {
	text := c.String("inflate")
	if text == "" {
		return nil
	}
	if s.loop != nil || s.setup.Until > 0 {
		return usagef("--inflate ends when the cluster is full: it goes with neither --closed-loop nor --until")
	}
	s.inflate, err = factor("--inflate", text, 100)
	return err
}

// readArrivals reads --redraw and --rate.
func (s *simulation) readArrivals(c *cli.Context) (err error) {
	s.redraw = c.Bool("redraw")
	text := c.String("rate")
	switch {
	case s.inflate > 0 && (s.redraw || text != ""):
		return usagef("--inflate draws jobs and lets them arrive a second apart: it goes with neither --redraw nor --rate")
	case s.redraw && slices.ContainsFunc(s.traces, func(name string) bool { return strings.HasPrefix(name, trace.GeneratorPrefix) }):
		return usagef("--redraw draws from the jobs of a file: a generated workload is drawn from its seed already")
	case text == "":
		return nil
	}
	digits, ok := strings.CutSuffix(text, "%")
	f, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || !(f >= 0.1 && f <= 10_000) {
		return usagef("--rate %s: write a percentage such as 95%%, up to 10000%%", text)
	}
	s.rate = int64(f*10 + 0.5)
	return nil
}

func (s *simulation) readPlot(*cli.Context) error {
	if s.plot == "" {
		return nil
	}
	if !strings.HasSuffix(s.plot, ".svg") {
		return usagef("--plot %s: only SVG is drawn; give it a name that ends in .svg", s.plot)
	}
	// What could keep it from being drawn is told now rather than after hours of replaying.
	dir := filepath.Dir(s.plot)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return usagef("--plot %s: there is no directory %s", s.plot, dir)
	}
	if info, err := os.Stat(s.plot); err == nil && info.IsDir() {
		return usagef("--plot %s is a directory", s.plot)
	}
	s.setup.Spans = true
	_, err := findPlotter()
	return err
}

// profiles reads the measured speeds that belong to a trace: of --profiles, or of the folder profiles beside it. Nil if there are none.
func (s *simulation) profiles(name string) (*trace.Profiles, error) {
	dir := s.speeds
	if dir == "" {
		dir = filepath.Join(filepath.Dir(name), "profiles")
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.csv"))
	if err != nil || len(files) == 0 {
		if s.speeds != "" {
			return nil, usagef("--profiles %s has no APPLICATION/*.csv", dir)
		}
		return nil, nil
	}
	p := &trace.Profiles{}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return nil, &usageError{text: "--profiles: " + err.Error()}
		}
		err = p.Add(filepath.ToSlash(file), f)
		closeQuietly(f)
		if err != nil {
			return nil, &usageError{text: err.Error()}
		}
	}
	return p, nil
}
