// Package simulate has the command sim, which replays workloads under scheduling policies without a
// cluster.
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
	"sync/atomic"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/complete"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/sim"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/controld/sim/trace/synth"
)

const simAbout = `Replays workloads with the scheduling code of a live cluster and a virtual clock. A trace is a file,
plain or gzip, or a generated workload: gen:fitgpp, gen:poisson, gen:similar, gen:mixed, gen:gandiva, gen:search or
gen:kubeflow with parameters, such as gen:fitgpp:jobs=8192,load=0.95. Nodes are comma-separated groups such as
84x32c/256g/8gpu, each optionally followed by @RACK, or a file. A policy may have parameters:
rota:reserve_after=10m,max_bypass=64. --list shows all policies, workloads and parameters. --from-log repeats
the decisions of a live cluster and compares them.

Columns: WAIT is all waiting of a job, JCT the time from its submission to its end. SD is the
slowdown, JCT by run time, and BSD the same with run times of at least --bound. P95 is the value that 95 % of the
jobs do not exceed. JAIN says how evenly the accounts got GPUs by their quotas, from 0 to 1 (all alike). RHO is
the mean JCT of the worst account by the mean JCT that it would have alone on its quota, so 1 is fair.`

// Commands returns the commands of this package.
func Commands() []*command.Command {
	return command.InCategory("Simulation", []*command.Command{

		{Name: "sim", Usage: "simulate a workload under a scheduling policy",
			Action:    simulateOrReplay,
			ArgsUsage: "--trace FILE... --nodes SPEC [OPTIONS] | --from-log DIR", Description: simAbout,
			Flags: command.WithCommon(simFlags()...), Once: true, FlagHint: simFlagHint,
			Arguments: complete.Files},
	})
}

func simFlags() []cli.Flag {
	return []cli.Flag{
		command.List("trace", "trace `FILE`, - for standard input, or a generated workload "+
			"gen:NAME; may be repeated for separate runs"),
		command.List("from-history", "replay ended jobs from `FILE`, the output of \"rota hist -o json\""),
		command.Text("from-log", "repeat every decision in the log of a stopped controller with data directory `DIR`, and "+
			"compare"),
		command.Text("cluster", "with --from-log: refuse the log of any cluster but the one with this `ID`"),
		command.Switch("no-cache", "with --from-log: repeat each decision with an empty cycle cache"),
		command.Text("format", "`FORMAT` of the traces, if it is not recognised: "+formatNames()),
		command.Text("profiles", "`DIR` of the measured speeds for sia traces (default: profiles beside "+
			"the trace)"),
		command.Text("networks", "table `FILE.csv` with the properties of the networks that jobs train, instead of the "+
			"built-in table"),
		command.Text("nodes", "cluster `SPEC` such as 84x32c/256g/8gpu, or a file"),
		&cli.StringFlag{Name: "policy", Usage: "policy `NAME` or NAME:key=value,...: " +
			strings.Join(sim.PolicyNames(), ", "), Value: "rota"},
		command.Text("config", "take the limits of users, accounts and queues, and the policy's parameters, from this "+
			"configuration `FILE` (default: no limits)"),
		command.Text("compare", "also replay under these `POLICIES`, comma-separated"),
		&cli.StringFlag{Name: "seed", Usage: "random seed `N`", Value: "1"},
		command.Text("seeds", "one run for each seed `A..B`, and means with 95 % intervals"),
		command.Text("tick", "run a scheduling cycle only every `DURATION`, such as 1m"),
		command.Text("closed-loop", "replace the arrivals so that the demand stays at `LOAD@POLICY`, "+
			"such as 2.0@fifo"),
		command.Text("te-below", "label jobs shorter than `DURATION` as TE, all others as BE"),
		command.Text("te-noise", "share of wrong TE labels: `MISSED,FALSE` in percent, such as 30%,10%"),
		command.Text("grace", "draw missing grace periods from `MEAN:MAX`, such as 3m:20m"),
		command.Text("checkpoint", "how jobs save progress: `MIX` such as none:30%,signal:50%,30m:20% (default: every job "+
			"saves all its work)"),
		command.Text("pause", "suspend `PERCENT` of the best-effort jobs instead of stopping them, such as 50%"),
		command.Text("estimates", "run time estimates for policy easy, wrong by up to `FACTOR`, such as "+
			"3; 1 is exact"),
		command.Text("overhead", "a restart takes `DURATION` without progress"),
		&cli.StringFlag{Name: "bound", Usage: "bounded slowdowns count jobs as at least `DURATION`", Value: "60s"},
		command.Text("deserved", "quotas of accounts: equal, or a `FILE` with lines of account,gpus"),
		command.Text("inflate", "fill the cluster with jobs drawn from the trace, up to `FACTOR` times "+
			"its GPUs"),
		command.Switch("redraw", "draw a random sample of the trace's jobs, of the same size, with replacement, for each "+
			"seed"),
		command.Text("rate", "let jobs arrive at `PERCENT` of the original rate, such as 95%"),
		command.Text("window", "measure useful utilisation from `START..END` after the trace's beginning, such as 20m..200m"),
		command.Text("until", "end `DURATION` after the trace's beginning"),
		command.Text("plot", "draw what was held, the queue and slowdowns to `FILE.svg`, with a curve for each policy"),
		command.Text("decisions", "write every start, end, resize, displacement and suspension to `FILE`, one per line"),
		command.Switch("check", "check the invariants of the state during the simulation"),
		command.Switch("progress", "print the progress on stderr"),
		command.Switch("list", "list policies, generated workloads and parameters, and exit"),
	}
}

func formatNames() string {
	return strings.Join(show.Words(trace.Formats), ", ")
}

// simulation is the command line of rota sim.
type simulation struct {
	env       *command.Env
	traces    []string
	histories []string // the traces of --from-history
	options   trace.Options
	speeds    string // --profiles
	policies  []sim.Policy
	seeds     []uint64
	loop      *closedLoop
	shape     shaping
	setup     sim.Setup
	inflate   int64 // thousandths; 0: not given
	redraw    bool
	rate      int64 // thousandths; 0: unchanged
	plot      string
	decisions *decisionFile // --decisions; nil: none
	several   bool          // --seeds is given

	files     map[string]*trace.Trace // the traces that are files
	bytesRead atomic.Int64            // of the files
	tally     *tally                  // how far the present phase is
	mu        sync.Mutex              // guards stderr
}

// closedLoop is --closed-loop: a demand that arrivals keep up under a policy.
type closedLoop struct {
	load   int64 // thousandths
	policy sim.Policy
}

// simulateOrReplay runs rota sim.
func simulateOrReplay(env *command.Env, c *cli.Context) error {
	if err := checkLogFlags(c); err != nil {
		return err
	}
	if c.IsSet("from-log") {
		return replayLog(env, c)
	}
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
	defer debug.SetGCPercent(debug.SetGCPercent(collectAt)) // the simulator makes much garbage and keeps little
	results, err := s.run(ctx)
	if err == nil {
		err = s.decisions.write()
	}
	if errors.Is(err, sim.ErrSetup) {
		return exit.Usagef("%v", err)
	}
	if err != nil {
		return err
	}
	// The results are printed before the plot, because the replay may have taken hours.
	err = s.print(results, form)
	s.reportIdenticalSeeds(results)
	s.reportNothingShared(results)
	if err := errors.Join(err, s.draw(results)); err != nil {
		return err
	}
	for _, r := range results {
		if r.Stopped {
			return &exit.CodeError{Code: exit.Interrupted, Text: "interrupted: the results are incomplete"}
		}
	}
	return nil
}

// listKnown lists what --policy, --compare and --trace can name.
func listKnown(env *command.Env, c *cli.Context) error {
	others := c.NArg() > 0 || c.IsSet("output")
	for _, f := range simFlags() {
		name := f.Names()[0]
		others = others || name != "list" && c.IsSet(name)
	}
	if others {
		return exit.Usagef("--list cannot be combined with a trace or another option")
	}
	_, err := fmt.Fprintf(env.Stdout, "Policies and their parameters (NAME:key=value,...):\n%s\n\nGenerated workloads "+
		"and their parameters:\n%s\n\nFormats of traces: %s\n",
		strings.Join(sim.Known(), "\n"), strings.Join(synth.Known(), "\n"), formatNames())
	return err
}

// collectAt is how much the heap may grow between collections, in percent.
const collectAt = 300

// run prepares all workloads and replays each under each policy, in parallel on all processors.
func (s *simulation) run(ctx context.Context) ([]*sim.Result, error) {
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	workloads := make([]*trace.Trace, len(s.traces)*len(s.seeds))
	over := s.showRuns("preparing workloads", len(workloads))
	err := inParallel(len(workloads), func(i int) (err error) {
		workloads[i], err = s.workload(ctx, s.traces[i/len(s.seeds)], s.seeds[i%len(s.seeds)])
		return err
	})
	over()
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
	over = s.showRuns("simulating", len(results))
	err = inParallel(len(results), func(i int) (err error) {
		t, p := workloads[i/len(s.policies)], s.policies[i%len(s.policies)]
		seed := s.seeds[i/len(s.policies)%len(s.seeds)]
		setup := s.setupFor(ctx, t.Name, p, seed)
		if s.inflate > 0 {
			setup.Until = t.Jobs[len(t.Jobs)-1].Submit
		}
		s.decisions.record(i, &setup, t.Name)
		counted := s.count(&setup, len(t.Jobs))
		results[i], err = sim.Run(t, setup)
		counted.over()
		return err
	})
	over()
	return results, err
}

// read reads all files. An interrupt ends it, even while it waits for a pipe.
func (s *simulation) read(ctx context.Context) error {
	if !slices.ContainsFunc(s.traces, func(name string) bool { return !isGenerated(name) }) {
		return nil
	}
	done := make(chan error, 1)
	over := s.showReading(s.fileNames())
	go func() { done <- s.readFiles() }()
	select {
	case err := <-done:
		over()
		for _, name := range s.fileNames() {
			if t := s.files[name]; t != nil {
				s.reportSkipped(t)
			}
		}
		return err
	case <-ctx.Done():
		over()
		return &exit.CodeError{Code: exit.Interrupted, Text: "interrupted while reading the traces: nothing was simulated"}
	}
}

// inParallel calls do for 0 to n-1, in parallel on all processors, and returns the first error.
func inParallel(n int, do func(i int) error) error {
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range n {
		g.Go(func() error { return do(i) })
	}
	return g.Wait()
}

// setupFor returns the setup for one run.
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

// progressPrinter returns a function that prints the progress of a run, at most once a second.
func (s *simulation) progressPrinter(name, policy string) func(sim.RunProgress) {
	var last time.Time
	return func(p sim.RunProgress) {
		if now := time.Now(); now.Sub(last) >= time.Second {
			last = now
			of := ""
			if p.Jobs > 0 {
				of = fmt.Sprintf(" of %d", p.Jobs)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			fmt.Fprintf(s.env.Stderr, "%s, %s: %.1f h, %d%s jobs arrived, %d ended\n", name, policy, float64(p.At)/3.6e6,
				p.Arrived, of, p.Finished)
		}
	}
}

// simFlagHint lists the flags of rota sim.
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
