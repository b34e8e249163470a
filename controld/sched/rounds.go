package sched

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// roundMS is how often the preemptive baselines displace jobs.
const roundMS = 60_000

// ranked is a waiting or running job and what decides its turn: less comes first.
type ranked struct {
	job   *cluster.Job
	level int64
	live  bool
	in    bool // it belongs to those that should run
}

// displace starts jobs in the order of a key, then of age, and at every round stops those that run although others come before them that
// wait: whoever is not among the first that the cluster as a whole could hold. Nobody is stopped before it has run for a minimum, and for a
// round in any case: the room of the one who makes way may not be enough, and then it starts again.
func displace(t *trial, minimum cluster.Instant, key func(*cluster.Job) int64) {
	list := rankAll(t, key)
	admit(t, list)
	blocked := newStarter(t).startRanked(list)
	if !blocked {
		return
	}
	if t.now%roundMS != 0 {
		t.wakeAt(t.now - t.now%roundMS + roundMS)
		return
	}
	t.wakeAt(t.now + roundMS)
	for i := len(list) - 1; i >= 0; i-- {
		r := &list[i]
		if !r.live || r.in {
			continue
		}
		a := r.job.Live()
		if a.Stop == nil && a.Started.At != 0 && t.now-a.Started.At >= max(minimum, roundMS) {
			t.act(cluster.Action{Stop: &cluster.StopJob{Job: r.job.ID, Attempt: a.N, Cause: cluster.CauseOrder}})
		}
	}
}

// rankAll lists all jobs that run or may start, those first that should run first.
func rankAll(t *trial, key func(*cluster.Job) int64) []ranked {
	var list []ranked
	for j := range t.view.Live() {
		list = append(list, ranked{job: j, level: key(j), live: true})
	}
	for j := range waiting(t) {
		list = append(list, ranked{job: j, level: key(j)})
	}
	slices.SortFunc(list, func(a, b ranked) int { return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(a.job.ID, b.job.ID)) })
	return list
}

// admit marks the first jobs that all nodes could hold together if it were one big node.
func admit(t *trial, list []ranked) {
	var left cluster.Request
	for i, n := range t.view.Nodes() {
		if n.State == cluster.NodeUp {
			left = fit.Plus(left, fit.Both(t.room.Total(i)))
		}
	}
	for i := range list {
		v := list[i].job.Total()
		if need := fit.Both(v); fit.Within(need, left) {
			left = fit.Minus(left, need)
			list[i].in = true
		}
	}
}

// startRanked starts waiting jobs that fit, in order, and reports whether one that should run does not.
func (s *starter) startRanked(list []ranked) (blocked bool) {
	var seen frontier
	for i := range list {
		j := list[i].job
		if list[i].live {
			continue
		}
		g := s.gang(j)
		if !seen.covers(&g) {
			if s.startWhole(j) {
				continue
			}
			if len(g.Exclude) == 0 {
				seen.add(&g)
			}
		}
		blocked = blocked || list[i].in
	}
	return blocked
}
