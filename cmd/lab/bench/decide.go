package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/jobspec"
)

// The large cluster on which decisions are timed.
const (
	largeNodes   = 10_000 // of 8 GPUs
	largePending = 100_000
	largeShapes  = 200
	largeUsers   = 400 // in 8 accounts

	largeArrivals = 1000 // of each class
)

// decideGCPercent is GOGC as the controller sets it with a state of this size: see its garbage.go.
const decideGCPercent = 220

// measureDecide times single decisions, with the functions that the controller runs. A job arrives
// at a full cluster and is applied; then a cycle decides and its plan is applied.
func measureDecide(ctx context.Context, b *bench) error {
	defer debug.SetGCPercent(debug.SetGCPercent(decideGCPercent))
	for _, policy := range []string{"rota", "fairshare", ""} {
		if err := b.decideUnder(ctx, policy); err != nil {
			return fmt.Errorf("policy %q: %w", policy, err)
		}
	}
	return nil
}

func (b *bench) decideUnder(ctx context.Context, policy string) error {
	runtime.GC()
	before := liveHeap()
	l, err := newLarge(ctx, policy, b.repeat(largeNodes), b.repeat(largePending))
	if err != nil {
		return err
	}
	name := policy
	if name == "" {
		name = "standard"
	}
	runtime.GC()
	b.add(fmt.Sprintf("state of %d nodes, %d jobs running and %d pending", b.repeat(largeNodes), l.running(),
		b.repeat(largePending)),
		float64(liveHeap()-before)/(1<<20), "MiB", "<= 1024", "live heap after a collection, policy "+name)
	for _, class := range []jobspec.Class{jobspec.TE, jobspec.BE} {
		ds, cpu, victims, err := l.arrivals(ctx, class, b.repeat(largeArrivals))
		if err != nil {
			return err
		}
		what := fmt.Sprintf("one %s job arrives at it, policy %s", class, name)
		peer := fmt.Sprintf("applied, decided and committed; %.2f ms of processors each; %d jobs were preempted for %d",
			float64(cpu.Microseconds())/1000, victims, len(ds))
		b.add(what+", p50", percentile(ds, 50), "ms", "", peer)
		b.add(what+", p99", percentile(ds, 99), "ms", "<= 10", peer)
	}
	runtime.KeepAlive(l)
	return nil
}

// ownTime is the processor time of this program so far, garbage collection included.
func ownTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func liveHeap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// large is a full cluster with a long queue.
type large struct {
	state      *fsm.Machine
	index      uint64
	now        model.Instant
	made       int
	each       int // jobs that a user submits at a time
	cycleCache sched.Cache
}

func newLarge(ctx context.Context, policy string, nodes, pending int) (*large, error) {
	cfg := cluster.DefaultConfig()
	cfg.Policy.Name = policy
	l := &large{state: fsm.New(cfg), now: 3_600_000, each: 1000}
	if policy == "fairshare" {
		// Every user has jobs from the start. Otherwise the first users would lose most of what
		// they hold.
		l.each = max(1, 4*nodes/largeUsers)
	}
	for i := range nodes {
		n := model.Node{Name: fmt.Sprintf("n%05d", i), BootID: "b", Cores: 64, Memory: 512 * jobspec.GiB, PortMin: 20000,
			PortMax: 20999}
		for g := range 8 {
			n.GPUs = append(n.GPUs, model.GPU{UUID: fmt.Sprintf("%d-%d", i, g), Model: "H100", Memory: 80 * jobspec.GiB,
				Minor: g, Healthy: true})
		}
		if _, err := l.apply(fsm.RegisterNode{Node: n}); err != nil {
			return nil, err
		}
	}
	if err := l.fill(ctx, nodes, pending); err != nil {
		return nil, err
	}
	return l, nil
}

// fill starts as many jobs as there is room for; the others stay pending.
func (l *large) fill(ctx context.Context, nodes, pending int) error {
	if err := l.submit(4*nodes, jobspec.BE); err != nil {
		return err
	}
	if err := l.settle(ctx); err != nil {
		return err
	}
	l.now += 2 * 3_600_000 // they have run for a while, so that they may be preempted
	if err := l.submit(pending, jobspec.BE); err != nil {
		return err
	}
	return l.settle(ctx)
}

func (l *large) apply(c fsm.Command) (any, error) {
	l.index++
	return l.state.Apply(l.index, fsm.Entry{Stamp: model.Stamp{At: l.now}, Command: c})
}

// submit adds jobs of many shapes and users. Jobs of one user share a command.
func (l *large) submit(n int, class jobspec.Class) error {
	for n > 0 {
		user := l.made / l.each % largeUsers
		c := fsm.SubmitJobs{Owner: model.Identity{UID: uint32(1000 + user), User: fmt.Sprintf("u%d", user)}}
		for range min(n, l.each) {
			c.Jobs = append(c.Jobs, l.job(class, user%8))
		}
		if _, err := l.apply(c); err != nil {
			return err
		}
		n -= len(c.Jobs)
	}
	return nil
}

func (l *large) job(class jobspec.Class, account int) *jobspec.Job {
	shape := l.made % largeShapes
	j := &jobspec.Job{
		Name: "j", Class: class, Account: fmt.Sprintf("a%d", account), Checkpoint: &jobspec.Checkpoint{},
		Preemption: &jobspec.Preemption{GracePeriod: jobspec.Seconds(30 + l.made%97)},
		Groups: []jobspec.Group{{Name: "main", Count: 1,
			Tasks: []jobspec.Task{{Name: "main", Command: []string{"true"}, Resources: jobspec.Resources{
				Cores: 1 + shape/8%5, Memory: jobspec.Bytes(1+shape/40) * jobspec.GiB, GPUs: 1 + shape%8,
			}}}}},
	}
	j.Default()
	l.made++
	return j
}

// settle starts what fits, until nothing does, and lets it run.
func (l *large) settle(ctx context.Context) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, stops, err := l.cycle()
		if err == nil {
			err = l.leave(stops)
		}
		if err != nil || n == 0 {
			return err
		}
		for j := range l.state.View().Live() {
			if a := j.Live(); a.Started.At == 0 && a.Stop == nil {
				if err := l.report(j, model.WorkerRunning); err != nil {
					return err
				}
			}
		}
	}
}

func (l *large) report(j *model.Job, state model.WorkerState) error {
	for i := range j.Live().Workers {
		n, _ := l.state.View().Node(j.Live().Workers[i].Node)
		_, err := l.apply(fsm.NodeReport{Node: n.Name, BootID: n.BootID, Workers: []model.WorkerReport{
			{Job: j.ID, Attempt: j.Attempt, Worker: i, State: state},
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

// leave ends the attempts of preempted jobs.
func (l *large) leave(jobs []model.JobID) error {
	for _, id := range jobs {
		if j := l.state.View().Job(id); j.Live() != nil {
			if err := l.report(j, model.WorkerExited); err != nil {
				return err
			}
		}
	}
	return nil
}

// cycle decides and commits. It returns the number of actions of the plan, and the jobs that are
// preempted.
func (l *large) cycle() (actions int, stops []model.JobID, err error) {
	v := l.state.View()
	plan, _ := l.cycleCache.Cycle(v, l.now, v.Config().Policy)
	if plan.Empty() {
		return 0, nil, nil
	}
	for _, a := range plan.Actions {
		if a, ok := a.(*fsm.StopJob); ok {
			stops = append(stops, a.Job)
		}
	}
	_, err = l.apply(plan)
	return len(plan.Actions), stops, err
}

// arrivals times jobs of a class that arrive one by one, a tenth of a second apart. Jobs that are
// preempted for one stop before the next one arrives.
func (l *large) arrivals(ctx context.Context, class jobspec.Class, n int) (ds []time.Duration, cpu time.Duration,
	victims int, err error) {
	for range n {
		if ctx.Err() != nil {
			return nil, 0, 0, context.Cause(ctx)
		}
		l.now += 100
		began, before := time.Now(), ownTime()
		if err := l.submit(1, class); err != nil {
			return nil, 0, 0, err
		}
		_, stops, err := l.cycle()
		if err != nil {
			return nil, 0, 0, err
		}
		ds = append(ds, time.Since(began))
		cpu += ownTime() - before
		victims += len(stops)
		if err := l.leave(stops); err != nil {
			return nil, 0, 0, err
		}
		if _, _, err := l.cycle(); err != nil { // the room is free now
			return nil, 0, 0, err
		}
	}
	return ds, cpu / time.Duration(n), victims, nil
}

func (l *large) running() int { return l.state.View().CountLive() }

// fullCycles times one cycle over the queue of cycleOfAFullQueue under other policies.
func fullCycles(v *state.View, now model.Instant, policy cluster.Policy, n int) (ds []time.Duration, actions int) {
	var cycleCache sched.Cache
	for range n {
		began := time.Now()
		plan, _ := cycleCache.Cycle(v, now, policy)
		ds = append(ds, time.Since(began))
		actions = len(plan.Actions)
	}
	slices.Sort(ds)
	return ds, actions
}
