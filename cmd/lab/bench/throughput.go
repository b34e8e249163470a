package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
)

// measureThroughput runs many jobs of `true`, each in its own container, and compares the rate with
// that of the bare shim.
func measureThroughput(ctx context.Context, b *bench) error {
	n := b.repeat(1500)
	bare, err := b.bareShims(ctx, n)
	if err != nil {
		return err
	}
	return b.with(ctx, "throughput", 1, 1, func(c *lab.Cluster) error { return b.manyTrue(ctx, c, n, bare) })
}

func (b *bench) manyTrue(ctx context.Context, c *lab.Cluster, n int, bare float64) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	jobs := make([]*jobspec.Job, n)
	for i := range jobs {
		jobs[i] = held(c.Shared[0])
		jobs[i].Hold = false
	}
	start := time.Now()
	ids, err := client.SubmitAll(ctx, api.NewKey(), jobs)
	if err != nil {
		return err
	}
	if err := untilFinished(ctx, client, len(ids)); err != nil {
		return err
	}
	rate := float64(n) / time.Since(start).Seconds()
	b.add("single jobs of true finished per second", rate, "/s", "", b.beside(ctx, b.slurmThroughput))
	b.add("the same, of the bare shim's rate", 100*rate/bare, "%", ">= 60", fmt.Sprintf("bare shims %.0f/s", bare))
	return nil
}

// untilFinished waits until no job is pending or running, and checks that n jobs completed.
func untilFinished(ctx context.Context, client *api.Client, n int) error {
	if err := drained(ctx, client); err != nil {
		return err
	}
	completed, err := countCompleted(ctx, client)
	if err == nil && completed != n {
		err = fmt.Errorf("%d of %d jobs completed", completed, n)
	}
	return err
}

// drained waits until no job is pending or running.
func drained(ctx context.Context, client *api.Client) error {
	for {
		list, _, err := client.Jobs(ctx, api.JobFilter{Limit: 1}, api.Read{Consistent: true})
		if err == nil && len(list.Items) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func countCompleted(ctx context.Context, client *api.Client) (int, error) {
	n := 0
	err := eachFinished(ctx, client, func(j api.Job) {
		if j.Code == "CD" {
			n++
		}
	})
	return n, err
}

// eachFinished visits every finished job once.
func eachFinished(ctx context.Context, client *api.Client, visit func(api.Job)) error {
	page := ""
	for {
		list, _, err := client.History(ctx, api.HistoryFilter{Limit: 1000, Page: page}, api.Read{Consistent: true})
		if err != nil {
			return err
		}
		for _, j := range list.Items {
			visit(j)
		}
		if page = list.Next; page == "" {
			return nil
		}
	}
}

// bareShims runs the shim's own benchmark: create, start, exit record and remove, eight at a time,
// with nothing else around them.
func (b *bench) bareShims(ctx context.Context, n int) (float64, error) {
	cmd := exec.CommandContext(ctx, "go", "test", "-run=^$", "-bench=^BenchmarkTrue$/^warm=0$/^parallel=8$",
		fmt.Sprintf("-benchtime=%dx", n), "./cmd/rota-shim")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("bare shims: %w: %s", err, out)
	}
	rate := 0.0
	fields := strings.Fields(string(out))
	for i, f := range fields {
		if f != "containers/s" || i == 0 {
			continue
		}
		if rate, err = strconv.ParseFloat(fields[i-1], 64); err != nil {
			return 0, fmt.Errorf("bare shims: %w", err)
		}
	}
	if rate == 0 {
		return 0, fmt.Errorf("bare shims: no rate in %q", out)
	}
	return rate, nil
}
