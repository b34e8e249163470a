package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Load. Every client waits a little between its calls, so that a run of half an hour leaves a
// history that can be checked.
const (
	submitters   = 4
	registers    = 3 // jobs whose names are registers, at any time
	users        = 2 // clients of each register
	trainers     = 3
	submitEvery  = 80 * time.Millisecond
	callEvery    = 40 * time.Millisecond // on a register
	registerNext = 15 * time.Second      // then another job is the register: histories stay short
	trainerSteps = 500
	gangSteps    = 300
)

// promise is what a client was told of one job.
type promise struct {
	id        model.JobID
	cancelled bool // its cancellation was acknowledged
	runs      bool // it was to run once
}

// clients load the cluster and remember what they were told.
type clients struct {
	ctx    context.Context // ends when they are to stop
	begin  time.Time
	addr   string
	dir    string // for their own files
	shared string // for those of jobs
	bin    string

	mu       sync.Mutex
	promises []promise
	history  []operation
	trained  []trained
	calls    int
	unknown  int // calls without an answer
	twice    int // retries of a submission whose answer was lost
}

// dial returns a client that gives up before a fault does, so that some answers are lost.
func (c *clients) dial() (*api.Client, error) {
	return api.DialWith(c.addr, api.Options{Answer: 3 * time.Second})
}

// run runs all clients until ctx ends, and waits for those of jobs.
func (c *clients) run() error {
	var wg sync.WaitGroup
	errs := make(chan error, submitters+registers*users+trainers+2)
	start := func(f func(client *api.Client) error) {
		wg.Go(func() {
			client, err := c.dial()
			if err == nil {
				err = f(client)
				client.Close()
			}
			errs <- err
		})
	}
	for i := range submitters {
		start(func(client *api.Client) error { return c.submitter(client, i) })
	}
	for r := range registers {
		shared := &register{}
		for u := range users {
			start(func(client *api.Client) error { return c.registerUser(client, shared, r, u) })
		}
	}
	for i := range trainers {
		start(func(client *api.Client) error { return c.trainer(client, i, 1, trainerSteps) })
	}
	start(func(client *api.Client) error { return c.trainer(client, trainers, 2, gangSteps) })
	start(c.onceRunner)
	wg.Wait()
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	return errors.Join(all...)
}

// count notes how a call went, and returns true if it was answered.
func (c *clients) count(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	if err != nil {
		c.unknown++
	}
	return err == nil
}

// held is a job that nothing starts.
func held(name, dir string) *jobspec.Job {
	return lab.Job(name, dir, true, jobspec.Resources{Cores: 1, Memory: 64 * jobspec.MiB}, 1, "true")
}

// submit submits one job until it is acknowledged, with one key. It returns 0 when ctx ends before.
func (c *clients) submit(client *api.Client, j *jobspec.Job) (model.JobID, error) {
	key := api.NewKey()
	for try := 0; ; try++ {
		id, err := client.Submit(c.ctx, key, j)
		if c.ctx.Err() != nil && err != nil {
			return 0, nil
		}
		if c.count(err) {
			c.mu.Lock()
			c.twice += min(try, 1)
			c.mu.Unlock()
			return id, nil
		}
		var p *api.Problem
		if errors.As(err, &p) && p.Status < 500 && p.Status != 429 {
			return 0, fmt.Errorf("a submission is refused: %w", err)
		}
		lab.Sleep(c.ctx, 20*time.Millisecond)
	}
}

// submitter submits held jobs and cancels every second one. An id is on its disk before it counts as
// acknowledged.
func (c *clients) submitter(client *api.Client, n int) error {
	file, err := os.Create(filepath.Join(c.dir, fmt.Sprintf("acknowledged-%d", n)))
	if err != nil {
		return err
	}
	defer file.Close()
	for i := 0; lab.Sleep(c.ctx, submitEvery); i++ {
		id, err := c.submit(client, held(fmt.Sprintf("s%d-%d", n, i), c.shared))
		if err != nil || id == 0 {
			return err
		}
		p := promise{id: id}
		if err := note(file, id); err != nil {
			return err
		}
		if i%8 != 0 {
			p.cancelled = c.count(client.Cancel(c.ctx, id, ""))
		}
		c.mu.Lock()
		c.promises = append(c.promises, p)
		c.mu.Unlock()
	}
	return nil
}

func note(file *os.File, id model.JobID) error {
	if _, err := fmt.Fprintln(file, id); err != nil {
		return err
	}
	return file.Sync()
}

// onceRunner runs one short job after another in real containers. Each adds a line with its id to a
// file.
func (c *clients) onceRunner(client *api.Client) error {
	file, err := os.Create(filepath.Join(c.dir, "acknowledged-once"))
	if err != nil {
		return err
	}
	defer file.Close()
	for i := 0; lab.Sleep(c.ctx, 2*time.Second); i++ {
		j := lab.Job("once-"+strconv.Itoa(i), c.shared, false, jobspec.Resources{Cores: 1, Memory: 64 * jobspec.MiB}, 1,
			"/bin/sh", "-c", `echo "$ROTA_JOB_ID $ROTA_ATTEMPT" >> once`)
		id, err := c.submit(client, j)
		if err != nil || id == 0 {
			return err
		}
		if err := note(file, id); err != nil {
			return err
		}
		c.mu.Lock()
		c.promises = append(c.promises, promise{id: id, runs: true})
		c.mu.Unlock()
	}
	return nil
}

// register is the job whose name is the register of a few clients for some time.
type register struct {
	mu sync.Mutex
	id model.JobID
	n  int64
}

// at returns the job that is the register now. The first client that asks submits it.
func (r *register) at(c *clients, client *api.Client, n int) (model.JobID, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := int64(time.Since(c.begin)/registerNext) + 1
	if r.n == now {
		return r.id, nil
	}
	id, err := c.submit(client, held(initialName, c.shared))
	if err != nil || id == 0 {
		return 0, err
	}
	r.id, r.n = id, now
	return id, nil
}

// registerUser writes and reads a register, by turns.
func (c *clients) registerUser(client *api.Client, r *register, n, user int) error {
	number := n*users + user // of this client
	for i := 0; lab.Sleep(c.ctx, callEvery); i++ {
		id, err := r.at(c, client, n)
		if err != nil || id == 0 {
			return err
		}
		op := operation{client: number, register: id, call: time.Since(c.begin)}
		if i%2 == 0 {
			op.write, op.value = true, fmt.Sprintf("w%d-%d", number, i)
			_, err = client.Update(c.ctx, strconv.FormatInt(int64(id), 10), api.UpdateRequest{Name: &op.value})
		} else {
			var j *api.Job
			if j, _, err = client.Job(c.ctx, id, api.Read{Consistent: true}); err == nil {
				op.value = j.Name
			}
		}
		op.done, op.answered = time.Since(c.begin), c.count(err)
		c.mu.Lock()
		c.history = append(c.history, op)
		c.mu.Unlock()
	}
	return nil
}

// trained is a job of the trainer.
type trained struct {
	id      model.JobID
	dir     string
	workers int
	steps   int
}

// trainer has one training job run after another, until the run is over.
func (c *clients) trainer(client *api.Client, n, workers, steps int) error {
	for i := 0; c.ctx.Err() == nil; i++ {
		dir := filepath.Join(c.shared, fmt.Sprintf("train%d-%d", n, i))
		if err := lab.OpenDir(dir); err != nil {
			return err
		}
		j := lab.Job(fmt.Sprintf("train%d-%d", n, i), c.shared, false,
			jobspec.Resources{Cores: 1, Memory: 128 * jobspec.MiB, GPUs: 1}, workers,
			filepath.Join(c.bin, "trainer"), "-steps", strconv.Itoa(steps), "-every", strconv.Itoa(saveEvery), "-pause", "40ms",
			"-dir", dir)
		j.Checkpoint = &jobspec.Checkpoint{Path: dir}
		no := false
		j.Restart = &jobspec.Restart{Attempts: 20, Delay: 1, Backoff: "constant", ExcludeNode: &no}
		id, err := c.submit(client, j)
		if err != nil || id == 0 {
			return err
		}
		c.mu.Lock()
		c.trained = append(c.trained, trained{id, dir, workers, steps})
		c.mu.Unlock()
		for lab.Sleep(c.ctx, 500*time.Millisecond) {
			if j, _, err := client.Job(c.ctx, id, api.Read{}); err == nil && j.Ended != nil {
				break
			}
		}
	}
	return nil
}
