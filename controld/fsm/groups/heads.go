package groups

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Head is what a cycle reads of every group first. In a long queue there are tens of thousands of
// groups, and most begin with a job whose shape is known not to fit. To see that, a cycle needs
// neither the job nor its specification nor the whole key.
type Head struct {
	Job      model.JobID   // the first of the group
	Eligible model.Instant // of that job
	Priority int
	Shape    int32 // as Group.Number
	Leaf     int32 // as Group.Leaf
	TE       bool  // of class te
	Held     bool  // as in the key
	Elastic  bool  // the first job is
	// nothing but its class, account, priority, level and shape, and since when it may start, tells
	// the first job from others
	Plain   bool
	Bounded bool // a limit counts its jobs
}

// headOf describes a group that has jobs.
func headOf(g *Group) Head {
	j := g.Jobs[0]
	_, elastic := j.Elastic()
	return Head{
		Job: j.ID, Eligible: j.Eligible, Priority: g.Key.Priority, Shape: int32(g.Number), Leaf: int32(g.Leaf),
		TE: g.Key.Class == jobspec.TE, Held: g.Key.Held, Elastic: elastic,
		Plain:   !g.Key.Held && j.Children == nil && len(j.Exclude) == 0 && !j.OwnRoomFirst,
		Bounded: j.Bounded != model.Unbounded,
	}
}

// updateHeads updates the heads of the groups that the present command has touched.
func (q *Queue) updateHeads() {
	for _, g := range q.touched {
		if len(g.Jobs) == 0 {
			continue // it was dropped
		}
		head := headOf(g)
		if head == g.Head {
			continue
		}
		q.countElastic(g, head.Elastic)
		g.Head = head
		q.now.heads.Set(g.slot, head)
	}
	clear(q.touched)
	q.touched = q.touched[:0]
}

// countElastic counts a group as it is going to be.
func (q *Queue) countElastic(g *Group, elastic bool) {
	if g.Head.Elastic {
		q.now.elastic--
	}
	if elastic {
		q.now.elastic++
	}
}

// checkHead says whether a group's head is that of its jobs.
func checkHead(g *Group) error {
	if want := headOf(g); g.Head != want {
		return fmt.Errorf("the head of group %+v is %+v, not %+v", g.Key, g.Head, want)
	}
	return nil
}
