// Package policy says what a scheduling policy is: [Rules], a value with one hook for each phase of
// a cycle. The first phase, [Expire], is the same for all policies.
package policy

import (
	"slices"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Rules is a policy at work in one cycle. Each hook is a phase or answers a question; one that is
// nil does nothing.
type Rules struct {
	// The phases, in the order in which they run.
	Resume func() // has suspended attempts go on where there is room
	Shrink func() // takes workers from elastic jobs for jobs that wait, before anything starts
	Serve  func() // starts what fits, in order, and reserves room for blocked heads
	Resize func() // changes the sizes of jobs by what has started
	// lets jobs that still wait, and those that are suspended, have their turn: others pause for them
	TakeTurns func()
	Preempt   func() // asks running jobs to leave for jobs that still wait
	Grow      func() // gives running jobs the room that is left
	Move      func() // has running and suspended jobs go on elsewhere for their own sake

	// for what running jobs are asked to leave; of te, reclaim and order those that the policy knows
	Causes []model.Cause

	// whether what the policy keeps free for jobs to come is there in a copy of the room; nil: nothing
	// is
	Keeps func(*fit.Room) bool

	// Answers to users.
	Order *queue.Order // how jobs are ordered; nil: by class, priority and age
	// the order of jobs in which accounts come first whatever their jobs are; nil: that of Order
	Compare func(a, b *model.Job) int
	Terms   func(*model.Job) queue.Terms // what decides a job's place; nil: what the hooks of Order tell
	// the limit that keeps a job from starting, the zero reason if none does
	Limit  func(*model.Job) model.Reason
	Reason func(*model.Job) (model.Reason, bool) // a reason of the policy's own; false if it has none
	Advice func(*model.Job) string               // what else a user should know, "" if nothing
	// why the policy spares a running job from leaving for one that waits, by the rule for a cause, ""
	// if it does not: what the rules do not say that hold under every policy
	Spares func(waiting *model.Job, running *estimate.LiveAttempt, by model.Cause) string
}

// Run runs the phases. When a start has freed room that was reserved, or the cycle has started as
// many jobs as it may, nothing is taken from running jobs: jobs that were not tried may fit in the
// next cycle. What an operator has paused is left out, and a dry run leaves out what displaces
// jobs.
func (r *Rules) Run(t *scratch.State) {
	if t.Steering.Paused(steering.All) != nil {
		if r.Resume != nil {
			r.Resume()
		}
		return
	}
	run := func(phase func(), may bool) {
		if phase != nil && may {
			phase()
		}
	}
	run(r.Resume, true)
	preempts := t.May(steering.Preemption)
	run(r.Shrink, preempts)
	run(r.Serve, true)
	run(r.Resize, true)
	if t.EndsEarly() {
		return
	}
	run(r.TakeTurns, true)
	run(r.Preempt, preempts)
	if !t.May(steering.Migration) {
		withdrawMigrations(t)
	}
	run(r.Grow, t.May(steering.Growth))
	run(r.Move, t.May(steering.Migration))
}

// withdrawMigrations takes back the room that was kept in this cycle for jobs for which others
// would have moved: the moves themselves were dropped.
func withdrawMigrations(t *scratch.State) {
	t.Actions = slices.DeleteFunc(t.Actions, func(a fsm.Action) bool {
		r := a.Reserve
		if r == nil || !r.ForPreemptor || !t.Unmoved[r.Job] {
			return false
		}
		t.Room.Unclaim(r.Job)
		delete(t.Holders, r.Job)
		if before := t.View.Reservation(r.Job); before != nil && before.Until > t.Now {
			t.Room.Claim(before)
			t.Holders[r.Job] = before
		}
		t.Revision++
		return true
	})
}
