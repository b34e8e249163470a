// Package place starts jobs that fit, in the order of a queue, and chooses nodes so that the
// remaining room stays useful.
package place

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/reserve"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Rules are a policy's rules for starts. A hook that is nil does not count.
type Rules struct {
	reserve.HeadRules
	// starts since the line was formed keep this job from starting
	Blocked func(*model.Job) bool
	Denied  func(*model.Job, []fit.Spot) bool // the job may not start at these spots
	// the entry that starts next, and where; nil: the best one, anywhere
	Next func(*queue.Line) (c *queue.Contender, spots []fit.Spot, ok bool)
}

// InOrder starts jobs that fit, in order, and protects blocked heads from being passed without
// bound. It ends after as many starts as one cycle may have. It also ends when a start has freed
// room, because jobs that failed before may fit then.
func InOrder(r *Rules) {
	l, b := queue.NewLine(r.Order), reserve.NewBypass(&r.HeadRules)
	for !r.Order.State.EndsEarly() {
		if h := l.NextHead(); h != nil {
			b.Consider(h)
			continue
		}
		if l.Empty() {
			return
		}
		if c := l.Lead(); r.Blocked != nil && r.Blocked(c.Job) ||
			r.Order.State.Barred(c.Job).Code != model.ReasonNone {
			l.Skip()
			continue
		}
		c, spots, ok := r.choose(l)
		switch {
		case !ok:
			l.Fail()
		case r.Denied != nil && r.Denied(c.Job, spots) || r.Order.State.BarredAt(c.Job, spots):
			l.Skip()
		case !r.Start(c, spots, b.Past()):
			l.Skip()
		default:
			b.Passed()
			l.Pass(c)
		}
	}
}

// choose returns the entry that starts next, and where; false: the best entry does not fit.
func (r *Rules) choose(l *queue.Line) (*queue.Contender, []fit.Spot, bool) {
	if r.Next != nil {
		return r.Next(l)
	}
	top := l.Top()
	spots, ok := r.Order.State.Room.Place(top.Gang(r.Order.State))
	return top, spots, ok
}

// Standard serves jobs in the order of [compare] and disturbs no running job.
func Standard(t *scratch.State) {
	r := &Rules{HeadRules: reserve.HeadRules{Order: &queue.Order{State: t}}}
	r.HeadRules.Start = func(c *queue.Contender, spots []fit.Spot, past model.JobID) bool {
		return c.Start(t, spots, past)
	}
	InOrder(r)
}
