package sched

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// roundMS is how often the preemptive baselines displace jobs.
const roundMS = 60_000

// lasLevels are the bounds of attained service between the levels of policy las, in ms of one GPU.
var lasLevels = [2]int64{3_250_000, 72_000_000}

// ranked is a waiting or running job and what decides its turn: less comes first.
type ranked struct {
	job   *cluster.Job
	level int64
	live  bool
	in    bool // it belongs to those that should run
}

// las serves jobs by least attained service: levels of GPU time held so far, then age. At every round what runs and does not belong to
// those that should is displaced for those that do (discretised two-dimensional LAS).
func las(t *trial) {
	minimum := cluster.Instant(t.policy.MinRunMS)
	displace(t, minimum, func(j *cluster.Job) int64 {
		attained := attainedBy(j, t.now)
		level, _ := slices.BinarySearch(lasLevels[:], attained+1)
		return int64(level)
	})
}

// remaining serves jobs by what is left of their time limit, which is what srtf is told of how long they run.
func remaining(t *trial) {
	displace(t, cluster.Instant(t.policy.MinRunMS), func(j *cluster.Job) int64 {
		if j.Limit <= 0 {
			return int64(never)
		}
		left := int64(j.Limit) * 1000
		for i := range j.Attempts {
			left -= ranFor(&j.Attempts[i], t.now)
		}
		return max(0, left)
	})
}

// ranFor is how long an attempt has run until now, not counting the grace after it was asked to stop.
func ranFor(a *cluster.Attempt, now cluster.Instant) int64 {
	if a.Started.At == 0 {
		return 0
	}
	until := now
	if a.Stop != nil {
		until = a.Stop.At
	} else if a.Ended.At != 0 {
		until = a.Ended.At
	}
	return int64(until - a.Started.At)
}

// attainedBy is the GPU time that a job has held, in ms of one GPU; of jobs without GPUs the time of their workers.
func attainedBy(j *cluster.Job, now cluster.Instant) int64 {
	sum := int64(0)
	for i := range j.Attempts {
		sum += ranFor(&j.Attempts[i], now)
	}
	if gpus := j.Total().GPUs; gpus > 0 {
		return cluster.GPUTime(sum, gpus)
	}
	return sum * int64(j.Workers)
}

// displace starts jobs in the order of a key, then of age, and at every round stops those that run although others come before them that
// wait: whoever is not among the first that the cluster as a whole could hold. Nobody is stopped before it has run for a minimum, and for a
// round in any case: the room of the one who makes way may not be enough, and then it starts again.
func displace(t *trial, minimum cluster.Instant, key func(*cluster.Job) int64) {
	list := t.rank(key)
	t.admit(list)
	blocked := t.startRanked(list)
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

// rank lists all jobs that run or may start, those first that should run first.
func (t *trial) rank(key func(*cluster.Job) int64) []ranked {
	var list []ranked
	for j := range t.view.Live() {
		list = append(list, ranked{job: j, level: key(j), live: true})
	}
	for j := range t.waiting() {
		list = append(list, ranked{job: j, level: key(j)})
	}
	slices.SortFunc(list, func(a, b ranked) int { return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(a.job.ID, b.job.ID)) })
	return list
}

// admit marks the first jobs that all nodes could hold together if it were one big node.
func (t *trial) admit(list []ranked) {
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
func (t *trial) startRanked(list []ranked) (blocked bool) {
	var seen frontier
	for i := range list {
		j := list[i].job
		if list[i].live {
			continue
		}
		g := t.gang(j)
		if !seen.covers(&g) {
			if t.startWhole(j) {
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

// spreadOut serves jobs in the order in which they came and lets others pass, but puts each worker on the node that would be left with the
// most room: what a cluster does that schedules one container at a time.
func spreadOut(t *trial) {
	var seen frontier
	for j := range t.waiting() {
		g := t.gang(j)
		if seen.covers(&g) || t.spreadWhole(j, len(g.More) > 0) {
			continue
		}
		if len(g.Exclude) == 0 {
			seen.add(&g)
		}
	}
}

// spreadWhole starts a job, and of a record all members that may start, and reports whether it could. Gangs of several parts are packed.
func (t *trial) spreadWhole(j *cluster.Job, parts bool) bool {
	if parts {
		return t.startWhole(j)
	}
	c := &contender{job: j}
	for t.startSpread(c) {
		if !c.advance(t) {
			return true
		}
	}
	return false
}

// startSpread starts a gang of one part and reports whether it could.
func (t *trial) startSpread(c *contender) bool {
	try, single := t.room.Copy(), *c.asks(t)
	single.Workers = 1
	var spots []fit.Spot
	on := map[int]int{}
	for range c.gang.Workers {
		node := emptiest(try, t, &c.gang.Part, c.gang.Exclude, on)
		if node < 0 {
			return false
		}
		single.Nodes = make([]uint64, (len(t.view.Nodes())+63)/64)
		single.Nodes[node/64] |= 1 << (node % 64)
		spot, ok := try.Place(&single)
		if !ok {
			return false
		}
		try.Take(&single, spot)
		on[node]++
		spots = append(spots, spot...)
	}
	t.start(c, spots, 0)
	return true
}

// emptiest returns the node with room for a worker that has the greatest part of its cores and memory free, -1 if there is none.
func emptiest(r *fit.Room, t *trial, p *fit.Part, exclude []int, on map[int]int) int {
	best, most := -1, int64(-1)
	for i := range t.view.Nodes() {
		free := r.Available(i)
		if !r.Usable(i, p, exclude) || on[i] >= p.PerNode || !fit.Within(p.Request, free) || r.Whole(i) {
			continue
		}
		all := r.Total(i)
		score := free.Active.Cores*1_000_000/max(1, all.Cores) + int64(free.Active.Memory/1024)*1_000_000/max(1, int64(all.Memory/1024))
		if score > most {
			best, most = i, score
		}
	}
	return best
}
