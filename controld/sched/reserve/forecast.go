package reserve

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/groups"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Release is room that a running attempt gives back, at its time limit at the latest.
type Release struct {
	At   model.Instant
	Node int
	Room model.Request
	Gpus []int // on which it lies
}

// slot is room for one worker of a gang on one node, and when it will be there.
type slot struct {
	at   model.Instant
	node int
}

// booking is the room promised so far to the parts of one gang, by node.
type booking struct {
	room  map[int]model.Request
	whole map[int]bool // nodes that one part has for itself
}

// Forecast says when room comes free, node by node, if every attempt runs to its time limit. It
// includes the starts of this cycle.
type Forecast struct {
	State    *scratch.State
	releases [][]Release // by node, soonest first; nil until it is needed
	counted  int         // actions that releases includes
}

// NewForecast returns a forecast for one cycle, which is computed when it is first needed.
func NewForecast(t *scratch.State) *Forecast { return &Forecast{State: t} }

// Soonest returns claims on the nodes that can hold a gang first if every attempt runs to its time
// limit; nil if none ever can. Attempts that are being stopped count until they are killed.
// Attempts that have not started count as starting now, and those without a limit as running
// longest. The algorithm is greedy: for each part, the earliest slots win. It costs O(nodes x
// workers per node + slots log slots) for each part. Nodes do not count that the gang avoids or
// does not want, that are not up, or whose room others claim. At equal times the node that comes
// first by name is taken. The part that is hardest to place chooses first. Nil: no set of nodes
// could hold the gang.
func (f *Forecast) Soonest(g *fit.Gang) []model.Claim {
	if !EverHolds(f.State, g) {
		return nil
	}
	releases := f.ByNode()
	b := newBooking()
	for _, i := range g.Hardest() {
		p := g.At(i)
		var slots []slot
		for node := range f.State.View.Nodes() {
			if f.State.Room.Usable(node, p, g.Exclude) {
				slots = slotsOn(f.State, slots, node, p, &b, releases[node])
			}
		}
		if len(slots) < p.Workers {
			return nil
		}
		slices.SortFunc(slots, func(a, b slot) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.node, b.node))
		})
		for _, s := range slots[:p.Workers] {
			b.add(s.node, p)
		}
	}
	return b.claims(f.State)
}

func newBooking() booking { return booking{room: map[int]model.Request{}, whole: map[int]bool{}} }

// add promises room on a node to a worker of a part.
func (b *booking) add(node int, p *fit.Component) {
	b.room[node] = b.room[node].Plus(p.Request)
	b.whole[node] = p.Request.Exclusive
}

// Holdable reports whether the nodes that are up could hold the jobs of a group if they were empty.
// It is a quick look, see [EverHolds].
func Holdable(t *scratch.State, group *groups.Group) bool {
	g := t.Gang(group.Jobs[0])
	g.Exclude = nil
	return EverHolds(t, &g)
}

// EverHolds is a quick look at whether the nodes that count could hold each part of a gang if they
// were empty.
func EverHolds(t *scratch.State, g *fit.Gang) bool {
	for i := range g.Parts() {
		p, workers := g.At(i), 0
		for node := range t.View.Nodes() {
			if t.Room.Usable(node, p, g.Exclude) {
				workers += fit.Capacity(p, fit.Both(t.Room.Working(node)))
			}
			if workers >= p.Workers {
				break
			}
		}
		if workers < p.Workers {
			return false
		}
	}
	return true
}

// ByNode lists, for every node, the room that attempts will free there, soonest first.
func (f *Forecast) ByNode() [][]Release {
	if f.releases == nil {
		f.releases = listReleases(f.State)
	}
	for ; f.counted < len(f.State.Actions); f.counted++ {
		a, ok := f.State.Actions[f.counted].(*fsm.StartJob)
		if !ok {
			continue
		}
		j := f.State.View.Job(a.Job)
		for i, p := range a.Places {
			_, n := f.State.View.Node(p.Node)
			f.releases[n] = append(f.releases[n], Release{StartedNow(f.State, j), n, j.RequestOf(i), p.GPUs})
			SortReleases(f.releases[n])
		}
	}
	return f.releases
}

// SortReleases sorts releases by time, in place.
func SortReleases(r []Release) {
	slices.SortStableFunc(r, func(a, b Release) int { return cmp.Compare(a.At, b.At) })
}

func listReleases(t *scratch.State) [][]Release {
	all := make([][]Release, len(t.View.Nodes()))
	for j := range t.View.Live() {
		a := j.Live()
		at := endBy(t, j, a)
		for i := range a.Workers {
			w := &a.Workers[i]
			if w.State.Final() {
				continue
			}
			over := at
			if scratch.Stays(a, i) {
				over = StartedNow(t, j)
			}
			node, n := t.View.Node(w.Node)
			if n < 0 {
				continue
			}
			room := j.Holds(a, i)
			room.Active.GPUs -= scratch.BrokenIn(w, node, room) // they are of no use to others
			all[n] = append(all[n], Release{over, n, room, w.GPUs})
		}
	}
	for i := range all {
		SortReleases(all[i])
	}
	return all
}

// endBy returns when an attempt has ended at the latest, as far as is known now.
func endBy(t *scratch.State, j *model.Job, a *model.Attempt) model.Instant {
	switch {
	case a.Stop != nil:
		return max(a.Stop.KillAt, t.Now)
	case a.Suspended(): // its memory
		return scratch.Never
	}
	if end, ok := scratch.LimitEnd(j, a); ok {
		return max(end, t.Now)
	}
	return StartedNow(t, j)
}

// StartedNow returns when a job reaches its limit if it starts now.
func StartedNow(t *scratch.State, j *model.Job) model.Instant {
	if j.Limit <= 0 {
		return scratch.Never
	}
	return t.Now + model.Instant(j.Limit)*1000
}

// slotsOn appends a slot for each worker that a node can hold beside its promises, up to the limit
// of workers per node. A slot is at the first instant at which the node can hold the worker. A
// worker that needs a node for itself waits until all jobs have left. So does a worker on a node
// that another job has for itself. Where GPUs are shared, promises to others take the GPUs that are
// free soonest.
func slotsOn(t *scratch.State, slots []slot, node int, p *fit.Component, b *booking, releases []Release) []slot {
	promised, taken := b.room[node]
	alone := p.Request.Exclusive
	if b.whole[node] || alone && (taken || t.Room.Claimed(node) != model.Vector{}) {
		return slots
	}
	free, at, each := t.Room.Available(node).Minus(promised), t.Now, p.Request
	var left []int64 // of each GPU, where they are told apart
	apart := parted(t, node, p, releases)
	if apart {
		left, each.Active.GPUs, each.Resident.GPUs = t.Room.Left(node), 0, 0
	}
	next := func() {
		r := &releases[0]
		if apart {
			t.Room.AddWorking(left, node, r.Gpus, r.Room.Active.GPUs)
		}
		free, at, releases = free.Plus(r.Room), r.At, releases[1:]
	}
	for len(releases) > 0 && (alone || t.Room.Whole(node)) {
		next()
	}
	others := t.Room.Claimed(node).GPUs + promised.Active.GPUs
	for workers := 1; workers <= min(p.PerNode, p.Workers); workers++ {
		need := each.Times(workers)
		for !fit.Within(need, free) || apart && seats(left, others, &p.Request) < int64(workers) {
			if len(releases) == 0 {
				return slots
			}
			next()
		}
		slots = append(slots, slot{at: at, node: node})
	}
	return slots
}

// claims turns the promises into one claim a node, by node.
func (b *booking) claims(t *scratch.State) []model.Claim {
	var claims []model.Claim
	for i, n := range t.View.Nodes() {
		room, booked := b.room[i]
		switch {
		case b.whole[i]:
			claims = append(claims, model.Claim{Node: n.Name, Resources: t.Room.Total(i)})
		case booked:
			claims = append(claims, model.Claim{Node: n.Name, Resources: fit.AtLeast(room)})
		}
	}
	return claims
}

// ClaimsFor turns places into one claim a node, by node.
func ClaimsFor(t *scratch.State, g *fit.Gang, spots []fit.Spot) []model.Claim {
	b := newBooking()
	for s, part := range g.Seated(spots) {
		b.add(s.Node, part)
	}
	return b.claims(t)
}
