package fsm

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// TestForksTouchNothing lets forks of a living state go their own ways. Neither the view that they
// began with, nor the state, nor another fork may see anything of it, and each must hold every
// invariant.
func TestForksTouchNothing(t *testing.T) {
	for _, seed := range seeds() {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			c := &chaos{Rand: rand.New(rand.NewPCG(seed, 2)), s: New(cluster.DefaultConfig()), at: 1}
			twin := New(cluster.DefaultConfig())
			for i := uint64(1); i <= 1500; i++ {
				e := c.next()
				_, _ = c.s.Apply(i, e)
				_, _ = twin.Apply(i, e)
				if !c.one(25) {
					continue
				}
				v := c.s.View()
				said := say(t, v)
				for range 2 {
					f := &chaos{Rand: c.Rand, s: Fork(v), at: c.at, boots: 1000}
					for k := range uint64(20) {
						_, _ = f.s.Apply(i+1+k, f.next())
					}
					if bad := f.s.Check(); bad != nil {
						t.Fatalf("seed %d, fork at entry %d: %v", seed, i, bad)
					}
				}
				if now := say(t, v); now != said {
					t.Fatalf("seed %d: a fork changed the view at index %d:\n%s\nwas\n%s", seed, v.Index(), now, said)
				}
			}
			if bad := c.s.Check(); bad != nil {
				t.Fatalf("seed %d: the state after its forks: %v", seed, bad)
			}
			if ours, theirs := say(t, c.s.View()), say(t, twin.View()); ours != theirs {
				t.Fatalf("seed %d: a state with forks went another way than one without:\n%s\nwant\n%s", seed, ours, theirs)
			}
		})
	}
}

// TestChangedJobs compares what a state says has changed with what is different.
func TestChangedJobs(t *testing.T) {
	for _, seed := range seeds() {
		c := &chaos{Rand: rand.New(rand.NewPCG(seed, 3)), s: New(cluster.DefaultConfig()), at: 1}
		c.s.TrackChanges()
		for i := uint64(1); i <= 1500; i++ {
			before := c.s.View()
			_, _ = c.s.Apply(i, c.next())
			changed, all := c.s.ChangedJobs()
			if !all {
				t.Fatalf("seed %d: one command changed too many jobs to remember", seed)
			}
			after := c.s.View()
			for id := model.JobID(1); id <= after.LastJob(); id++ {
				if before.Job(id) != after.Job(id) && !slices.Contains(changed, id) {
					t.Fatalf("seed %d, entry %d: job %d changed unnoticed", seed, i, id)
				}
			}
		}
	}
}
