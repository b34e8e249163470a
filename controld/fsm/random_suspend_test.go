package fsm

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// pause lets most jobs of a submission pause.
func (c *chaos) pause(cmd SubmitJobs) Command {
	for _, spec := range cmd.Jobs {
		if !c.one(6) {
			spec.Preemption = &jobspec.Preemption{Mode: jobspec.PreemptSuspend}
		}
		if c.one(2) {
			spec.Groups[0].Count, spec.Groups[0].Elastic = 1, nil
			spec.Groups[0].Tasks[0].Resources.GPUs = 1
		}
	}
	return cmd
}

// turn suspends a job or has one go on, with GPUs that are often free.
func (c *chaos) turn() Action {
	if again, ok := c.again(); ok && c.one(20) {
		return again
	}
	id := c.job()
	j := c.s.v.Job(id)
	if j == nil || j.Live() == nil || c.one(20) {
		return &ResumeJob{Job: id, Attempt: 1}
	}
	a := j.Live()
	if a.Suspended() && j.CanPack() && !c.one(4) {
		return c.packing(j, a)
	}
	if !a.Suspended() && !c.one(10) {
		causes := []model.Cause{model.CauseSlice, model.CauseSlice, model.CausePack, model.CauseTE, model.CauseReclaim,
			model.CauseOrder, model.CauseDrain}
		cmd := &SuspendJob{Job: id, Attempt: a.N, Cause: causes[c.IntN(len(causes))]}
		if c.one(4) {
			cmd.For = c.job()
		}
		return cmd
	}
	cmd := &ResumeJob{Job: id, Attempt: a.N}
	taken := map[string]uint64{}
	for i := range a.Workers {
		_, at := c.s.v.Node(a.Workers[i].Node)
		var gpus []int
		for g, free := 0, c.s.v.Grid().FreeGPUs(at)&^taken[a.Workers[i].Node]; g < 64; g++ {
			if free&(1<<g) != 0 && len(gpus) < model.Devices(j, i) {
				gpus = append(gpus, g)
				taken[a.Workers[i].Node] |= 1 << g
			}
		}
		cmd.GPUs = append(cmd.GPUs, gpus)
	}
	return cmd
}

// again tries to put a job beside another one with which that has been undone.
func (c *chaos) again() (Action, bool) {
	for j := range c.s.v.Live() {
		a := j.Live()
		for _, t := range a.Trials {
			with := c.s.v.Job(t.With)
			switch {
			case !t.Undone || with == nil || with.Live() == nil:
			case a.Suspended():
				return &PackJob{Job: j.ID, Attempt: a.N, Host: t.With, HostAttempt: with.Live().N,
					Expected: 1500}, true
			case a.Packed() && a.Switched():
				return &SuspendJob{Job: j.ID, Attempt: a.N, Cause: model.CausePack}, true
			}
		}
	}
	return nil, false
}

// packing has a suspended job go on beside another one on its node, whatever is known of them.
func (c *chaos) packing(j *model.Job, a *model.Attempt) *PackJob {
	_, at := c.s.v.Node(a.Workers[0].Node)
	on := c.s.v.JobsOnNode(nil, at)
	if !c.one(10) {
		on = slices.DeleteFunc(on, func(id model.JobID) bool {
			o := c.s.v.Job(id)
			return o.State != model.Running || !o.CanPack() || o.Live().Profile == nil
		})
	}
	cmd := &PackJob{Job: j.ID, Attempt: a.N, Host: j.ID, Expected: 1500}
	if len(on) > 0 {
		cmd.Host = on[c.IntN(len(on))]
		if k := slices.IndexFunc(on, func(id model.JobID) bool { return c.s.v.Job(id).Live().Packed() }); k >= 0 && c.one(2) {
			cmd.Host = on[k]
		}
	}
	if h := c.s.v.Job(cmd.Host); h.Live() != nil {
		if set := a.SetOf(); set != 0 && set == h.Live().SetOf() || c.one(10) {
			cmd.Expected = 0
		}
		cmd.HostAttempt = h.Live().N
	}
	return cmd
}

// measures adds to a report what a node has measured of a job that may share a GPU.
func (c *chaos) measures(r *model.WorkerReport, a *model.Attempt) {
	if !c.one(3) {
		r.Profile = &model.Profile{Utilisation: c.Int64N(1001), Memory: jobspec.Bytes(c.IntN(30)) * jobspec.GiB,
			Rate: 500 + c.Int64N(500)}
	}
	if a.Packed() {
		r.Packed = &model.PackedRate{Number: a.Packing.Number - c.IntN(10)/9, Rate: c.Int64N(1500)}
	}
}

// switchReport has the workers of a node say that they run and have carried out a switch, most of
// the time the last one.
func (c *chaos) switchReport() Command {
	n := c.s.v.Nodes()[c.IntN(len(c.s.v.Nodes()))]
	cmd := NodeReport{Node: n.Name, BootID: n.BootID}
	for _, d := range c.s.v.Desired(n.Name) {
		a := d.Job.Live()
		r := model.WorkerReport{Job: d.Job.ID, Attempt: a.N, Worker: d.Worker, State: model.WorkerCreated}
		if a.Released {
			r.State = model.WorkerRunning
		}
		if a.Switch != nil {
			r.Switch = a.Switch.Number - c.IntN(20)/19
		}
		c.measures(&r, a)
		if !c.one(3) {
			cmd.Workers = append(cmd.Workers, r)
		}
	}
	return cmd
}

// meter adds up, instant by instant, what every job holds. It is what the ledger must come to.
type meter map[model.JobID]*metered

type metered struct {
	model.Ledger
	parts int64 // of a GPU, in thousandths times ms
}

func (m *metered) total() model.Ledger {
	l := m.Ledger
	l.GPUMS -= m.parts / 1000
	return l
}

// pass adds what is held until the next entry.
func (m meter) pass(s *Machine, ms int64) {
	for j := range s.v.Live() {
		a, of := j.Live(), m[j.ID]
		if of == nil {
			of = &metered{}
			m[j.ID] = of
		}
		for i := range a.Workers {
			if a.Workers[i].State.Final() {
				continue
			}
			r := j.RequestOf(i).Active
			if a.Suspended() {
				of.SuspendedMS += ms * r.GPUs / 1000
				continue
			}
			of.GPUMS += ms * r.GPUs / 1000
			of.CoreMS += ms * r.Cores
			if a.Packed() {
				of.parts += ms * (1000 - a.Packing.Share)
			}
		}
	}
}

// pairs is when it was found that two jobs are no faster beside each other.
type pairs map[[2]model.JobID]model.Instant

// onGPU lists the jobs that run on a worker's GPU.
func onGPU(s *Machine, w *model.Worker) (ids []model.JobID) {
	for j := range s.v.Live() {
		a := j.Live()
		if !a.Suspended() && slices.ContainsFunc(a.Workers, func(o model.Worker) bool {
			return o.Node == w.Node && !o.State.Final() && slices.Contains(o.GPUs, w.GPUs[0])
		}) {
			ids = append(ids, j.ID)
		}
	}
	return ids
}

// retried notes what was found, and returns two jobs that are on trial within the memory of that.
func (p pairs) retried(s *Machine) (_, _ model.JobID) {
	for j := range s.v.Live() {
		a := j.Live()
		for _, t := range a.Trials {
			if t.What == model.TrialPack && t.Undone {
				p[[2]model.JobID{j.ID, t.With}], p[[2]model.JobID{t.With, j.ID}] = t.At, t.At
			}
		}
		if a.Packing == nil || a.Packing.With == 0 || a.AnyFinal() {
			continue
		}
		for _, o := range onGPU(s, &a.Workers[0]) {
			at, found := p[[2]model.JobID{j.ID, o}]
			if since := a.Packing.Since; found && since >= at && since-at < model.TrialMemory {
				return j.ID, o
			}
		}
	}
	return 0, 0
}

// TestRandomTurns is TestRandomHistories with most jobs being suspended and resumed. Besides, what
// jobs hold is added up on the side: ledgers must say the same (A10).
func TestRandomTurns(t *testing.T) {
	seen := map[string]int{}
	for _, seed := range seeds() {
		c := &chaos{Rand: rand.New(rand.NewPCG(seed, 13)), s: New(cluster.DefaultConfig()), at: 1, seen: seen}
		twin, held, undone := New(cluster.DefaultConfig()), meter{}, pairs{}
		for i := uint64(1); i <= 5000; i++ {
			c.at += model.Instant(c.IntN(5_000))
			e := Entry{Stamp: model.Stamp{At: c.at, Wall: model.UnixMS(c.at)}, Command: c.turnCommand()}
			held.pass(c.s, int64(max(c.at, c.s.v.At())-c.s.v.At()))
			_, err := c.s.Apply(i, e)
			if bad := c.s.Check(); bad != nil {
				t.Fatalf("seed %d, entry %d, %s %+v: %v", seed, i, e.Command.Kind(), e.Command, bad)
			}
			twin = c.follow(t, seed, twin, i, e, err)
			c.noticeTurns()
			if a, b := undone.retried(c.s); a != 0 {
				t.Fatalf("seed %d, entry %d: jobs %d and %d are tried together again", seed, i, a, b)
			}
			for j := range c.s.v.Jobs() {
				if of := held[j.ID]; of != nil && j.State.Final() && !agrees(j, of.total()) {
					t.Fatalf("seed %d, entry %d: job %d was charged %+v and held %+v", seed, i, j.ID, j.Ledger, of.total())
				}
			}
		}
	}
	for _, what := range []string{"suspended", "suspended gang", "suspended twice", "resumed", "stopped while suspended",
		"preempted in place", "lost while suspended", "packed", "packed in threes",
		"undone", "kept together"} {
		if seen[what] == 0 && *seedFlag == 0 {
			t.Errorf("no job was %s: %v", what, seen)
		}
	}
}

// agrees reports whether a ledger is what was metered. Each attempt's part of a GPU is rounded by
// itself.
func agrees(j *model.Job, want model.Ledger) bool {
	off := j.Ledger.GPUMS - want.GPUMS
	want.GPUMS += off
	return off >= 0 && off <= int64(j.Attempt) && j.Ledger == want
}

func (c *chaos) turnCommand() Command {
	open := 0
	for j := range c.s.v.Jobs() {
		if !j.State.Final() {
			open++
		}
	}
	switch n := c.IntN(100); {
	case len(c.s.v.Nodes()) < 5:
		return c.register()
	case n < 12 && open < 12:
		if cmd, ok := c.submit().(SubmitJobs); ok {
			return c.pause(cmd)
		}
		return c.submit()
	case n < 24:
		return CommitPlan{Actions: []Action{c.start()}}
	case n < 50:
		return CommitPlan{Actions: []Action{c.turn()}}
	case n < 86:
		return c.switchReport()
	case n < 90:
		return c.report()
	}
	return c.command()
}

// noticeTurns remembers what becomes of suspended jobs.
func (c *chaos) noticeTurns() {
	for j := range c.s.v.Live() {
		a := j.Live()
		if a.Packed() {
			c.seen["packed"]++
			if a.Packing.Share < 500 {
				c.seen["packed in threes"]++
			}
		}
		for _, t := range a.Trials {
			if t.What != model.TrialPack {
				continue
			}
			c.seen[map[bool]string{true: "undone", false: "kept together"}[t.Undone]]++
		}
		switch {
		case a.Switch == nil:
		case j.State == model.Suspended:
			c.seen["suspended"]++
			if len(a.Workers) > 1 {
				c.seen["suspended gang"]++
			}
			if a.Switch.Number > 1 {
				c.seen["suspended twice"]++
			}
			if a.Switch.Cause.Preempts() {
				c.seen["preempted in place"]++
			}
		case a.Suspended() && a.Stop != nil:
			c.seen["stopped while suspended"]++
			if a.Stop.Cause == model.CauseNodeLost {
				c.seen["lost while suspended"]++
			}
		case a.Switch.Number%2 == 0:
			c.seen["resumed"]++
		}
	}
}
