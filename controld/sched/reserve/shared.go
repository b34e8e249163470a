package reserve

import (
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Where GPUs are shared, amounts do not say whether a worker fits: half of one GPU and half of
// another are no GPU. The functions of this file look at each GPU by itself.

// parted reports whether a part of a gang has to be told apart, GPU by GPU, on a node.
func parted(t *scratch.State, node int, p *fit.Component, releases []Release) bool {
	return p.Request.Active.GPUs > 0 && (p.Request.Share() > 0 || t.Room.Shares(node) ||
		slices.ContainsFunc(releases, func(r Release) bool { return r.Room.Share() > 0 }))
}

// comingGPUs returns how many thousandths of each GPU of a node will be free when all jobs have
// left that have been asked to. One job more counts as leaving, 0 for none.
func comingGPUs(t *scratch.State, node int, also model.JobID) []int64 {
	left := t.Room.Left(node)
	for _, d := range t.View.Desired(t.View.Nodes()[node].Name) {
		a := d.Job.Live()
		_, asked := t.Stopping[d.Job.ID]
		leaves := a.Suspending() && !t.Withdrawn[d.Job.ID] || a.Workers[d.Worker].Leaving ||
			a.Stop != nil && (a.Stop.Resize == nil || slices.Contains(a.Stop.Resize.Leave, d.Worker))
		if !leaves &&
			(!asked || t.KeepsWorker(d.Job.ID, d.Worker)) && d.Job.ID != also {
			continue
		}
		t.Room.AddWorking(left, node, a.Workers[d.Worker].GPUs, d.Job.Holds(a, d.Worker).Active.GPUs)
	}
	return left
}

// SeatsOne reports whether one worker will find its GPUs on a node when one job more has left,
// beside those that have been asked to.
func SeatsOne(t *scratch.State, node int, r *model.Request, also model.JobID) bool {
	return r.Active.GPUs == 0 || !t.Room.Sharing() || seats(comingGPUs(t, node, also), 0, r) > 0
}

// seats counts the workers that find their GPUs in what is left of each when so much is taken, from
// empty GPUs first.
func seats(left []int64, taken int64, r *model.Request) int64 {
	empty, n, share := int64(0), int64(0), r.Share()
	for _, l := range left {
		switch {
		case l >= model.WholeGPU:
			empty++
		case share > 0:
			n += l / share
		}
	}
	for ; taken > 0 && empty > 0; empty-- {
		taken -= model.WholeGPU
	}
	if share > 0 {
		return max(0, n+empty*(model.WholeGPU/share)-max(0, taken)/share)
	}
	return empty * model.WholeGPU / r.Active.GPUs
}
