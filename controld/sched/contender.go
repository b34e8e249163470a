package sched

import (
	"cmp"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/jobspec"
)

// contender is an entry of a queue: the first job of a group that may start, with the rest of its group behind it. A job that holds a
// reservation is an entry of its own, because it sees more room than the others of its group.
type contender struct {
	order   *jobOrder // nil: jobs are ordered by compare alone
	job     *cluster.Job
	request fit.Gang       // see gang; of no job until it is needed
	group   *cluster.Group // nil for a job alone
	next    int            // index in group.Jobs of the first one behind job
	members *cluster.Turns // the tasks of an array in the order in which they start, once one has started

	head     bool          // the job does not fit, and is only to be protected
	excess   overQuota     // see jobOrder.excess
	excessOf cluster.JobID // the job of which excess is known
	level    int           // see jobOrder.level
	levelOf  cluster.JobID // the job of which level is known
}

// newContender returns an entry for one job.
func newContender(o *jobOrder, j *cluster.Job) *contender { return &contender{order: o, job: j} }

// newContenderFor returns an entry for one job of which it is known what it asks for.
func newContenderFor(o *jobOrder, j *cluster.Job, g *fit.Gang) *contender {
	return &contender{order: o, job: j, request: *g}
}

// start starts the job, or the next task of the array, at the spots that were found for it.
func (c *contender) start(t *trial, spots []fit.Spot, past cluster.JobID) {
	t.start(c.job, c.member(), c.gang(t), spots, past)
}

// member returns the number of the array task that starts next, 0 for a job that is no array.
func (c *contender) member() int {
	if c.job.Family == nil {
		return 0
	}
	if c.members == nil {
		c.members = c.job.Turns()
	}
	return c.members.Next()
}

// nextTask reports whether more tasks of the array may start.
func (c *contender) nextTask() bool { return c.members != nil && c.members.Left() > 0 }

// skipTasks lets no further task of the array start.
func (c *contender) skipTasks() { c.members = nil }

// advance moves on to the group's next job that may start and reports whether there is one. An array stays until all of its tasks have started
// that may.
func (c *contender) advance(o *jobOrder) bool {
	if c.nextTask() {
		return true
	}
	if c.group == nil {
		return false
	}
	for c.next < len(c.group.Jobs) {
		j := c.group.Jobs[c.next]
		c.next++
		if o.holders[j.ID] == nil && !o.alone[j.ID] && o.startable(j) {
			c.job, c.members = j, nil
			return true
		}
	}
	return false
}

// gang returns what the job asks of a placement. All jobs of a group ask for the same, except for the nodes that they avoid.
func (c *contender) gang(t *trial) *fit.Gang {
	switch c.request.For {
	case c.job.ID:
	case 0:
		c.request = t.gang(c.job)
	default:
		c.request = c.request.Of(t.view, c.job)
	}
	return &c.request
}

// before reports whether an entry comes before another one. Among best-effort jobs those come last whose accounts are over quota. A user over quota
// counts only among jobs with about as much service: a new job may take the room of jobs that have had much, so these must not find themselves before it
// where room is free.
func (c *contender) before(o *contender) bool {
	if c.order == nil || c.order.excess == nil || c.head || c.job.Class == jobspec.TE || o.job.Class == jobspec.TE {
		return c.compare(o) < 0
	}
	mine, theirs := c.excessNow(), o.excessNow()
	if by := cmp.Compare(mine.accounts, theirs.accounts); by != 0 {
		return by < 0
	}
	if mine.user != theirs.user && c.order.byLevel(c.job, o.job) && c.levelNow() == o.levelNow() {
		return mine.user < theirs.user
	}
	return c.compare(o) < 0
}

// compare is jobOrder.compare, but computes each level once.
func (c *contender) compare(o *contender) int {
	if c.order.byLevel(c.job, o.job) {
		if by := cmp.Compare(c.levelNow(), o.levelNow()); by != 0 {
			return by
		}
	}
	return compare(c.job, o.job)
}

func (c *contender) levelNow() int {
	if c.levelOf != c.job.ID {
		c.level, c.levelOf = c.order.level(c.job), c.job.ID
	}
	return c.level
}

func (c *contender) excessNow() overQuota {
	if c.excessOf != c.job.ID {
		c.excess, c.excessOf = c.order.excess(c.job), c.job.ID
	}
	return c.excess
}

// alike reports whether only age tells two best-effort jobs apart in the order.
func (c *contender) alike(o *contender) bool {
	a, b := c.job, o.job
	return c.excessNow() == o.excessNow() && a.First == b.First && a.Priority == b.Priority && c.order.level(a) == c.order.level(b)
}

// refreshExcess computes again how far the accounts of the job are over quota, and reports whether that has changed.
func (c *contender) refreshExcess() bool {
	now := c.order.excess(c.job)
	changed := now != c.excessNow()
	c.excess = now
	return changed
}

// contenders is a heap of entries, best first.
type contenders []*contender

// Len implements heap.Interface.
func (c contenders) Len() int { return len(c) }

// Less implements heap.Interface.
func (c contenders) Less(i, j int) bool { return c[i].before(c[j]) }

// Swap implements heap.Interface.
func (c contenders) Swap(i, j int) { c[i], c[j] = c[j], c[i] }

// Push implements heap.Interface.
func (c *contenders) Push(x any) { *c = append(*c, x.(*contender)) }

// Pop implements heap.Interface.
func (c *contenders) Pop() any {
	old := *c
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*c = old[:len(old)-1]
	return last
}
