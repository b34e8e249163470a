package sched

import (
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// Where GPUs are shared, amounts do not say whether a worker fits: half of one GPU and half of another are no GPU. The functions of this file
// look at each GPU by itself.

// parted reports whether a part of a gang has to be told apart, GPU by GPU, on a node.
func parted(t *trial, node int, p *fit.Part, releases []release) bool {
	return p.Request.Active.GPUs > 0 && (p.Request.Share() > 0 || t.room.Shares(node) ||
		slices.ContainsFunc(releases, func(r release) bool { return r.room.Share() > 0 }))
}

// slotsOnParted is slotsOn where GPUs are shared. What others have been promised is taken from the GPUs that are free soonest.
func slotsOnParted(t *trial, slots []slot, node int, p *fit.Part, promised cluster.Request, whole bool, releases []release) []slot {
	free, at := fit.Minus(t.room.Available(node), promised), t.now
	taken := t.room.Claimed(node).GPUs + promised.Active.GPUs
	left := t.room.Left(node)
	next := func() {
		r := &releases[0]
		for _, n := range r.gpus {
			if t.view.Nodes()[node].GPUs[n].Healthy {
				left[n] += min(cluster.WholeGPU, r.room.Active.GPUs)
			}
		}
		free, at, releases = fit.Plus(free, r.room), r.at, releases[1:]
	}
	for len(releases) > 0 && (p.Request.Exclusive || whole || t.room.Whole(node)) {
		next()
	}
	for workers := 1; workers <= min(p.PerNode, p.Workers); workers++ {
		need := fit.Times(p.Request, workers)
		for need.Active.GPUs, need.Resident.GPUs = 0, 0; !fit.Within(need, free) || seats(left, taken, &p.Request) < int64(workers); {
			if len(releases) == 0 {
				return slots
			}
			next()
		}
		slots = append(slots, slot{at: at, node: node})
	}
	return slots
}

// comingGPUs returns how many thousandths of each GPU of a node will be free when all have left who have been asked to, and somebody else, 0 for
// nobody.
func comingGPUs(t *trial, node int, also cluster.JobID) []int64 {
	left, n := t.room.Left(node), t.view.Nodes()[node]
	for _, d := range t.view.Desired(n.Name) {
		a := d.Job.Live()
		_, asked := t.stopping[d.Job.ID]
		if leaves := a.Stop != nil && (a.Stop.Resize == nil || slices.Contains(a.Stop.Resize.Leave, d.Worker)); !leaves && (!asked || t.keepsWorker(d.Job.ID, d.Worker)) && d.Job.ID != also {
			continue
		}
		r := d.Job.RequestOf(d.Worker)
		for _, i := range a.Workers[d.Worker].GPUs {
			if n.GPUs[i].Healthy {
				left[i] += min(cluster.WholeGPU, r.Active.GPUs)
			}
		}
	}
	return left
}

// seatsOne reports whether one worker will find its GPUs on a node when all have left who have been asked to, and somebody else.
func seatsOne(t *trial, node int, r *cluster.Request, also cluster.JobID) bool {
	return r.Active.GPUs == 0 || !t.room.Sharing() || seats(comingGPUs(t, node, also), 0, r) > 0
}

// seats counts the workers that find their GPUs in what is left of each when so much is taken, from empty GPUs first.
func seats(left []int64, taken int64, r *cluster.Request) int64 {
	empty, n, share := int64(0), int64(0), r.Share()
	for _, l := range left {
		switch {
		case l >= cluster.WholeGPU:
			empty++
		case share > 0:
			n += l / share
		}
	}
	for ; taken > 0 && empty > 0; empty-- {
		taken -= cluster.WholeGPU
	}
	if share > 0 {
		return max(0, n+empty*(cluster.WholeGPU/share)-max(0, taken)/share)
	}
	return empty * cluster.WholeGPU / r.Active.GPUs
}
