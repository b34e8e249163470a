package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rota-hpc/rota/cmd/rota/terminal/progress"
	"github.com/rota-hpc/rota/controld/sim"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/controld/sim/trace/synth"
)

// contender is a policy that the judged one is compared with.
type contender struct{ name, text string }

// rivals know no lengths. las leaves a job alone for ten minutes. Among jobs of similar lengths it
// would otherwise stop a job at almost every event, and a simulation would take minutes.
var rivals = [...]contender{{"backfill", "backfill"}, {"las", "las:min_run=10m"}, {"fairshare", "fairshare"}}

// oracles are told the exact lengths. srtf is bounded as las is.
var oracles = [...]contender{{"sjf", "sjf"}, {"srtf", "srtf:min_run=10m"}}

// outcome is what users got under one policy. Times are in hours.
type outcome struct {
	Mean        float64 `json:"mean_h"` // from submission to end
	P99         float64 `json:"p99_h"`
	Preemptions int     `json:"preemptions"`
	Unended     int     `json:"unended,omitempty"` // jobs that the policy preempted for ever; not in the times
	WallS       float64 `json:"wall_s"`
}

// simulate runs every workload under every policy, in parallel on all processors.
func simulate(workloads []workload, judged string) ([]row, error) {
	policies := []string{judged}
	for _, c := range append(rivals[:], oracles[:]...) {
		policies = append(policies, c.text)
	}
	results := make([]outcome, len(workloads)*len(policies))
	var ended atomic.Int64
	line := progress.Show(os.Stderr, progress.Task{What: "simulating", Unit: "runs",
		Done: func() (int64, int64) { return ended.Load(), int64(len(results)) }})
	defer line.Stop()
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range results {
		g.Go(func() (err error) {
			w, p := &workloads[i/len(policies)], policies[i%len(policies)]
			if results[i], err = simulateOne(w, p); err != nil {
				return fmt.Errorf("draw %d (%s): %w", w.Draw, w.command(judged), err)
			}
			ended.Add(1)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	rows := make([]row, 0, len(workloads))
	for i, of := range slices.Collect(slices.Chunk(results, len(policies))) {
		rows = append(rows, newRow(workloads[i], of))
	}
	return rows, nil
}

// simulateOne does what [workload.command] does with one policy.
func simulateOne(w *workload, policy string) (outcome, error) {
	nodes, err := trace.ParseNodes(w.nodes())
	if err != nil {
		return outcome{}, err
	}
	generator, err := synth.ParseGenerator(w.trace())
	if err != nil {
		return outcome{}, err
	}
	t, err := generator.Trace(w.Seed, trace.Capacity(nodes))
	if err != nil {
		return outcome{}, err
	}
	if err := synth.DrawGrace(t, graceMS, graceMostMS, w.Seed); err != nil {
		return outcome{}, err
	}
	p, err := sim.ParsePolicy(policy)
	if err != nil {
		return outcome{}, err
	}
	r, err := sim.Run(t, sim.Setup{
		Nodes: nodes, Policy: p, Seed: w.Seed, Overhead: overheadMS, Deserved: sim.Shares{Equal: w.Quotas}, Clock: clock(),
	})
	switch {
	case err != nil:
		return outcome{}, err
	case len(r.Excluded) > 0:
		return outcome{}, fmt.Errorf("a job fits no nodes: %s", r.Excluded[0])
	case r.Refused > 0:
		return outcome{}, fmt.Errorf("policy %s planned %d actions that the state refused: %v", policy, r.Refused, r.Notes)
	}
	jct := &r.Classes["all"].JCTS
	return outcome{Mean: jct.Mean / 3600, P99: jct.P99 / 3600, Preemptions: r.Preemptions, Unended: r.Unended,
		WallS: r.WallS}, nil
}

// clock times a run.
func clock() func() int64 {
	began := time.Now()
	return func() int64 { return int64(time.Since(began)) }
}
