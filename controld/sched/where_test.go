package sched_test

import (
	"fmt"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
	"github.com/rota-hpc/rota/jobspec"
)

// BenchmarkFillConstrained is one cycle over 10,000 pending GPU jobs of 200 shapes. The cluster has
// 1,000 nodes of 8 GPUs in ten racks, of two models. Three shapes of four say where they may run,
// some prefer a rack, some want whole nodes, some are gangs of two groups.
func BenchmarkFillConstrained(b *testing.B) {
	c := &crowd{state: fsm.New(cluster.DefaultConfig()), now: 1000}
	for i := range 1000 {
		n := schedtest.MakeNode(fmt.Sprintf("n%05d", i), 8, 64, 512, 1000)
		schedtest.Describe(&n, "model", [...]string{"A100", "H100"}[i%2])
		schedtest.Describe(&n, "labels", fmt.Sprintf("rack:%d", i/100))
		c.apply(b, fsm.RegisterNode{Node: n})
	}
	var batch []*jobspec.Job
	for i := range 10_000 {
		s := i % 200
		options := map[string]string{"gpus": fmt.Sprint(1 + s%8), "cores": fmt.Sprint(1 + s/8%5),
			"memory": fmt.Sprint(1 + s/40), "account": fmt.Sprint("a", i/200%8)}
		switch s % 8 {
		case 1, 3:
			options["model"] = "h100"
		case 2, 5:
			options["constraint"] = fmt.Sprintf("label.rack:in:%d,%d", s%10, s/10%10)
		case 4:
			options["prefer"] = fmt.Sprintf("50:label.rack:=:%d", s%10)
		case 6:
			options["exclusive"] = "yes"
		case 7:
			options["parts"] = fmt.Sprintf("ps:1x0,worker:2x%d", 1+s%8)
		}
		spec, err := schedtest.NewWorld().MakeJob("j", options)
		if err != nil {
			b.Fatal(err)
		}
		if batch = append(batch, spec); len(batch) == 1000 {
			c.apply(b, fsm.SubmitJobs{Owner: schedtest.Ada, Jobs: batch})
			batch = nil
		}
	}
	cycles := func(b *testing.B) {
		v, starts := c.state.View(), 0
		for b.Loop() {
			plan, _ := sched.Cycle(v, c.now, v.Config().Policy)
			starts = len(plan.Actions)
		}
		b.ReportMetric(float64(starts), "starts")
	}
	b.Run("empty", cycles)
	for c.cycle(b) > 0 {
	}
	b.Run("full", cycles)
}
