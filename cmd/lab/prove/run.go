package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// How long what runs or waits when the last job has come may go on.
const endPatience = 5 * time.Minute

// policy is the one that a cluster has without being told.
const policy = "rota"

// prove runs the quiet part and the busy part, and judges what was seen. An error means that it
// could not.
func (p *proof) prove(ctx context.Context) error {
	if err := p.checkPolicy(ctx); err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	p.log = newEventLog()
	watchers := p.log.watch(watching, p.cluster)
	if err := p.timeLimit(ctx); err != nil {
		return err
	}
	if err := p.turns(ctx); err != nil {
		return err
	}
	if err := p.moves(ctx); err != nil {
		return err
	}
	if err := p.busy(ctx); err != nil {
		return err
	}
	state, problems, err := p.cluster.Check(ctx)
	if err != nil {
		return err
	}
	stop()
	watchers.Wait()
	f, err := p.found(ctx)
	if err != nil {
		return err
	}
	p.judge(f)
	p.tell("invariants", problems, "`rota check` on %s, state %s", countText(controllers, "controller"), state)
	return nil
}

func (p *proof) checkPolicy(ctx context.Context) error {
	client, err := p.cluster.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	c, _, err := client.Cluster(ctx)
	if err == nil && c.Policy != policy {
		err = fmt.Errorf("a new cluster uses policy %q, not %q", c.Policy, policy)
	}
	return err
}

// busy runs the stream of jobs and the kills of leaders, and waits for the jobs.
func (p *proof) busy(ctx context.Context) error {
	length := time.Duration(p.minutes * float64(time.Minute))
	begin := time.Now()
	jobs := makePlan(p.seed, length)
	p.stream = &stream{plan: jobs, addr: p.cluster.Addr(), shared: p.shared, begin: begin}
	p.kills = &killer{cluster: p.cluster, begin: begin, verbose: p.verbose, leaving: p.log.leaving}
	timed, stop := context.WithDeadline(ctx, begin.Add(length))
	defer stop()
	var wg sync.WaitGroup
	var errs [2]error
	part := func(i int, f func() error) {
		wg.Go(func() {
			if errs[i] = f(); errs[i] != nil {
				stop()
			}
		})
	}
	part(0, func() error { return p.stream.run(timed) })
	part(1, func() error { return p.kills.run(timed, jobs.kills) })
	wg.Wait()
	if err := errors.Join(errs[0], errs[1], ctx.Err()); err != nil {
		return err
	}
	ready, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := p.cluster.Ready(ready); err != nil {
		return err
	}
	fmt.Printf("seed %d, %.0f s: %s and %s submitted, %s killed\n", p.seed, time.Since(begin).Seconds(),
		countText(len(p.stream.trained), "training job"), countText(len(p.stream.tried), "trial"),
		countText(len(p.kills.takeOvers), "leader"))
	return p.drain(ctx)
}

// drain cancels jobs that have not started, and waits until all others have ended.
func (p *proof) drain(ctx context.Context) error {
	client, err := p.cluster.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	var ids []model.JobID
	for _, t := range p.stream.trained {
		ids = append(ids, t.id)
	}
	for _, id := range ids {
		j, _, err := client.Job(ctx, id, api.Read{Consistent: true})
		if err != nil {
			return err
		}
		if j.Attempt > 0 || j.Ended != nil {
			continue
		}
		if err := client.Cancel(ctx, id, "the run is over"); err != nil {
			return err
		}
	}
	for _, t := range p.stream.tried {
		ids = append(ids, t.id)
	}
	deadline := time.Now().Add(endPatience)
	for _, id := range ids {
		if _, err := awaitEnd(ctx, client, id, time.Until(deadline)); err != nil {
			return err
		}
	}
	for len(p.cluster.Containers()) > 0 && time.Now().Before(deadline) {
		lab.Sleep(ctx, 50*time.Millisecond)
	}
	return ctx.Err()
}
