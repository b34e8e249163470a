package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
)

// takeOver is from the kill of a leader until another one is known.
type takeOver struct{ from, to time.Time }

// killer kills leaders.
type killer struct {
	cluster   *lab.Cluster
	begin     time.Time
	verbose   bool
	takeOvers []takeOver
	leaving   <-chan struct{} // has something when a job is asked to leave
}

// moment waits until a kill is due.
func (k *killer) moment(ctx context.Context, x kill) bool {
	if !lab.Sleep(ctx, x.after) {
		return false
	}
	if !x.leaving {
		return true
	}
	select {
	case <-k.leaving: // what was there before
	default:
	}
	select {
	case <-k.leaving:
		return lab.Sleep(ctx, x.then)
	case <-ctx.Done():
		return false
	}
}

// run kills one leader after another, as planned, until ctx ends.
func (k *killer) run(ctx context.Context, kills []kill) error {
	for _, x := range kills {
		if !k.moment(ctx, x) {
			return nil
		}
		if err := k.kill(context.WithoutCancel(ctx), x.down); err != nil {
			return err
		}
	}
	return nil
}

// kill kills the leader with kill -9, waits for another one, and starts the killed one again.
func (k *killer) kill(ctx context.Context, down time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	leader, err := k.cluster.Leader(ctx)
	if err != nil {
		return err
	}
	t := takeOver{from: time.Now()}
	leader.Kill()
	next, err := k.cluster.Leader(ctx)
	if err != nil {
		return fmt.Errorf("after %s was killed: %w", leader.Name, err)
	}
	t.to = time.Now()
	k.takeOvers = append(k.takeOvers, t)
	if k.verbose {
		fmt.Printf("%7.1fs  killed %s, %s leads %d ms later\n", t.from.Sub(k.begin).Seconds(), leader.Name, next.Name,
			t.to.Sub(t.from).Milliseconds())
	}
	lab.Sleep(ctx, down)
	return leader.Start()
}

// touched reports whether no leader was known at some moment of a span of time.
func touched(all []takeOver, from, to time.Time) bool {
	return slices.ContainsFunc(all, func(t takeOver) bool { return t.from.Before(to) && t.to.After(from) })
}
