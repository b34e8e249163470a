package sched_test

import (
	"fmt"
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

// crowd is a large cluster without the checks of a world.
type crowd struct {
	state *fsm.Machine
	index uint64
	now   model.Instant
}

func newCrowd(b *testing.B, nodes int) *crowd {
	c := &crowd{state: fsm.New(cluster.DefaultConfig()), now: 1000}
	for i := range nodes {
		c.apply(b, fsm.RegisterNode{Node: schedtest.MakeNode(fmt.Sprintf("n%05d", i), 8, 64, 512, 1000)})
	}
	return c
}

func (c *crowd) apply(b *testing.B, command fsm.Command) {
	c.index++
	if _, err := c.state.Apply(c.index, fsm.Entry{Stamp: model.Stamp{At: c.now, Wall: 1},
		Command: command}); err != nil {
		b.Fatal(err)
	}
}

// submit adds n jobs of 200 shapes, which with 8 accounts and both classes make 3,200 groups.
func (c *crowd) submit(b *testing.B, n, shapes int) {
	var batch []*jobspec.Job
	for i := range n {
		s := i % shapes
		spec, _ := schedtest.NewWorld().MakeJob("j", nil)
		spec.Account = fmt.Sprintf("a%d", i/shapes%8)
		if i/shapes/8%2 == 0 {
			spec.Class = jobspec.TE
		}
		r := &spec.Groups[0].Tasks[0].Resources
		r.GPUs, r.Cores, r.Memory = 1+s%8, 1+s/8%5, jobspec.Bytes(1+s/40)*jobspec.GiB
		spec.Groups[0].Count = 1
		if s%10 == 9 {
			spec.Groups[0].Count = 2
		}
		batch = append(batch, spec)
		if len(batch) == 1000 || i == n-1 {
			c.apply(b, fsm.SubmitJobs{Owner: model.Identity{UID: 1, User: "ada"}, Jobs: batch})
			batch = nil
		}
	}
}

func (c *crowd) cycle(b *testing.B) int {
	v := c.state.View()
	plan, _ := sched.Cycle(v, c.now, v.Config().Policy)
	if len(plan.Actions) > 0 {
		c.apply(b, plan)
	}
	return len(plan.Actions)
}

// BenchmarkArrival is one more job in front of a full cluster: 10,000 nodes, 100,000 pending jobs
// in 3,200 groups.
func BenchmarkArrival(b *testing.B) {
	c := newCrowd(b, 10_000)
	c.submit(b, 40_000, 200)
	for c.cycle(b) > 0 {
	}
	c.submit(b, 100_000, 200)
	for c.cycle(b) > 0 {
	}
	live, groups, pending := c.sizes()
	b.Logf("%d running, %d pending in %d groups", live, pending, groups)
	arrive := func(b *testing.B) {
		var each []time.Duration
		for b.Loop() {
			start := time.Now()
			c.submit(b, 1, 1)
			c.cycle(b)
			each = append(each, time.Since(start))
		}
		slices.Sort(each)
		b.ReportMetric(float64(each[len(each)*99/100].Microseconds()), "p99-us")
		b.ReportMetric(float64(each[len(each)-1].Microseconds()), "max-us")
	}
	b.Run("young", arrive)
	c.now += 3600_000 // every head is due for a reservation
	b.Run("due", arrive)
	b.Run("end", c.endOne)
}

// endOne is a job that ends, so that others start.
func (c *crowd) endOne(b *testing.B) {
	var live []*model.Job
	for j := range c.state.View().Live() {
		live = append(live, j)
	}
	var each []time.Duration
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		j := live[i%len(live)]
		n, _ := c.state.View().Node(j.Live().Workers[0].Node)
		c.apply(b, fsm.NodeReport{Node: n.Name, BootID: n.BootID, Workers: []model.WorkerReport{
			{Job: j.ID, Attempt: 1, State: model.WorkerRunning}, {Job: j.ID, Attempt: 1, State: model.WorkerExited},
		}})
		c.cycle(b)
		each = append(each, time.Since(start))
	}
	slices.Sort(each)
	b.ReportMetric(float64(each[len(each)*99/100].Microseconds()), "p99-us")
}

// BenchmarkReasons explains every job of a full queue.
func BenchmarkReasons(b *testing.B) {
	c := newCrowd(b, 10_000)
	c.submit(b, 140_000, 200)
	for c.cycle(b) > 0 {
	}
	v := c.state.View()
	for b.Loop() {
		reason := sched.Reasons(v, c.now, v.Config().Policy)
		for j := range v.Jobs() {
			reason(j.ID)
		}
	}
}

func (c *crowd) sizes() (live, groups, pending int) {
	v := c.state.View()
	for range v.Live() {
		live++
	}
	for g := range v.QueueGroups() {
		groups++
		pending += len(g.Jobs)
	}
	return live, groups, pending
}

// BenchmarkFill is one cycle that starts what fits of 10,000 pending jobs on 1,000 empty nodes of 8
// GPUs.
func BenchmarkFill(b *testing.B) {
	for _, shapes := range []int{200, 1} {
		b.Run(fmt.Sprintf("shapes=%d", shapes), func(b *testing.B) {
			c := newCrowd(b, 1000)
			c.submit(b, 10_000, shapes)
			v := c.state.View()
			starts := 0
			for b.Loop() {
				plan, _ := sched.Cycle(v, c.now, v.Config().Policy)
				starts = len(plan.Actions)
			}
			b.ReportMetric(float64(starts), "starts")
		})
	}
}

// BenchmarkArray runs an array on 1,000 empty nodes of 8 GPUs. It submits the array, starts 8,000
// elements in one cycle, and commits that. Then one element ends and the next one starts.
func BenchmarkArray(b *testing.B) {
	for _, order := range []string{"index", "random"} {
		for _, size := range []int{10_000, 100_000} {
			b.Run(fmt.Sprintf("%s/%d", order, size), func(b *testing.B) {
				var submit, decide, commit, next, cancel time.Duration
				for b.Loop() {
					b.StopTimer()
					c := newCrowd(b, 1000)
					b.StartTimer()
					spec, _ := schedtest.NewWorld().MakeJob("sweep", map[string]string{"array": fmt.Sprintf("0-%d", size-1),
						"order": order, "gpus": "1"})
					begin := time.Now()
					c.apply(b, fsm.SubmitJobs{Owner: schedtest.Ada, Jobs: []*jobspec.Job{spec}})
					submit += time.Since(begin)
					begin = time.Now()
					plan, _ := sched.Cycle(c.state.View(), c.now, c.state.View().Config().Policy)
					decide += time.Since(begin)
					if len(plan.Actions) != 8000 {
						b.Fatalf("%d starts", len(plan.Actions))
					}
					begin = time.Now()
					c.apply(b, plan)
					commit += time.Since(begin)
					begin = time.Now()
					first := plan.Actions[0].(*fsm.StartJob)
					c.replaceOne(b, first)
					next += time.Since(begin)
					begin = time.Now()
					c.apply(b, fsm.ControlJobs{
						Verb: model.VerbCancel, Targets: []fsm.Target{{ID: first.Job}}, Admin: true,
					})
					cancel += time.Since(begin)
				}
				for name, d := range map[string]time.Duration{"submit": submit, "decide": decide, "commit": commit, "next": next,
					"cancel": cancel} {
					b.ReportMetric(float64(d.Microseconds())/float64(b.N), name+"-us")
				}
			})
		}
	}
}

// replaceOne ends a member and starts another in its place.
func (c *crowd) replaceOne(b *testing.B, start *fsm.StartJob) {
	j := c.state.View().Child(start.Job, start.TaskNumber)
	n, _ := c.state.View().Node(start.Places[0].Node)
	c.apply(b, fsm.NodeReport{Node: n.Name, BootID: n.BootID, Workers: []model.WorkerReport{
		{Job: j.ID, Attempt: 1, State: model.WorkerRunning}, {Job: j.ID, Attempt: 1, State: model.WorkerExited},
	}})
	if c.cycle(b) != 1 {
		b.Fatal("no other element starts")
	}
}
