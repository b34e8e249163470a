package introspect

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/queue"
)

// begin starts the jobs for which others have paused, once their room is free. They need not wait
// for the jobs before them in the queue, so that a new job soon shows whether it learns.
func (s *Sharing) begin() {
	cfg := s.state.View.Config()
	for _, r := range s.state.View.Reservations() {
		j := s.state.View.Job(r.Job)
		if s.state.Holders[r.Job] != r || !r.ForPreemptor || len(r.Claims) != 1 || !joins(cfg, j) || !s.state.Startable(j) {
			continue
		}
		// Only jobs on one node that take turns begin in this way. Others start in the order of the
		// queue.
		c := queue.NewContender(nil, j)
		_, node := s.state.View.Node(r.Claims[0].Node)
		if node < 0 {
			continue
		}
		if spots, ok := s.state.Room.PlaceOn(c.Gang(s.state), node); ok && c.Start(s.state, spots, 0) {
			if s.state.Begun == nil {
				s.state.Begun = map[model.JobID]bool{}
			}
			s.state.Begun[j.ID] = true
		}
	}
}

// relieve makes room for blocked heads that have waited for so long that they hold a reservation.
// The units that take turns on the reserved nodes pause for them. Else jobs that take turns would
// keep them out for ever.
func (s *Sharing) relieve() {
	for _, r := range s.state.View.Reservations() {
		if s.state.Holders[r.Job] != r || r.ForPreemptor || s.state.Started[r.Job] > 0 || s.state.AwaitsVictims(r.Job) {
			continue
		}
		// The reservation becomes one for which others leave, so that the room goes to its holder alone.
		if victims := s.onNodesOf(r); len(victims) > 0 {
			next := s.state.NewReservation(r.Job, r.Claims, s.state.Now+model.PauseWithin)
			next.ForPreemptor = true
			s.state.Room.Unclaim(r.Job)
			s.state.Reserve(next)
			for _, v := range victims {
				n := s.survey()[v.nodes[0]]
				s.suspend(n, v, model.CauseSlice, r.Job)
				n.active = slices.DeleteFunc(n.active, func(u *unit) bool { return u == v })
			}
		}
	}
}

// onNodesOf returns the units that have to pause so that all that is reserved comes free, none if
// that is not enough.
func (s *Sharing) onNodesOf(r *model.Reservation) (victims []*unit) {
	j := s.state.View.Job(r.Job)
	for _, c := range r.Claims {
		_, node := s.state.View.Node(c.Node)
		if node < 0 || !s.state.Room.Up(node) {
			return nil
		}
		// The free room of the node includes the reservation itself, which is for this job.
		s.state.Room.Unclaim(r.Job)
		free := s.state.Room.Free(node)
		s.state.Room.Claim(r)
		if c.Resources.Within(free.Active) {
			continue
		}
		n := s.survey()[node]
		if n == nil || c.Resources.Memory > free.Resident.Memory {
			return nil
		}
		// Units with the most service pause first.
		for _, u := range slices.Backward(n.active) {
			if c.Resources.Within(free.Active) {
				break
			}
			if s.yields(u, j) {
				victims, free.Active = append(victims, u), free.Active.Plus(freed(u))
			}
		}
		if !c.Resources.Within(free.Active) {
			return nil
		}
	}
	return victims
}

// yields reports whether a unit takes turns and may pause for a job.
func (s *Sharing) yields(u *unit, j *model.Job) bool {
	_, asked := s.state.Stopping[u.id()]
	return !asked && u.rank >= queue.ClassRank(j.Class) && !s.measuring(u) &&
		s.state.View.Config().SharingOf(u.runs[0].Job).Oversubscribe > 1
}

// admit begins jobs that wait, in order, on nodes where others pause for them.
func (s *Sharing) admit() {
	list := s.waiting()
	if len(list) == 0 {
		return
	}
	loads := s.loads()
	failed := map[int64]bool{} // groups that found no node
	for _, w := range list {
		if failed[w.group] {
			continue
		}
		g := s.state.Gang(w.job)
		l, victims := s.choose(w.job, &g, loads)
		if l == nil || s.limited(w.job) && !ofOneAccount(w.job, victims) {
			failed[w.group] = true
			continue
		}
		s.beginOn(w.job, &g, l.node, victims)
		l.add(w.job.Request.Active.GPUs)
	}
}

// ofOneAccount reports whether a job gets room only from its own account and user.
func ofOneAccount(j *model.Job, victims []*unit) bool {
	return !slices.ContainsFunc(victims, func(v *unit) bool {
		return slices.ContainsFunc(v.runs, func(r *estimate.LiveAttempt) bool {
			return r.Job.Association() != j.Association()
		})
	})
}

// waiter is a job that waits, of a group of jobs that are alike.
type waiter struct {
	job   *model.Job
	group int64
}

// waiting lists the jobs that would take turns and have found no room, in order.
func (s *Sharing) waiting() (list []waiter) {
	cfg := s.state.View.Config()
	for at, head := range s.state.View.QueueHeads() {
		if head.Held {
			continue
		}
		taken := 0
		for _, j := range s.state.View.QueueGroupAt(at).Jobs {
			if !joins(cfg, j) {
				break // nor does any other of its group
			}
			if s.state.Started[j.ID] == 0 && !s.state.AwaitsVictims(j.ID) &&
				(s.order.Startable(j) || s.limited(j) && s.state.Startable(j)) { // it may take the room of its own account
				list = append(list, waiter{j, at})
				if taken++; taken == Limits.AdmittedOfGroup {
					break
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b waiter) int { return s.order.Compare(a.job, b.job) })
	return list
}

// joins reports whether a job takes turns: it can be suspended, and fits on one node.
func joins(cfg *cluster.Config, j *model.Job) bool {
	return j.CanSuspend() && j.Request.Active.GPUs > 0 && j.Request.Share() == 0 && len(j.Parts) == 0 && j.Workers == 1 &&
		cfg.SharingOf(j).Oversubscribe > 1
}

// load is the requests of all jobs on a node, in thousandths of its GPUs, and the width of its
// widest job.
type load struct {
	node  int
	gpus  int64 // of jobs that run, are suspended or are promised room there; of a set one
	all   int64 // that the node has
	width int64 // of the widest job there: the node's affinity
}

func (l *load) add(gpus int64) {
	l.gpus += gpus
	l.width = max(l.width, gpus)
}

// compare orders nodes by load, for their size.
func (l *load) compare(o *load) int {
	return cmp.Or(cmp.Compare(l.gpus*o.all, o.gpus*l.all), cmp.Compare(l.node, o.node))
}

// setOnNode names a set of jobs that share one GPU. A member that moves leaves its set number
// behind.
type setOnNode struct {
	id   model.JobID
	node string
}

// loads returns the load of every node that is up, in order of the nodes.
func (s *Sharing) loads() []*load {
	// 1. A load for each node that is up and has GPUs.
	nodes := s.state.View.Nodes()
	at := make([]*load, len(nodes))
	list := make([]*load, 0, len(nodes))
	for i, n := range nodes {
		if s.state.Room.Up(i) && len(n.GPUs) > 0 {
			at[i] = &load{node: i, all: int64(len(n.GPUs)) * model.WholeGPU}
			list = append(list, at[i])
		}
	}
	add := func(name string, gpus int64) {
		if _, node := s.state.View.Node(name); node >= 0 && at[node] != nil {
			at[node].add(gpus)
		}
	}
	// 2. Jobs that run or are suspended there. A set on one GPU counts once, because it takes turns as
	// one.
	sets := map[setOnNode]bool{}
	for run := range s.state.View.LiveAttempts() {
		a := run.Attempt
		if id := a.SetOf(); id != 0 {
			one := setOnNode{id, a.Workers[0].Node}
			if sets[one] {
				continue
			}
			sets[one] = true
		}
		for i := range a.Workers {
			if w := &a.Workers[i]; !w.State.Final() {
				add(w.Node, run.Job.RequestOf(i).Active.GPUs)
			}
		}
	}
	// 3. Jobs that this cycle starts.
	for _, a := range s.state.Actions {
		if a, ok := a.(*fsm.StartJob); ok {
			for i, p := range a.Places {
				add(p.Node, s.state.View.Job(a.Job).RequestOf(i).Active.GPUs)
			}
		}
	}
	// 4. Jobs for which others leave.
	for _, r := range s.state.Holders {
		if r.ForPreemptor && s.state.Started[r.Job] == 0 {
			for _, c := range r.Claims {
				add(c.Node, c.Resources.GPUs)
			}
		}
	}
	return list
}

// choose returns a node on which a job starts although no room is free, and the units that pause
// for it there. It returns nil if no node will do. It costs O(nodes log nodes + units). A node with
// jobs of the same width is preferred, so that narrow jobs do not spread over the nodes that wide
// ones need.
func (s *Sharing) choose(j *model.Job, g *fit.Gang, loads []*load) (*load, []*unit) {
	most := int64(s.state.View.Config().SharingOf(j).Oversubscribe)
	needs := j.Request.Active.GPUs
	// Nodes that may take on one more job: below the height that the configuration allows, and with no
	// room that is kept for another job.
	able := make([]*load, 0, len(loads))
	for _, l := range loads {
		if l.gpus+needs <= most*l.all && needs <= l.all && s.state.Room.Usable(l.node, &g.Component, g.Exclude) &&
			s.state.Room.Claimant(l.node, j.ID) == 0 {
			able = append(able, l)
		}
	}
	// The least loaded node comes first. A node with jobs of the same width goes before it if their
	// loads differ by less than one whole node. The node where room is kept for the job goes before
	// both.
	slices.SortFunc(able, (*load).compare)
	if i := slices.IndexFunc(able, func(l *load) bool { return l.width == needs }); i > 0 &&
		able[i].gpus*able[0].all < (able[0].gpus+able[0].all)*able[i].all {
		same := able[i]
		able = slices.Insert(slices.Delete(able, i, i+1), 0, same)
	}
	slices.SortStableFunc(able, func(a, b *load) int { return cmp.Compare(s.isFor(b.node, j), s.isFor(a.node, j)) })
	for _, l := range able {
		if victims := s.pausing(j, l.node); victims != nil {
			return l, victims
		}
	}
	return nil, nil
}

// isFor is 1 for a node where room is kept for a job, which has moved there, else 0.
func (s *Sharing) isFor(node int, j *model.Job) int {
	if r := s.state.Holders[j.ID]; r != nil && slices.ContainsFunc(r.Claims,
		func(c model.Claim) bool { return c.Node == s.state.View.Nodes()[node].Name }) {
		return 1
	}
	return 0
}

// pausing returns the units that pause so that a job of one worker fits on a node: those that have
// had the most service. Nil: the job does not fit.
func (s *Sharing) pausing(j *model.Job, node int) []*unit {
	n := s.survey()[node]
	if n == nil {
		return nil
	}
	room := s.state.Room.Free(node)
	if j.Request.Resident.Memory > room.Resident.Memory {
		return nil
	}
	free := room.Active
	var victims []*unit
	for _, u := range slices.Backward(n.active) {
		if !s.yields(u, j) {
			continue
		}
		victims, free = append(victims, u), free.Plus(freed(u))
		if j.Request.Active.Within(free) {
			return victims
		}
	}
	return nil
}

// beginOn keeps room on a node for a job and has others pause there for it.
func (s *Sharing) beginOn(j *model.Job, g *fit.Gang, node int, victims []*unit) {
	claims := s.state.Claims([]estimate.NodeResources{{Node: node, Room: g.Request}})
	r := s.state.NewReservation(j.ID, claims, s.state.Now+model.PauseWithin)
	r.ForPreemptor = true
	s.state.Room.Unclaim(j.ID)
	s.state.Reserve(r)
	n := s.survey()[node]
	for _, u := range victims {
		s.suspend(n, u, model.CauseSlice, j.ID)
	}
	n.active = slices.DeleteFunc(n.active, func(u *unit) bool { return slices.Contains(victims, u) })
}
