package sched

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// What tests of this package look at beside its exported names.
func CacheCandidates(x *Cache) *preempt.Cache         { return &x.candidates }
func CacheDue(x *Cache) *scratch.Pages[model.Instant] { return &x.due }

// Policies returns the names of all policies.
func Policies() []string {
	names := make([]string, len(policies))
	for i := range policies {
		names[i] = policies[i].name
	}
	return names
}
