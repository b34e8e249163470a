// Command families judges a policy by families of workloads instead of single traces. It draws
// workloads from a seed, simulates each under several policies, and prints the judged policy's
// regret. That is its loss against the best of three policies that know no lengths. Policies that
// are told the exact lengths show what could be gained.
//
// It fails if a simulation fails, not if a policy is bad. See docs/simulating.md.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"github.com/rota-hpc/rota/controld/sim"
)

// options are the command line.
type options struct {
	draws  int
	draw   int // only its command line is printed; 0: all are simulated
	seed   uint64
	jobs   int // of each draw; 0: by the size of the cluster
	policy string
	quotas bool
	json   bool
}

func main() {
	var o options
	flag.IntVar(&o.draws, "n", 12, "number of workloads to draw, at least one")
	flag.IntVar(&o.draw, "draw", 0, "print the rota sim command that repeats this draw, and nothing else")
	flag.Uint64Var(&o.seed, "seed", 1, "of the draws")
	flag.IntVar(&o.jobs, "jobs", 0, "number of jobs of each draw; 0: 400 to 2400, by the size of the cluster")
	flag.StringVar(&o.policy, "policy", "rota", "the judged policy, NAME or NAME:key=value,...")
	flag.BoolVar(&o.quotas, "quotas", false, "every user is an account, and all accounts have the same quota")
	flag.BoolVar(&o.json, "json", false, "print JSON")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "families: unexpected argument %q; -help lists the flags\n", flag.Arg(0))
		os.Exit(2)
	}
	debug.SetGCPercent(300) // the simulator makes much garbage and keeps little
	if err := run(&o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "families:", err)
		os.Exit(1)
	}
}

func run(o *options, out io.Writer) error {
	judged, err := sim.ParsePolicy(o.policy)
	switch {
	case err != nil:
		return fmt.Errorf("-policy: %w", err)
	case o.draws < 1 || o.draw < 0 || o.jobs < 0:
		return fmt.Errorf("-n is at least 1, and -draw and -jobs are not negative")
	case o.draw > 0:
		w := drawWorkload(o.seed, o.draw, o.jobs)
		w.Quotas = o.quotas
		_, err := fmt.Fprintln(out, w.command(judged.String()))
		return err
	}
	workloads := make([]workload, o.draws)
	for i := range workloads {
		workloads[i] = drawWorkload(o.seed, i+1, o.jobs)
		workloads[i].Quotas = o.quotas
	}
	rows, err := simulate(workloads, judged.String())
	if err != nil {
		return err
	}
	t := &table{Judged: judged.String(), Seed: o.seed, Rows: rows, Summary: summarise(rows)}
	if o.json {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(t)
	}
	return t.print(out)
}
