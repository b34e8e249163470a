package simulate

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/controld/config"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sim"
	"github.com/rota-hpc/rota/controld/sim/interference"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/controld/sim/trace/synth"
	"github.com/rota-hpc/rota/jobspec"
)

// maxSeeds bounds --seeds, because each seed is a run.
const maxSeeds = 1000

// readSimulation reads the command line of rota sim.
func readSimulation(env *command.Env, c *cli.Context) (*simulation, error) {
	s := &simulation{env: env, histories: c.StringSlice("from-history"), speeds: c.String("profiles")}
	s.traces = slices.Concat(c.StringSlice("trace"), s.histories, c.Args().Slice())
	if err := refuseEmpty(c); err != nil {
		return nil, err
	}
	switch {
	case len(s.traces) == 0:
		return nil, exit.Usagef("no workload given: rota sim --trace FILE, or --trace gen:fitgpp:jobs=8192")
	case slices.Contains(s.traces, ""):
		return nil, exit.Usagef("a trace has an empty name")
	}
	s.setup.Check = c.Bool("check")
	if c.Bool("progress") {
		s.setup.Progress = func(sim.RunProgress) {}
	}
	for _, read := range []func(*cli.Context) error{s.readFormat, s.readNodes, s.readPolicies, s.readSeeds} {
		if err := read(c); err != nil {
			return nil, err
		}
	}
	for _, o := range s.values() {
		if text := c.String(o.flag); text != "" {
			if err := o.read(text); err != nil {
				return nil, err
			}
		}
	}
	return s, s.readArrivals(c)
}

// readConfig reads a cluster's file. Its policy and its limits apply to a trace's cluster.
func (s *simulation) readConfig(path string) error {
	f, err := config.Read(path)
	if err != nil {
		return exit.Usagef("--config: %v", err)
	}
	cfg := f.Replicated()
	if cfg == nil {
		c := cluster.DefaultConfig()
		cfg = &c
	}
	s.setup.Configured, s.setup.Limits = &cfg.Policy, cfg
	return nil
}

// valueReader reads the value of a flag.
type valueReader struct {
	flag string
	read func(text string) error
}

// values returns how to read the flags that may be missing. A value may depend on those before it.
func (s *simulation) values() []valueReader {
	h := &s.shape
	return []valueReader{
		{"closed-loop", s.readLoop},
		{"config", s.readConfig},
		positive("tick", &s.setup.Tick), duration("overhead", &s.setup.Overhead),
		positive("bound", &s.setup.Bound), positive("until", &s.setup.Until),
		{"window", s.readWindow}, {"networks", s.readNetworks},
		{"deserved", s.readDeserved},
		positive("te-below", &h.teBelow), {"te-noise", h.readNoise}, {"grace", h.readGrace}, {"checkpoint", h.readSaves},
		{"pause", h.readPauses},
		{"estimates", s.readEstimates}, {"inflate", s.readInflate},
		{"plot", s.readPlot}, {"decisions", s.readDecisions},
	}
}

// readNetworks reads a table of networks.
func (s *simulation) readNetworks(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return exit.Usagef("--networks: %v", err)
	}
	defer f.Close()
	if s.setup.Networks, err = interference.Read(f); err != nil {
		return exit.Usagef("--networks %s: %v", path, err)
	}
	return nil
}

// readWindow reads START..END.
func (s *simulation) readWindow(text string) error {
	from, to, ok := strings.Cut(text, "..")
	if !ok {
		return exit.Usagef("--window %s is not START..END, such as 20m..200m", text)
	}
	if err := duration("window", &s.setup.Window[0]).read(from); err != nil {
		return err
	}
	if err := positive("window", &s.setup.Window[1]).read(to); err != nil {
		return err
	}
	if s.setup.Window[0] >= s.setup.Window[1] {
		return exit.Usagef("--window %s ends before it begins", text)
	}
	return nil
}

// duration reads a duration into milliseconds.
func duration(flag string, to *int64) valueReader {
	return valueReader{flag, func(text string) error {
		d, err := jobspec.ParseSeconds(text)
		if err != nil {
			return exit.Usagef("--%s %v", flag, err)
		}
		if d < 0 || d > jobspec.MaxDuration {
			return exit.Usagef("--%s %s is out of range: at most 3650d", flag, text)
		}
		*to = int64(d) * 1000
		return nil
	}}
}

// positive is [duration] without zero.
func positive(flag string, to *int64) valueReader {
	r := duration(flag, to)
	return valueReader{flag, func(text string) error {
		if err := r.read(text); err != nil {
			return err
		}
		if *to == 0 {
			return exit.Usagef("--%s must not be zero", flag)
		}
		return nil
	}}
}

// refuseEmpty refuses flags with an empty value, such as an unset variable of a script.
func refuseEmpty(c *cli.Context) error {
	for _, f := range simFlags() {
		name := f.Names()[0]
		if _, text := f.(*cli.StringFlag); text && c.IsSet(name) && c.String(name) == "" {
			return exit.Usagef("--%s is empty", name)
		}
	}
	return nil
}

func (s *simulation) readFormat(c *cli.Context) error {
	text := c.String("format")
	if text != "" && !slices.Contains(trace.Formats, trace.Format(text)) {
		return exit.Usagef("unknown --format %q: must be one of %s", text, formatNames())
	}
	file := func(name string) bool { return !isGenerated(name) }
	unnamed := func(name string) bool { return file(name) && !slices.Contains(s.histories, name) }
	switch {
	case c.IsSet("profiles") && !slices.ContainsFunc(s.traces, file):
		return exit.Usagef("--profiles is for traces in files: generated workloads have no profiles")
	case text != "" && !slices.ContainsFunc(s.traces, unnamed):
		return exit.Usagef("--format is for trace files, but no --trace names a file")
	}
	s.options.Format = trace.Format(text)
	return nil
}

// readNodes reads --nodes, a description or the name of a file.
func (s *simulation) readNodes(c *cli.Context) error {
	text, err := s.clusterOfTraces(c.String("nodes"))
	if err != nil {
		return err
	}
	if text == "" {
		return exit.Usagef("no cluster given: --nodes 84x32c/256g/8gpu, or a file")
	}
	f, err := os.Open(text)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if s.setup.Nodes, err = trace.ParseNodes(text); err != nil && strings.Trim(text[:1], "-0123456789") != "" {
			err = errors.New("no such file") // descriptions begin with a number
		}
	case err == nil:
		defer f.Close()
		s.setup.Nodes, err = trace.ReadNodes(f)
	}
	if err != nil {
		return exit.Usagef("--nodes %s: %v", text, err).
			WithHint("write comma-separated groups such as 84x32c/256g/8gpu, or a file of nodes")
	}
	for i := range s.setup.Nodes {
		s.options.NodeGPUs = max(s.options.NodeGPUs, len(s.setup.Nodes[i].GPUs))
	}
	return nil
}

// clusterOfTraces returns nodes as they are given. Without any it returns the nodes of generated
// workloads that have their own, if all are for the same ones.
func (s *simulation) clusterOfTraces(nodes string) (string, error) {
	cluster := nodes
	for i, name := range s.traces {
		own := ""
		if isGenerated(name) {
			g, err := synth.ParseGenerator(name)
			if err != nil {
				return "", exit.Usagef("%v", err)
			}
			var given bool
			if own, given = g.Cluster(); given && nodes != "" {
				return "", exit.Usagef("--nodes and the parameter nodes of %s both describe the cluster: give only one of them",
					name)
			}
		}
		switch {
		case nodes != "":
		case i == 0:
			cluster = own
		case own != cluster:
			return "", exit.Usagef("the workloads are meant for different clusters: give --nodes, such as 8x32c/256g/8gpu")
		}
	}
	return cluster, nil
}

func (s *simulation) readPolicies(c *cli.Context) error {
	var others []string
	if c.IsSet("compare") {
		others = splitPolicies(c.String("compare"))
	}
	if slices.Contains(others, "") {
		return exit.Usagef("--compare %q has an empty name", c.String("compare"))
	}
	for _, text := range append([]string{c.String("policy")}, others...) {
		p, err := sim.ParsePolicy(text)
		if err != nil {
			return exit.Usagef("%v", err)
		}
		if slices.ContainsFunc(s.policies, func(q sim.Policy) bool { return q.String() == p.String() }) {
			return exit.Usagef("--compare names policy %s twice, or names the policy of --policy", p.String())
		}
		s.policies = append(s.policies, p)
	}
	return nil
}

// splitPolicies splits a list of policies at commas, except between the parameters of one policy.
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
		return exit.Usagef("--seed and --seeds exclude each other")
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
func (s *simulation) readLoop(text string) error {
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
		return exit.Usagef("--closed-loop: %v", err)
	}
	s.loop = &closedLoop{thousandths, p}
	return nil
}

// factor reads a number from least to most, as thousandths.
func factor(what, text string, least, most float64) (int64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f >= least && f <= most) {
		plain := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
		return 0, exit.Usagef("%s %s is not a number from %s to %s", what, text, plain(least), plain(most))
	}
	return int64(f*1000 + 0.5), nil
}

func (s *simulation) readInflate(text string) (err error) {
	if s.loop != nil || s.setup.Until > 0 {
		return exit.Usagef("--inflate cannot be combined with --closed-loop or --until, because it ends when the cluster " +
			"is full")
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
		return exit.Usagef("--inflate cannot be combined with --redraw or --rate, because it draws the jobs and their " +
			"arrivals itself")
	case s.redraw && slices.ContainsFunc(s.traces, isGenerated):
		return exit.Usagef("--redraw needs a trace in a file: generated workloads are already drawn from the seed")
	case text == "":
		return nil
	}
	if s.rate, err = percent(text, 0.1, 10_000); err != nil {
		return exit.Usagef("--rate %s: write a percentage such as 95%%, up to 10000%%", text)
	}
	return nil
}
