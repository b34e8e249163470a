package sched

import (
	"container/heap"

	shares "github.com/rota-hpc/rota/controld/sched/share"
)

// queue is waiting jobs by leaf, for each a heap in the order of compare. Whose turn it is below an account is kept until a line there or what
// somebody there holds changes, so that a turn costs one way up the tree and not a look at everybody.
type queue struct {
	f     *fair
	of    map[*shares.Node]*contenders
	below map[*shares.Node]*picks
}

func newQueue(f *fair) *queue {
	return &queue{f: f, of: map[*shares.Node]*contenders{}, below: map[*shares.Node]*picks{}}
}

// picks is whose turn it is at or below a node, by class.
type picks struct {
	known   [2]bool
	changes [2]uint64 // of holdings, when it was found out
	pick    [2]pick
}

// pick is a job with its leaf.
type pick struct {
	best  *contender // nil: there is none
	leaf  *shares.Node
	first *contender // the oldest that has left its room to one that did not want it any more, nil: there is none
	at    *shares.Node
}

func (q *queue) push(leaf *shares.Node, c *contender) {
	if q.of[leaf] == nil {
		q.of[leaf] = &contenders{}
	}
	heap.Push(q.of[leaf], c)
	q.touch(leaf)
}

// pop takes the first job of a leaf out.
func (q *queue) pop(leaf *shares.Node) {
	heap.Pop(q.of[leaf])
	q.touch(leaf)
}

// fix puts the first job of a leaf where it belongs, after it has become another.
func (q *queue) fix(leaf *shares.Node) {
	heap.Fix(q.of[leaf], 0)
	q.touch(leaf)
}

// touch is called when the line of a leaf has changed.
func (q *queue) touch(leaf *shares.Node) {
	for n := leaf; n != nil; n = n.Parent() {
		if t := q.below[n]; t != nil {
			t.known = [2]bool{}
		}
	}
}

// best returns the job whose turn it is, nil if there is none. Room that somebody has left to one that did not want it any more is offered to
// him before anybody else of his class has a turn.
func (q *queue) best() (*contender, *shares.Node) {
	for class := range 2 {
		switch t := q.turnBelow(q.f.tree.Root(), class); {
		case t.first != nil:
			return t.first, t.at
		case t.best != nil:
			return t.best, t.leaf
		}
	}
	return nil, nil
}

// turnBelow returns whose turn it is at or below a node.
func (q *queue) turnBelow(n *shares.Node, class int) pick {
	t := q.below[n]
	if t == nil {
		t = &picks{}
		q.below[n] = t
	}
	if !t.known[class] || t.changes[class] != n.Changes() {
		if n.User {
			t.pick[class] = q.turnAt(n, class)
		} else {
			t.pick[class] = q.turnAmong(n.Children(), class)
		}
		t.known[class], t.changes[class] = true, n.Changes()
	}
	return t.pick[class]
}

// turnAt returns the first of a user's jobs, if it is of a class.
func (q *queue) turnAt(leaf *shares.Node, class int) pick {
	line := q.of[leaf]
	if line == nil || len(*line) == 0 || classRank((*line)[0].job.Class) != class {
		return pick{}
	}
	t := pick{best: (*line)[0], leaf: leaf}
	if t.best.job.First {
		t.first, t.at = t.best, leaf
	}
	return t
}

// turnAmong returns whose turn it is below siblings: of the one who would hold least, by its share, with the next job.
func (q *queue) turnAmong(siblings []*shares.Node, class int) pick {
	var all pick
	var least *shares.Node
	var more shares.Amount
	for _, n := range siblings {
		t := q.turnBelow(n, class)
		if t.best == nil {
			continue
		}
		if t.first != nil && (all.first == nil || t.first.job.ID < all.first.job.ID) {
			all.first, all.at = t.first, t.at
		}
		if asks := q.f.asks(t.best.job); least == nil || shares.Compare(n, asks, least, more) < 0 {
			all.best, all.leaf, least, more = t.best, t.leaf, n, asks
		}
	}
	return all
}
