package sched

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

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

// forecast says when room comes free, node by node, if every attempt runs to its time limit. It takes in what the cycle starts meanwhile.
type forecast struct {
	*trial
	releases [][]release // by node, soonest first; nil until it is needed
	counted  int         // actions of which releases knows
}

func newForecast(t *trial) *forecast { return &forecast{trial: t} }

// soonest returns claims on the cheapest set of nodes for a gang: those that can hold its workers first if every attempt runs to its time limit. Attempts
// that are being stopped count until they are killed, those that have not started yet as starting now, those without a limit as running longest. Nodes do
// not count that the gang avoids or does not want, that are not up, or whose room others claim. At equal times the node that comes first by name is
// taken. The part that is hardest to place chooses first. Nil: no set of nodes could hold the gang.
func (f *forecast) soonest(g *fit.Gang) []cluster.Claim {
	if !everHolds(f.trial, g) {
		return nil
	}
	releases := f.byNode()
	b := booking{room: map[int]cluster.Request{}, whole: map[int]bool{}}
	for _, i := range g.Hardest() {
		p := g.At(i)
		var slots []slot
		for node := range f.view.Nodes() {
			if f.room.Usable(node, p, g.Exclude) {
				slots = slotsOn(f.trial, slots, node, p, &b, releases[node])
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
	return b.claims(f.trial)
}

// book promises slots to the workers of a part.
func (b *booking) book(slots []slot, p *fit.Part) {
	for _, s := range slots {
		b.room[s.node] = fit.Plus(b.room[s.node], p.Request)
		b.whole[s.node] = p.Request.Exclusive
	}
}

// holdable reports whether the nodes that are up could hold the jobs of a group if they were empty, as far as that can be seen quickly.
func holdable(t *trial, group *cluster.Group) bool {
	g := t.gang(group.Jobs[0])
	g.Exclude = nil
	return everHolds(t, &g)
}

// everHolds is a quick look at whether the nodes that count could hold each part of a gang if they were empty.
func everHolds(t *trial, g *fit.Gang) bool {
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

// byNode lists, for every node, what its attempts give back, soonest first.
func (f *forecast) byNode() [][]release {
	if f.releases == nil {
		f.releases = listReleases(f.trial)
	}
	for ; f.counted < len(f.actions); f.counted++ {
		a := f.actions[f.counted].Start
		if a == nil {
			continue
		}
		j := f.view.Job(a.Job)
		for i, p := range a.Places {
			_, n := f.view.Node(p.Node)
			f.releases[n] = append(f.releases[n], release{startedNow(f.trial, j), n, j.RequestOf(i), p.GPUs})
			sortReleases(f.releases[n])
		}
	}
	return f.releases
}

func sortReleases(r []release) {
	slices.SortStableFunc(r, func(a, b release) int { return cmp.Compare(a.at, b.at) })
}

func listReleases(t *trial) [][]release {
	all := make([][]release, len(t.view.Nodes()))
	for j := range t.view.Live() {
		a := j.Live()
		at := endBy(t, j, a)
		for i := range a.Workers {
			w := &a.Workers[i]
			if w.State.Final() {
				continue
			}
			over := at
			if stays(a, i) {
				over = startedNow(t, j)
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
func endBy(t *trial, j *cluster.Job, a *cluster.Attempt) cluster.Instant {
	if a.Stop != nil {
		return max(a.Stop.KillAt, t.now)
	}
	if end, ok := limitEnd(j, a); ok {
		return max(end, t.now)
	}
	return startedNow(t, j)
}

// startedNow returns when a job reaches its limit if it starts now.
func startedNow(t *trial, j *cluster.Job) cluster.Instant {
	if j.Limit <= 0 {
		return never
	}
	return t.now + cluster.Instant(j.Limit)*1000
}

// slotsOn appends a slot for each worker that node can hold beside what has been promised there, up to what may share a node, at the
// instant it can first. Whoever needs a node for himself, or one that somebody has for himself, waits until all have left.
func slotsOn(t *trial, slots []slot, node int, p *fit.Part, b *booking, releases []release) []slot {
	promised, taken := b.room[node]
	alone := p.Request.Exclusive
	if b.whole[node] || alone && (taken || t.room.Claimed(node) != cluster.Vector{}) {
		return slots
	}
	if parted(t, node, p, releases) {
		return slotsOnParted(t, slots, node, p, promised, b.whole[node], releases)
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
func (b *booking) claims(t *trial) []cluster.Claim {
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

// claimsFor turns places into one claim a node, by node.
func claimsFor(t *trial, g *fit.Gang, spots []fit.Spot) []cluster.Claim {
	b := booking{room: map[int]cluster.Request{}, whole: map[int]bool{}}
	for s, part := range g.Seated(spots) {
		b.room[s.Node] = fit.Plus(b.room[s.Node], part.Request)
		b.whole[s.Node] = part.Request.Exclusive
	}
	return b.claims(t)
}
