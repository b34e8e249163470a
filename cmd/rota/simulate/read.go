package simulate

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/controld/sim"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/jobspec"
)

// maxSeeds bounds --seeds: each is a run of its own.
const maxSeeds = 1000

// readSimulation reads the command line of sim.
func readSimulation(env *command.Env, c *cli.Context) (*simulation, error) {
	s := &simulation{env: env, histories: c.StringSlice("from-history"), plot: c.String("plot"), speeds: c.String("profiles")}
	s.traces = slices.Concat(c.StringSlice("trace"), s.histories, c.Args().Slice())
	if err := refuseEmpty(c); err != nil {
		return nil, err
	}
	switch {
	case len(s.traces) == 0:
		return nil, exit.Usagef("which workload? rota sim --trace FILE, or --trace gen:fitgpp:jobs=8192")
	case slices.Contains(s.traces, ""):
		return nil, exit.Usagef("the name of a trace is empty")
	}
	s.setup.Check = c.Bool("check")
	if c.Bool("progress") {
		s.setup.Progress = func(sim.Progress) {}
	}
	for _, read := range []func(*cli.Context) error{
		s.readFormat, s.readNodes, s.readPolicies, s.readSeeds, s.readLoop, s.readTimes, s.readDeserved, s.readShaping, s.readInflate, s.readArrivals, s.readPlot, s.readDecisions,
	} {
		if err := read(c); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// refuseEmpty refuses options without a value, as of a variable that is not set: they would be as if they were not given.
func refuseEmpty(c *cli.Context) error {
	for _, f := range simFlags() {
		name := f.Names()[0]
		if _, text := f.(*cli.StringFlag); text && c.IsSet(name) && c.String(name) == "" {
			return exit.Usagef("--%s has an empty value", name)
		}
	}
	return nil
}

func (s *simulation) readFormat(c *cli.Context) error {
	text := c.String("format")
	if text != "" && !slices.Contains(trace.Formats, trace.Format(text)) {
		return exit.Usagef("--format %q is not known: %s", text, formatNames())
	}
	file := func(name string) bool { return !isGenerated(name) }
	told := func(name string) bool { return file(name) && !slices.Contains(s.histories, name) }
	switch {
	case c.IsSet("profiles") && !slices.ContainsFunc(s.traces, file):
		return exit.Usagef("--profiles says how a file is to be read: generated workloads have none")
	case text != "" && !slices.ContainsFunc(s.traces, told):
		return exit.Usagef("--format says how a file of --trace is to be read, and there is none")
	}
	s.options.Format = trace.Format(text)
	return nil
}

// readNodes reads --nodes: a description, or the name of a file.
func (s *simulation) readNodes(c *cli.Context) error {
	text := c.String("nodes")
	if text == "" {
		return exit.Usagef("on which cluster? --nodes 84x32c/256g/8gpu, or a file")
	}
	f, err := os.Open(text)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if s.setup.Nodes, err = trace.ParseNodes(text); err != nil && strings.Trim(text[:1], "-0123456789") != "" {
			err = errors.New("there is no such file") // a description begins with a number, be it a wrong one
		}
	case err == nil:
		defer f.Close()
		s.setup.Nodes, err = trace.ReadNodes(f)
	}
	if err != nil {
		return &exit.UsageError{Text: fmt.Sprintf("--nodes %s: %v", text, err), Hint: "groups such as 84x32c/256g/8gpu with commas, or a file of nodes"}
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
		return exit.Usagef("--compare %q names no policy between two commas, or none at all", c.String("compare"))
	}
	for _, text := range append([]string{c.String("policy")}, others...) {
		p, err := sim.ParsePolicy(text)
		if err != nil {
			return &exit.UsageError{Text: err.Error()}
		}
		if slices.ContainsFunc(s.policies, func(q sim.Policy) bool { return q.String() == p.String() }) {
			return exit.Usagef("--compare names policy %s, which is replayed already", p.String())
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
			return exit.Usagef("--seed %s is not a whole number from 0 to %d", c.String("seed"), uint64(math.MaxUint64))
		}
		s.seeds = []uint64{n}
		return nil
	}
	if c.IsSet("seed") {
		return exit.Usagef("give --seed or --seeds, not both")
	}
	first, last, ok := strings.Cut(text, "..")
	a, err := strconv.ParseUint(first, 10, 32)
	b, errB := strconv.ParseUint(last, 10, 32)
	if !ok || err != nil || errB != nil || b < a || b-a >= maxSeeds {
		return exit.Usagef("--seeds %s: write 1..8, at most %d of them", text, maxSeeds)
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
	if !ok || load == "" {
		return exit.Usagef("--closed-loop %s: write LOAD@POLICY, such as 2.0@fifo", text)
	}
	thousandths, err := factor("--closed-loop", load, 0.001, 100)
	if err != nil {
		return err
	}
	p, err := sim.ParsePolicy(policy)
	if err != nil {
		return &exit.UsageError{Text: "--closed-loop: " + err.Error()}
	}
	s.loop = &closedLoop{thousandths, p}
	return nil
}

// factor reads a positive number as thousandths.
func factor(what, text string, least, most float64) (int64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f >= least && f <= most) {
		plain := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
		return 0, exit.Usagef("%s %s is not a number from %s to %s", what, text, plain(least), plain(most))
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
		return 0, exit.Usagef("--%s %v", flag, err)
	}
	if d < 0 || d > jobspec.MaxDuration {
		return 0, exit.Usagef("--%s %s is out of bounds: up to 3650d", flag, text)
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
			return exit.Usagef("--%s is zero", f.flag)
		}
		*f.field = ms
	}
	return nil
}

func (s *simulation) readInflate(c *cli.Context) (err error) {
	text := c.String("inflate")
	if text == "" {
		return nil
	}
	if s.loop != nil || s.setup.Until > 0 {
		return exit.Usagef("--inflate ends when the cluster is full: it goes with neither --closed-loop nor --until")
	}
	s.inflate, err = factor("--inflate", text, 0.001, 100)
	return err
}

// readArrivals reads --redraw and --rate.
func (s *simulation) readArrivals(c *cli.Context) (err error) {
	s.redraw = c.Bool("redraw")
	text := c.String("rate")
	switch {
	case s.inflate > 0 && (s.redraw || text != ""):
		return exit.Usagef("--inflate draws jobs and lets them arrive a second apart: it goes with neither --redraw nor --rate")
	case s.redraw && slices.ContainsFunc(s.traces, func(name string) bool { return strings.HasPrefix(name, trace.GeneratorPrefix) }):
		return exit.Usagef("--redraw draws from the jobs of a file: a generated workload is drawn from its seed already")
	case text == "":
		return nil
	}
	digits, ok := strings.CutSuffix(text, "%")
	f, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || !(f >= 0.1 && f <= 10_000) {
		return exit.Usagef("--rate %s: write a percentage such as 95%%, up to 10000%%", text)
	}
	s.rate = int64(f*10 + 0.5)
	return nil
}
