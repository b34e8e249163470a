package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
)

const dateJob = `job "date" {
  task "date" {
    script = "date +%s.%N >> ${out}/dates"
    resources {
      memory = "64MiB"
    }
  }
}
`

// measureLatency times the way from the start of `rota submit` to `date`, the first command of the
// job's script, on an idle cluster.
func measureLatency(ctx context.Context, b *bench) error {
	return b.with(ctx, "latency", 1, 1, func(c *lab.Cluster) error { return b.firstCommand(ctx, c) })
}

func (b *bench) firstCommand(ctx context.Context, c *lab.Cluster) error {
	dir := c.Shared[0]
	job := filepath.Join(dir, "date.hcl")
	body := bytes.ReplaceAll([]byte(dateJob), []byte("${out}"), []byte(dir))
	if err := os.WriteFile(job, body, 0o644); err != nil {
		return err
	}
	var waits []time.Duration
	for range b.repeat(200) {
		start := time.Now()
		cmd := c.Rota(ctx, "submit", "--wait", job)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("submit: %w: %s", err, out)
		}
		at, err := lastDate(filepath.Join(dir, "dates"))
		if err != nil {
			return err
		}
		waits = append(waits, at.Sub(start))
	}
	peer := b.beside(ctx, b.slurmLatency)
	b.add("rota submit to the script's first command, p50", percentile(waits, 50), "ms", "<= 100", peer)
	b.add("rota submit to the script's first command, p99", percentile(waits, 99), "ms", "<= 250", peer)
	return nil
}

// lastDate reads the newest line that a job wrote.
func lastDate(path string) (time.Time, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return time.Time{}, err
	}
	lines := bytes.Fields(b)
	s, ns, ok := bytes.Cut(lines[len(lines)-1], []byte("."))
	sec, err1 := strconv.ParseInt(string(s), 10, 64)
	nsec, err2 := strconv.ParseInt(string(ns), 10, 64)
	if !ok || err1 != nil || err2 != nil {
		return time.Time{}, fmt.Errorf("date wrote %q", lines[len(lines)-1])
	}
	return time.Unix(sec, nsec), nil
}
