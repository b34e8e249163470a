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
	room cluster.Request
}

// slot is room for one worker of a gang on one node, and when it will be there.
type slot struct {
	at   cluster.Instant
	node int
}

// soonest returns claims on the cheapest set of nodes for a head: those that can hold its workers first if every attempt
// runs to its time limit. Attempts that are being stopped count until they are killed, those that have not started yet as
// starting now, those without a limit as running longest. Nodes that avoid the job, are not up, or whose room is claimed
// by others do not count. At equal times the node that comes first by name is taken. Nil: no set of nodes could hold the gang.
func soonest(t *trial, h *contender) []cluster.Claim {
	nodes := t.view.Nodes()
	if !t.everHolds(h.gang) {
		return nil
	}
	releases := t.releases()
	var slots []slot
	for i := range nodes {
		if t.room.Usable(i, h.gang) {
			slots = t.slotsOn(slots, i, h.gang, releases[i])
		}
	}
	if len(slots) < h.gang.Workers {
		return nil
	}
	slices.SortFunc(slots, func(a, b slot) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.node, b.node))
	})
	return t.claims(slots[:h.gang.Workers], h.gang)
}

// everHolds is a quick look at whether the nodes that count could hold a gang if they were empty.
func (t *trial) everHolds(g fit.Gang) bool {
	workers := 0
	for i := range t.view.Nodes() {
		if t.room.Usable(i, g) {
			workers += fit.Capacity(g, fit.Both(t.room.Total(i)))
		}
		if workers >= g.Workers {
			return true
		}
	}
	return false
}

// releases lists, for every node, what its attempts give back, soonest first. It is made once a cycle, for the first head that
// needs it; willEnd keeps it up to date.
func (t *trial) releases() [][]release {
	if t.ending == nil {
		t.ending = t.listReleases()
		for _, a := range t.actions {
			if a.Start != nil {
				for _, p := range a.Start.Places {
					_, n := t.view.Node(p.Node)
					t.willEnd(n, t.view.Job(a.Start.Job))
				}
			}
		}
	}
	return t.ending
}

// willEnd notes that a worker has been started in this cycle.
func (t *trial) willEnd(node int, j *cluster.Job) {
	if t.ending == nil {
		return
	}
	t.ending[node] = append(t.ending[node], release{at: t.startedNow(j), room: j.Request})
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
			if _, n := t.view.Node(w.Node); n >= 0 {
				all[n] = append(all[n], release{at: at, room: j.Request})
			}
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

// slotsOn appends a slot for each worker that node can hold, up to what may share a node, at the instant it can first.
func (t *trial) slotsOn(slots []slot, node int, g fit.Gang, releases []release) []slot {
	free, at := t.room.Available(node), t.now
	for workers := 1; workers <= min(g.PerNode, g.Workers); workers++ {
		need := fit.Times(g.Request, workers)
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

// claims turns slots into one claim a node, by node.
func (t *trial) claims(slots []slot, g fit.Gang) []cluster.Claim {
	workers := make(map[int]int)
	for _, s := range slots {
		workers[s.node]++
	}
	var claims []cluster.Claim
	for i, n := range t.view.Nodes() {
		if w := workers[i]; w > 0 {
			claims = append(claims, cluster.Claim{Node: n.Name, Room: fit.AtLeast(fit.Times(g.Request, w))})
		}
	}
	return claims
}
