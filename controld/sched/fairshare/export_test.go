package fairshare

import (
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/drf"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Methods for tests, which are in a package of their own.

// Policy is policy fairshare in one cycle.
type Policy = fairsharePolicy

// LeafQueue is waiting jobs by leaf of the account tree.
type LeafQueue = leafQueue

// NewPolicy returns policy fairshare over some accounts.
func NewPolicy(f *Accounts) *Policy { return newPolicy(f) }

// FormLine lines up the jobs that wait.
func (f *fairsharePolicy) FormLine() { f.line(f.accounts.frontScan(&f.seen, f.first)) }

// Place starts what fits.
func (f *fairsharePolicy) Place() { f.Serve() }

// Open returns the jobs that fit.
func (f *fairsharePolicy) Open() *LeafQueue { return f.open }

// Heads returns the blocked jobs that come first.
func (f *fairsharePolicy) Heads() *LeafQueue { return f.heads }

// First returns the sort keys of the heads.
func (f *fairsharePolicy) First() queue.Firsts[*drf.TreeNode] { return f.first }

// Leaves returns the users.
func (f *Accounts) Leaves() map[model.Association]*drf.TreeNode { return f.leaves }

// Began counts a job that was started.
func (f *Accounts) Began(a *fsm.StartJob) { f.began(a) }

// Anticipate counts a job as there for which room is kept.
func (f *Accounts) Anticipate(id model.JobID) { f.anticipate(id) }

// Unanticipate undoes Anticipate.
func (f *Accounts) Unanticipate(id model.JobID) { f.unanticipate(id) }

// Gone counts a job as gone.
func (f *Accounts) Gone(id model.JobID) { f.gone(id) }

// Counts reports whether the holder of a reservation counts as started.
func (f *Accounts) Counts(r *model.Reservation) bool { return f.counts(r) }

// Starved lines up the jobs for which room is sought.
func (f *Accounts) Starved() *LeafQueue { return f.starved() }

// FirstsStarved returns the sort keys of those for which no room is kept.
func (f *Accounts) FirstsStarved() queue.Firsts[*drf.TreeNode] {
	first := queue.Firsts[*drf.TreeNode]{}
	for leaf, j := range f.firstsStarved() {
		first.Of(leaf).Keep(queue.KeyOf(j))
	}
	return first
}

// Reclaimer returns a search for room, and the room that it tries things out in.
func (f *Accounts) Reclaimer() (*reclaimer, *fit.Room) {
	r := f.newReclaimer()
	return r, r.room
}

// ReclaimFor makes room for a job if it can.
func (r *reclaimer) ReclaimFor(c *queue.Contender, leaf *drf.TreeNode) { r.reclaimFor(c, leaf) }

// Accounts returns the accounts by which a queue goes.
func (q *leafQueue) Accounts() *Accounts { return q.f }

// FirstAt returns the first job of a leaf, nil if it has none.
func (q *leafQueue) FirstAt(leaf *drf.TreeNode) *queue.Contender {
	if t := q.at[leaf]; t != nil && len(t.line) > 0 {
		return t.line[0]
	}
	return nil
}

// Best returns the next job.
func (q *leafQueue) Best() (*queue.Contender, *drf.TreeNode) { return q.best() }

// Pop takes the first job of a leaf out.
func (q *leafQueue) Pop(leaf *drf.TreeNode) { q.pop(leaf) }

// State returns the scratch state of the cycle.
func (f *Accounts) State() *scratch.State { return f.state }

// JobOrder returns how jobs are ordered.
func (f *Accounts) JobOrder() *queue.Order { return f.order }
