package queue

import (
	"cmp"

	"github.com/rota-hpc/rota/controld/fsm/groups"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/scratch"
	"github.com/rota-hpc/rota/jobspec"
)

// Contender is an entry of a queue: the first job of a group that may start, with the rest of its
// group behind it. A job that holds a reservation is an entry of its own, because it sees more room
// than the others of its group.
type Contender struct {
	order   *Order // nil: jobs are ordered by compare alone
	Job     *model.Job
	request fit.Gang         // see gang; of no job until it is needed
	Group   *groups.Group    // nil for a job alone
	next    int              // index in group.Jobs of the first one behind job
	Members *model.TaskOrder // the tasks of an array in the order in which they start, once one has started

	excess   int         // see Order.Excess
	excessOf model.JobID // the job that excess was computed for
	level    int         // see Order.Level
	levelOf  model.JobID // the job that level was computed for
}

// NewContender returns an entry for one job.
func NewContender(o *Order, j *model.Job) *Contender { return &Contender{order: o, Job: j} }

// NewContenderFor returns an entry for one job with a known request.
func NewContenderFor(o *Order, j *model.Job, g *fit.Gang) *Contender {
	return &Contender{order: o, Job: j, request: *g}
}

// Start starts the job, or the next task of the array, at the spots that were found for it. It
// reports whether it could: see [scratch.State.Start].
func (c *Contender) Start(t *scratch.State, spots []fit.Spot, past model.JobID) bool {
	return t.Start(c.Job, c.taskNumber(), c.Gang(t), spots, past)
}

// StartAll starts the job, or all tasks of the array that may start, where a function puts them. It
// reports whether they fit. A job that a limit keeps from starting counts as fitting, so that it
// blocks no other job.
func (c *Contender) StartAll(t *scratch.State, put func() ([]fit.Spot, bool)) bool {
	for {
		spots, ok := put()
		if !ok {
			return false
		}
		if !c.Start(t, spots, 0) {
			return t.OverLimitAt(c.Job, spots).Code != model.ReasonNone
		}
		if !c.NextTask() {
			return true
		}
	}
}

// taskNumber returns the number of the array task that starts next, 0 for a job that is no array.
func (c *Contender) taskNumber() int {
	if c.Job.Children == nil {
		return 0
	}
	if c.Members == nil {
		c.Members = c.Job.TaskOrder()
	}
	return c.Members.Next()
}

// NextTask reports whether more tasks of the array may start.
func (c *Contender) NextTask() bool { return c.Members != nil && c.Members.Len() > 0 }

// Skip leaves out the job, with all tasks of an array, and moves on as [Contender.Advance] does.
func (c *Contender) Skip(o *Order) bool {
	c.Members = nil
	return c.Advance(o)
}

// Advance moves on to the group's next job that may start and reports whether there is one. An
// array stays until all of its tasks have started that may.
func (c *Contender) Advance(o *Order) bool {
	if c.NextTask() {
		return true
	}
	if c.Group == nil || o.State.GroupOverLimit(c.Group) {
		return false
	}
	for c.next < len(c.Group.Jobs) {
		j := c.Group.Jobs[c.next]
		c.next++
		if o.State.Holders[j.ID] == nil && o.Startable(j) {
			c.Job, c.Members = j, nil
			return true
		}
	}
	return false
}

// Gang returns the placement request of the job. All jobs of a group ask for the same, except for
// the nodes that they avoid.
func (c *Contender) Gang(t *scratch.State) *fit.Gang {
	switch c.request.For {
	case c.Job.ID:
	case 0:
		c.request = t.Gang(c.Job)
	default:
		c.request = c.request.Of(t.View, c.Job)
	}
	return &c.request
}

// before reports whether an entry comes before another one. Among best-effort jobs those come last
// whose accounts or users hold their part already.
func (c *Contender) before(o *Contender) bool {
	if c.order == nil || c.order.Excess == nil || c.Job.Class == jobspec.TE || o.Job.Class == jobspec.TE {
		return c.compare(o) < 0
	}
	if by := cmp.Compare(c.excessNow(), o.excessNow()); by != 0 {
		return by < 0
	}
	return c.compare(o) < 0
}

// compare is jobOrder.compare, but computes each level once.
func (c *Contender) compare(o *Contender) int {
	if c.order.byLevel(c.Job, o.Job) {
		if by := cmp.Compare(c.levelNow(), o.levelNow()); by != 0 {
			return by
		}
	}
	return Compare(c.Job, o.Job)
}

func (c *Contender) levelNow() int {
	if c.levelOf != c.Job.ID {
		c.level, c.levelOf = c.order.levelOf(c.Job), c.Job.ID
	}
	return c.level
}

func (c *Contender) excessNow() int {
	if c.excessOf != c.Job.ID {
		c.excess, c.excessOf = c.order.Excess(c.Job), c.Job.ID
	}
	return c.excess
}

// Alike reports whether only age tells two best-effort jobs apart in the order.
func (c *Contender) Alike(o *Contender) bool {
	a, b := c.Job, o.Job
	return c.excessNow() == o.excessNow() && a.OwnRoomFirst == b.OwnRoomFirst && a.Priority == b.Priority &&
		c.levelNow() == o.levelNow()
}

// refresh computes the terms again that depend on holdings of accounts and users, which grow as
// jobs start. It reports whether they have changed.
func (c *Contender) refresh() bool {
	excess, level := c.excessNow(), c.levelNow()
	c.excess, c.level = c.order.Excess(c.Job), c.order.levelOf(c.Job)
	return c.excess != excess || c.level != level
}

// Contenders is a heap of entries, best first.
type Contenders []*Contender

// Len implements heap.Interface.
func (c Contenders) Len() int { return len(c) }

// Less implements heap.Interface.
func (c Contenders) Less(i, j int) bool { return c[i].before(c[j]) }

// Swap implements heap.Interface.
func (c Contenders) Swap(i, j int) { c[i], c[j] = c[j], c[i] }

// Push implements heap.Interface.
func (c *Contenders) Push(x any) { *c = append(*c, x.(*Contender)) }

// Pop implements heap.Interface.
func (c *Contenders) Pop() any {
	old := *c
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*c = old[:len(old)-1]
	return last
}
