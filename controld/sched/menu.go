package sched

import (
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/jobspec"
)

// # What an elastic job may lose
//
// Of an elastic job the search for victims has a menu: nothing, workers beyond its least, or all of it. A job that gives up workers is stopped and started
// again once, however many they are: so the first costs its whole grace and what it has not saved, and the others nothing more. Both dishes are victims
// of the roster, each of which excludes the other, while the search lasts.

// offerMenus adds to the roster what elastic jobs have beyond their least, for a search of room for a gang. To be called with every victim's reluctance
// known; the result takes it away again. Where all of a node is asked for, or GPUs are shared, jobs leave whole.
func (m *preemptor) offerMenus(g *fit.Gang, lawful func(*victim) int) (withdraw func()) {
	r := m.all()
	before := len(r.victims)
	if m.state.room.Sharing() || g.Request.Exclusive || slices.ContainsFunc(g.More, func(p fit.Part) bool { return p.Request.Exclusive }) {
		return func() {}
	}
	settled := g.Size() > 1
	for _, f := range without(m.elastic) {
		if f.job.Class != jobspec.BE || f.surplus() == 0 {
			continue
		}
		i := slices.IndexFunc(r.victims[:before], func(v victim) bool { return v.job.ID == f.job.ID })
		if i < 0 || r.victims[i].taken {
			continue
		}
		v := r.victims[i]
		v.surplus, v.twin, v.rooms = f, int32(i)+1, f.surplusOn(settled)
		v.score = r.priceOf(&v, fit.Times(f.request(), f.surplus()).Active)
		if v.reluctance = lawful(&v); v.reluctance < 0 {
			continue
		}
		r.victims[i].twin = int32(len(r.victims)) + 1
		for _, s := range v.rooms {
			r.on[s.Node] = append(slices.Clip(r.on[s.Node]), int32(len(r.victims)))
		}
		r.victims = append(r.victims, v)
	}
	return func() { r.withdraw(before) }
}

// withdraw takes away the victims that were added after so many.
func (r *roster) withdraw(before int) {
	for i := before; i < len(r.victims); i++ {
		v := &r.victims[i]
		r.victims[v.twin-1].twin = 0
		for _, s := range v.rooms {
			r.on[s.Node] = slices.DeleteFunc(slices.Clone(r.on[s.Node]), func(k int32) bool { return int(k) >= before })
		}
	}
	clear(r.victims[before:])
	r.victims = r.victims[:before]
}

// leaving counts the workers of a dish that it has on a node.
func (v *victim) leaving(node int) int {
	room, n := v.at(node), 0
	for room != (cluster.Request{}) && fit.Covers(room, fit.Times(v.surplus.request(), n+1)) {
		n++
	}
	return n
}

// chooseWorkers names the workers that elastic jobs of a set give up: no more than the claims need beside what others free, and as many more as their
// sizes demand. It is called while the claims are waived that the search did not count.
func (m *preemptor) chooseWorkers(g *fit.Gang, set *victimSet) {
	m.nameWorkers(g, set)
	for _, i := range set.victims {
		if f := m.roster.victims[i].surplus; f != nil {
			if odd := len(f.leave) % f.terms.Unit; odd > 0 {
				f.drop(f.terms.Unit - odd)
			}
		}
	}
}

func (m *preemptor) nameWorkers(g *fit.Gang, set *victimSet) {
	r := m.all()
	for _, c := range set.claims {
		missing := fit.Minus(c.Room, r.coming(m.state, c.Node, &g.Part))
		for _, i := range set.victims {
			if v := &r.victims[i]; v.surplus == nil {
				missing = fit.Minus(missing, v.at(c.Node))
			}
		}
		missing.Resident.Cores = 0
		for _, i := range set.victims {
			v := &r.victims[i]
			if v.surplus == nil {
				continue
			}
			for n := v.leaving(c.Node); n > 0 && positive(missing) != (cluster.Request{}) && v.surplus.dropOn(c.Node); n-- {
				missing = fit.Minus(missing, v.surplus.request())
			}
		}
	}
}

// resizeFor asks an elastic job to give up the workers that were chosen.
func (m *preemptor) resizeFor(v *victim, beneficiary cluster.JobID) {
	f, r := v.surplus, m.all()
	for _, i := range f.leave {
		r.drain(cluster.NodeRoom{Node: f.nodes[i], Room: f.request()}, m.state.now+cluster.Instant(v.grace))
	}
	r.victims[v.twin-1].taken = true
	r.called[beneficiary] = m.state.now
	f.resize(m.state, beneficiary)
}

// plain leaves out of a set what elastic jobs give up that leave whole: on several nodes that may have looked like two things.
func (r *roster) plain(set *victimSet) {
	set.victims = slices.DeleteFunc(set.victims, func(i int32) bool {
		v := &r.victims[i]
		return v.surplus != nil && slices.Contains(set.victims, v.twin-1)
	})
}
