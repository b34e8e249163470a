package reserve

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// prospects is the room that reservations can still count on, node by node.
type prospects struct {
	state *scratch.State
	left  map[int]model.Request // free, or held by jobs that are leaving, and not promised to an earlier reservation
	back  map[int]model.Request // part of left: room that goes back to leaving jobs
	gpus  map[int][]int64       // for nodes with shared GPUs: the part of each GPU that will be free, promised or not
}

// NewProspects returns the room that reservations can count on, before any is covered.
func NewProspects(t *scratch.State) *prospects {
	return &prospects{state: t, left: map[int]model.Request{}, back: map[int]model.Request{}, gpus: map[int][]int64{}}
}

// InVain returns the jobs whose reservations are for room that does not come; nil if there are
// none. They would wait until the reservation expires.
//
// A reservation for a head is in vain if a node that it claims is not up any more. It is so too if
// the node could not hold as much when empty, since a GPU broke. A reservation for a preemptor is
// in vain if the jobs that were to leave were not asked to, because the plan came too late. It is
// so too if others got parts of the GPUs meanwhile and none is left that would do. Room that is
// free, or will be when all have left that are leaving, is kept for it. But room that was left over
// goes back to the jobs that left it, if they left in vain.
func InVain(t *scratch.State) map[model.JobID]bool {
	all := t.View.Reservations()
	if len(all) == 0 {
		return nil
	}
	p := NewProspects(t)
	var taken []*model.Reservation
	var vain map[model.JobID]bool
	give := func(r *model.Reservation) {
		if vain == nil {
			vain = map[model.JobID]bool{}
		}
		vain[r.Job] = true
	}
	for _, r := range all {
		switch {
		case r.Leftover && p.goesBack(r):
			give(r)
		case r.ForPreemptor:
			taken = append(taken, r)
		case !p.possible(r):
			give(r)
		}
	}
	slices.SortFunc(taken, func(a, b *model.Reservation) int {
		return cmp.Or(cmp.Compare(a.At, b.At),
			cmp.Compare(a.Job, b.Job))
	})
	for _, r := range taken {
		if !p.Cover(r) {
			give(r)
		}
	}
	return vain
}

// goesBack reports whether a job waits to get back the room that a reservation claims. The job that
// it left for no longer wants that room.
func (p *prospects) goesBack(r *model.Reservation) bool {
	for g := range p.state.View.QueueGroups() {
		if g.Key.Held || g.Key.Level != model.LevelOwnRoom {
			continue
		}
		for _, j := range g.Jobs {
			last := &j.Attempts[len(j.Attempts)-1]
			if last.Cause != model.CauseMigrate && slices.ContainsFunc(last.Workers, func(w model.Worker) bool {
				return slices.ContainsFunc(r.Claims, func(c model.Claim) bool { return c.Node == w.Node })
			}) {
				return true
			}
		}
	}
	return false
}

// possible reports whether the nodes that a reservation claims could hold as much if they were
// empty.
func (p *prospects) possible(r *model.Reservation) bool {
	return !slices.ContainsFunc(r.Claims, func(c model.Claim) bool {
		_, node := p.state.View.Node(c.Node)
		return node < 0 || !p.state.Room.Up(node) ||
			!fit.Covers(fit.Both(p.state.Room.Working(node)), p.claimed(node, r.Job, c.Resources))
	}) && (!p.alone(r.Job) || p.seatsAlone(r))
}

// Cover reports whether the room of a reservation is there, or will be. It takes that room, so that
// later reservations cannot count on it.
func (p *prospects) Cover(r *model.Reservation) bool {
	for _, c := range r.Claims {
		_, node := p.state.View.Node(c.Node)
		if node < 0 || !p.state.Room.Up(node) {
			return false
		}
		left := p.at(node)
		if r.Leftover {
			left = left.Minus(p.back[node])
		}
		if claimed := p.claimed(node, r.Job, c.Resources); !fit.Covers(left, claimed) ||
			!p.apiece(node, r.Job, claimed.Active.GPUs) {
			return false
		}
	}
	if p.alone(r.Job) && !p.seatsAlone(r) {
		return false
	}
	for _, c := range r.Claims {
		_, node := p.state.View.Node(c.Node)
		claimed := p.claimed(node, r.Job, c.Resources)
		p.left[node] = p.at(node).Minus(claimed)
		if !r.Leftover {
			p.back[node] = p.back[node].Minus(claimed).Positive()
		}
	}
	return true
}

// at returns the room of a node that reservations can still count on.
func (p *prospects) at(node int) model.Request {
	left, known := p.left[node]
	if known {
		return left
	}
	left = p.state.Room.Free(node)
	for _, id := range p.state.View.JobsOnNode(nil, node) {
		run := p.state.View.LiveAttempt(id)
		if run == nil || !run.Stopping || p.state.Withdrawn[id] {
			continue
		}
		returns := p.state.Returns(run)
		if p.state.Room.Broken(node) > 0 {
			left.Active.GPUs -= scratch.BrokenOf(run, p.state.View.Nodes()[node])
		}
		for i := range run.Releases {
			if f := &run.Releases[i]; f.Node == node {
				left = left.Plus(f.Room)
				if returns {
					p.back[node] = p.back[node].Plus(f.Room)
				}
			}
		}
	}
	p.left[node] = left
	return left
}

// claimed returns the request behind a job's claim on a node. A claim for a whole node includes its
// broken GPUs, and no job waits for these.
func (p *prospects) claimed(node int, id model.JobID, room model.Vector) model.Request {
	if p.alone(id) {
		room.GPUs = min(room.GPUs, p.state.Room.Working(node).GPUs)
	}
	return model.Request{Active: room, Resident: model.Vector{Memory: room.Memory}}
}

// alone reports whether a job has nodes for itself.
func (p *prospects) alone(id model.JobID) bool {
	j := p.state.View.Job(id)
	return j != nil && (j.Request.Exclusive || slices.ContainsFunc(j.Parts,
		func(part model.Part) bool { return part.Request.Exclusive }))
}

// seatsAlone reports whether the nodes that a job claims for itself hold its workers without the
// GPUs that are broken. Of several parts it is not told which is to be where.
func (p *prospects) seatsAlone(r *model.Reservation) bool {
	g, workers := p.state.Gang(p.state.View.Job(r.Job)), 0
	for _, c := range r.Claims {
		_, node := p.state.View.Node(c.Node)
		workers += fit.Capacity(&g.Component, fit.Both(p.state.Room.Working(node)))
	}
	return g.Parts() > 1 || workers >= g.Workers
}

// apiece reports whether a claim fits on the single GPUs of a node, worker by worker, once all
// leaving jobs have left.
func (p *prospects) apiece(node int, id model.JobID, claimed int64) bool {
	j := p.state.View.Job(id)
	if j == nil || !p.state.Room.Sharing() {
		return true
	}
	g := p.state.Gang(j)
	if len(g.More) > 0 || g.Request.Active.GPUs == 0 {
		return true
	}
	left, known := p.gpus[node]
	if !known {
		left = comingGPUs(p.state, node, 0)
		p.gpus[node] = left
	}
	return seats(left, 0, &g.Request) >= claimed/g.Request.Active.GPUs
}
