package sched

import (
	"slices"

	"github.com/rota-hpc/rota/controld/sched/baseline"
	"github.com/rota-hpc/rota/controld/sched/fairshare"
	"github.com/rota-hpc/rota/controld/sched/place"
	"github.com/rota-hpc/rota/controld/sched/policy"
	"github.com/rota-hpc/rota/controld/sched/rota"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// namedPolicy is a set of rules for scheduling, known by a name.
type namedPolicy struct {
	name  string
	begin func(*scratch.State, *Cache) policy.Rules // the rules in one cycle
}

// plain makes a policy of a function that has one phase and needs no memory of earlier cycles.
func plain(name string, serve func(*scratch.State)) namedPolicy {
	return namedPolicy{name, func(t *scratch.State,
		_ *Cache) policy.Rules {
		return policy.Rules{Serve: func() { serve(t) }}
	}}
}

// policies are all policies. The first is used for a name that is not here, so that a cluster never
// stands still because of its configuration. The state does not know the names; new clusters have
// [model.NewPolicy].
var policies = []namedPolicy{
	plain("standard", place.Standard),
	{"rota", func(t *scratch.State, d *Cache) policy.Rules { return rota.Rules(t, &d.candidates, &d.headroom) }},
	{"fairshare", func(t *scratch.State, _ *Cache) policy.Rules { return fairshare.Rules(t) }},
	plain("fifo", baseline.FIFO),
	plain("backfill", baseline.Backfill),
	plain("easy", baseline.EASY),
	plain("sjf", baseline.ShortestFirst),
	plain("srtf", baseline.LeastRemaining),
	plain("las", baseline.LAS),
	plain("spread", baseline.Spread),
	{"fitgpp", func(t *scratch.State, d *Cache) policy.Rules { return baseline.FitGpp(t, &d.candidates) }},
	{"lrtp", func(t *scratch.State, d *Cache) policy.Rules { return baseline.LRTP(t, &d.candidates) }},
	{"rand", func(t *scratch.State, d *Cache) policy.Rules { return baseline.Random(t, &d.candidates) }},
	{"elastic", func(t *scratch.State, _ *Cache) policy.Rules { return baseline.Elastic(t) }},
	plain("static", baseline.Static),
	plain("dragon", baseline.Dragon),
}

// Policies returns the names of all policies, sorted.
func Policies() []string {
	names := make([]string, len(policies))
	for i := range policies {
		names[i] = policies[i].name
	}
	slices.Sort(names)
	return names
}

// policyNamed returns a policy by its name; "" stands for the first.
func policyNamed(name string) *namedPolicy {
	if i := slices.IndexFunc(policies, func(p namedPolicy) bool { return p.name == name }); i >= 0 {
		return &policies[i]
	}
	return &policies[0]
}
