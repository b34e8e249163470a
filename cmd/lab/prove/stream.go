package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/cmd/lab/training"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// trained is a best-effort job that was acknowledged.
type trained struct {
	arrival
	id  model.JobID
	dir string
	kind
}

// tried is a trial-and-error job that was acknowledged.
type tried struct {
	id model.JobID
	trial
	asked time.Time // before its submission was sent for the first time
	file  string    // where its first line stands
}

// stream submits the jobs of a plan and remembers them.
type stream struct {
	plan
	addr, shared string
	begin        time.Time

	mu      sync.Mutex
	trained []trained
	tried   []tried
}

// run submits jobs until ctx ends.
func (s *stream) run(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make(chan error, 1+teClients)
	start := func(f func(context.Context, *api.Client) error) {
		wg.Go(func() {
			client, err := api.DialWith(s.addr, api.Options{Answer: 3 * time.Second})
			if err == nil {
				err = f(ctx, client)
				client.Close()
			}
			errs <- err
		})
	}
	start(s.train)
	for i := range teClients {
		start(func(ctx context.Context, c *api.Client) error { return s.try(ctx, c, i) })
	}
	wg.Wait()
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	return errors.Join(all...)
}

// submit submits a job until it is acknowledged, with one key. It returns 0 when ctx ends before.
func submit(ctx context.Context, client *api.Client, j *jobspec.Job) (model.JobID, error) {
	key := api.NewKey()
	for {
		id, err := client.Submit(ctx, key, j)
		if err == nil {
			return id, nil
		}
		var p *api.Problem
		if errors.As(err, &p) && p.Status < 500 && p.Status != 429 {
			return 0, fmt.Errorf("a submission is refused: %w", err)
		}
		if !lab.Sleep(ctx, 20*time.Millisecond) {
			return 0, nil
		}
	}
}

// train submits the best-effort jobs, each at its time.
func (s *stream) train(ctx context.Context, client *api.Client) error {
	for i, a := range s.arrivals {
		if !lab.Sleep(ctx, a.at-time.Since(s.begin)) {
			return nil
		}
		t := trained{arrival: a, dir: filepath.Join(s.shared, fmt.Sprintf("train%d", i)), kind: kinds[a.kind]}
		if err := lab.OpenDir(t.dir); err != nil {
			return err
		}
		var err error
		// Jobs on their way are finished: a job that was submitted and is unknown here is judged by
		// nothing.
		if t.id, err = submit(context.WithoutCancel(ctx), client, t.job(s.shared)); err != nil {
			return err
		}
		s.mu.Lock()
		s.trained = append(s.trained, t)
		s.mu.Unlock()
	}
	return nil
}

// job is the job file of a training job.
func (t *trained) job(shared string) *jobspec.Job {
	j := lab.Job(t.name, shared, false, jobspec.Resources{Cores: 1, Memory: 64 * jobspec.MiB, GPUs: t.gpus}, t.workers,
		trainerCommand(shared, t.dir, t.steps)...)
	j.Account, j.Priority = t.account, &t.priority
	j.Checkpoint = &jobspec.Checkpoint{Path: t.dir}
	j.Preemption = &jobspec.Preemption{GracePeriod: jobspec.Seconds(t.grace)}
	if t.stubborn {
		j.Preemption.Signal = "SIGWINCH" // which does nothing to a program that does not ask for it
	}
	return j
}

func trainerCommand(shared, dir string, steps int) []string {
	return []string{filepath.Join(shared, "bin", "trainer"), "-steps", strconv.Itoa(steps), "-every",
		strconv.Itoa(saveEvery), "-hidden", "8", "-pause", stepTime.String(), "-dir", dir}
}

// try submits the trial-and-error jobs of one client, one after another.
func (s *stream) try(ctx context.Context, client *api.Client, n int) error {
	for i, p := range s.trials[n] {
		if !lab.Sleep(ctx, p.after) {
			return nil
		}
		t := tried{trial: p, file: filepath.Join(s.shared, fmt.Sprintf("try%d-%d", n, i)), asked: time.Now()}
		j := lab.Job("try", s.shared, false, jobspec.Resources{Cores: 1, Memory: 32 * jobspec.MiB, GPUs: 1}, 1,
			"/bin/sh", "-c", fmt.Sprintf("date +%%s%%3N > %s; exec sleep %.3f", t.file, p.runs.Seconds()))
		j.Class, j.TimeLimit, j.Account = jobspec.TE, 60, accounts[n%len(accounts)]
		var err error
		if t.id, err = submit(context.WithoutCancel(ctx), client, j); err != nil {
			return err
		}
		s.mu.Lock()
		s.tried = append(s.tried, t)
		s.mu.Unlock()
		for !ended(ctx, client, t.id) {
			if !lab.Sleep(ctx, 50*time.Millisecond) {
				return nil
			}
		}
	}
	return nil
}

func ended(ctx context.Context, client *api.Client, id model.JobID) bool {
	j, _, err := client.Job(ctx, id, api.Read{})
	return err == nil && j.Ended != nil
}

// lives reads what a training job wrote.
func (t *trained) lives() ([]training.Life, error) {
	return training.Lives(filepath.Join(t.dir, training.File))
}
