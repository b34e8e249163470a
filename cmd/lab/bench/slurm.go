package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// slurmClients is the number of sbatch clients that submit at once.
const slurmClients = 8

// noSlurm is the entry for the peer on a machine without Slurm.
const noSlurm = "no Slurm runs here"

// slurm reports whether a Slurm controller answers on this machine. rota-bench does not start one:
// set SLURM_CONF for a running installation.
func slurm(ctx context.Context) bool {
	return exec.CommandContext(ctx, "scontrol", "ping").Run() == nil
}

func sbatch(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "sbatch", append([]string{"--parsable", "-o", "/dev/null"}, args...)...)
}

// beside runs one measurement of the peer. It returns its text, or why there is none.
func (b *bench) beside(ctx context.Context, measure func(context.Context) (string, error)) string {
	if !slurm(ctx) {
		return noSlurm
	}
	text, err := measure(ctx)
	if err != nil {
		return "Slurm: " + err.Error()
	}
	return text
}

// slurmSubmit times sbatch of a held job from one client.
func (b *bench) slurmSubmit(ctx context.Context) (string, error) {
	ds, err := times(ctx, b.repeat(300), func() *exec.Cmd { return sbatch(ctx, "-H", "--wrap", "true") })
	return fmt.Sprintf("sbatch -H: p50 %.1f ms, p99 %.1f ms", percentile(ds, 50), percentile(ds, 99)), err
}

// slurmRate measures how many held jobs eight sbatch clients submit per second.
func (b *bench) slurmRate(ctx context.Context) (string, error) {
	var submitted atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range slurmClients {
		wg.Go(func() {
			for time.Since(start) < b.span(10*time.Second) && ctx.Err() == nil {
				if sbatch(ctx, "-H", "--wrap", "true").Run() == nil {
					submitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	n := submitted.Load()
	rate := float64(n) / time.Since(start).Seconds()
	return fmt.Sprintf("sbatch, %d clients: %.0f/s of %d", slurmClients, rate, n), context.Cause(ctx)
}

// slurmLatency times the way from sbatch to the first command of the script, on an idle cluster.
func (b *bench) slurmLatency(ctx context.Context) (string, error) {
	file := filepath.Join(b.dir, "slurm-dates")
	var waits []time.Duration
	for range b.repeat(30) {
		start := time.Now()
		if err := sbatch(ctx, "--wait", "--wrap", "date +%s.%N >> "+file).Run(); err != nil {
			return "", err
		}
		at, err := lastDate(file)
		if err != nil {
			return "", err
		}
		waits = append(waits, at.Sub(start))
	}
	return fmt.Sprintf("sbatch, no container: p50 %.0f ms, p99 %.0f ms", percentile(waits, 50), percentile(waits, 99)), nil
}

// slurmThroughput runs an array of `true`.
func (b *bench) slurmThroughput(ctx context.Context) (string, error) {
	n := b.repeat(1500)
	start := time.Now()
	id, err := sbatch(ctx, fmt.Sprintf("--array=1-%d", n), "--wrap", "true").Output()
	if err != nil {
		return "", err
	}
	for {
		out, err := exec.CommandContext(ctx, "squeue", "-h", "-t", "PD,R,CG", "-j", strings.TrimSpace(string(id))).Output()
		if err != nil || len(bytes.TrimSpace(out)) == 0 { // an unknown id is an error: all tasks have ended and are forgotten
			break
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
	return fmt.Sprintf("Slurm's array, no containers: %.0f/s", float64(n)/time.Since(start).Seconds()), nil
}
