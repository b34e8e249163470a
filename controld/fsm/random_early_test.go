package fsm

import (
	"math/rand/v2"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// TestRandomEarlySignals is TestRandomTurns with jobs that are told of their time limit, at any
// instant. Each attempt is told at most once, when it is due, and not while it is suspended.
func TestRandomEarlySignals(t *testing.T) {
	seen := map[string]int{}
	for _, seed := range seeds() {
		c := &chaos{Rand: rand.New(rand.NewPCG(seed, 24)), s: New(cluster.DefaultConfig()), at: 1, seen: seen}
		twin, told := New(cluster.DefaultConfig()), map[model.JobID]model.Attempt{}
		for i := uint64(1); i <= 3000; i++ {
			c.at += model.Instant(c.IntN(5_000))
			e := Entry{Stamp: model.Stamp{At: c.at, Wall: model.UnixMS(c.at)}, Command: c.turnCommand()}
			if cmd, ok := e.Command.(SubmitJobs); ok {
				for _, spec := range cmd.Jobs {
					spec.TimeLimit, spec.Checkpoint = 100, &jobspec.Checkpoint{BeforeLimit: jobspec.Seconds(1 + c.IntN(99))}
				}
			} else if j := c.s.v.Job(c.job()); c.one(5) && j != nil && j.Live() != nil {
				e.Command = CommitPlan{Actions: []Action{&EarlySignal{Job: j.ID, Attempt: j.Live().N}}}
			}
			_, err := c.s.Apply(i, e)
			if bad := c.s.Check(); bad != nil {
				t.Fatalf("seed %d, entry %d, %s %+v: %v", seed, i, e.Command.Kind(), e.Command, bad)
			}
			twin = c.follow(t, seed, twin, i, e, err)
			for j := range c.s.v.Live() {
				a, was := j.Live(), told[j.ID]
				if told[j.ID] = *a; a.Early == was.Early && a.N == was.N || a.Early == 0 {
					continue
				}
				seen["told"]++
				if a.Switch != nil && a.Switch.Total > 0 {
					seen["told after a suspension"]++
				}
				left := a.Started.At.After(j.Limit) - c.s.v.At()
				if was.N == a.N && was.Early != 0 || a.Early != c.s.v.At() || a.Suspended() || a.Stop != nil ||
					left > model.Instant(j.Spec.Checkpoint.BeforeLimit)*1000 {
					t.Fatalf("seed %d, entry %d: job %d was told at %d, and now with %d ms left: %+v", seed, i, j.ID, was.Early,
						left, a)
				}
			}
		}
	}
	for _, what := range []string{"told", "told after a suspension"} {
		if seen[what] < 5 && *seedFlag == 0 {
			t.Errorf("only %d attempts were %s: %v", seen[what], what, seen)
		}
	}
}
