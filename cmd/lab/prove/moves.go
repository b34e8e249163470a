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

// moves makes an operator move a training to and fro between two nodes. It checks that the training
// goes on from there each time, and never on both.
func (p *proof) moves(ctx context.Context) error {
	if p.moveTimes == 0 {
		return nil
	}
	client, err := p.cluster.Client()
	if err != nil {
		return err
	}
	defer client.Close()
	t := turn{dir: filepath.Join(p.shared, "moves")}
	if err := lab.OpenDir(t.dir); err != nil {
		return err
	}
	j := lab.Job("moves", p.shared, false, jobspec.Resources{Cores: 1, Memory: 64 * jobspec.MiB, GPUs: 1}, 1,
		filepath.Join(p.shared, "bin", "trainer"), "-steps", fmt.Sprint(neverEnding), "-every", "0", "-log", "1",
		"-hidden", "8", "-pause", turnsStep.String(), "-dir", t.dir)
	j.Checkpoint = &jobspec.Checkpoint{Path: t.dir}
	j.Constraints = []jobspec.Constraint{{Attribute: "node.name", Operator: "in", Values: []string{"n1", "n2"}}}
	if t.id, err = submit(ctx, client, j); err != nil {
		return err
	}
	at, err := awaitAttempt(ctx, client, &t, 1)
	for n := 1; err == nil && n <= p.moveTimes; n++ {
		from := at
		if err := client.SetNode(ctx, from, "drain", "a job is to leave it"); err != nil {
			return err
		}
		if _, err := client.Control(ctx, fmt.Sprint(t.id), model.VerbRequeue, "it is to move"); err != nil {
			return err
		}
		if at, err = awaitAttempt(ctx, client, &t, n+1); err != nil {
			return err
		}
		if err := client.SetNode(ctx, from, "resume", ""); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if err := client.Cancel(ctx, t.id, "the job has moved often enough"); err != nil {
		return err
	}
	if _, err := awaitEnd(ctx, client, t.id, patience); err != nil {
		return err
	}
	return p.judgeMoves(ctx, &t)
}

// awaitAttempt waits until an attempt takes steps, and returns its node.
func awaitAttempt(ctx context.Context, client *api.Client, t *turn, n int) (node string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		j, _, err := client.Job(ctx, t.id, api.Read{})
		if err == nil && j.Attempt == n && j.Code == model.Running && len(j.Nodes) == 1 {
			all, err := training.Lives(filepath.Join(t.dir, training.File))
			if err == nil && len(all) == n && all[n-1].To > all[n-1].From {
				return j.Nodes[0], nil
			}
		}
		if !lab.Sleep(ctx, 20*time.Millisecond) {
			return "", fmt.Errorf("attempt %d of job %d takes no training step: %+v, %w", n, t.id, j, err)
		}
	}
}

// judgeMoves compares what each attempt has done.
func (p *proof) judgeMoves(ctx context.Context, t *turn) error {
	all, err := training.Lives(filepath.Join(t.dir, training.File))
	if err != nil {
		return err
	}
	var wrong complaints
	var gaps spread
	for i := 1; i < len(all); i++ {
		before, now := all[i-1], all[i]
		if now.From != before.To {
			wrong.add("attempt %d began at step %d, after step %d", now.Attempt, now.From, before.To)
		}
		if !now.First.After(before.Last) {
			wrong.add("attempts %d and %d ran at once", before.Attempt, now.Attempt)
		}
		gaps = append(gaps, now.First.Sub(before.Last))
	}
	if len(all) != p.moveTimes+1 {
		wrong.add("the job has had %s", countText(len(all), "attempt"))
	}
	p.tell("moves", wrong, "%d moves between two nodes; from the last heartbeat on one node to the first on the other: "+
		"%v", len(gaps),
		gaps)
	return p.judgeLosses(ctx, "moves lose nothing", []turn{*t})
}
