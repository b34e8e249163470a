package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// measureKill kills the leader with SIGKILL again and again while many clients submit. Every
// acknowledged id must exist afterwards, once, and every job must have run exactly once. Jobs run
// on a counting node, because no machine starts a thousand containers a second. It speaks the
// protocol of a node daemon and ends each job at once.
func measureKill(ctx context.Context, b *bench) error {
	for _, n := range []int{1, 3} {
		err := b.with(ctx, fmt.Sprintf("kill%d", n), n, 0,
			func(c *lab.Cluster) error { return b.killLeaders(ctx, c, b.repeat(20)) })
		if err != nil {
			return fmt.Errorf("%d controllers: %w", n, err)
		}
	}
	return nil
}

func (b *bench) killLeaders(ctx context.Context, c *lab.Cluster, kills int) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	node, err := joinCounting(c, "counting")
	if err != nil {
		return err
	}
	stop, err := node.start(ctx)
	if err != nil {
		return err
	}
	acks := &acknowledged{}
	start := time.Now()
	err = acks.collect(ctx, c, func() error { return b.kills(ctx, c, kills) })
	rate := float64(len(acks.ids)) / time.Since(start).Seconds()
	if err == nil {
		err = drained(ctx, client)
	}
	stop()
	if err != nil {
		return err
	}
	v, err := acks.verify(ctx, client, node)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%d kills of the leader, %d controllers: ", kills, c.Options.Controllers)
	b.add(name+"acknowledged/s", rate, "/s", ">= 1000", "downtime included")
	of := fmt.Sprintf("of %d acknowledged", len(acks.ids))
	b.add(name+"lost", float64(v.lost), "jobs", "0", of)
	b.add(name+"ids given twice", float64(v.reused), "ids", "0", of)
	b.add(name+"not run exactly once", float64(v.wrong), "jobs", "0", of)
	return nil
}

// kills kills and restarts the leader at random instants.
func (b *bench) kills(ctx context.Context, c *lab.Cluster, n int) error {
	rng := rand.New(rand.NewPCG(b.seed, uint64(n)))
	for range n {
		leader, err := c.Leader(ctx)
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Duration(500+rng.IntN(1000)) * time.Millisecond):
		}
		leader.Kill()
		if err := leader.Start(); err != nil {
			return err
		}
		ready, cancel := context.WithTimeout(ctx, 30*time.Second)
		err = c.Ready(ready)
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// acknowledged is the clients' own record of acknowledged ids, on disk before anything is compared.
type acknowledged struct {
	mu  sync.Mutex
	ids []model.JobID
}

// collect submits from many clients until during returns. Each client writes and syncs an id before
// it counts as acknowledged.
func (a *acknowledged) collect(ctx context.Context, c *lab.Cluster, during func() error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, clients)
	stop := make(chan struct{})
	for i := range clients {
		wg.Go(func() { errs[i] = a.client(ctx, c, i, stop) })
	}
	err := during()
	close(stop)
	wg.Wait()
	return errors.Join(append(errs, err)...)
}

// client submits until stop, with a key for every job. It repeats a submission without an answer
// with the same key.
func (a *acknowledged) client(ctx context.Context, c *lab.Cluster, n int, stop <-chan struct{}) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	file, err := os.Create(filepath.Join(c.Dir, fmt.Sprintf("acks-%d", n)))
	if err != nil {
		return err
	}
	defer file.Close()
	job := held(c.Shared[0])
	job.Hold = false
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		id, err := submitUntilAnswered(ctx, client, job)
		if err != nil {
			return err
		}
		fmt.Fprintln(file, id)
		if err := file.Sync(); err != nil {
			return err
		}
		a.mu.Lock()
		a.ids = append(a.ids, id)
		a.mu.Unlock()
	}
}

// submitUntilAnswered repeats one submission, with one key, until a controller accepts it.
func submitUntilAnswered(ctx context.Context, client *api.Client, job *jobspec.Job) (model.JobID, error) {
	key := api.NewKey()
	for {
		id, err := client.Submit(ctx, key, job)
		if err == nil {
			return id, nil
		}
		var p *api.Problem
		if errors.As(err, &p) && p.Status < 500 {
			return 0, err
		}
		select {
		case <-ctx.Done():
			return 0, errors.Join(context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// verdict counts the differences between acknowledged and existing jobs.
type verdict struct{ lost, reused, wrong int }

func (a *acknowledged) verify(ctx context.Context, client *api.Client, node *countingNode) (verdict, error) {
	var v verdict
	promised := map[model.JobID]int{}
	for _, id := range a.ids {
		if promised[id]++; promised[id] > 1 {
			v.reused++
		}
	}
	there := map[model.JobID]bool{}
	err := eachFinished(ctx, client, func(j api.Job) { there[j.ID] = j.Code == model.Completed && j.Attempt == 1 })
	for id := range promised {
		once, ok := there[id]
		switch {
		case !ok:
			v.lost++
		case !once || node.starts[id] != 1:
			v.wrong++
		}
	}
	return v, err
}
