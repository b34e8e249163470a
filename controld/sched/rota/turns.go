package rota

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/groups"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/drf"
	"github.com/rota-hpc/rota/controld/sched/elastic"
	"github.com/rota-hpc/rota/controld/sched/fairshare"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/preempt"
	"github.com/rota-hpc/rota/controld/sched/reserve"
)

// makeRoomForBE makes room for best-effort jobs, once a minute. Jobs of accounts and users that
// hold less than their part come first, then, in order, jobs for which it is worth it.
func (m *preemptor) makeRoomForBE() {
	if !m.anyWaits() {
		return
	}
	every := min(checkEvery, fairshare.MinRuntime(m.state))
	if l := m.state.View.Statistics(); l != nil && m.state.Now-l.LastRotation < every && l.LastRotation > 0 {
		m.state.WakeAt(l.LastRotation + every)
		return
	}
	m.state.RotationChecked = true
	m.state.WakeAt(m.state.Now + every)
	f := m.rota.accounts()
	f.Candidates = m.search.All()
	m.takeSurplus(f)
	f.Reclaim()
	f.Foresee()
	m.beyond = make([]int64, len(m.search.All().List))
	for i, v := range m.search.All().Each() {
		m.beyond[i] = m.rota.beyondCost(v.Job, v.Attempt, v.Pauses)
	}
	m.inOrder(func(j *model.Job, g *fit.Gang) bool {
		least := m.rota.worthInOrder(j)
		return m.defragment(j, g) || m.preempt(j, g, model.CauseOrder,
			func(v *preempt.Candidate) int { return m.reluctanceInOrder(v, j, least) }, allDegrees)
	})
}

// takeSurplus lets elastic jobs give up workers for jobs of accounts and users that hold less than
// their part. Whole jobs leave for these only if surplus workers are not enough.
func (m *preemptor) takeSurplus(f *fairshare.Accounts) {
	if len(m.search.Elastic) == 0 {
		return
	}
	f.Foresee()
	m.inOrder(func(j *model.Job, g *fit.Gang) bool {
		return f.Entitled(f.Leaf(j.Association()), f.Asks(j)) &&
			m.preempt(j, g, model.CauseReclaim, m.reluctanceOfSurplus, allDegrees)
	})
}

// inOrder tries to make room for the first of the best-effort jobs that wait, in order.
func (m *preemptor) inOrder(makeRoom func(*model.Job, *fit.Gang) bool) {
	list := m.waitingBE()
	m.places = make(map[model.JobID]int, len(list))
	for i := range list {
		m.places[list[i].job.ID] = i
	}
	asked, vain := 0, map[*groups.Group]bool{}
	for _, w := range list {
		if asked == maxCallers {
			return
		}
		if vain[w.group] || m.rota.overLimit(w.job) || m.rota.backsOff(w.job) {
			continue
		}
		asked++
		if g := m.state.Gang(w.job); !makeRoom(w.job, &g) {
			vain[w.group] = len(w.job.Exclude) == 0
		}
		m.rota.accounts().CatchUp()
	}
}

// yields reports whether a reservation is no obstacle to a job: it is its own, or that of a blocked
// head that comes later.
func (m *preemptor) yields(r *model.Reservation, j *model.Job) bool {
	place, known := m.places[r.Job]
	return r.Job == j.ID || known && place > m.places[j.ID]
}

// anyWaits reports whether best-effort jobs wait that are not held.
func (m *preemptor) anyWaits() bool {
	for g := range m.state.View.QueueGroups() {
		if !g.Head.Held && !g.Head.TE && (len(g.Jobs) > 1 || m.state.Started[g.Jobs[0].ID] == 0) {
			return true
		}
	}
	return false
}

// waitingBE lists, in order, the best-effort jobs that wait and may start: the first of each group. A
// job that asks for more than the nodes that are up could hold waits for other nodes.
func (m *preemptor) waitingBE() []waiter {
	var list []waiter
	for g := range m.state.View.QueueGroups() {
		if g.Head.Held || g.Head.TE || !reserve.Holdable(m.state, g) {
			continue
		}
		taken := 0
		for _, j := range g.Jobs {
			if m.state.Started[j.ID] > 0 || m.state.AwaitsVictims(j.ID) || !m.rota.startable(j) {
				continue
			}
			list = append(list, waiter{job: j, group: g, level: m.rota.levelOf(j)})
			if taken++; taken == maxCallers {
				break
			}
		}
	}
	slices.SortFunc(list, func(a, b waiter) int {
		return cmp.Or(cmp.Compare(b.job.Priority, a.job.Priority), cmp.Compare(a.level, b.level),
			cmp.Compare(a.job.ID, b.job.ID))
	})
	return list
}

// reluctanceInOrder says how readily a candidate leaves for a best-effort job that waits: 0 or,
// never, -1. Surplus workers of an elastic job give way to any waiting job once they have run for as
// long as a restart costs. A whole job leaves if that is worth it and the job has run undisturbed for long
// enough. Its account must hold more than it is entitled to, unless both jobs are of one account. A
// wide gang keeps its room: it waits long for a chance to get it together again.
func (m *preemptor) reluctanceInOrder(v *preempt.Candidate, j *model.Job, least int64) int {
	if v.Taken || v.Started == 0 {
		return -1
	}
	if v.Surplus != nil {
		at := v.Started + model.Instant(elastic.RestartCost(v.Job))
		if m.state.WakeAt(at); at > m.state.Now || v.Unsaved > preempt.MuchUnsaved {
			return -1
		}
		return 0
	}
	if m.state.Policy.MinTurnMS < 0 || v.Job.Priority > j.Priority || isWide(v) ||
		m.state.Now-max(v.Started, v.Undisturbed()) < m.minTurn() || m.beyond[v.Index] < least || !m.mayDisplace(v) {
		return -1
	}
	f := m.rota.accounts()
	mine, theirs := drf.Part(f.Leaf(j.Association()), f.Leaf(v.Job.Association()))
	if keepsRoom(j, v.Job, mine, theirs) {
		return -1
	}
	return 0
}

// reluctanceOfSurplus says how readily a candidate leaves for a job that could have whole jobs
// displaced: no later than its job could be.
func (m *preemptor) reluctanceOfSurplus(v *preempt.Candidate) int {
	if v.Surplus == nil || v.Taken || v.Started == 0 || v.Unsaved > preempt.MuchUnsaved {
		return -1
	}
	at := v.Started + min(model.Instant(elastic.RestartCost(v.Job)), fairshare.MinRuntime(m.state))
	if m.state.WakeAt(at); at > m.state.Now {
		return -1
	}
	return 0
}

// minTurn is how long a job runs before it leaves for one that comes first in order.
func (m *preemptor) minTurn() model.Instant {
	return max(fairshare.MinRuntime(m.state), model.Instant(m.state.Policy.MinTurnMS))
}
