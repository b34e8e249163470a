package sched_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched"
	"github.com/rota-hpc/rota/controld/sched/schedtest"
)

// TestLimitsAreNeverPassed runs jobs and arrays of several users, accounts and queues under every
// policy of a cluster, while limits change. Whenever a job starts, its owners are within the limits
// in force; a lower limit stops no job. The test counts the live jobs of an owner one by one. In the
// end the limits are lifted and every job runs.
func TestLimitsAreNeverPassed(t *testing.T) {
	starts, waits := 0, map[model.ReasonCode]int{}
	for _, policy := range slices.Concat(cluster.Policies, []string{"elastic", "easy"}) {
		for seed := range uint64(4) {
			h := &limitHistory{t: t, w: schedtest.NewWorld(), r: rand.New(rand.NewPCG(seed, 40)), waits: waits,
				where: fmt.Sprintf("policy %s, seed %d", policy, seed)}
			h.play(policy)
			starts += h.starts
		}
	}
	if starts < 1000 {
		t.Errorf("only %d starts: the histories prove too little", starts)
	}
	for _, code := range []model.ReasonCode{"QOSMaxJobsPerUserLimit", "QOSGrpJobsLimit", "QOSMaxGRESPerUser", "QOSGrpGRES",
		"AssocGrpGRES", "AssocGrpJobsLimit", "AssocMaxJobsLimit", "QOSMaxNodePerUserLimit", "QOSMaxGRESRunMinutesPerUser"} {
		if waits[code] == 0 {
			t.Errorf("no job waited with reason %s", code)
		}
	}
}

// limitHistory is one random history.
type limitHistory struct {
	t      *testing.T
	w      *schedtest.World
	r      *rand.Rand
	where  string
	starts int
	waits  map[model.ReasonCode]int
	jobs   int
}

func (h *limitHistory) run(format string, args ...any) {
	h.t.Helper()
	line := fmt.Sprintf(format, args...)
	if err := h.w.Run(line); err != nil {
		h.t.Fatalf("%s: %s: %v", h.where, line, err)
	}
}

func (h *limitHistory) play(policy string) {
	h.run("policy name=%s reserve-after=3m min-runtime=2m", policy)
	for _, line := range []string{"node n1 gpus=8", "node n2 gpus=8", "node n3 gpus=4", "queue short nodes=n[1-2]",
		"account lab", "account sub parent=lab"} {
		h.run("%s", line)
	}
	for step := range 60 {
		if step%7 == 0 {
			h.changeLimit()
		}
		for range h.r.IntN(4) {
			h.submit()
		}
		h.run("advance %ds", 10+h.r.IntN(200))
		h.cycle()
		h.progress()
	}
	for _, owner := range limitOwners {
		h.run("limit %s", owner)
	}
	for range 400 {
		h.run("advance 60s")
		h.cycle()
		if h.progress() == 0 {
			break
		}
	}
	for j := range h.w.State.View().Jobs() {
		if !j.State.Final() {
			h.t.Errorf("%s: %s never ended", h.where, h.w.Names[j.ID])
			break
		}
	}
}

var limitOwners = []string{"user=*", "user=ann", "queue=default", "queue=short", "queue=short user=*", "account=lab",
	"account=lab user=*", "account=sub user=bob"}

// changeLimit gives an owner another limit. Each job stays within it by itself.
func (h *limitHistory) changeLimit() {
	limits := []string{"", fmt.Sprintf("running=%d", 1+h.r.IntN(4)), fmt.Sprintf("gpus=%d", 4+h.r.IntN(9)),
		fmt.Sprintf("gpu-minutes=%d", 240+h.r.IntN(400)), fmt.Sprintf("nodes=%d", 2), fmt.Sprintf("cores=%d", 4+h.r.IntN(9)),
		fmt.Sprintf("running=%d gpus=%d", 1+h.r.IntN(4), 4+h.r.IntN(5))}
	h.run("limit %s %s", limitOwners[h.r.IntN(len(limitOwners))], limits[h.r.IntN(len(limits))])
}

func (h *limitHistory) submit() {
	h.jobs++
	user, account, queue := []string{"ann", "bob", "cid"}[h.r.IntN(3)], []string{"lab", "sub", "default"}[h.r.IntN(3)],
		[]string{"default", "short"}[h.r.IntN(2)]
	size := []string{"gpus=1", "gpus=2", "gpus=4", "gang=2x1 per-node=1", "cores=2", "gpus=1 array=1-3",
		"gpus=1 elastic=1-4"}[h.r.IntN(7)]
	class := "be"
	if h.r.IntN(5) == 0 && size != "gpus=1 elastic=1-4" {
		class = "te"
	}
	h.run("submit j%d %s class=%s user=%s account=%s queue=%s limit=%dm", h.jobs, size, class, user, account, queue,
		20+h.r.IntN(40))
}

// cycle runs a cycle, and holds every start of its plan to the limits.
func (h *limitHistory) cycle() {
	var started []model.JobID
	h.w.Entered = func(e fsm.Entry) {
		plan, ok := e.Command.(fsm.CommitPlan)
		if !ok {
			return
		}
		for _, a := range plan.Actions {
			if s, ok := a.(*fsm.StartJob); ok {
				id := s.Job
				if s.TaskNumber > 0 {
					id = h.w.State.View().Job(s.Job).TaskID(s.TaskNumber)
				}
				started = append(started, id)
			}
		}
	}
	h.run("cycle")
	h.w.Entered = nil
	v := h.w.State.View()
	for _, id := range started {
		j := v.Job(id)
		if j == nil || j.Live() == nil {
			h.t.Fatalf("%s: the state refused the start of %s", h.where, h.w.Names[id])
		}
		h.starts++
		for _, b := range v.Config().Bounds(j.Account, j.Owner.User, j.Queue) {
			h.holds(j, &b)
		}
	}
	asked := 0
	for j := range v.Jobs() {
		if j.Waits() && asked < 5 {
			asked++
			h.waits[sched.Explain(v, h.w.Now, v.Config().Policy, j.ID).Reason.Code]++
		}
	}
}

// holds fails if the live jobs of the owner of a limit pass it although one of them has just
// started.
func (h *limitHistory) holds(started *model.Job, b *cluster.Bound) {
	var running, gpus, milliSeconds, cores int64
	nodes := map[string]bool{}
	v := h.w.State.View()
	for j := range v.Live() {
		if !slices.ContainsFunc(v.Config().Bounds(j.Account, j.Owner.User, j.Queue),
			func(o cluster.Bound) bool { return o.Owner == b.Owner }) {
			continue
		}
		a := j.Live()
		running++
		for i := range a.Workers {
			gpus += j.RequestOf(i).Active.GPUs
			cores += j.RequestOf(i).Active.Cores
			nodes[a.Workers[i].Node] = true
		}
		left := int64(j.Limit) * 1000
		switch {
		case a.Stop != nil && a.Stop.Resize == nil:
			left = 0
		case a.Started.At != 0 && !a.Suspended():
			left -= int64(h.w.Now - a.Started.At)
		}
		milliSeconds += j.Total().GPUs * left / 1000
	}
	l := b.Limit
	for what, c := range map[string]struct {
		has  int64
		most *int64
	}{"jobs": {running, l.Running}, "thousandths of GPUs": {gpus, l.GPUs},
		"GPU minutes": {milliSeconds / 60_000, l.GPUMinutes}, "cores": {cores, l.Cores}, "nodes": {int64(len(nodes)),
			l.Nodes}} {
		if c.most != nil && c.has > *c.most {
			h.t.Fatalf("%s: %s started, and %s has %d %s of %d", h.where, h.w.Names[started.ID], b.Owner, c.has, what, *c.most)
		}
	}
}

// progress brings some live jobs further, and returns how many there are.
func (h *limitHistory) progress() (live int) {
	var names []string
	for j := range h.w.State.View().Live() {
		names = append(names, h.w.Names[j.ID])
	}
	for _, name := range names {
		j := h.w.State.View().Job(h.w.Ids[name])
		switch a := j.Live(); {
		case a == nil:
		case a.Stop != nil || h.r.IntN(3) == 0 && a.Started.At != 0:
			h.run("exit %s", name)
		case a.Started.At == 0:
			h.run("run %s", name)
		}
	}
	return len(names)
}
