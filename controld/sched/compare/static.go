package compare

import (
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/reserve"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Static serves jobs by priority and age, and lets others pass those that do not fit. An elastic
// job has a fixed number of workers: the most that the cluster could ever hold.
func Static(t *scratch.State) {
	s := &elasticPolicy{state: t}
	for _, j := range s.line() {
		c := queue.NewContender(nil, j)
		c.StartAll(t, func() ([]fit.Spot, bool) {
			if !fixSize(t, c) {
				return nil, false
			}
			return placeTogether(t, c.Gang(t))
		})
	}
}

// fixSize sets the size of an elastic job that waits to the most that the cluster could hold if it
// were empty. False: the empty cluster is too small for the job's minimum.
func fixSize(t *scratch.State, c *queue.Contender) bool {
	g := c.Gang(t)
	terms, elastic := c.Job.Elastic()
	if !elastic {
		return true
	}
	part := g.At(terms.Part)
	for part.Workers = terms.Max; part.Workers >= terms.Min; part.Workers -= terms.Unit {
		if reserve.EverHolds(t, g) {
			return true
		}
	}
	return false
}
