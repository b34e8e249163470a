package fsm

import (
	"fmt"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// QueueHead is what a cycle asks of every group before anything else. In a long queue there are tens of thousands of groups, and most of them
// have nothing to say but that their first job, of a shape that is known not to fit, has to wait: to see that, neither the job nor its spec nor
// the whole key has to be fetched from memory.
type QueueHead struct {
	Job      model.JobID   // the first of the group
	Eligible model.Instant // of that job
	Priority int
	Shape    int32 // as Group.Number
	Leaf     int32 // as Group.Leaf
	Level    int16 // of the key
	TE       bool  // of class te
	Held     bool  // as in the key
	Elastic  bool  // the first job is
	Gang     bool  // the first job has several workers
	Plain    bool  // nothing but its class, account, priority, level and shape, and since when it may start, tells the first job from others
}

// queueHeadOf describes a group that has jobs.
func queueHeadOf(g *QueueGroup) QueueHead {
	j := g.Jobs[0]
	_, elastic := j.Elastic()
	return QueueHead{
		Job: j.ID, Eligible: j.Eligible, Priority: g.Key.Priority, Shape: int32(g.Number), Leaf: int32(g.Leaf), Level: int16(g.Key.Level),
		TE: g.Key.Class == jobspec.TE, Held: g.Key.Held, Elastic: elastic, Gang: j.Workers > 1,
		Plain: !g.Key.Held && j.Children == nil && len(j.Exclude) == 0 && !j.OwnRoomFirst,
	}
}

// ElasticHeads counts the groups whose first job is elastic.
func (v *View) ElasticHeads() int { return v.elasticFirst }

// updateQueueHeads brings the fronts of the groups up to date that the present command has touched, when it is over.
func (s *State) updateQueueHeads() {
	for _, g := range s.touchedGroups {
		if len(g.Jobs) == 0 {
			continue // it was dropped
		}
		front := queueHeadOf(g)
		if front == g.Head {
			continue
		}
		s.countElastic(g, front.Elastic)
		g.Head = front
		s.v.fronts.Set(g.slot, front)
	}
	clear(s.touchedGroups)
	s.touchedGroups = s.touchedGroups[:0]
}

// countElastic counts a group as it is going to be.
func (s *State) countElastic(g *QueueGroup, elastic bool) {
	if g.Head.Elastic {
		s.v.elasticFirst--
	}
	if elastic {
		s.v.elasticFirst++
	}
}

// checkQueueHead says whether a group's front is that of its jobs.
func checkQueueHead(g *QueueGroup) error {
	if want := queueHeadOf(g); g.Head != want {
		return fmt.Errorf("the front of group %+v is %+v, not %+v", g.Key, g.Head, want)
	}
	return nil
}
