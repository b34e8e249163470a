// Package present turns what the state has into what the API shows: jobs, nodes, events, and the
// workers that a node should run. It is made of functions of the state alone.
package present

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/telemetry"
	"github.com/rota-hpc/rota/jobspec"
)

// StateNames are Slurm's long names of the states of jobs.
var StateNames = map[model.JobState]string{
	model.Pending: "PENDING", model.Configuring: "CONFIGURING", model.Running: "RUNNING",
	model.Suspended:  "SUSPENDED",
	model.Completing: "COMPLETING", model.Checkpointing: "CHECKPOINTING",
	model.Completed: "COMPLETED", model.Failed: "FAILED", model.TimedOut: "TIMEOUT",
	model.OutOfMemory: "OUT_OF_MEMORY",
	model.Cancelled:   "CANCELLED", model.NodeFailed: "NODE_FAIL", model.BootFailed: "BOOT_FAIL",
	model.PastDue: "DEADLINE", model.Preempted: "PREEMPTED",
}

// milli is one whole GPU in the unit of the state.
const milli = 1000

// Job is a job as users see it, with the reason why it waits. The view is the one that it is of,
// nil for a job of the history.
func Job(v *state.View, j *model.Job, why model.Reason, p telemetry.AttemptProgress, now model.UnixMS) api.Job {
	all, at := capacity(j), instantOf(v, now)
	state := j.ShownState(at)
	out := api.Job{
		ID: j.ID, Name: j.Spec.Name, User: j.Owner.User, UID: j.Owner.UID, GID: j.Owner.GID,
		Account: j.Account, Queue: j.Queue, Class: j.Class,
		State: StateNames[state], Code: state, Flags: flags(j), Reason: Reason(v, why), Priority: int(j.Priority),
		Attempt:   j.Attempt,
		Submitted: api.At(j.Submitted.Wall), Started: api.At(j.Started.Wall), Ended: api.At(j.Ended.Wall),
		Elapsed:   elapsed(j, at, now),
		TimeLimit: j.Limit, ExitCode: j.ExitCode, Signal: j.Signal, Workers: j.Workers, Nodes: []string{},
		GPUs: WholeGPUs(all.GPUs), GPUThousandths: Thousandths(all.GPUs), Cores: int(all.Cores),
		Memory: all.Memory, GPUSeconds: gpuSeconds(j, at),
		Attempts:    []api.Attempt{},
		Suspensions: int(j.Counters.Suspensions), SuspendedGPUSeconds: suspendedGPUSeconds(j, at),
		Preemptions: api.Preemptions{TE: int(j.Counters.TE), Reclaim: int(j.Counters.Reclaim), Order: int(j.Counters.Order)},
		Resizes:     int(j.Counters.Resizes), Migrations: int(j.Counters.Migrations),
		Workdir: cmp.Or(j.Spec.Workdir, j.Spec.SubmitDir), Comment: j.ShownComment(), CancelledBy: j.CancelledBy.UID(),
		Steps: p.Step, SavedStep: p.Saved, Metrics: p.Metrics, ProgressProblem: p.Problem,
		Elastic: elastic(j), ProgressClass: progressClass(j),
	}
	for _, p := range j.Parts {
		sum := p.Request.Active.Times(int64(p.Workers))
		out.Components = append(out.Components, api.Component{Workers: p.Workers, Cores: int(sum.Cores), Memory: sum.Memory,
			GPUs: WholeGPUs(sum.GPUs)})
	}
	for i := range j.Attempts {
		out.Attempts = append(out.Attempts, attempt(v, j, i, at))
	}
	if n := len(out.Attempts); n > 0 && j.State != model.Pending {
		out.Nodes = out.Attempts[n-1].Nodes
	}
	addFamily(&out, j, v)
	return out
}

// progressClass is how far the training of a running job has come, "" if that is not known.
func progressClass(j *model.Job) string {
	if a := j.Live(); a != nil {
		return string(a.Class)
	}
	return ""
}

// instantOf is a time of the wall clock as an instant of the log; a job of the history has neither.
func instantOf(v *state.View, wall model.UnixMS) model.Instant {
	if v == nil {
		return 0
	}
	return v.At() + model.Instant(max(0, wall-v.Wall()))
}

// attempt is the attempt of a job at an index. The view is nil for a job of the history.
// capacity returns what all workers of a job have together or, before they are placed, ask for. Those
// that have their nodes for themselves have all cores and all memory there.
func capacity(j *model.Job) model.Vector {
	n := len(j.Attempts)
	if n == 0 || j.State == model.Pending {
		return j.Total()
	}
	workers := j.Attempts[n-1].Workers
	if !slices.ContainsFunc(workers, func(w model.Worker) bool { return w.Whole != (model.Vector{}) }) {
		return j.Total()
	}
	var sum model.Vector
	counted := map[string]bool{} // whole nodes
	for i := range workers {
		has := j.RequestOf(i).Active
		if w := &workers[i]; w.Whole != (model.Vector{}) {
			has.Cores, has.Memory = 0, 0
			if !counted[w.Node] {
				has.Cores, has.Memory = w.Whole.Cores, w.Whole.Memory
			}
			counted[w.Node] = true
		}
		sum = sum.Plus(has)
	}
	return sum
}

func attempt(v *state.View, j *model.Job, i int, now model.Instant) api.Attempt {
	a := &j.Attempts[i]
	cause := a.Cause
	if cause == "" && a.Stop != nil {
		cause = a.Stop.Cause
	}
	out := api.Attempt{N: a.N, Start: api.At(a.Started.Wall), End: api.At(a.Ended.Wall), Nodes: nodesOf(a),
		ExitCode: a.ExitCode,
		Signal:   a.Signal, Cause: cause, Rule: a.Rule, Workers: len(a.Workers), Rate: a.Rate, Killed: a.Killed()}
	out.SuspendedSeconds = suspendedMS(a, now) / 1000
	addSuspension(&out, v, j, a)
	out.Trials = trials(a)
	out.Usage = Usage(a.Used())
	out.OutputLost = a.OutputLost()
	for i := range a.Workers {
		if w := &a.Workers[i]; w.OutputLost != nil {
			out.OutputLostBy = append(out.OutputLostBy, api.OutputLoss{Worker: i, Node: w.Node, Bytes: w.OutputLost.Bytes,
				Error: w.OutputLost.Why()})
		}
	}
	if s := a.Stop; s != nil && cause.Displaces() {
		out.For, out.ForUser, out.ForAccount = s.For, s.ForUser, s.ForAccount
		if v != nil && a.Ended.At == 0 {
			out.LeaveBy = wallOf(v, s.KillAt)
		}
	}
	if cause.LosesWork() {
		l := j.LostBy(i, now)
		out.Lost = &api.Lost{GPUSeconds: l.Total() / 1000, Work: l.Work / 1000, Grace: l.Grace / 1000,
			Restart: l.Restart / 1000}
		out.LostGPUSeconds = out.Lost.GPUSeconds
	}
	for _, f := range a.Findings {
		out.Findings = append(out.Findings, api.Finding{Policy: f.Policy, Worker: f.Worker, Line: f.Line,
			At: api.At(f.At.Wall)})
	}
	return out
}

// AddSteps adds the steps that have ended to a job as users see it. In a list there may be thousands of
// each job.
func AddSteps(out *api.Job, j *model.Job) {
	for i := range out.Attempts {
		for k := range j.Attempts[i].Steps {
			out.Attempts[i].Steps = append(out.Attempts[i].Steps, step(&j.Attempts[i].Steps[k]))
		}
	}
}

// step is a step that has ended as users see it.
func step(s *model.Step) api.Step {
	nodes := s.NodeNames()
	var used *model.UsageSum
	if u := s.Usage; u != nil {
		used = &model.UsageSum{Usage: *u, Workers: len(nodes)}
		if used.Workers == 1 { // of several nodes only the most that one had is known
			used.Memory = u.PeakMemory
		}
	}
	out := api.Step{ID: s.ID, Name: s.Name, Nodes: nodes, Tasks: s.Tasks, Cores: s.Cores, GPUs: s.GPUs,
		Start: api.At(s.Began), End: api.At(s.Ended), ExitCode: s.ExitCode, Signal: s.Signal, OOM: s.OOM, Why: s.Why,
		Usage: Usage(used)}
	if l := s.OutputLost; l != nil {
		out.OutputLost, out.OutputError = l.Bytes, l.Why()
	}
	return out
}

// Usage is what workers have used as users see it, nil if nothing is known.
func Usage(u *model.UsageSum) *api.Usage {
	if u == nil {
		return nil
	}
	var extern *api.ExternUsage
	if u.ExternCPUMS > 0 || u.ExternMemory > 0 {
		extern = &api.ExternUsage{CPUSeconds: float64(u.ExternCPUMS) / 1000, SystemSeconds: float64(u.ExternSystemMS) / 1000,
			PeakMemory: u.ExternMemory}
	}
	percent := func(thousandths int64) int { return int((thousandths + 5) / 10) }
	return &api.Usage{CPUSeconds: float64(u.CPUMS) / 1000, SystemSeconds: float64(u.SystemMS) / 1000,
		PeakCores: float64(u.PeakCores) / 1000, PeakMemory: u.PeakMemory, Memory: u.Memory, Workers: u.Workers,
		GPUUtil: percent(u.GPU), PeakGPUUtil: percent(u.PeakGPU), GPUMemory: u.GPUMemory,
		PeakGPUMemory: u.PeakGPUMemory, Extern: extern}
}

// nodesOf lists the nodes of an attempt once each, in order of the workers.
func nodesOf(a *model.Attempt) []string {
	nodes := []string{}
	for _, w := range a.Workers {
		if !slices.Contains(nodes, w.Node) {
			nodes = append(nodes, w.Node)
		}
	}
	return nodes
}

// Reason is a reason with its sentence, which names an element of an array as users do. v is nil for a
// job of the history.
func Reason(v *state.View, r model.Reason) api.Reason {
	if v != nil && r.For != 0 {
		r = r.Called(v.NameOf(r.For))
	}
	return api.Reason{Code: string(r.Code), Text: r.Sentence()}
}

// flags lists what the state's name leaves out.
func flags(j *model.Job) []string {
	f := []string{}
	if j.Hold != model.NotHeld {
		f = append(f, "held")
	}
	if j.State == model.Pending && j.Attempt > 0 {
		f = append(f, "requeued")
	}
	if j.Spec.Meta[jobspec.MetaAllocation] != "" {
		f = append(f, api.FlagAllocation)
	}
	switch a := j.Live(); {
	case a == nil:
	case a.Stop != nil:
		f = append(f, "stopping")
	case a.Suspending():
		f = append(f, "suspending")
	case a.Resuming():
		f = append(f, "resuming")
	}
	return f
}

// elapsed returns how long the last attempt ran, without suspensions; for a job with members, all
// of them together.
func elapsed(j *model.Job, at model.Instant, now model.UnixMS) jobspec.Seconds {
	begin, end, suspended := j.Started.Wall, j.Ended.Wall, int64(0)
	if n := len(j.Attempts); j.Children == nil {
		if n == 0 || j.State == model.Pending {
			return 0
		}
		a := &j.Attempts[n-1]
		begin, end, suspended = a.Started.Wall, a.Ended.Wall, suspendedMS(a, at)
	}
	if begin == 0 {
		return 0
	}
	if end == 0 {
		end = now
	}
	return jobspec.Seconds(max(0, int64(end-begin)-suspended) / 1000)
}

// gpuSeconds returns the charged service, and the live attempt's holdings since then. A suspended
// attempt adds nothing, and an attempt that shares a GPU adds its part.
func gpuSeconds(j *model.Job, at model.Instant) int64 {
	ms := j.Ledger.GPUMS
	if a := j.Live(); a != nil {
		held := int64(a.Clock(at) - a.ChargedFrom())
		for i := range a.Workers {
			charged := j.Charged(a, i).GPUs
			if a.Packing != nil {
				charged = j.RequestOf(i).Active.GPUs // but for what others have had of it
			}
			if !a.Workers[i].State.Final() {
				ms += model.GPUTime(held, charged)
			}
		}
		ms -= a.Spared(at) / milli
	}
	return max(0, ms) / 1000
}

// Node is a node as users see it.
func Node(v *state.View, n *model.Node, position int) api.Node {
	g := v.Grid()
	out := api.Node{
		Name: n.Name, Reason: cmp.Or(n.Reason, n.Notice), Cores: n.Cores, Memory: n.Memory, GPUs: []api.NodeGPU{},
		Labels:  n.Labels,
		Jobs:    []model.JobID{},
		Version: n.Version, SharedPaths: append([]string{}, n.SharedPath...),
	}
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	total, free := g.Capacity(position), g.Free(position)
	out.CoresUsed, out.MemoryUsed = total.Cores-free.Cores, total.Memory-g.FreeResident(position).Memory
	if g.Exclusive(position) {
		out.CoresUsed, out.MemoryUsed = total.Cores, total.Memory
	}
	for _, gpu := range n.GPUs {
		out.GPUs = append(out.GPUs, api.NodeGPU{UUID: gpu.UUID, Model: gpu.Model, Memory: gpu.Memory, Healthy: gpu.Healthy})
	}
	workers := v.Desired(n.Name)
	for _, w := range workers {
		if !slices.Contains(out.Jobs, w.Job.ID) {
			out.Jobs = append(out.Jobs, w.Job.ID)
		}
		for _, i := range w.Job.Live().Workers[w.Worker].GPUs {
			if addHolder(&out.GPUs[i], w.Job.ID) {
				out.GPUsUsed++
			}
		}
	}
	addLoad(&out, workers)
	out.State = nodeState(n, &out)
	return out
}

// addHolder notes that a worker of a job has a GPU, or a part of it, and reports whether it is the
// first that has.
func addHolder(gpu *api.NodeGPU, id model.JobID) bool {
	switch {
	case gpu.Job == 0:
		gpu.Job = id
		return true
	case gpu.Job == id || slices.Contains(gpu.Jobs, id):
		return false
	case len(gpu.Jobs) == 0:
		gpu.Jobs = []model.JobID{gpu.Job}
	}
	gpu.Jobs = append(gpu.Jobs, id)
	return false
}

// nodeState is Slurm's word for the state of a node.
func nodeState(n *model.Node, out *api.Node) string {
	switch {
	case n.State == model.NodeDown:
		return "down"
	case n.State == model.NodeDrained && len(out.Jobs) > 0:
		return "drng"
	case n.State == model.NodeDrained:
		return "drain"
	case len(out.Jobs) == 0:
		return "idle"
	case out.CoresUsed >= n.Cores || len(n.GPUs) > 0 && out.GPUsUsed >= len(n.GPUs):
		return "alloc"
	}
	return "mix"
}

// Event is an event as users see it.
func Event(e *model.Event) api.Event {
	out := api.Event{Index: e.Index, At: api.At(e.Wall), Type: string(e.Type), Job: e.Job, Attempt: e.Attempt,
		Node:  e.Node,
		Cause: e.Cause, For: e.For, Text: e.Text}
	if l := e.Leave; l != nil {
		out.ForUser, out.ForAccount, out.LostGPUSeconds = l.User, l.Account, l.Lost/1000
	}
	if t := e.Trial; t != nil {
		out.What, out.With, out.Undone = t.What, t.With, t.Undone
		out.ExpectedGain, out.MeasuredGain = t.Expected, t.Measured
	}
	return out
}
