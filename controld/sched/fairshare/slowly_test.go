package fairshare_test

import (
	"cmp"

	"github.com/rota-hpc/rota/controld/sched/drf"
	"github.com/rota-hpc/rota/controld/sched/fairshare"
	"github.com/rota-hpc/rota/controld/sched/queue"
)

// slowly finds the next job at or below a node by asking all leaves.
func slowly(q *fairshare.LeafQueue, n *drf.TreeNode) (best *queue.Contender, leaf *drf.TreeNode) {
	if c := q.FirstAt(n); c != nil {
		return c, n
	}
	var first *drf.TreeNode // of those directly below
	for _, c := range n.Children() {
		if job, at := slowly(q, c); job != nil && (best == nil || sooner(q.Accounts(), job, c, best, first)) {
			best, leaf, first = job, at, c
		}
	}
	return best, leaf
}

// sooner reports whether the turn of one of two siblings comes first, each with the job whose turn
// it is below it.
func sooner(f *fairshare.Accounts, a *queue.Contender, x *drf.TreeNode, b *queue.Contender, y *drf.TreeNode) bool {
	if by := cmp.Or(cmp.Compare(queue.ClassRank(a.Job.Class), queue.ClassRank(b.Job.Class)),
		queue.FirstRank(a.Job)-queue.FirstRank(b.Job)); by != 0 {
		return by < 0
	}
	if a.Job.OwnRoomFirst {
		return a.Job.ID < b.Job.ID
	}
	return drf.Compare(x, f.Asks(a.Job), y, f.Asks(b.Job)) < 0
}
