package sched

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/jobspec"
)

// turnsMS is how often it is looked whose turn it is among best-effort jobs.
const turnsMS = 60_000

// restartsWorth is for how many times its own restart cost a job runs before others take its turn.
const restartsWorth = 20

// turn is a best-effort job that runs or waits, and its place in the order.
type turn struct {
	job    *cluster.Job
	level  int
	victim int // index in the roster of one that runs, -1 of one that waits
	in     bool
}

// takeTurns gives waiting best-effort jobs that have had little the room of running ones that have had more.
func (m *maker) takeTurns() {
	if m.policy.MinTurnMS < 0 || !m.anyWaits() {
		return
	}
	if l := m.view.Learned(); l != nil && m.now-l.Turns < turnsMS && l.Turns > 0 {
		m.wakeAt(l.Turns + turnsMS)
		return
	}
	m.turned = true
	m.wakeAt(m.now + turnsMS)
	r := m.all()
	if !m.anyTurnOver(r) {
		return
	}
	list := m.turns(r)
	m.admitTurns(list)
	asked, shared := 0, m.room.Sharing()
	for i := range list {
		w := &list[i]
		if w.victim >= 0 || !w.in || asked == rotaCallers {
			continue
		}
		asked++
		g := m.gang(w.job)
		m.makeRoom(w.job, &g, cluster.CauseOrder, func(v *victim) int { return v.turnAgainst(w.level, shared) })
	}
}

// anyWaits reports whether best-effort jobs wait that nobody holds.
func (m *maker) anyWaits() bool {
	for g := range m.view.Groups() {
		if !g.Key.Held && g.Key.Class != jobspec.TE && (len(g.Jobs) > 1 || m.started[g.Jobs[0].ID] == 0) {
			return true
		}
	}
	return false
}

// anyTurnOver notes the level of every victim and whether it may be displaced for one that has had less, and reports whether any may.
func (m *maker) anyTurnOver(r *roster) bool {
	any := false
	for i := range r.victims {
		v := &r.victims[i]
		v.level = m.levelNow(v)
		v.turnOver = v.level > 0 && !v.taken && m.turnOver(v)
		any = any || v.turnOver
	}
	return any
}

// levelNow is the level of a job that runs.
func (m *maker) levelNow(v *victim) int {
	held := int64(m.now - v.attempt.Assigned.At)
	total := v.job.Total()
	service := v.job.Attained()
	if total.GPUs > 0 {
		service += cluster.GPUTime(held, total.GPUs)
	} else {
		service += held * total.Cores
	}
	return v.job.LevelAt(service)
}

// turnOver reports whether a running job has had its turn: it can save what it has done, has run for long enough, and was not displaced too
// often. A wide gang keeps its room: it waits long for a chance to get it together again.
func (m *maker) turnOver(v *victim) bool {
	a := v.attempt
	if v.job.Spec.Checkpoint == nil || a.Started.At == 0 || !m.mayDisplace(v.job) || v.job.Width() >= cluster.WideGPUs {
		return false
	}
	least := cluster.Instant(cmp.Or(m.policy.MinTurnMS, rotaMinTurn))
	least = max(least, cluster.Instant(m.policy.MinRuntimeMS), restartsWorth*(a.Started.At-a.Assigned.At))
	return m.now-a.Started.At >= least
}

// turnAgainst says how readily a victim leaves for a job of a level, as [maker.lawful] does. Where GPUs are shared it matters who of those
// whose turn is over leaves: whoever keeps the rest of his GPU from being used, rather than whoever came last.
func (v *victim) turnAgainst(level int, shared bool) int {
	if v.turnOver && (shared || !v.in) && v.level > level {
		return 0
	}
	return -1
}

// turns lists all best-effort jobs that run, or that wait and may start, in order.
func (m *maker) turns(r *roster) []turn {
	var list []turn
	for i := range r.victims {
		if v := &r.victims[i]; !v.taken {
			list = append(list, turn{job: v.job, level: v.level, victim: i})
		}
	}
	for g := range m.view.Groups() {
		if g.Key.Held || g.Key.Class == jobspec.TE {
			continue
		}
		for _, j := range g.Jobs {
			if r := m.holders[j.ID]; m.started[j.ID] == 0 && (r == nil || !r.Firm) && j.Family == nil && m.startable(j) {
				list = append(list, turn{job: j, level: max(0, m.levelOf(j)), victim: -1})
			}
		}
	}
	slices.SortFunc(list, func(a, b turn) int {
		return cmp.Or(cmp.Compare(b.job.Priority, a.job.Priority), cmp.Compare(a.level, b.level), cmp.Compare(a.job.ID, b.job.ID))
	})
	return list
}

// admitTurns marks the first jobs that the cluster could hold beside trial-and-error jobs if it were one big node.
func (m *maker) admitTurns(list []turn) {
	defer m.room.WaiveSoft()()
	r := m.all()
	var left cluster.Request
	for i, n := range m.view.Nodes() {
		if n.State == cluster.NodeUp {
			left = fit.Plus(left, fit.Minus(m.room.Free(i), fit.Both(m.room.Claimed(i))))
		}
	}
	for i := range r.victims {
		if v := &r.victims[i]; !v.taken {
			left = fit.Plus(left, cluster.Request{Active: v.job.Total()})
		}
	}
	for i := range r.draining {
		left = fit.Plus(left, r.draining[i])
	}
	for i := range list {
		need := cluster.Request{Active: list[i].job.Total()}
		if !fit.Within(need, left) {
			continue
		}
		left = fit.Minus(left, need)
		if list[i].in = true; list[i].victim >= 0 {
			r.victims[list[i].victim].in = true
		}
	}
}
