package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/cmd/lab/training"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// The job whose time limit is measured while nothing else happens.
const (
	limit      = 15 * time.Second
	limitKills = 2
	killEvery  = 4 * time.Second
	takeOverBy = time.Second // the log's time loses at most this at each take-over
)

// timeLimit checks that a job ends at its limit although leaders are killed on a quiet cluster.
// Only the log's clock says there how late it is.
func (p *proof) timeLimit(ctx context.Context) error {
	client, err := p.cluster.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	dir := filepath.Join(p.shared, "limit")
	if err := lab.OpenDir(dir); err != nil {
		return err
	}
	j := lab.Job("limit", p.shared, false, jobspec.Resources{Cores: 1, Memory: 64 * jobspec.MiB, GPUs: 1}, 1,
		trainerCommand(p.shared, dir, 100_000)...)
	j.TimeLimit = jobspec.Seconds(limit / time.Second)
	j.Groups[0].Tasks[0].KillSignal = "SIGKILL" // it is not to save and be started again
	id, err := submit(ctx, client, j)
	if err != nil {
		return err
	}
	k := &killer{cluster: p.cluster, begin: time.Now(), verbose: p.verbose}
	for range limitKills {
		if !lab.Sleep(ctx, killEvery) {
			return context.Cause(ctx)
		}
		if err := k.kill(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
	got, err := awaitEnd(ctx, client, id, limit+patience)
	if err != nil {
		return err
	}
	all, err := training.Lives(filepath.Join(dir, training.File))
	if err != nil {
		return err
	}
	p.judgeLimit(got, all)
	return nil
}

// judgeLimit compares how long the job's trainer beat with its limit.
func (p *proof) judgeLimit(j *api.Job, all []training.Life) {
	var wrong complaints
	if j.Code != model.TimedOut || len(all) != 1 {
		wrong.add("job %d ended as %s with %s", j.ID, j.Code, countText(len(all), "attempt"))
	}
	ran := time.Duration(0)
	if len(all) > 0 {
		ran = all[0].Last.Sub(all[0].First)
	}
	if most := limit + limitKills*takeOverBy; ran > most {
		wrong.add("it ran longer than %v", most)
	}
	if ran < limit-time.Second {
		wrong.add("it was stopped before its limit")
	}
	p.tell("time limit", wrong, "a job with a limit of %v ran for %.2f s by its own heartbeats, with %s of the leader",
		limit, ran.Seconds(), countText(limitKills, "kill"))
}

// awaitEnd waits until a job has ended.
func awaitEnd(ctx context.Context, client *api.Client, id model.JobID, most time.Duration) (*api.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		j, _, err := client.Job(ctx, id, api.Read{Consistent: true})
		if err == nil && j.Ended != nil {
			return j, nil
		}
		if !lab.Sleep(ctx, 100*time.Millisecond) {
			return nil, fmt.Errorf("job %d has not ended after %v (%w)", id, most, err)
		}
	}
}
