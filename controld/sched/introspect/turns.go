package introspect

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/queue"
)

// maxAdmitted is for how many jobs of a group a cycle looks for a node at most.
const maxAdmitted = 64

// takeTurns lets jobs that found no free room begin on nodes where others pause for them, and then
// has those go on whose turn it is.
func (s *sharing) takeTurns() {
	s.admit()
	for node := range s.View.Nodes() {
		if n := s.survey()[node]; n != nil && len(n.suspended) > 0 {
			s.rotate(node, n)
		}
	}
	s.evenOut()
}

// rotate has units pause whose time is over, for those that have had less service.
func (s *sharing) rotate(node int, n *shared) {
	if len(n.leaving) > 0 || n.busy || s.promised(node) {
		return
	}
	free := s.Room.Free(node).Active
	active := slices.Clone(n.active)
	for _, u := range n.suspended {
		if len(u.run.Job.Live().Workers) != len(s.own(u, node)) {
			continue // a gang on several nodes goes on when all of them have room
		}
		needs := s.needsOn(u, node).Active
		if needs.Within(free) {
			free = free.Minus(needs)
			continue
		}
		victims, gain := s.due(active, u, needs.Minus(free))
		if victims == nil {
			continue
		}
		for _, v := range victims {
			s.suspend(v, u.run.Job.ID)
			active = slices.DeleteFunc(active, func(o *unit) bool { return o == v })
		}
		free = free.Plus(gain).Minus(needs)
	}
}

// own lists the workers of a unit that are on a node.
func (s *sharing) own(u *unit, node int) (workers []int) {
	for i, at := range u.nodes {
		if at == node {
			workers = append(workers, i)
		}
	}
	return workers
}

// promised reports whether others leave room on a node to a job that waits.
func (s *sharing) promised(node int) bool {
	name := s.View.Nodes()[node].Name
	for _, r := range s.Holders {
		if r.ForPreemptor && slices.ContainsFunc(r.Claims, func(c model.Claim) bool { return c.Node == name }) {
			return true
		}
	}
	return false
}

// due picks units that have had their time and more service than another one, so that what they give
// back covers what it lacks: those first that have had the most. It also wakes the cycle when the
// time of the next one is over.
func (s *sharing) due(active []*unit, u *unit, lacks model.Vector) (victims []*unit, gain model.Vector) {
	for _, v := range slices.Backward(active) {
		if queue.ClassRank(v.run.Job.Class) < queue.ClassRank(u.run.Job.Class) {
			continue
		}
		a := v.run.Attempt
		over := max(a.ActiveSince()+model.SliceMS, s.Now+a.TurnIn(u.turn-v.turn+1))
		if over > s.Now {
			s.WakeAt(over)
			continue
		}
		victims, gain = append(victims, v), gain.Plus(freed(v))
		if lacks.Within(gain) {
			return victims, gain
		}
	}
	return nil, model.Vector{}
}

// freed is what a unit on one node gives back when it pauses.
func freed(u *unit) (gain model.Vector) {
	for i := range u.run.Attempt.Workers {
		gain = gain.Plus(u.run.Job.FreedBySuspension(u.run.Attempt, i).Active)
	}
	return gain
}

// admit begins jobs that wait on nodes where others pause for them.
func (s *sharing) admit() {
	for _, j := range s.waiting() {
		g := s.Gang(j)
		if node := s.choose(j, &g); node >= 0 {
			s.beginOn(j, &g, node)
		}
	}
}

// waiting lists the jobs that would take turns and have found no room, in order.
func (s *sharing) waiting() (list []*model.Job) {
	cfg := s.View.Config()
	for at, head := range s.View.QueueHeads() {
		if head.Held {
			continue
		}
		taken := 0
		for _, j := range s.View.QueueGroupAt(at).Jobs {
			if !joins(cfg, j) {
				break // nor does any other of its group
			}
			if s.Started[j.ID] == 0 && !s.AwaitsVictims(j.ID) && s.order.Startable(j) {
				list = append(list, j)
				if taken++; taken == maxAdmitted {
					break
				}
			}
		}
	}
	slices.SortFunc(list, s.order.Compare)
	return list
}

// joins reports whether a job takes turns: it can be suspended, and fits on one node.
func joins(cfg *model.Config, j *model.Job) bool {
	return j.CanSuspend() && j.Request.Active.GPUs > 0 && j.Request.Share() == 0 && len(j.Parts) == 0 && j.Workers == 1 &&
		cfg.SharingOf(j).Oversubscribe > 1
}

// load is what the jobs on a node ask for, in thousandths of its GPUs, and how wide they are.
type load struct {
	node  int
	gpus  int64 // of jobs that run, are suspended or are promised room there
	all   int64 // that the node has
	width int64 // of the widest job there: the node's affinity
}

// loads returns the load of every node that is up.
func (s *sharing) loads() map[int]*load {
	list := map[int]*load{}
	for i, n := range s.View.Nodes() {
		if s.Room.Up(i) {
			list[i] = &load{node: i, all: int64(len(n.GPUs)) * model.WholeGPU}
		}
	}
	add := func(node int, gpus int64) {
		if l := list[node]; l != nil {
			l.gpus += gpus
			l.width = max(l.width, gpus)
		}
	}
	for run := range s.View.LiveAttempts() {
		for i := range run.Attempt.Workers {
			if w := &run.Attempt.Workers[i]; !w.State.Final() {
				_, node := s.View.Node(w.Node)
				add(node, run.Job.RequestOf(i).Active.GPUs)
			}
		}
	}
	for _, a := range s.Actions {
		if a.Start != nil {
			for i, p := range a.Start.Places {
				_, node := s.View.Node(p.Node)
				add(node, s.View.Job(a.Start.Job).RequestOf(i).Active.GPUs)
			}
		}
	}
	for _, r := range s.Holders {
		if r.ForPreemptor && s.Started[r.Job] == 0 {
			for _, c := range r.Claims {
				_, node := s.View.Node(c.Node)
				add(node, c.Resources.GPUs)
			}
		}
	}
	return list
}

// choose returns the node on which a job begins although it has no free room, -1 if there is none.
// A node with jobs of the same width is preferred, so that narrow jobs do not spread over the nodes
// that wide ones need.
func (s *sharing) choose(j *model.Job, g *fit.Gang) int {
	most := int64(s.View.Config().SharingOf(j).Oversubscribe)
	needs := j.Request.Active.GPUs
	var able []*load
	for node, l := range s.loads() {
		if l.gpus+needs <= most*l.all && needs <= l.all && s.Room.Usable(node, &g.Part, g.Exclude) && !s.kept(node, j) {
			able = append(able, l)
		}
	}
	slices.SortFunc(able, func(a, b *load) int {
		return cmp.Or(cmp.Compare(a.gpus*b.all, b.gpus*a.all), cmp.Compare(a.node, b.node))
	})
	if i := slices.IndexFunc(able, func(l *load) bool { return l.width == needs }); i > 0 &&
		able[i].gpus*able[0].all < (able[0].gpus+able[0].all)*able[i].all {
		same := able[i]
		able = slices.Insert(slices.Delete(able, i, i+1), 0, same)
	}
	slices.SortStableFunc(able, func(a, b *load) int { return cmp.Compare(s.isFor(b.node, j), s.isFor(a.node, j)) })
	for _, l := range able {
		if s.pausing(j, g, l.node) != nil {
			return l.node
		}
	}
	return -1
}

// isFor is 1 for a node where room is kept for a job, which has moved there, else 0.
func (s *sharing) isFor(node int, j *model.Job) int {
	if r := s.Holders[j.ID]; r != nil && slices.ContainsFunc(r.Claims,
		func(c model.Claim) bool { return c.Node == s.View.Nodes()[node].Name }) {
		return 1
	}
	return 0
}

// kept reports whether a node is kept for a blocked head.
func (s *sharing) kept(node int, j *model.Job) bool { return s.Room.Claimant(node, j.ID) != 0 }

// pausing returns the units of a node that have to pause for a job to fit there: those that have had
// the most service. Nil: it does not fit.
func (s *sharing) pausing(j *model.Job, g *fit.Gang, node int) []*unit {
	n := s.survey()[node]
	if n == nil {
		return nil
	}
	room := s.Room.Copy()
	var victims []*unit
	for _, u := range slices.Backward(n.active) {
		if _, asked := s.Stopping[u.run.Job.ID]; asked || queue.ClassRank(u.run.Job.Class) < queue.ClassRank(j.Class) {
			continue
		}
		victims = append(victims, u)
		for i, at := range u.nodes {
			room.Release(at, u.run.Job.FreedBySuspension(u.run.Attempt, i), u.run.Attempt.Workers[i].GPUs)
		}
		if _, ok := room.PlaceOn(g, node); ok {
			return victims
		}
	}
	return nil
}

// beginOn keeps room on a node for a job and has others pause there for it.
func (s *sharing) beginOn(j *model.Job, g *fit.Gang, node int) {
	victims := s.pausing(j, g, node)
	claims := s.Claims([]estimate.NodeResources{{Node: node, Room: g.Request}})
	r := s.NewReservation(j.ID, claims, s.Now+model.PauseWithin)
	r.ForPreemptor = true
	s.Room.Unclaim(j.ID)
	s.Reserve(r)
	for _, u := range victims {
		s.suspend(u, j.ID)
	}
	n := s.survey()[node]
	n.active = slices.DeleteFunc(n.active, func(u *unit) bool { return slices.Contains(victims, u) })
	n.leaving = append(n.leaving, victims...)
}
