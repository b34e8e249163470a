package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/cmd/lab/specon"
)

// speconGroup is what became of a run under one policy, in the form of rota sim.
type speconGroup struct {
	Policy string          `json:"policy"`
	Trace  string          `json:"trace"`
	Runs   []specon.Result `json:"runs"`
}

// runSpecon makes runs of the SpeCon paper and prints them as JSON.
func runSpecon(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("rota-papers specon", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), "Usage: rota-papers specon [--move S] [--seeds N] [--policies NAMES] "+
			"RUN[:ALPHA,INTERVAL]...\n\n"+
			"Repeats runs of SpeCon (Mao et al., 2020) and prints them as JSON: fixed20, mixed20, mixed30, mixed50, vae20.\n"+
			"ALPHA is per second of wall-clock time and INTERVAL in seconds, as in the paper.\n\n")
		flags.PrintDefaults()
	}
	move := flags.Int64("move", 5, "for how many `S`econds a job does no work when it moves")
	seeds := flags.Uint64("seeds", 20, "`N`umber of seeds, from 1")
	names := flags.String("policies", "", "`NAMES` of policies with commas between them; default: all")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 || *move < 0 || *seeds == 0 {
		return fmt.Errorf("name a run, and give at least one seed and a length of a move from 0 s: rota-papers specon " +
			"mixed20")
	}
	var groups []speconGroup
	for _, run := range flags.Args() {
		name, with, _ := strings.Cut(run, ":")
		w, err := specon.WorkloadNamed(name)
		if err != nil {
			return err
		}
		set, err := setting(*move*1000, with)
		if err != nil {
			return fmt.Errorf("%s: %w", run, err)
		}
		policies, err := policiesNamed(*names)
		if err != nil {
			return err
		}
		for i := range policies {
			g := speconGroup{Policy: policies[i].Name, Trace: run}
			for seed := range *seeds {
				g.Runs = append(g.Runs, specon.Run(w, &policies[i], set, seed+1))
			}
			groups = append(groups, g)
		}
	}
	return json.NewEncoder(out).Encode(groups)
}

func policiesNamed(names string) ([]specon.Policy, error) {
	if names == "" {
		return specon.Policies, nil
	}
	var list []specon.Policy
	for name := range strings.SplitSeq(names, ",") {
		p, err := specon.PolicyNamed(name)
		if err != nil {
			return nil, err
		}
		list = append(list, *p)
	}
	return list, nil
}

// jobsOfWorker is how many jobs share a worker in the paper's runs. A second of wall-clock time
// there is that fraction of a second of processor time.
const jobsOfWorker = 5

// setting reads ALPHA,INTERVAL.
func setting(transit int64, text string) (specon.Setting, error) {
	set := specon.Usual(transit)
	if text == "" {
		return set, nil
	}
	parts := strings.Split(text, ",")
	if len(parts) != 2 {
		return set, fmt.Errorf("%q is not ALPHA,INTERVAL", text)
	}
	alpha, err := strconv.ParseFloat(parts[0], 64)
	if err != nil || alpha <= 0 {
		return set, fmt.Errorf("%q is not an ALPHA above 0", parts[0])
	}
	interval, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || !slices.Contains([]int64{20, 25, 30}, interval) {
		return set, fmt.Errorf("%q is not an INTERVAL of 20, 25 or 30 s", parts[1])
	}
	set.Alpha, set.Interval = alpha*jobsOfWorker, interval*1000
	return set, nil
}
