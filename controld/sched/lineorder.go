package sched

import (
	"cmp"

	"github.com/rota-hpc/rota/controld/cluster"
)

// jobOrder is how a policy orders the jobs that wait. A hook that is nil does not count: without any, jobs are ordered by [compare] alone.
type jobOrder struct {
	*trial
	mayStart  func(*cluster.Job) bool      // the policy allows the start
	level     func(*cluster.Job) int       // service level, which decides before age: lower first
	aged      func(*cluster.Job) bool      // the job has waited for so long that it counts as new
	excess    func(*cluster.Job) overQuota // how far its accounts are over quota, which decides before anything else
	holdsBack func(*cluster.Job) bool      // the job leaves free room to new jobs: no room is kept for it
	bounded   func(*cluster.Group) bool    // a limit applies to the group's user or account
	teLimited bool                         // accounts may hold only so many GPUs in trial-and-error jobs

	alone map[cluster.JobID]bool // jobs that stand in line apart from their groups
}

// overQuota says how far the accounts and the user of a job hold as much as they are entitled to, or more.
type overQuota struct {
	accounts int // a bit for each level, from the top of the account tree down; -1: the job comes first
	user     int // 1: the user does, and has no quota of its own
}

// startable reports whether a job may start now.
func (o *jobOrder) startable(j *cluster.Job) bool {
	return o.trial.startable(j) && (o.mayStart == nil || o.mayStart(j))
}

// leavesRoom reports whether a job leaves free room to new jobs.
func (o *jobOrder) leavesRoom(j *cluster.Job) bool { return o.holdsBack != nil && o.holdsBack(j) }

// compare orders jobs. Among those that only age would tell apart, the lower service level comes first.
func (o *jobOrder) compare(a, b *cluster.Job) int {
	if o.byLevel(a, b) {
		if c := cmp.Compare(o.level(a), o.level(b)); c != 0 {
			return c
		}
	}
	return compare(a, b)
}

// byLevel reports whether the service level decides between two jobs before age does.
func (o *jobOrder) byLevel(a, b *cluster.Job) bool {
	return o != nil && o.level != nil && a.Class == b.Class && a.First == b.First && a.Priority == b.Priority
}

// keyOf returns the sort key of a job.
func (o *jobOrder) keyOf(j *cluster.Job) sortKey {
	k := keyOf(j)
	if o != nil && o.level != nil {
		k.level = o.level(j)
	}
	return k
}
