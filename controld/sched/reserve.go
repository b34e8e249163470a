package sched

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// never is when an attempt without a time limit is taken to end: after everything that has one.
const never = cluster.Instant(1) << 62

// release is room that a running attempt gives back, at its time limit at the latest.
type release struct {
	at   cluster.Instant
	node int
	room cluster.Request
	gpus []int // on which it lies
}

// slot is room for one worker of a gang on one node, and when it will be there.
type slot struct {
	at   cluster.Instant
	node int
}

// booking is what the parts of one gang have been promised so far, by node.
type booking struct {
	room  map[int]cluster.Request
	whole map[int]bool // nodes that one part has for itself
}

// soonest returns claims on the cheapest set of nodes for a head: those that can hold its workers first if every attempt
// runs to its time limit. Attempts that are being stopped count until they are killed, those that have not started yet as
// starting now, those without a limit as running longest. Nodes that the job avoids or does not want, that are not up, or whose room is
// claimed by others do not count. At equal times the node that comes first by name is taken. The part that is hardest to place chooses first.
// Nil: no set of nodes could hold the gang.
func soonest(t *trial, h *contender) []cluster.Claim {
	g := h.asks(t)
	if !t.everHolds(g) {
		return nil
	}
	releases := t.releases()
	b := booking{room: map[int]cluster.Request{}, whole: map[int]bool{}}
	for _, i := range g.Hardest() {
		p := g.At(i)
		var slots []slot
		for node := range t.view.Nodes() {
			if t.room.Usable(node, p, g.Exclude) {
				slots = t.slotsOn(slots, node, p, &b, releases[node])
			}
		}
		if len(slots) < p.Workers {
			return nil
		}
		slices.SortFunc(slots, func(a, b slot) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.node, b.node))
		})
		b.book(slots[:p.Workers], p)
	}
	return t.claims(&b)
}

// book promises slots to the workers of a part.
func (b *booking) book(slots []slot, p *fit.Part) {
	for _, s := range slots {
		b.room[s.node] = fit.Plus(b.room[s.node], p.Request)
		b.whole[s.node] = p.Request.Exclusive
	}
}

// holdable reports whether the nodes that are up could hold the jobs of a group if they were empty, as far as that can be seen quickly.
func (t *trial) holdable(group *cluster.Group) bool {
	g := t.gang(group.Jobs[0])
	g.Exclude = nil
	return t.everHolds(&g)
}

// everHolds is a quick look at whether the nodes that count could hold each part of a gang if they were empty.
func (t *trial) everHolds(g *fit.Gang) bool {
	for i := range g.Parts() {
		p, workers := g.At(i), 0
		for node := range t.view.Nodes() {
			if t.room.Usable(node, p, g.Exclude) {
				workers += fit.Capacity(p, fit.Both(t.room.Working(node)))
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

// releases lists, for every node, what its attempts give back, soonest first. It is made once a cycle, for the first head that
// needs it; willEnd keeps it up to date.
func (t *trial) releases() [][]release {
	if t.ending == nil {
		t.ending = t.listReleases()
		for _, a := range t.actions {
			if a.Start != nil {
				for i, p := range a.Start.Places {
					_, n := t.view.Node(p.Node)
					t.willEnd(n, t.view.Job(a.Start.Job), i, p.GPUs)
				}
			}
		}
	}
	return t.ending
}

// willEnd notes that a worker has been started in this cycle.
func (t *trial) willEnd(node int, j *cluster.Job, worker int, gpus []int) {
	if t.ending == nil {
		return
	}
	t.ending[node] = append(t.ending[node], release{t.startedNow(j), node, j.RequestOf(worker), gpus})
	sortReleases(t.ending[node])
}

func sortReleases(r []release) {
	slices.SortStableFunc(r, func(a, b release) int { return cmp.Compare(a.at, b.at) })
}

func (t *trial) listReleases() [][]release {
	all := make([][]release, len(t.view.Nodes()))
	for j := range t.view.Live() {
		a := j.Live()
		at := t.endBy(j, a)
		for i := range a.Workers {
			w := &a.Workers[i]
			if w.State.Final() {
				continue
			}
			over := at
			if stays(a, i) {
				over = t.startedNow(j)
			}
			node, n := t.view.Node(w.Node)
			if n < 0 {
				continue
			}
			room := j.RequestOf(i)
			room.Active.GPUs -= brokenIn(w, node, room) // nobody gets those
			all[n] = append(all[n], release{over, n, room, w.GPUs})
		}
	}
	for i := range all {
		sortReleases(all[i])
	}
	return all
}

// endBy returns when an attempt has ended at the latest, as far as anybody can tell now.
func (t *trial) endBy(j *cluster.Job, a *cluster.Attempt) cluster.Instant {
	if a.Stop != nil {
		return max(a.Stop.KillAt, t.now)
	}
	if end, ok := endOf(j, a); ok {
		return max(end, t.now)
	}
	return t.startedNow(j)
}

// startedNow returns when a job reaches its limit if it starts now.
func (t *trial) startedNow(j *cluster.Job) cluster.Instant {
	if j.Limit <= 0 {
		return never
	}
	return t.now + cluster.Instant(j.Limit)*1000
}

// slotsOn appends a slot for each worker that node can hold beside what has been promised there, up to what may share a node, at the
// instant it can first. Whoever needs a node for himself, or one that somebody has for himself, waits until all have left.
func (t *trial) slotsOn(slots []slot, node int, p *fit.Part, b *booking, releases []release) []slot {
	promised, taken := b.room[node]
	alone := p.Request.Exclusive
	if b.whole[node] || alone && (taken || t.room.Claimed(node) != cluster.Vector{}) {
		return slots
	}
	if t.parted(node, p, releases) {
		return t.slotsOnParted(slots, node, p, promised, b.whole[node], releases)
	}
	free, at := fit.Minus(t.room.Available(node), promised), t.now
	for len(releases) > 0 && (alone || t.room.Whole(node)) {
		free, at = fit.Plus(free, releases[0].room), releases[0].at
		releases = releases[1:]
	}
	for workers := 1; workers <= min(p.PerNode, p.Workers); workers++ {
		need := fit.Times(p.Request, workers)
		for !fit.Within(need, free) {
			if len(releases) == 0 {
				return slots
			}
			free, at = fit.Plus(free, releases[0].room), releases[0].at
			releases = releases[1:]
		}
		slots = append(slots, slot{at: at, node: node})
	}
	return slots
}

// claims turns what is promised into one claim a node, by node.
func (t *trial) claims(b *booking) []cluster.Claim {
	var claims []cluster.Claim
	for i, n := range t.view.Nodes() {
		room, booked := b.room[i]
		switch {
		case b.whole[i]:
			claims = append(claims, cluster.Claim{Node: n.Name, Room: t.room.Total(i)})
		case booked:
			claims = append(claims, cluster.Claim{Node: n.Name, Room: fit.AtLeast(room)})
		}
	}
	return claims
}
