package rota

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/place"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/jobspec"
)

// # Pairs of jobs and nodes
//
// Best-effort jobs that only age tells apart are not started strictly by age. Of all pairs of such
// a job and a node, the pair comes first that leaves the least of scarce resources. So nodes are
// filled well while there is a choice. A job that is passed for long gets a reservation, as any
// other.

// matcher chooses the job that starts next. It remembers the best node of each job.
type matcher struct {
	best map[*queue.Contender]pairing
	took []int32 // by node: starts there in this cycle
}

// pairing is a job's best node.
type pairing struct {
	job  *model.Job
	node int   // -1: nowhere
	took int32 // starts on the node when it was chosen
	left int64
}

// next returns the entry of a line that starts next, and where; false: the first in line does not
// fit.
func (m *matcher) next(t *rotaPolicy, l *queue.Line) (*queue.Contender, []fit.Spot, bool) {
	if top := l.Top(); !t.pairs(top) {
		spots, ok := t.place(top)
		return top, spots, ok
	}
	if m.best == nil {
		m.best, m.took = map[*queue.Contender]pairing{}, make([]int32, len(t.state.View.Nodes()))
	}
	for {
		c := m.choose(t, l)
		if c == nil {
			return l.Top(), nil, false
		}
		if l.Reorder(c) { // its place changed by starts since it lined up
			continue
		}
		p := m.best[c]
		spots, ok := t.state.Room.PlaceOn(c.Gang(t.state), p.node)
		if ok && t.spare.allows(c.Job, c.Gang(t.state), spots) && !t.backsOff(c.Job) {
			m.took[p.node]++
			return c, spots, true
		}
		m.best[c] = m.pair(t, c)
	}
}

// choose returns the job with the best pair, among the first in line and its equals; nil if none
// fits.
func (m *matcher) choose(t *rotaPolicy, l *queue.Line) *queue.Contender {
	top := l.Lead()
	var best *queue.Contender
	var least int64
	for _, c := range l.Some(max(1, maxPairs/len(m.took))) {
		if c != top && (!t.pairs(c) || !c.Alike(top) || t.state.Barred(c.Job).Code != model.ReasonNone) {
			continue
		}
		p, known := m.best[c]
		if !known || p.job != c.Job || p.node >= 0 && p.took != m.took[p.node] {
			p = m.pair(t, c)
			m.best[c] = p
		}
		if p.node < 0 {
			continue
		}
		if best == nil || p.left < least || p.left == least && t.order.Compare(c.Job, best.Job) < 0 {
			best, least = c, p.left
		}
	}
	return best
}

// pair finds a job's best node: the one left with the least room, of those that keep the headroom
// free.
func (m *matcher) pair(t *rotaPolicy, c *queue.Contender) pairing {
	g := c.Gang(t.state)
	best := pairing{job: c.Job, node: -1}
	if t.backsOff(c.Job) {
		return best
	}
	for node := range t.state.Room.Holding(g) {
		left := t.pack.Leftover(node, g.Request)
		if best.node >= 0 && left >= best.left {
			continue
		}
		if t.spare.allowsOn(c.Job, g, node) {
			best.node, best.left, best.took = node, left, m.took[node]
		}
	}
	return best
}

// pairs reports whether a job is paired with nodes. It must be a single best-effort worker that
// likes all nodes alike and has no reservation. No limit may be configured, since it could keep the
// second of two jobs from starting.
func (t *rotaPolicy) pairs(c *queue.Contender) bool {
	g := c.Gang(t.state)
	return c.Job.Class == jobspec.BE && c.Group != nil && g.Size() == 1 && g.Levels == nil &&
		t.state.Holders[c.Job.ID] == nil && len(t.state.View.Nodes()) <= place.PackNodes && !t.pack.Sharing() && !t.limited()
}
