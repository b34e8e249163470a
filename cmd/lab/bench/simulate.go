package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rota-hpc/rota/controld/sim"
	"github.com/rota-hpc/rota/controld/sim/trace"
	"github.com/rota-hpc/rota/controld/sim/trace/synth"
	"github.com/rota-hpc/rota/jobspec"
)

// The workload of timed simulations: as many jobs as a workload of the FitGpp paper has, on its
// cluster, at its load.
const (
	simJobs  = 1 << 16
	simNodes = "84x32c/256g/8gpu"
	simLoad  = 2000 // thousandths of the cluster, kept up by arrivals under policy fifo
)

// measureSimulate times whole runs of "rota sim": from the start of the program to its exit,
// reading the trace included.
func measureSimulate(ctx context.Context, b *bench) error {
	file := filepath.Join(b.dir, "paper-load.csv")
	if err := b.writeWorkload(file); err != nil {
		return err
	}
	jobs := b.repeat(simJobs)
	for _, row := range []struct{ policy, goal string }{{"fifo", "<= 1"}, {"rota", "<= 10"}, {"fairshare", ""},
		{"fitgpp", ""}} {
		r, err := b.simulate(ctx, file, row.policy)
		if err != nil {
			return err
		}
		peer := fmt.Sprintf("%.2f s of processors, %d decisions, p50 %.0f and p99 %.0f us", r.cpu.Seconds(),
			r.result.Decisions.Count,
			r.result.Decisions.P50, r.result.Decisions.P99)
		b.add(fmt.Sprintf("rota sim, %d jobs on 84 nodes, policy %s", jobs, row.policy), r.wall.Seconds(), "s", row.goal,
			peer)
		b.add("the same, memory at most", float64(r.memory)/(1<<20), "MiB", "<= 1024", "resident, as the kernel counts it")
	}
	return nil
}

// simulated is one run of the program.
type simulated struct {
	wall, cpu time.Duration
	memory    int64 // bytes, resident at most
	result    *sim.Result
}

func (b *bench) simulate(ctx context.Context, file, policy string) (*simulated, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(b.bin, "rota"), "sim", "--trace", file, "--nodes", simNodes,
		"--policy", policy, "-o", "json")
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, complaint.String())
	}
	s := &simulated{wall: time.Since(began), cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(),
		result: &sim.Result{}}
	if used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		s.memory = used.Maxrss * 1024
	}
	if err := json.Unmarshal(out.Bytes(), s.result); err != nil {
		return nil, fmt.Errorf("what rota sim printed: %w", err)
	}
	return s, nil
}

// writeWorkload draws the arrivals. This takes a simulation itself and is not timed.
func (b *bench) writeWorkload(file string) error {
	nodes, err := trace.ParseNodes(simNodes)
	if err != nil {
		return err
	}
	source, err := synth.PaperModel().Source(b.seed, b.repeat(simJobs))
	if err != nil {
		return err
	}
	policy, err := sim.ParsePolicy("fifo")
	if err != nil {
		return err
	}
	t, err := sim.CloseLoop(source, "paper-load", simLoad,
		sim.Setup{Nodes: nodes, Policy: policy, Tick: 60_000, Seed: b.seed})
	if err != nil {
		return err
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	writeFitGpp(w, t)
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

// writeFitGpp writes a trace in the format fitgpp.
func writeFitGpp(w io.Writer, t *trace.Trace) {
	const minute = 60_000.0
	fmt.Fprintln(w, "job_id,class,user,submit_min,cpus,ram_gb,gpus,exec_min,grace_min")
	for i := range t.Jobs {
		j := &t.Jobs[i]
		fmt.Fprintf(w, "%d,%s,%s,%g,%d,%g,%d,%g,%g\n", i, strings.ToUpper(string(j.Class)), j.User,
			float64(j.Submit)/minute, j.Request.Cores,
			float64(j.Request.Memory)/float64(jobspec.GiB), j.Request.GPUs/1000, float64(j.Work)/minute, float64(j.Grace)/minute)
	}
}
