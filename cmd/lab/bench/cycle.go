package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// cycleOfAFullQueue times decisions over 10,000 pending jobs of 200 shapes on 1,000 empty nodes
// with 8 GPUs each, with the functions that the controller runs.
func cycleOfAFullQueue(_ context.Context, b *bench) error {
	const nodes, jobs, shapes = 1000, 10_000, 200
	s := fsm.New(cluster.DefaultConfig())
	index := uint64(0)
	apply := func(c fsm.Command) error {
		index++
		_, err := s.Apply(index, fsm.Entry{Stamp: model.Stamp{At: 1}, Command: c})
		return err
	}
	for i := range nodes {
		n := model.Node{Name: fmt.Sprintf("n%04d", i), BootID: "b", Cores: 96, Memory: 1024 * jobspec.GiB, PortMin: 20000,
			PortMax: 20099}
		for g := range 8 {
			n.GPUs = append(n.GPUs, model.GPU{UUID: fmt.Sprintf("%d-%d", i, g), Model: "H100", Memory: 80 * jobspec.GiB,
				Minor: g, Healthy: true})
		}
		if err := apply(fsm.RegisterNode{Node: n}); err != nil {
			return err
		}
	}
	rng := rand.New(rand.NewPCG(b.seed, 1))
	var specs []*jobspec.Job
	for i := range jobs {
		shape := i % shapes
		j := &jobspec.Job{Name: "j", Account: fmt.Sprintf("a%d", rng.IntN(8)),
			Groups: []jobspec.Group{{Name: "main", Count: 1 + shape%3, MaxWorkersPerNode: 1, Tasks: []jobspec.Task{{
				Name: "main", Command: []string{"true"}, Resources: jobspec.Resources{
					Cores: 1 + shape%12, Memory: jobspec.Bytes(4+shape) * jobspec.GiB, GPUs: []int{1, 2, 4, 8}[shape%4],
				},
			}}}}}
		j.Default()
		specs = append(specs, j)
	}
	for i := 0; i < jobs; i += 100 {
		if err := apply(fsm.SubmitJobs{Owner: model.Identity{UID: 1000, User: fmt.Sprint("u", i/100)},
			Jobs: specs[i : i+100]}); err != nil {
			return err
		}
	}
	v := s.View()
	runtime.GC()
	for _, name := range []string{"", "rota", "fairshare"} {
		policy := v.Config().Policy
		if policy.Name = name; name == "" {
			name = "standard"
		}
		ds, actions := fullCycles(v, 2, policy, b.repeat(50))
		b.add(fmt.Sprintf("a cycle over %d GPU jobs on %d nodes x 8 GPUs, policy %s, p50", jobs, nodes, name),
			percentile(ds, 50), "ms", "<= 100",
			fmt.Sprintf("all considered, %d actions; Slurm's backfill 19 to 24 s for 269 to 500", actions))
	}
	return nil
}
