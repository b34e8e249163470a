package sched

import (
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
)

// Cycle decides what to do at now, given everything in v. The plan may be empty: see [cluster.CommitPlan.Empty]. One without actions may still note that
// the service order was checked, so that this is not done again at every event. The second result is the next instant, later than now, at which another
// cycle could decide otherwise although nothing has changed by then; 0 if there is none. To run many cycles, keep a [Desk].
func Cycle(v *cluster.View, now cluster.Instant, p cluster.Policy) (cluster.CommitPlan, cluster.Instant) {
	return new(Desk).Cycle(v, now, p)
}

// policy is a set of rules for scheduling, known by a name.
type policy struct {
	name  string
	begin func(*trial, *Desk) policyRules // the rules in one cycle
}

// plain makes a policy of a function that has one phase and needs no memory of earlier cycles.
func plain(name string, serve func(*trial)) policy {
	return policy{name, func(t *trial, _ *Desk) policyRules { return policyRules{serve: func() { serve(t) }} }}
}

// policies are all policies. The first is used for a name that is not here, so that a cluster never stands still because of its configuration. The
// state does not know the names; new clusters have [cluster.NewPolicy].
var policies = []policy{
	plain("standard", standard),
	{"rota", func(t *trial, d *Desk) policyRules { return rota(t, &d.candidates, &d.headroom) }},
	{"fairshare", func(t *trial, _ *Desk) policyRules { return fairshare(t) }},
	plain("fifo", fifo),
	plain("backfill", backfill),
	plain("easy", easy),
	plain("sjf", shortest),
	plain("srtf", remaining),
	plain("las", las),
	plain("spread", spreadOut),
	{"fitgpp", func(t *trial, d *Desk) policyRules { return fitgpp(t, &d.candidates) }},
	{"lrtp", func(t *trial, d *Desk) policyRules { return lrtp(t, &d.candidates) }},
	{"rand", func(t *trial, d *Desk) policyRules { return random(t, &d.candidates) }},
	{"elastic", func(t *trial, _ *Desk) policyRules { return elastic(t) }},
	plain("static", static),
	plain("dragon", dragon),
}

// policyNamed returns a policy by its name; "" stands for the first.
func policyNamed(name string) *policy {
	if i := slices.IndexFunc(policies, func(p policy) bool { return p.name == name }); i >= 0 {
		return &policies[i]
	}
	return &policies[0]
}

// Policies returns the names that [cluster.Policy].Name can have, in order; "" is also one, that of policy standard.
func Policies() []string {
	names := make([]string, len(policies))
	for i := range policies {
		names[i] = policies[i].name
	}
	slices.Sort(names)
	return names
}
