package sched_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
	"github.com/rota-hpc/rota/jobspec"
)

// parts submits best-effort jobs that each ask for a part of a GPU, of 40 shapes.
func (c *crowd) parts(b *testing.B, n int) {
	var batch []*jobspec.Job
	for i := range n {
		spec, _ := schedtest.NewWorld().MakeJob("p", map[string]string{"share": fmt.Sprint(50 + i%40*23), "save": "yes"})
		if batch = append(batch, spec); len(batch) == 1000 || i == n-1 {
			c.apply(b, fsm.SubmitJobs{Owner: schedtest.Ada, Jobs: batch})
			batch = nil
		}
	}
}

// BenchmarkSharedArrival submits one job to a full cluster of 10,000 nodes with shared GPUs and
// 100,000 pending jobs. The job wants a part of a GPU, as best effort or trial and error, or is a
// trial of two GPUs.
func BenchmarkSharedArrival(b *testing.B) {
	for _, kind := range []map[string]string{
		{"share": "400"}, {"class": "te", "share": "400", "cores": "2"}, {"class": "te", "gpus": "2", "cores": "2"},
	} {
		b.Run(fmt.Sprint(kind), func(b *testing.B) {
			c := newCrowd(b, 10_000)
			cfg := cluster.DefaultConfig()
			cfg.Policy.Name, cfg.Policy.HeadroomPM = "rota", -1
			c.apply(b, fsm.SetConfig{Config: cfg})
			c.parts(b, 20_000)
			c.best(b, 30_000)
			for c.cycle(b) > 0 {
			}
			c.run(b)
			c.now += 2 * 3600 * 1000
			c.parts(b, 50_000)
			c.best(b, 50_000)
			for c.cycle(b) > 0 {
			}
			live, groups, pending := c.sizes()
			b.Logf("%d running, %d pending in %d groups", live, pending, groups)
			var decided []time.Duration
			for b.Loop() {
				b.StopTimer()
				c.now += 100
				spec, _ := schedtest.NewWorld().MakeJob("quick", kind)
				c.apply(b, fsm.SubmitJobs{Owner: schedtest.Ada, Jobs: []*jobspec.Job{spec}})
				v := c.state.View()
				b.StartTimer()
				start := time.Now()
				plan, _ := sched.Cycle(v, c.now, v.Config().Policy)
				decided = append(decided, time.Since(start))
				b.StopTimer()
				if len(plan.Actions) > 0 {
					c.apply(b, plan)
				}
				b.StartTimer()
			}
			slices.Sort(decided)
			b.ReportMetric(float64(decided[len(decided)/2].Microseconds()), "decide-p50-us")
			b.ReportMetric(float64(decided[len(decided)*99/100].Microseconds()), "decide-p99-us")
		})
	}
}
