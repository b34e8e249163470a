package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
)

// with calls use with a cluster of its own, on loopback, and stops the cluster afterwards. Its
// controllers serve HTTP without TLS as well, and it runs jobs of root.
func (b *bench) with(ctx context.Context, name string, controllers, nodes int, use func(*lab.Cluster) error) error {
	dir, shared, err := b.directory(name)
	if err != nil {
		return err
	}
	return b.cluster(ctx, lab.Options{
		Bin: b.bin, Dir: dir, Controllers: controllers, Nodes: nodes, Cores: 64, Shared: []string{shared}, Loopback: true,
		Controld: []string{"--allow-root-jobs"}, Noded: []string{"--memory", "1TiB", "--allow-root-jobs"},
	}, use)
}

// directory makes the directory of a cluster, and one in it that its jobs share.
func (b *bench) directory(name string) (dir, shared string, err error) {
	dir = filepath.Join(b.dir, name)
	shared = filepath.Join(dir, "shared")
	if err := os.MkdirAll(shared, 0o755); err != nil {
		return "", "", err
	}
	return dir, shared, os.Chmod(shared, 0o1777)
}

// cluster calls use with a cluster that runs, and stops the cluster afterwards.
func (b *bench) cluster(ctx context.Context, o lab.Options, use func(*lab.Cluster) error) error {
	start, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c, err := lab.Start(start, o)
	if err == nil {
		err = use(c)
	}
	return errors.Join(err, c.Stop())
}

// times runs a command n times, one after the other, and returns how long each took.
func times(ctx context.Context, n int, command func() *exec.Cmd) ([]time.Duration, error) {
	ds := make([]time.Duration, 0, n)
	for range n {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		cmd := command()
		var errOut strings.Builder
		cmd.Stderr = &errOut
		start := time.Now()
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, errOut.String())
		}
		ds = append(ds, time.Since(start))
	}
	return ds, nil
}

const sleeper = `job "held" {
  hold = true
  task "true" {
    command = ["true"]
    resources {
      memory = "64MiB"
    }
  }
}
`

// measureStart times the command line: the start of the program, and a whole submission from one
// client.
func measureStart(ctx context.Context, b *bench) error {
	n := b.repeat(500)
	floor, err := times(ctx, n, func() *exec.Cmd { return exec.Command("/bin/true") })
	if err != nil {
		return err
	}
	started, err := times(ctx, n, func() *exec.Cmd { return exec.Command(filepath.Join(b.bin, "rota"), "version") })
	if err != nil {
		return err
	}
	beside := fmt.Sprintf("/bin/true %.2f ms", percentile(floor, 50))
	b.add("rota version, p50", percentile(started, 50), "ms", "<= 4.5", beside)
	return b.with(ctx, "start", 1, 1, func(c *lab.Cluster) error { return b.submitByCommand(ctx, c, n) })
}

func (b *bench) submitByCommand(ctx context.Context, c *lab.Cluster, n int) error {
	job := filepath.Join(c.Shared[0], "held.hcl")
	if err := os.WriteFile(job, []byte(sleeper), 0o644); err != nil {
		return err
	}
	submitted, err := times(ctx, n, func() *exec.Cmd {
		cmd := c.Rota(ctx, "submit", job)
		cmd.Dir = c.Shared[0]
		return cmd
	})
	if err != nil {
		return err
	}
	peer := b.beside(ctx, b.slurmSubmit)
	b.add("rota submit, 1 client, p50", percentile(submitted, 50), "ms", "<= 7", peer)
	b.add("rota submit, 1 client, p99", percentile(submitted, 99), "ms", "", peer)
	return nil
}
