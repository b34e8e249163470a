// Package baseline has the simple policies that a cluster may run beside rota and fairshare: fifo,
// backfill and fitgpp. They know no shares and no reservations in the log for blocked jobs. They
// look at every job in the state, so they are no policies for large clusters.
package baseline

import (
	"iter"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/place"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Waiting yields the jobs that may start, oldest first. Jobs that were displaced come at the place
// of their submission.
func Waiting(t *scratch.State) iter.Seq[*model.Job] {
	return func(yield func(*model.Job) bool) {
		for j := range t.View.Unassigned() {
			if j.Waits() && t.Startable(j) && !yield(j) {
				return
			}
		}
	}
}

// Starter starts whole jobs, and arrays task by task, where the placement of the policy block says.
type Starter struct {
	State  *scratch.State
	packer *place.Packer
	entry  queue.Contender // of StartWhole: one for all jobs saves memory
}

// NewStarter returns a starter for one cycle.
func NewStarter(t *scratch.State) *Starter { return &Starter{State: t, packer: place.NewPacker(t)} }

// StartWhole starts a job, and of an array all tasks that may start, and reports whether it could.
func (s *Starter) StartWhole(j *model.Job) bool {
	c := &s.entry
	*c = queue.Contender{Job: j}
	return c.StartAll(s.State, func() ([]fit.Spot, bool) {
		spots, ok := put(s.State, s.packer, c.Gang(s.State))
		s.packer.Took(spots)
		return spots, ok
	})
}

// StartAny starts whatever fits, in order. A job is not tried if it asks for at least as much as a
// job that has failed.
func (s *Starter) StartAny(jobs iter.Seq[*model.Job]) {
	var seen queue.Frontier
	for j := range jobs {
		g := s.State.Gang(j)
		seen.Try(&g, func() bool { return s.StartWhole(j) })
	}
}
