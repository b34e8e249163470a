package compare

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/baseline"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Spread serves jobs in order of arrival and lets others pass. It puts each worker on the node that
// would be left with the most room. It stands for a cluster that schedules one container at a time.
func Spread(t *scratch.State) {
	s := baseline.NewStarter(t)
	var seen queue.Frontier
	for j := range baseline.Waiting(t) {
		g := t.Gang(j)
		seen.Try(&g, func() bool { return spreadWhole(s, j, len(g.More) > 0) })
	}
}

// spreadWhole starts a job, and of an array all tasks that may start, and reports whether it
// could. Gangs of several parts are packed.
func spreadWhole(s *baseline.Starter, j *model.Job, parts bool) bool {
	if parts {
		return s.StartWhole(j)
	}
	c := queue.NewContender(nil, j)
	return c.StartAll(s.State, func() ([]fit.Spot, bool) { return spread(s.State, c.Gang(s.State)) })
}

// spread finds spots for a gang of one part, worker by worker.
func spread(t *scratch.State, g *fit.Gang) ([]fit.Spot, bool) {
	try, single := t.Room.Copy(), *g
	single.Workers = 1
	var spots []fit.Spot
	on := map[int]int{}
	for range g.Workers {
		node := emptiest(try, t, &g.Component, g.Exclude, on)
		if node < 0 {
			return nil, false
		}
		spot, ok := try.PlaceOn(&single, node)
		if !ok {
			return nil, false
		}
		try.Take(&single, spot)
		on[node]++
		spots = append(spots, spot...)
	}
	return spots, true
}

// emptiest returns the node with room for a worker that has the greatest part of its cores and
// memory free, -1 if there is none.
func emptiest(r *fit.Room, t *scratch.State, p *fit.Component, exclude []int, on map[int]int) int {
	best, most := -1, int64(-1)
	for i := range t.View.Nodes() {
		free := r.Available(i)
		if !r.Usable(i, p, exclude) || on[i] >= p.PerNode || !fit.Within(p.Request, free) || r.Whole(i) {
			continue
		}
		all := r.Total(i)
		score := free.Active.Cores*1_000_000/max(1, all.Cores) + int64(free.Active.Memory/1024)*1_000_000/max(1,
			int64(all.Memory/1024))
		if score > most {
			best, most = i, score
		}
	}
	return best
}
