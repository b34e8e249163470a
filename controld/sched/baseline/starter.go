// Package baseline has the policies of other schedulers and of papers, to compare with. They know
// no classes, shares or reservations in the log, and disturb no running job unless their name says
// so. They look at every job in the state, so they are no policies for large clusters.
package baseline

import (
	"iter"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/place"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// waiting yields the jobs that may start, oldest first. Jobs that were displaced come at the place
// of their submission.
func waiting(t *scratch.State) iter.Seq[*model.Job] {
	return func(yield func(*model.Job) bool) {
		for j := range t.View.Unassigned() {
			if j.Waits() && t.Startable(j) && !yield(j) {
				return
			}
		}
	}
}

// starter starts whole jobs, and arrays task by task, where the placement of the policy block says.
type starter struct {
	state  *scratch.State
	packer *place.Packer
	entry  queue.Contender // of startWhole: one for all jobs saves memory
}

func newStarter(t *scratch.State) *starter { return &starter{state: t, packer: place.NewPacker(t)} }

// startWhole starts a job, and of an array all tasks that may start, and reports whether it could.
func (s *starter) startWhole(j *model.Job) bool {
	c := &s.entry
	*c = queue.Contender{Job: j}
	return c.StartAll(s.state, func() ([]fit.Spot, bool) {
		spots, ok := put(s.state, s.packer, c.Gang(s.state))
		s.packer.Took(spots)
		return spots, ok
	})
}

// startAny starts whatever fits, in order. What asks for at least as much as something that has
// failed is not tried.
func (s *starter) startAny(jobs iter.Seq[*model.Job]) {
	var seen queue.Frontier
	for j := range jobs {
		g := s.state.Gang(j)
		seen.Try(&g, func() bool { return s.startWhole(j) })
	}
}
