package sched_test

import (
	"testing"

	"github.com/rota-hpc/rota/controld/sched/schedtest"
)

// TestMishaps plays the random histories of all kinds while GPUs break, and nodes go down, are
// drained and are booted anew. The rules hold all the same. The state accepts every plan, the
// cluster comes to rest, kept rules stay kept, and no job waits that could start.
func TestMishaps(t *testing.T) {
	kinds := map[string]func(seed uint64, policy string, seen map[string]int) (*schedtest.World, func() error){
		"life": func(seed uint64, policy string, seen map[string]int) (*schedtest.World, func() error) {
			l := newLife(seed, policy, seen)
			l.faulty = true
			return l.World, func() error {
				l.judge.integrate(observe(l)) // what was lost holds nothing from now on
				return l.step()
			}
		},
		"contest": func(seed uint64, policy string, seen map[string]int) (*schedtest.World, func() error) {
			c := schedtest.NewContest(seed, policy, seen)
			c.Faulty = true
			return c.World, func() error { c.Step(); return c.Settle() }
		},
		"sharing": func(seed uint64, policy string, seen map[string]int) (*schedtest.World, func() error) {
			c := schedtest.NewContest(seed, policy, seen)
			c.Faulty = true
			return c.World, func() error { c.StepShared(); return c.Settle() }
		},
		"stretched": func(seed uint64, policy string, seen map[string]int) (*schedtest.World, func() error) {
			s := schedtest.NewStretched(seed, policy, seen)
			return s.World, func() error { s.Step(); return s.Settle() }
		},
	}
	for kind, policies := range map[string][]string{
		"life": {"standard", "fairshare", "fitgpp", "rota", "elastic"}, "contest": {"rota", "fitgpp", "rand"},
		"sharing": {"standard", "rota", "fairshare", "backfill", "easy"}, "stretched": {"elastic", "dragon", "static",
			"rota"},
	} {
		for _, policy := range policies {
			t.Run(kind+" "+policy, func(t *testing.T) {
				schedtest.PlayMishaps(t, func(seed uint64, seen map[string]int) (*schedtest.World, func() error) {
					return kinds[kind](seed, policy, seen)
				})
			})
		}
	}
}
