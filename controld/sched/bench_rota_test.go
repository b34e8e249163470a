package sched_test

import (
	"slices"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
	"github.com/rota-hpc/rota/jobspec"
)

// BenchmarkRotaArrival submits one trial-and-error job to a full cluster of 10,000 nodes with
// 100,000 best-effort jobs pending. It measures the choice of the victim, alone and with applying
// the submission and the plan.
func BenchmarkRotaArrival(b *testing.B) {
	c := newCrowd(b, 10_000)
	cfg := cluster.DefaultConfig()
	cfg.Policy.Name, cfg.Policy.HeadroomPM = "rota", -1
	c.apply(b, fsm.SetConfig{Config: cfg})
	c.best(b, 40_000)
	for c.cycle(b) > 0 {
	}
	c.run(b)
	c.now += 2 * 3600 * 1000
	c.best(b, 100_000)
	for c.cycle(b) > 0 {
	}
	live, groups, pending := c.sizes()
	b.Logf("%d running, %d pending in %d groups", live, pending, groups)
	var decided, all []time.Duration
	stops := 0
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		c.now += 100
		spec, _ := schedtest.NewWorld().MakeJob("quick", map[string]string{"class": "te", "gpus": "4", "cores": "2",
			"memory": "4"})
		b.StartTimer()
		start := time.Now()
		c.apply(b, fsm.SubmitJobs{Owner: schedtest.Ada, Jobs: []*jobspec.Job{spec}})
		v := c.state.View()
		between := time.Now()
		plan, _ := sched.Cycle(v, c.now, v.Config().Policy)
		decided = append(decided, time.Since(between))
		if len(plan.Actions) > 0 {
			c.apply(b, plan)
		}
		all = append(all, time.Since(start))
		for _, a := range plan.Actions {
			if _, ok := a.(*fsm.StopJob); ok {
				stops++
			}
		}
	}
	for name, list := range map[string][]time.Duration{"decide": decided, "all": all} {
		slices.Sort(list)
		b.ReportMetric(float64(list[len(list)/2].Microseconds()), name+"-p50-us")
		b.ReportMetric(float64(list[len(list)*99/100].Microseconds()), name+"-p99-us")
	}
	b.ReportMetric(float64(stops)/float64(b.N), "stops")
}

// best submits best-effort jobs of 200 shapes that can save their state and have declared different
// times of grace.
func (c *crowd) best(b *testing.B, n int) {
	var batch []*jobspec.Job
	for i := range n {
		spec, _ := schedtest.NewWorld().MakeJob("j", nil)
		r := &spec.Groups[0].Tasks[0].Resources
		s := i % 200
		r.GPUs, r.Cores, r.Memory = 1+s%8, 1+s/8%5, jobspec.Bytes(1+s/40)*jobspec.GiB
		spec.Preemption = &jobspec.Preemption{GracePeriod: jobspec.Seconds(30 + i%97)}
		spec.Checkpoint = &jobspec.Checkpoint{}
		if batch = append(batch, spec); len(batch) == 1000 || i == n-1 {
			c.apply(b, fsm.SubmitJobs{Owner: schedtest.Ada, Jobs: batch})
			batch = nil
		}
	}
}

// run brings everything that was assigned to running.
func (c *crowd) run(b *testing.B) {
	v := c.state.View()
	for j := range v.Live() {
		for i, w := range j.Live().Workers {
			n, _ := v.Node(w.Node)
			c.apply(b, fsm.NodeReport{Node: n.Name, BootID: n.BootID, Workers: []model.WorkerReport{
				{Job: j.ID, Attempt: j.Attempt, Worker: i, State: model.WorkerRunning},
			}})
		}
	}
}
