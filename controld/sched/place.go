package sched

import (
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// placeRules are what a policy says about starts. A hook that is nil does not count.
type placeRules struct {
	headRules
	blocked func(*cluster.Job) bool                               // what has started since the line was formed keeps the job from starting
	denied  func(*cluster.Job, []fit.Spot) bool                   // the job may not start at these spots
	next    func(*line) (c *contender, spots []fit.Spot, ok bool) // the entry that starts next, and where; nil: the best one, anywhere
}

// placeInOrder starts what fits, in order, and protects blocked heads from being passed without bound. It ends early when a start has freed
// room, because jobs that failed before may fit then.
func placeInOrder(r *placeRules) {
	l, b := newLine(r.jobOrder), newBypass(&r.headRules)
	for !l.freed {
		if h := l.nextHead(); h != nil {
			b.consider(h)
			continue
		}
		if l.empty() {
			return
		}
		if c := l.lead(); r.blocked != nil && r.blocked(c.job) {
			l.skip()
			continue
		}
		c, spots, ok := r.choose(l)
		switch {
		case !ok:
			l.fail()
		case r.denied != nil && r.denied(c.job, spots):
			l.skip()
		default:
			r.start(c, spots, b.past())
			b.passed()
			l.pass(c)
		}
	}
}

// choose returns the entry that starts next, and where; false: the best entry does not fit.
func (r *placeRules) choose(l *line) (*contender, []fit.Spot, bool) {
	if r.next != nil {
		return r.next(l)
	}
	top := l.top()
	spots, ok := r.room.Place(top.gang(r.trial))
	return top, spots, ok
}

// standard serves jobs in the order of [compare] and disturbs no running job.
func standard(t *trial) {
	r := &placeRules{headRules: headRules{jobOrder: &jobOrder{trial: t}}}
	r.headRules.start = func(c *contender, spots []fit.Spot, past cluster.JobID) { c.start(t, spots, past) }
	placeInOrder(r)
}
