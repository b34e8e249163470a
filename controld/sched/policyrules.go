package sched

import "github.com/rota-hpc/rota/controld/cluster"

// policyRules is a policy at work in one cycle. Each hook is a phase or answers a question; one that is nil does nothing.
type policyRules struct {
	// The phases, in the order in which they run.
	shrink  func() // takes workers from elastic jobs for jobs that wait, before anything starts
	serve   func() // starts what fits, in order, and reserves room for blocked heads
	resize  func() // changes the sizes of jobs by what has started
	preempt func() // asks running jobs to leave for jobs that still wait
	grow    func() // gives running jobs the room that is left

	// Answers to users.
	compare func(a, b *cluster.Job) int               // the order of jobs; nil: by class, priority and age
	limit   func(*cluster.Job) cluster.Reason         // the limit that keeps a job from starting, the zero reason if none does
	reason  func(*cluster.Job) (cluster.Reason, bool) // a reason of the policy's own; false if it has none
	advice  func(*cluster.Job) string                 // what else a user should know, "" if nothing
}

// run runs the phases. When a start has freed room that was reserved, nothing is taken from running jobs: jobs that were not tried may fit in the
// next cycle.
func (r *policyRules) run(t *trial) {
	for _, phase := range []func(){r.shrink, r.serve, r.resize} {
		if phase != nil {
			phase()
		}
	}
	if t.freed {
		return
	}
	for _, phase := range []func(){r.preempt, r.grow} {
		if phase != nil {
			phase()
		}
	}
}
