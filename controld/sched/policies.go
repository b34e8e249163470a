package sched

import (
	"slices"

	"github.com/rota-hpc/rota/controld/sched/baseline"
	"github.com/rota-hpc/rota/controld/sched/compare"
	"github.com/rota-hpc/rota/controld/sched/fairshare"
	"github.com/rota-hpc/rota/controld/sched/place"
	"github.com/rota-hpc/rota/controld/sched/policy"
	"github.com/rota-hpc/rota/controld/sched/rota"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// sharedRules is raised when policies decide differently because of code that they share: phases,
// grid, queue, reservations, preemption, or the state that they read.
const sharedRules = 1

// namedPolicy is a set of rules for scheduling, known by a name.
type namedPolicy struct {
	name    string
	version int                                         // raised when its own rules decide differently
	begin   func(*scratch.State, *memory) policy.Phases // the policy at work in one cycle
}

// rules is the version that plans carry. It grows with either number, so that no two versions of a
// policy that were ever built have the same.
func (p *namedPolicy) rules() int { return sharedRules + p.version }

// plain makes a policy of a function that has one phase and needs no memory of earlier cycles.
func plain(name string, version int, serve func(*scratch.State)) namedPolicy {
	return namedPolicy{name, version, func(t *scratch.State, _ *memory) policy.Phases {
		return policy.ServeOnly(func() { serve(t) })
	}}
}

// policies are all policies. The first is used for a name that is not here, so that a cluster never
// stands still because of its configuration. The state does not know the names; new clusters have
// [cluster.NewPolicy].
var policies = []namedPolicy{
	// those that a cluster may be given: [cluster.Policies]
	plain("standard", 1, place.Standard),
	{"rota", 2, func(t *scratch.State, m *memory) policy.Phases { return rota.New(t, &m.candidates, &m.headroom) }},
	{"fairshare", 1, func(t *scratch.State, _ *memory) policy.Phases { return fairshare.New(t) }},
	{"fitgpp", 2, func(t *scratch.State, m *memory) policy.Phases { return baseline.FitGpp(t, &m.candidates) }},
	plain("backfill", 1, baseline.Backfill),
	plain("fifo", 1, baseline.FIFO),

	// those that the simulator compares with, and that clusters of earlier versions may still have
	plain("easy", 1, compare.EASY),
	plain("sjf", 1, compare.ShortestFirst),
	plain("srtf", 1, compare.LeastRemaining),
	plain("las", 1, compare.LAS),
	plain("spread", 1, compare.Spread),
	{"lrtp", 1, func(t *scratch.State, m *memory) policy.Phases { return compare.LRTP(t, &m.candidates) }},
	{"rand", 1, func(t *scratch.State, m *memory) policy.Phases { return compare.Random(t, &m.candidates) }},
	{"elastic", 1, func(t *scratch.State, _ *memory) policy.Phases { return compare.Elastic(t) }},
	plain("static", 1, compare.Static),
	plain("dragon", 1, compare.Dragon),
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

// RulesVersion is the version of a policy's rules in this program. A plan of another version may
// differ from the present decision of a cycle.
func RulesVersion(policy string) int { return policyNamed(policy).rules() }

// policyNamed returns a policy by its name; "" stands for the first.
func policyNamed(name string) *namedPolicy {
	if i := slices.IndexFunc(policies, func(p namedPolicy) bool { return p.name == name }); i >= 0 {
		return &policies[i]
	}
	return &policies[0]
}
