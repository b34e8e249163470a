// Package sched decides which jobs start, stop and wait.
//
// [Cycle] is a function from a view of the state to a plan: it reads no clock, keeps nothing
// between calls and changes nothing. The plan becomes real when fsm.Machine.Apply has checked each
// action with the same feasibility function that decided. A cycle works on a scratch state, on
// which it tries things out, and appends actions to the plan.
//
// # Order
//
// Trial-and-error jobs come before best-effort jobs, then the higher priority, then the older job.
// Held jobs and jobs in back-off stand aside and block no other job.
//
// # Bounded bypass
//
// A job that does not fit lets later jobs pass, so that no GPU idles while a job could use it. The
// first blocked job of each account is its queue head. So that it does not wait for ever, it gets a
// reservation after ReserveAfterMS, or when MaxBypass starts have gone past it. Only the first head
// without a reservation is counted. An account holds at most one reservation and the cluster at
// most 16. Each start names the head that it goes past, and Apply counts it in Job.Bypassed. So the
// bound survives a change of leader and costs no log entry of its own. A reservation binds all
// jobs, also those that arrive later and come first in the order. It ends when its job starts or
// stops waiting, or after ReserveHoldMS. Then it is made again for the nodes that are soonest at
// that time.
//
// # Policies
//
// The rules above are policy standard. A policy is a value with a method for each of its phases,
// listed in policies.go: see package policy. Policies that take room from running jobs do so in one
// way. A plan keeps the room for the job that is to get it, by a reservation for a preemptor, which
// goes before all others. It asks the victims to leave, each with the job's name. The state refuses
// such a stop when that job does not wait any more. A job that left for a job that is gone by now
// goes first when it is back.
//
// # Steering
//
// Operators pause parts of scheduling (package steering). The cycle leaves out the phases that they forbid,
// policies ask scratch.State.May, and scratch.State.Act drops what is forbidden all the same. In a dry run
// the plan is made as if displacements were paused. It carries the requests to running jobs that a second
// cycle without the dry run would have made.
//
// # Packages
//
//   - scratch: what a cycle works on; fit: room for gangs on the grid of nodes and GPUs
//   - queue: the order of jobs and the queue heads; reserve: reservations for heads, and when room
//     comes free
//   - place: starts what fits, and where; elastic: the sizes of elastic jobs
//   - preempt: which running jobs leave, by cost
//   - drf: dominant resource fairness; fairshare: what accounts hold by it, reclaim, policy
//     fairshare
//   - introspect: jobs that share nodes and GPUs: turns, packing, moves
//   - rota: policy rota; baseline: policies to compare with
//   - explain: why a job waits
package sched

import (
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched/introspect"
	"github.com/rota-hpc/rota/controld/sched/policy"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Cycle decides on the actions at now, for the state v. The plan may be empty: see
// [fsm.CommitPlan.Empty]. One without actions may still note that the service order was checked, so
// that this is not done again at every event. The second result is the next instant at which
// another cycle could decide otherwise although nothing has changed by then; 0 if there is none. To
// run many cycles, keep a [Cache].
func Cycle(v *state.View, now model.Instant, p cluster.Policy) (fsm.CommitPlan, model.Instant) {
	return planOf(v, now, p, new(memory))
}

// decide is one scheduling cycle: the phases in order, as docs/policy.md shows them. Each phase
// tries things out on the scratch state and appends actions to its plan; no phase looks back. told
// is the orders of operators, m the memory that the cycle may overwrite. Beside the scratch state
// decide returns the policy at work, which explains the plan.
func decide(v *state.View, now model.Instant, p cluster.Policy, told *steering.Steering,
	m *memory) (*scratch.State, *policy.Answers) {
	t := scratch.New(v, now, p, &m.room)
	t.Steering = told
	m.limit(t)
	defer m.candidates.EndCycle()

	// 1. Expire: end attempts, reservations and waiting jobs whose time is over. It comes before the
	// policy looks at the room, because reservations that end here bind no job any more.
	policy.Expire(t, &m.due)
	rules := policyNamed(p.Name).begin(t, m)
	sharing := introspect.New(t, rules.Answers())

	// 2. Resume: suspended jobs go on where there is room, before new jobs take it. If an operator
	// has paused all of scheduling, the cycle ends here: jobs that hold memory must not hang.
	sharing.Resume()
	if told.Paused(steering.All) != nil {
		return t, rules.Answers()
	}

	// 3. Shrink: elastic jobs give up workers for jobs that would start with next to nothing.
	if t.May(steering.Preemption) {
		rules.Shrink()
	}

	// 4. Serve: start jobs that fit, in order, and reserve room for blocked queue heads.
	rules.Serve()

	// 5. Resize: give elastic jobs that have just started more of the free room. A cycle ends early if
	// a start has freed reserved room, or if it has started as many jobs as it may. More jobs may fit
	// in the next cycle, so nothing is taken from running jobs in this one.
	rules.Resize()
	if t.EndsEarly() {
		return t, rules.Answers()
	}

	// 6. Take turns: jobs that share nodes pause for jobs that have had less.
	sharing.TakeTurns()

	// 7. Preempt: ask the cheapest running jobs to leave for jobs that still wait. Moves that an
	// operator has paused were only tried: the room that was kept for them is given back.
	if t.May(steering.Preemption) {
		rules.Preempt()
	}
	if !t.May(steering.Migration) {
		withdrawMigrations(t)
	}

	// 8. Grow: running elastic jobs get workers in room that nothing else wants.
	if t.May(steering.Growth) {
		rules.Grow()
	}

	// 9. Move: running and suspended jobs go on elsewhere for their own sake, in room that is left.
	sharing.Move()
	return t, rules.Answers()
}
