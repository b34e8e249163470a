package queue

import (
	"cmp"

	"github.com/rota-hpc/rota/controld/fsm/groups"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Order is how a policy orders the jobs that wait. A hook that is nil does not count: without any,
// jobs are ordered by [compare] alone.
type Order struct {
	State    *scratch.State
	MayStart func(*model.Job) bool // the policy allows the start
	Level    func(*model.Job) int  // service level, which decides before age: lower first
	// Excess returns a job's accounts that hold their whole entitlement or more. They are bits for
	// the levels of the account tree from the top down. -1: the job comes first. Excess decides
	// before anything else.
	Excess    func(*model.Job) int
	HoldsBack func(*model.Job) bool
	Bounded   func(*groups.Group) bool // a limit applies to the group's user or account
	// all groups are looked at, also where their fronts say enough: the order is the same
	FullScan  bool
	Fronts    int  // groups whose head was enough
	TeLimited bool // accounts and users have caps on their trial-and-error jobs
}

// Startable reports whether a job may start now.
func (o *Order) Startable(j *model.Job) bool {
	return o.State.Startable(j) && (o.MayStart == nil || o.MayStart(j))
}

// LeavesRoom reports whether a job leaves free room to new jobs.
func (o *Order) LeavesRoom(j *model.Job) bool { return o.HoldsBack != nil && o.HoldsBack(j) }

// Compare orders jobs. Among those that only age would tell apart, the lower service level comes
// first.
func (o *Order) Compare(a, b *model.Job) int {
	if o.byLevel(a, b) {
		if c := cmp.Compare(o.Level(a), o.Level(b)); c != 0 {
			return c
		}
	}
	return Compare(a, b)
}

// byLevel reports whether the service level decides between two jobs before age does.
func (o *Order) byLevel(a, b *model.Job) bool {
	return o != nil && o.Level != nil && a.Class == b.Class && a.OwnRoomFirst == b.OwnRoomFirst && a.Priority == b.Priority
}

// levelOf returns the service level of a job, 0 if the policy has none.
func (o *Order) levelOf(j *model.Job) int {
	if o.Level == nil {
		return 0
	}
	return o.Level(j)
}
