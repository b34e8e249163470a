// Package simulate has the command sim, which replays workloads under scheduling policies without a cluster.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/complete"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/sim"
	"github.com/rota-hpc/rota/controld/sim/trace"
)

const simAbout = `Replays workloads through the code that schedules a live cluster, over a virtual clock. A trace is a file, plain or
gzip, or a generated workload: gen:fitgpp, gen:poisson or gen:kubeflow with parameters, such as
gen:fitgpp:jobs=8192,load=0.95. Nodes are written as 84x32c/256g/8gpu, groups with commas, @ and the name of a rack
behind a group, or are read from a file. A policy may have parameters: rota:reserve_after=10m,max_bypass=64. --list says
which policies, workloads and parameters there are.`

// Commands are those that replay workloads.
func Commands(env *command.Env) []*command.Command {
	return command.InCategory("Simulation", []*command.Command{

		{Command: &cli.Command{Name: "sim", Usage: "replay a workload under a policy, without a cluster", Action: env.Action(replay),
			ArgsUsage: "--trace FILE... --nodes SPEC [OPTIONS]", Description: simAbout, Flags: slices.Concat(simFlags(), command.CommonFlags())}, Once: true, FlagHint: simFlagHint, Arguments: complete.Files},
	})
}

func simFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "trace", Usage: "replay `FILE`, - for standard input, or a generated workload gen:NAME; several are replayed one by one"},
		&cli.StringSliceFlag{Name: "from-history", Usage: "replay the ended jobs in `FILE`, which \"rota hist -o json\" has printed"},
		&cli.StringFlag{Name: "format", Usage: "the traces' `FORMAT`, if it cannot be told: " + formatNames()},
		&cli.StringFlag{Name: "profiles", Usage: "`DIR` of the measured speeds that sia traces need; default profiles beside the trace"},
		&cli.StringFlag{Name: "nodes", Usage: "the cluster: `SPEC` such as 84x32c/256g/8gpu, or a file"},
		&cli.StringFlag{Name: "policy", Usage: "`NAME` or NAME:key=value,...: " + strings.Join(sim.PolicyNames(), ", "), Value: "rota"},
		&cli.StringFlag{Name: "compare", Usage: "replay under these `POLICIES` as well"},
		&cli.StringFlag{Name: "seed", Usage: "`N` for everything that is drawn", Value: "1"},
		&cli.StringFlag{Name: "seeds", Usage: "a run for each seed `A..B`, and their means with 95 % intervals"},
		&cli.StringFlag{Name: "tick", Usage: "decide only every `DURATION`, such as 1m"},
		&cli.StringFlag{Name: "closed-loop", Usage: "arrivals that keep the demand at `LOAD@POLICY`, such as 2.0@fifo, instead of the trace's"},
		&cli.StringFlag{Name: "te-below", Usage: "jobs that run for less than `DURATION` are TE, all others BE"},
		&cli.StringFlag{Name: "te-noise", Usage: "wrong labels: `MISSED,FALSE` in percent, such as 30%,10%"},
		&cli.StringFlag{Name: "grace", Usage: "draw grace periods of `MEAN:MAX` where the trace has none, such as 3m:20m"},
		&cli.StringFlag{Name: "checkpoint", Usage: "what jobs keep when stopped: `MIX` such as none:30%,signal:50%,30m:20%; default all"},
		&cli.StringFlag{Name: "estimates", Usage: "users' estimates for policy easy, wrong by up to `FACTOR`, such as 3; 1 is exact"},
		&cli.StringFlag{Name: "overhead", Usage: "a restart holds its room for `DURATION` without progress"},
		&cli.StringFlag{Name: "bound", Usage: "bounded slowdowns count jobs as at least `DURATION`", Value: "60s"},
		&cli.StringFlag{Name: "deserved", Usage: "what accounts deserve: equal, or a `FILE` with lines of account,gpus"},
		&cli.StringFlag{Name: "inflate", Usage: "fill the cluster with jobs like the trace's that ask for `FACTOR` times its GPUs, and see how full it gets"},
		&cli.BoolFlag{Name: "redraw", Usage: "draw as many jobs from those of the trace instead: every seed another workload of its kind"},
		&cli.StringFlag{Name: "rate", Usage: "jobs arrive at `PERCENT` of the rate that the trace or the closed loop has, such as 95%"},
		&cli.StringFlag{Name: "until", Usage: "end at this `DURATION` after the trace's beginning"},
		&cli.StringFlag{Name: "plot", Usage: "draw utilisation, queue, slowdowns, shares and jobs into `FILE.svg`"},
		&cli.StringFlag{Name: "decisions", Usage: "write every start, end, resize and displacement into `FILE`, a line each"},
		&cli.BoolFlag{Name: "check", Usage: "verify the invariants of the state while simulating"},
		&cli.BoolFlag{Name: "progress", Usage: "say on stderr how far it is"},
		&cli.BoolFlag{Name: "list", Usage: "list policies, generated workloads and their parameters instead"},
	}
}

func formatNames() string {
	names := make([]string, len(trace.Formats))
	for i, f := range trace.Formats {
		names[i] = string(f)
	}
	return strings.Join(names, ", ")
}

// simulation is one command line of sim, read.
type simulation struct {
	env       *command.Env
	traces    []string
	histories []string // those of them that --from-history names
	options   trace.Options
	speeds    string // --profiles
	policies  []sim.Policy
	seeds     []uint64
	loop      *closedLoop
	shape     shaping
	setup     sim.Setup
	inflate   int64 // thousandths; 0: do not
	redraw    bool
	rate      int64 // thousandths; 0: as it is
	plot      string
	decisions *decisionFile // --decisions; nil: none
	several   bool          // means over seeds are asked for

	files map[string]*trace.Trace // those of traces that are files, as they were read
	mu    sync.Mutex              // of what runs say on stderr
}

// closedLoop says how arrivals are made.
type closedLoop struct {
	load   int64 // thousandths
	policy sim.Policy
}

// replay replays.
func replay(env *command.Env, c *cli.Context) error {
	form, err := env.Format(c, table.AsTable, table.JSON, table.CSV)
	if err != nil {
		return err
	}
	if c.Bool("list") {
		return listKnown(env, c)
	}
	s, err := readSimulation(env, c)
	if err != nil {
		return err
	}
	ctx, cancel := command.Interruptible(c.Context)
	defer cancel()
	defer debug.SetGCPercent(debug.SetGCPercent(collectAt)) // much garbage, few survivors
	results, err := s.run(ctx)
	if err == nil {
		err = s.decisions.write()
	}
	if errors.Is(err, sim.ErrSetup) {
		return &exit.UsageError{Text: err.Error()}
	}
	if err != nil {
		return err
	}
	// Hours of replaying must not be lost with a plot that cannot be drawn.
	err = s.print(results, form)
	s.reportIdenticalSeeds(results)
	if err := errors.Join(err, s.draw(c.Context, results)); err != nil {
		return err
	}
	for _, r := range results {
		if r.Stopped {
			return &exit.CodeError{Code: exit.Interrupted, Text: "interrupted: this is what was simulated so far"}
		}
	}
	return nil
}

// listKnown says what --policy, --compare and --trace can name.
func listKnown(env *command.Env, c *cli.Context) error {
	others := c.NArg() > 0 || c.IsSet("output")
	for _, f := range simFlags() {
		name := f.Names()[0]
		others = others || name != "list" && c.IsSet(name)
	}
	if others {
		return exit.Usagef("--list lists what is known and replays nothing: it goes with no trace and no other option")
	}
	_, err := fmt.Fprintf(env.Stdout, "Policies and their parameters (NAME:key=value,...):\n%s\n\nGenerated workloads and theirs:\n%s\n\nFormats of traces: %s\n",
		strings.Join(sim.Known(), "\n"), strings.Join(trace.Known(), "\n"), formatNames())
	return err
}

// collectAt is how much the heap grows between collections, in percent.
const collectAt = 300

// run prepares every workload and replays each under every policy, as many at once as there are processors.
func (s *simulation) run(ctx context.Context) ([]*sim.Result, error) {
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	workloads := make([]*trace.Trace, len(s.traces)*len(s.seeds))
	err := inParallel(len(workloads), func(i int) (err error) {
		workloads[i], err = s.workload(ctx, s.traces[i/len(s.seeds)], s.seeds[i%len(s.seeds)])
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := s.checkDeserved(workloads); err != nil {
		return nil, err
	}
	results := make([]*sim.Result, len(workloads)*len(s.policies))
	if s.decisions != nil {
		s.decisions.sections = make([][]byte, len(results))
	}
	err = inParallel(len(results), func(i int) (err error) {
		t, p := workloads[i/len(s.policies)], s.policies[i%len(s.policies)]
		seed := s.seeds[i/len(s.policies)%len(s.seeds)]
		setup := s.setupFor(ctx, t.Name, p, seed)
		if s.inflate > 0 {
			setup.Until = t.Jobs[len(t.Jobs)-1].Submit
		}
		s.decisions.record(i, &setup, t.Name)
		results[i], err = sim.Run(t, setup)
		return err
	})
	return results, err
}

// read reads all files. A pipe into which nobody writes keeps nobody from being interrupted.
func (s *simulation) read(ctx context.Context) error {
	if !slices.ContainsFunc(s.traces, func(name string) bool { return !isGenerated(name) }) {
		return nil
	}
	done := make(chan error, 1)
	go func() { done <- s.readFiles() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return &exit.CodeError{Code: exit.Interrupted, Text: "interrupted while the traces were read: nothing was simulated"}
	}
}

// inParallel does n things, as many at once as there are processors, and returns the first error.
func inParallel(n int, do func(i int) error) error {
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		g.Go(func() error { return do(i) })
	}
	return g.Wait()
}

// setupFor completes the setup for one run.
func (s *simulation) setupFor(ctx context.Context, name string, p sim.Policy, seed uint64) sim.Setup {
	setup := s.setup
	setup.Policy, setup.Seed = p, seed
	began := time.Now()
	setup.Clock = func() int64 { return int64(time.Since(began)) }
	setup.Stopped = func() bool { return ctx.Err() != nil }
	if setup.Progress != nil {
		setup.Progress = s.progressPrinter(name, p.String())
	}
	return setup
}

// progressPrinter returns what says on stderr how far a run is, once a second.
func (s *simulation) progressPrinter(name, policy string) func(sim.Progress) {
	var last time.Time
	return func(p sim.Progress) {
		if now := time.Now(); now.Sub(last) >= time.Second {
			last = now
			of := ""
			if p.Jobs > 0 {
				of = fmt.Sprintf(" of %d", p.Jobs)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			fmt.Fprintf(s.env.Stderr, "%s, %s: %.1f h, %d%s jobs arrived, %d ended\n", name, policy, float64(p.At)/3.6e6, p.Arrived, of, p.Finished)
		}
	}
}

// simFlagHint lists the options for one that does not exist.
func simFlagHint(string) string {
	var names []string
	for _, f := range append(simFlags(), command.CommonFlags()...) {
		for _, name := range f.Names() {
			names = append(names, command.Dashed(name))
		}
	}
	slices.Sort(names)
	return "its options are " + strings.Join(names, " ")
}
