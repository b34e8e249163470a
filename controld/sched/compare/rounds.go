package compare

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/baseline"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// roundMS is how often the preemptive baselines displace jobs.
const roundMS = 60_000

// ranked is a waiting or running job and its rank: less comes first.
type ranked struct {
	job   *model.Job
	level int64
	live  bool
	in    bool // it belongs to those that should run
}

// displace starts jobs in the order of a key, then of age. At every round it looks for running jobs
// that are not among the first that the whole cluster could hold. It stops them if jobs before them
// wait. No job is stopped before it has run for a minimum, and for one round in any case. The room
// of a stopped job may be too small, and then the job starts again.
func displace(t *scratch.State, minimum model.Instant, key func(*model.Job) int64) {
	list := rankAll(t, key)
	admit(t, list)
	blocked := startRanked(baseline.NewStarter(t), list)
	if !blocked || !t.May(steering.Preemption) {
		return
	}
	if t.Now%roundMS != 0 {
		t.WakeAt(t.Now - t.Now%roundMS + roundMS)
		return
	}
	t.WakeAt(t.Now + roundMS)
	for i := len(list) - 1; i >= 0; i-- {
		r := &list[i]
		if !r.live || r.in {
			continue
		}
		a := r.job.Live()
		if a.Stop == nil && a.Started.At != 0 && t.Now-a.Started.At >= max(minimum, roundMS) {
			t.Act(&fsm.StopJob{Job: r.job.ID, Attempt: a.N, Cause: model.CauseOrder})
		}
	}
}

// rankAll lists all jobs that run or may start, those first that should run first.
func rankAll(t *scratch.State, key func(*model.Job) int64) []ranked {
	var list []ranked
	for j := range t.View.Live() {
		list = append(list, ranked{job: j, level: key(j), live: true})
	}
	for j := range baseline.Waiting(t) {
		list = append(list, ranked{job: j, level: key(j)})
	}
	slices.SortFunc(list, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.level, b.level),
			cmp.Compare(a.job.ID, b.job.ID))
	})
	return list
}

// admit marks the first jobs that all nodes could hold together if it were one big node.
func admit(t *scratch.State, list []ranked) {
	var left model.Request
	for i, n := range t.View.Nodes() {
		if n.State == model.NodeUp {
			left = left.Plus(fit.Both(t.Room.Total(i)))
		}
	}
	for i := range list {
		v := list[i].job.Total()
		if need := fit.Both(v); fit.Within(need, left) {
			left = left.Minus(need)
			list[i].in = true
		}
	}
}

// startRanked starts waiting jobs that fit, in order, and reports whether a job that should run
// does not.
func startRanked(s *baseline.Starter, list []ranked) (blocked bool) {
	var seen queue.Frontier
	for i := range list {
		j := list[i].job
		if list[i].live {
			continue
		}
		g := s.State.Gang(j)
		if !seen.Try(&g, func() bool { return s.StartWhole(j) }) {
			blocked = blocked || list[i].in
		}
	}
	return blocked
}
