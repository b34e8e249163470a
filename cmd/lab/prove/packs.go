package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/rota-hpc/rota/cmd/lab"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// pair is two trainings for one GPU: they say that they use little of it. Trainings on one GPU compute
// in turn, so that only light ones come on faster together.
type pair struct {
	name           string
	node           string
	compute, pause time.Duration // of a step, on the GPU and beside it
	stays          bool          // they are faster together
	filler         model.JobID   // has the other GPUs of the node
	jobs           []model.JobID
}

func pairs() []*pair {
	return []*pair{
		{name: "light", node: "n2", compute: 4 * time.Millisecond, pause: 16 * time.Millisecond, stays: true},
		{name: "heavy", node: "n3", compute: 100 * time.Millisecond},
	}
}

// packLength is how long two jobs for one GPU take at most to have a turn each, to be measured
// alone, and then together.
const packLength = (3*model.TurnMS + model.ProfileAfterMS + model.TrialMS + 20_000) * time.Millisecond

// packs submits pairs of jobs, which the cluster tries on one GPU.
func (p *proof) packs(ctx context.Context, client *api.Client) ([]*pair, error) {
	all := pairs()
	for _, x := range all {
		trainer := filepath.Join(p.shared, "bin", "trainer")
		one := func(name string, gpus int, args ...string) *jobspec.Job {
			j := lab.Job(name, p.shared, false, jobspec.Resources{Cores: 1, Memory: 64 * jobspec.MiB, GPUs: gpus}, 1,
				append([]string{trainer, "-steps", fmt.Sprint(neverEnding), "-hidden", "8"}, args...)...)
			j.Queue = "packs"
			j.Constraints = []jobspec.Constraint{{Attribute: "node.name", Value: x.node}}
			return j
		}
		var err error
		if x.filler, err = submit(ctx, client, one("filler", gpus-1, "-pause", "1s")); err != nil {
			return nil, err
		}
		for range 2 {
			j := one(x.name, 1, "-compute", x.compute.String(), "-pause", x.pause.String(), "-device",
				filepath.Join(p.shared, "device-"+x.node), "-gpu-memory", "1024", "-gpu-busy", "20")
			j.Preemption = &jobspec.Preemption{Mode: jobspec.PreemptSuspend}
			id, err := submit(ctx, client, j)
			if err != nil {
				return nil, err
			}
			x.jobs = append(x.jobs, id)
		}
	}
	return all, nil
}

// judgePacks ends the pairs, and checks what the rates that the nodes measured have led to.
func (p *proof) judgePacks(ctx context.Context, client *api.Client, all []*pair) error {
	for _, x := range all {
		for _, id := range append([]model.JobID{x.filler}, x.jobs...) {
			if err := client.Cancel(ctx, id, "the part with turns is over"); err != nil {
				return err
			}
			if _, err := awaitEnd(ctx, client, id, patience); err != nil {
				return err
			}
		}
		var wrong, gains complaints
		for _, e := range p.log.sorted() {
			if e.Type != string(model.EventMeasured) || e.What != model.TrialPack || e.Job != x.jobs[0] && e.Job != x.jobs[1] {
				continue
			}
			gains.add("%.2f", float64(e.MeasuredGain)/1000)
			if e.Undone == x.stays {
				wrong.add("undone: %t, at %.2f times the rate", e.Undone, float64(e.MeasuredGain)/1000)
			}
		}
		if len(gains) == 0 {
			wrong.add("the jobs were not tried together, or not measured")
		}
		p.tell("packing, "+x.name+" jobs", wrong, "two jobs on one GPU run %v times as fast as in turns; they stay "+
			"together: %t", gains,
			x.stays)
	}
	return nil
}
