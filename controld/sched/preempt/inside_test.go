package preempt_test

import (
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// preemptorOn returns a preemptor in a cycle.
func preemptorOn(t *scratch.State) *preempt.Preemptor {
	return preempt.NewPreemptor(t, &preempt.Cache{})
}
