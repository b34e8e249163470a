package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

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
	ids, rate, err := slurmStream(ctx, b.span(10*time.Second), func() {})
	return fmt.Sprintf("sbatch, 8 clients: %.0f/s of %d", rate, len(ids)), err
}

// slurmStream submits held jobs from eight clients for d, and runs during meanwhile. It returns the
// ids that were acknowledged.
func slurmStream(ctx context.Context, d time.Duration, during func()) ([]string, float64, error) {
	var mu sync.Mutex
	var ids []string
	var wg sync.WaitGroup
	start := time.Now()
	for range 8 {
		wg.Go(func() {
			for time.Since(start) < d && ctx.Err() == nil {
				out, err := sbatch(ctx, "-H", "--wrap", "true").Output()
				if err == nil {
					mu.Lock()
					ids = append(ids, strings.TrimSpace(string(out)))
					mu.Unlock()
				}
			}
		})
	}
	during()
	wg.Wait()
	return ids, float64(len(ids)) / time.Since(start).Seconds(), context.Cause(ctx)
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

// slurmKill kills slurmctld in the middle of a stream of submissions and starts it again in the
// same way. It counts the acknowledged jobs that slurmctld does not know any more.
func (b *bench) slurmKill(ctx context.Context) (string, error) {
	var restart error
	ids, _, err := slurmStream(ctx, 6*time.Second, func() {
		<-time.After(4 * time.Second)
		restart = killAndRestart(ctx, "slurmctld")
	})
	if err := errors.Join(err, restart); err != nil {
		return "", fmt.Errorf("kill slurmctld: %w", err)
	}
	out, err := exec.CommandContext(ctx, "squeue", "-h", "-o", "%i").Output()
	if err != nil {
		return "", err
	}
	there := map[string]bool{}
	for _, id := range strings.Fields(string(out)) {
		there[id] = true
	}
	lost, seen, twice := 0, map[string]bool{}, 0
	for _, id := range ids {
		if seen[id] {
			twice++
		}
		seen[id] = true
		if !there[id] {
			lost++
		}
	}
	return fmt.Sprintf("Slurm, 1 kill: %d of %d lost, %d ids given twice", lost, len(ids), twice), nil
}

// killAndRestart kills a daemon and runs it again with the same arguments and environment.
func killAndRestart(ctx context.Context, name string) error {
	out, err := exec.CommandContext(ctx, "pidof", "-s", name).Output()
	if err != nil {
		return fmt.Errorf("find %s: %w", name, err)
	}
	proc := filepath.Join("/proc", strings.TrimSpace(string(out)))
	args, err := os.ReadFile(filepath.Join(proc, "cmdline"))
	if err != nil {
		return err
	}
	env, err := os.ReadFile(filepath.Join(proc, "environ"))
	if err != nil {
		return err
	}
	var pid int
	if _, err := fmt.Sscan(strings.TrimSpace(string(out)), &pid); err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	argv := strings.Split(strings.TrimRight(string(args), "\x00"), "\x00")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = strings.Split(strings.TrimRight(string(env), "\x00"), "\x00")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // it goes into the background by itself, or stays
	for range 300 {
		if slurm(ctx) {
			return nil
		}
		<-time.After(100 * time.Millisecond)
	}
	return fmt.Errorf("%s does not answer after its restart", name)
}
