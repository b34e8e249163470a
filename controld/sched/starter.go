package sched

import (
	"iter"

	"github.com/rota-hpc/rota/controld/cluster"
)

// waiting yields the jobs that may start, oldest first. Jobs that were displaced come at the place of their submission.
func waiting(t *trial) iter.Seq[*cluster.Job] {
	return func(yield func(*cluster.Job) bool) {
		for j := range t.view.Unassigned() {
			if j.Waits() && t.startable(j) && !yield(j) {
				return
			}
		}
	}
}

// starter starts whole jobs, and arrays task by task, where the placement of the policy block says.
type starter struct {
	*packer
	entry contender // of startWhole: one for all jobs saves memory
}

func newStarter(t *trial) *starter { return &starter{packer: newPacker(t)} }

// startWhole starts a job, and of an array all tasks that may start, and reports whether it could.
func (s *starter) startWhole(j *cluster.Job) bool {
	c := &s.entry
	*c = contender{job: j}
	for {
		spots, ok := put(s.packer, c.gang(s.trial))
		if !ok {
			return false
		}
		c.start(s.trial, spots, 0)
		s.took(spots)
		if !c.nextTask() {
			return true
		}
	}
}

// startAny starts whatever fits, in order. What asks for at least as much as something that has failed is not tried.
func (s *starter) startAny(jobs iter.Seq[*cluster.Job]) {
	var seen frontier
	for j := range jobs {
		g := s.gang(j)
		if seen.covers(&g) || s.startWhole(j) {
			continue
		}
		if len(g.Exclude) == 0 {
			seen.add(&g)
		}
	}
}
