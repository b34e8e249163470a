package fairshare

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/drf"
	"github.com/rota-hpc/rota/controld/sched/queue"
)

// leafQueue holds the waiting jobs by leaf of the account tree, each leaf as a heap in the order of
// compare. Siblings form a heap in the order of their turns. Each node remembers the next job below
// it until a line or a holding there changes. So a turn costs one path up the tree, O(depth x log
// siblings), rather than a scan of all leaves.
type leafQueue struct {
	f    *Accounts
	at   map[*drf.TreeNode]*turn
	root *turn
}

func newLeafQueue(f *Accounts) *leafQueue {
	q := &leafQueue{f: f, root: &turn{node: f.Tree.Root()}}
	q.at = map[*drf.TreeNode]*turn{q.root.node: q.root}
	f.queues = append(f.queues, q)
	return q
}

// turn is the next job at or below a node.
type turn struct {
	node  *drf.TreeNode
	above *turn            // nil: it is the root
	line  queue.Contenders // of a leaf
	below turns            // of nodes directly below that have jobs in line

	changed  []*turn // directly below, where the next job has to be found again
	outdated bool    // this one is in above.changed
	place    int     // in above.below, if best is not nil

	best *queue.Contender // nil: no job stands in line
	job  *model.Job       // its job, until the next search
	leaf *drf.TreeNode
	asks drf.Amount
	next drf.Candidate // the node as it would be with best
}

// turns is a heap of siblings, the better class first. Within a class, a job that left its room in
// vain comes first, the oldest of several. The others go by the saturation of their accounts with
// the next job.
type turns []*turn

// Len implements heap.Interface.
func (s turns) Len() int { return len(s) }

// Less implements heap.Interface.
func (s turns) Less(i, j int) bool {
	a, b := s[i].job, s[j].job
	if by := cmp.Or(cmp.Compare(queue.ClassRank(a.Class), queue.ClassRank(b.Class)),
		queue.FirstRank(a)-queue.FirstRank(b)); by != 0 {
		return by < 0
	}
	if a.OwnRoomFirst {
		return a.ID < b.ID
	}
	return s[i].next.Compare(&s[j].next) < 0
}

// Swap implements heap.Interface.
func (s turns) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].place, s[j].place = i, j
}

// Push implements heap.Interface.
func (s *turns) Push(x any) {
	t := x.(*turn)
	t.place = len(*s)
	*s = append(*s, t)
}

// Pop implements heap.Interface.
func (s *turns) Pop() any {
	n := len(*s) - 1
	last := (*s)[n]
	(*s)[n] = nil
	*s = (*s)[:n]
	return last
}

// of returns the turn of a node.
func (q *leafQueue) of(n *drf.TreeNode) *turn {
	t := q.at[n]
	if t == nil {
		t = &turn{node: n, above: q.of(n.Parent())}
		q.at[n] = t
	}
	return t
}

func (q *leafQueue) push(leaf *drf.TreeNode, c *queue.Contender) {
	t := q.of(leaf)
	heap.Push(&t.line, c)
	t.touch()
}

// has reports whether a job stands in the line of a leaf.
func (q *leafQueue) has(leaf *drf.TreeNode, j *model.Job) bool {
	return slices.ContainsFunc(q.of(leaf).line, func(c *queue.Contender) bool { return c.Job == j })
}

// put makes a job the only one of a leaf.
func (q *leafQueue) put(leaf *drf.TreeNode, c *queue.Contender) {
	t := q.of(leaf)
	t.line = append(t.line[:0], c)
	t.touch()
}

// pop takes the first job of a leaf out.
func (q *leafQueue) pop(leaf *drf.TreeNode) {
	t := q.of(leaf)
	heap.Pop(&t.line)
	t.touch()
}

// fix restores the heap of a leaf after its first job was replaced.
func (q *leafQueue) fix(leaf *drf.TreeNode) {
	t := q.of(leaf)
	heap.Fix(&t.line, 0)
	t.touch()
}

// drop removes from all lines the jobs that a function selects.
func (q *leafQueue) drop(out func(leaf *drf.TreeNode, c *queue.Contender) bool) {
	for leaf, t := range q.at {
		kept := t.line[:0]
		for _, c := range t.line {
			if !out(leaf, c) {
				kept = append(kept, c)
			}
		}
		if len(kept) == len(t.line) {
			continue
		}
		clear(t.line[len(kept):])
		t.line = kept
		heap.Init(&t.line)
		t.touch()
	}
}

// held is called after a change of a leaf's holdings.
func (q *leafQueue) held(leaf *drf.TreeNode) {
	n := leaf
	for q.at[n] == nil {
		n = n.Parent()
	}
	q.at[n].touch()
}

// touch makes a node and the nodes above it find the next job again.
func (t *turn) touch() {
	for ; t.above != nil && !t.outdated; t = t.above {
		t.outdated = true
		t.above.changed = append(t.above.changed, t)
	}
}

// best returns the next job, nil if there is none.
func (q *leafQueue) best() (*queue.Contender, *drf.TreeNode) {
	q.root.settle(q.f)
	return q.root.best, q.root.leaf
}

// settle finds the next job again below nodes that have changed.
func (t *turn) settle(f *Accounts) {
	for _, c := range t.changed {
		stood := c.best != nil
		c.outdated = false
		c.settle(f)
		switch stands := c.best != nil; {
		case stood && stands:
			heap.Fix(&t.below, c.place)
		case stands:
			heap.Push(&t.below, c)
		case stood:
			heap.Remove(&t.below, c.place)
		}
	}
	clear(t.changed)
	t.changed = t.changed[:0]
	switch {
	case len(t.line) > 0:
		t.best, t.job, t.leaf = t.line[0], t.line[0].Job, t.node
		t.asks = f.Asks(t.job)
	case len(t.below) > 0:
		first := t.below[0]
		t.best, t.job, t.leaf, t.asks = first.best, first.job, first.leaf, first.asks
	default:
		t.best, t.job, t.leaf, t.asks = nil, nil, nil, nil
	}
	if t.best != nil && t.above != nil {
		t.next = t.node.Candidate(t.asks)
	}
}
