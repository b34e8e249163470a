package fields

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// step is the step that a row describes.
type step struct {
	id    string // part of the id behind the job: batch, extern, 0
	tasks int
	used  *api.Usage      // nil: unknown
	limit jobspec.Seconds // time limit of the step; 0: the job's limit
}

// Steps returns the rows for the steps of a started job's last attempt. The first row is the batch
// step, with everything used outside of steps; the second is the extern step. An allocation made by
// salloc or srun has no batch step.
func (r *JobRow) Steps() []*JobRow {
	if r.Started == nil {
		return nil
	}
	rows := []*JobRow{r.batch(), r.extern()}
	ended := r.lastSteps()
	for i := range ended {
		rows = append(rows, r.ended(&ended[i]))
	}
	for i := range r.Running {
		id := strconv.Itoa(r.Running[i].Step)
		if !slices.ContainsFunc(rows, func(o *JobRow) bool { return o.step.id == id }) { // it has ended since
			rows = append(rows, r.live(&r.Running[i]))
		}
	}
	slices.SortStableFunc(rows[2:], func(a, b *JobRow) int {
		return cmp.Or(cmp.Compare(len(a.step.id), len(b.step.id)), cmp.Compare(a.step.id, b.step.id))
	})
	if r.isAllocation() {
		return rows[1:]
	}
	return rows
}

// isAllocation reports whether a job only holds nodes for salloc or srun and has no script.
func (r *JobRow) isAllocation() bool { return slices.Contains(r.Flags, api.FlagAllocation) }

// LiveSteps returns the rows of a job's running steps: the batch step on its first node, then the
// others.
func (r *JobRow) LiveSteps() []*JobRow {
	if r.Started == nil || r.Ended != nil {
		return nil
	}
	return slices.DeleteFunc(r.Steps(), func(s *JobRow) bool {
		s.Nodes = s.Nodes[:min(len(s.Nodes), cmp.Or(s.step.tasks, len(s.Nodes)))]
		return s.Ended != nil
	})
}

// TitleSteps renames the id column to STEPID.
func TitleSteps(columns []Column[*JobRow]) {
	for i := range columns {
		if f := columns[i].Field; f != nil && f.letter == 'i' {
			columns[i].title = "STEPID"
		}
	}
}

// ofJob reports whether the step is the batch or extern step, which holds no resources of its own.
func (s *step) ofJob() bool { return s.id == tool.BatchStep || s.id == tool.ExternStep }

// StepRecord returns the KEY=VALUE lines of a step in scontrol show.
func (r *JobRow) StepRecord() []string {
	cores, tres := r.Cores, r.stepTRES()
	if r.step.ofJob() {
		cores, tres = 0, "(null)"
	}
	return []string{
		fmt.Sprintf("StepId=%s UserId=%d StartTime=%s TimeLimit=%s", r.FullID(), r.UID, r.when(r.Started),
			limit(r.step.limit)),
		fmt.Sprintf("State=%s Partition=%s NodeList=%s", r.State, show.Clean(r.Queue), orNull(show.Hosts(r.Nodes))),
		fmt.Sprintf("Nodes=%d CPUs=%d Tasks=%d Name=%s Network=(null)", len(r.Nodes), cores, r.step.tasks,
			show.Clean(r.Name)),
		"TRES=" + tres,
		"ResvPorts=(null)",
	}
}

// StepID returns the name of the row's step, or "" if the row describes a job.
func (r *JobRow) StepID() string {
	if r.step == nil {
		return ""
	}
	return r.step.id
}

// alone reports whether the batch step is the job's only step.
func (r *JobRow) alone() bool { return len(r.Running) == 0 && len(r.lastSteps()) == 0 }

// lastSteps returns the ended steps of the last attempt.
func (r *JobRow) lastSteps() []api.Step {
	if n := len(r.Attempts); n > 0 {
		return r.Attempts[n-1].Steps
	}
	return nil
}

// batch returns the row of a job's batch step. A worker's memory is measured for the script and its
// steps together. If steps ran, the memory of the script alone is therefore unknown.
func (r *JobRow) batch() *JobRow {
	job, used := *r.Job, show.Usage(r.Job)
	job.Name, used.CPUSeconds, used.SystemSeconds = tool.BatchStep, 0, 0
	for i := range r.Attempts {
		total, system := attemptSeconds(&r.Attempts[i])
		others, othersSystem := besideSeconds(&r.Attempts[i])
		used.CPUSeconds, used.SystemSeconds = used.CPUSeconds+total-others, used.SystemSeconds+system-othersSystem
	}
	if !r.alone() {
		used.PeakMemory, used.Memory, used.Workers = 0, 0, 0
		job.Cores, job.GPUs, job.Memory = perNode(job.Cores, r.Job), perNode(job.GPUs, r.Job), perNode(job.Memory, r.Job)
		if len(job.Components) > 0 && job.Components[0].Workers > 0 { // it runs on the first node
			first := &job.Components[0]
			job.Cores, job.GPUs = first.Cores/first.Workers, first.GPUs/first.Workers
			job.Memory = first.Memory / jobspec.Bytes(first.Workers)
		}
		job.Nodes = job.Nodes[:min(1, len(job.Nodes))]
	}
	if r.stopped() { // the script ended by itself
		job.Code = endCode(job.ExitCode, job.Signal)
		job.State = slurmStates[job.Code]
	}
	job.CancelledBy = nil
	return &JobRow{Job: &job, Source: r.Source, step: &step{id: tool.BatchStep, tasks: 1, used: &used}}
}

// stopped reports whether a job ended at its time limit or was stopped by a user. For such jobs
// Slurm's accounting shows no exit code of the job; the rows of the steps show how each ended.
func (r *JobRow) stopped() bool { return r.Code == model.Cancelled || r.Code == model.TimedOut }

// endCode returns the state of a step with this end.
func endCode(exitCode, signal int) model.JobState {
	switch {
	case signal != 0:
		return model.Cancelled // Slurm says CANCELLED for any sender of the signal
	case exitCode != 0:
		return model.Failed
	}
	return model.Completed
}

// extern returns the row for processes started outside the job's script, on all of its nodes. Like
// the batch step, it sums the processor time of all attempts. Slurm always reports this step as
// completed.
func (r *JobRow) extern() *JobRow {
	job, used := *r.Job, &api.Usage{}
	for i := range r.Attempts {
		e := r.Attempts[i].Usage.OfExtern()
		if e == nil {
			e = &api.Usage{}
		}
		e.CPUSeconds, e.SystemSeconds = e.CPUSeconds+used.CPUSeconds, e.SystemSeconds+used.SystemSeconds
		used = e
	}
	job.Name, job.ExitCode, job.Signal, job.Attempts, job.CancelledBy = tool.ExternStep, 0, 0, nil, nil
	if job.Code.Final() {
		job.Code, job.State = model.Completed, slurmStates[model.Completed]
	}
	return &JobRow{Job: &job, Source: r.Source, step: &step{id: tool.ExternStep, tasks: r.nodeCount(), used: used}}
}

// ofStep returns a row with the fields that all steps have.
func (r *JobRow) ofStep(id int, name string, nodes []string, start *api.Time) *JobRow {
	job := *r.Job
	job.Name, job.Nodes, job.Started, job.Ended, job.Attempts = name, nodes, start, nil, nil
	job.Submitted, job.Eligible, job.Reason = start, start, api.Reason{}
	job.Memory, job.ExitCode, job.Signal, job.CancelledBy = 0, 0, 0, nil
	return &JobRow{Job: &job, Source: r.Source, step: &step{id: strconv.Itoa(id)}}
}

// ended returns the row of an ended step.
func (r *JobRow) ended(s *api.Step) *JobRow {
	row := r.ofStep(s.ID, s.Name, s.Nodes, s.Start)
	row.step.tasks, row.step.used = s.Tasks, s.Usage
	row.Cores, row.GPUs, row.Ended, row.ExitCode, row.Signal = s.Cores, s.GPUs, s.End, s.ExitCode, s.Signal
	row.Elapsed = 0
	if s.Start != nil && s.End != nil {
		row.Elapsed = jobspec.Seconds(s.End.Sub(s.Start.Time) / time.Second)
	}
	switch {
	case s.OOM:
		row.Code = model.OutOfMemory
	case s.Why == api.StepTimedOut:
		row.Code = model.TimedOut
	default:
		row.Code = endCode(s.ExitCode, s.Signal)
	}
	row.State = slurmStates[row.Code]
	return row
}

// live returns the row of a running step.
func (r *JobRow) live(s *api.StepStatus) *JobRow {
	row := r.ofStep(s.Step, s.Name, s.Nodes, api.At(s.Started))
	row.Cores, row.GPUs, row.step.limit = s.Cores, s.GPUs, s.TimeLimit
	for _, n := range s.Tasks {
		row.step.tasks += n
	}
	if r.Code != model.Suspended {
		row.Code, row.State = model.Running, slurmStates[model.Running]
	}
	row.Elapsed = 0
	if row.Started != nil {
		row.Elapsed = jobspec.Seconds(max(0, r.Now.Sub(row.Started.Time)) / time.Second)
	}
	return row
}

// cpuSeconds returns the processor time of a step, or of all attempts of a job.
func (r *JobRow) cpuSeconds() float64 {
	if r.step != nil {
		return r.step.used.TotalCPU()
	}
	var sum float64
	for i := range r.Attempts {
		total, _ := attemptSeconds(&r.Attempts[i])
		sum += total
	}
	return sum
}

// systemSeconds returns the part of cpuSeconds that was spent in the kernel.
func (r *JobRow) systemSeconds() float64 {
	if r.step != nil {
		return r.step.used.SystemCPU()
	}
	var sum float64
	for i := range r.Attempts {
		_, system := attemptSeconds(&r.Attempts[i])
		sum += system
	}
	return sum
}

// attemptSeconds returns the processor time of an attempt, and its part spent in the kernel. Of a
// running attempt, only the time of ended steps is known.
func attemptSeconds(a *api.Attempt) (total, system float64) {
	others, othersSystem := besideSeconds(a)
	total, system = max(a.Usage.TotalCPU(), others), max(a.Usage.SystemCPU(), othersSystem)
	return total, min(system, othersSystem+total-others) // the script's total bounds its time in the kernel
}

// besideSeconds returns the processor time of an attempt's ended steps and of programs that rota
// exec or rota shell started.
func besideSeconds(a *api.Attempt) (total, system float64) {
	extern := a.Usage.OfExtern()
	total, system = extern.TotalCPU(), extern.SystemCPU()
	for i := range a.Steps {
		total, system = total+a.Steps[i].Usage.TotalCPU(), system+a.Steps[i].Usage.SystemCPU()
	}
	return total, system
}

// stepTRES formats the resources of a step as sacct does.
func (r *JobRow) stepTRES() string {
	all := []string{fmt.Sprintf("cpu=%d", r.Cores)}
	if r.GPUs > 0 {
		all = append(all, fmt.Sprintf("gres/gpu=%d", r.GPUs))
	}
	if r.Memory > 0 {
		all = append(all, "mem="+memory(r.Memory))
	}
	return strings.Join(append(all, fmt.Sprintf("node=%d", r.nodeCount())), ",")
}

// stepList returns the steps of a job for the JSON of sacct.
func stepList(r *JobRow) any {
	list := []any{}
	for _, row := range r.Steps() {
		mem := func(b jobspec.Bytes) []any {
			return []any{map[string]any{"type": "mem", "name": "", "id": 2, "count": int64(b)}}
		}
		used := row.step.used
		list = append(list, map[string]any{
			"step":  map[string]any{"id": row.rawID(), "name": row.Name},
			"state": []string{row.State}, "kill_request_user": "",
			"exit_code": exitCodeOf(row),
			"nodes":     map[string]any{"count": len(row.Nodes), "range": show.Hosts(row.Nodes), "list": row.Nodes},
			"tasks":     map[string]any{"count": row.step.tasks},
			"time": map[string]any{"elapsed": int64(row.Elapsed), "start": numberOf(stampOf(row.Started)),
				"end": numberOf(stampOf(row.Ended)), "total": splitSeconds(used.TotalCPU()),
				"system": splitSeconds(used.SystemCPU()), "user": splitSeconds(used.UserCPU())},
			"tres": map[string]any{"allocated": tresList(row.allocatedTRES(true)),
				"requested": map[string]any{"max": mem(used.MaxRSS()), "average": mem(used.AveRSS())}},
		})
	}
	return list
}
