package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/config"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sim"
)

// TestPoliciesAreTheSameLiveAndSimulated checks that a simulated policy can be put into a
// configuration file: the same policies, with the same parameters under the same names.
func TestPoliciesAreTheSameLiveAndSimulated(t *testing.T) {
	only := []string{"srtf"} // needs to know in advance how long jobs run
	other := map[string]string{"influence": "usage_influence"}
	live := append(config.Policies(), only...)
	slices.Sort(live)
	if want := sched.Policies(); !slices.Equal(live, want) {
		t.Errorf("a configuration knows %v, the scheduler %v", live, want)
	}
	for _, name := range cluster.Policies {
		if !slices.Contains(live, name) {
			t.Errorf("a cluster may be given policy %s, and no file can describe it", name)
		}
	}
	simulated := slices.Sorted(slices.Values(sim.PolicyNames()))
	if !slices.Equal(simulated, sched.Policies()) {
		t.Errorf("the simulator knows %v, the scheduler %v", simulated, sched.Policies())
	}
	policy := ""
	for _, line := range sim.Known() {
		key := strings.Fields(line)[0]
		if !strings.HasPrefix(line, " ") {
			policy = key
			continue
		}
		if name, renamed := other[key]; renamed {
			key = name
		}
		known := config.Parameters(policy)
		if slices.Contains(config.Policies(), policy) && !slices.Contains(known, key) {
			t.Errorf("policy %s can be simulated with %s, but a configuration cannot say it: it has %v", policy,
				key, known)
		}
	}
}
