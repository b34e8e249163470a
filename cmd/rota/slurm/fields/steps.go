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

// step is a step of a job in a row.
type step struct {
	id    string // behind the job's: batch, extern, 0
	tasks int
	used  *api.Usage      // nil: nothing is known
	limit jobspec.Seconds // of its time, 0: that of its job
}

// Steps returns the rows of the steps of a job that has begun, of its last attempt. The first is that of
// its script, with all that was used outside of steps, and the second its extern step. An allocation of salloc
// or srun has no script.
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
		if !slices.ContainsFunc(rows, func(o *JobRow) bool { return o.step.id == id }) { // else it has ended since
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

// isAllocation reports whether a job holds nodes for salloc or srun, and runs no script.
func (r *JobRow) isAllocation() bool { return slices.Contains(r.Flags, api.FlagAllocation) }

// LiveSteps returns the rows of the steps of a job that run: its script, on its first node, and the others.
func (r *JobRow) LiveSteps() []*JobRow {
	if r.Started == nil || r.Ended != nil {
		return nil
	}
	return slices.DeleteFunc(r.Steps(), func(s *JobRow) bool {
		s.Nodes = s.Nodes[:min(len(s.Nodes), cmp.Or(s.step.tasks, len(s.Nodes)))]
		return s.Ended != nil
	})
}

// TitleSteps has the column of ids be titled as that of steps.
func TitleSteps(columns []Column[*JobRow]) {
	for i := range columns {
		if f := columns[i].Field; f != nil && f.letter == 'i' {
			columns[i].title = "STEPID"
		}
	}
}

// ofJob reports whether a step is what each job has, and holds nothing that is counted for it alone.
func (s *step) ofJob() bool { return s.id == tool.BatchStep || s.id == tool.ExternStep }

// StepRecord returns the lines about a step in scontrol show, each with KEY=VALUE.
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

// StepID returns the name of the step that a row is about, "" for a job.
func (r *JobRow) StepID() string {
	if r.step == nil {
		return ""
	}
	return r.step.id
}

// alone reports whether a job has no steps beside its script.
func (r *JobRow) alone() bool { return len(r.Running) == 0 && len(r.lastSteps()) == 0 }

// lastSteps are the steps of the last attempt that have ended.
func (r *JobRow) lastSteps() []api.Step {
	if n := len(r.Attempts); n > 0 {
		return r.Attempts[n-1].Steps
	}
	return nil
}

// batch returns the row of a job's script. A worker's memory is measured together with the memory
// of its steps. It therefore says nothing of the script if steps ran.
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
		if len(job.Components) > 0 && job.Components[0].Workers > 0 { // it is on the first node of the first one
			first := &job.Components[0]
			job.Cores, job.GPUs = first.Cores/first.Workers, first.GPUs/first.Workers
			job.Memory = first.Memory / jobspec.Bytes(first.Workers)
		}
		job.Nodes = job.Nodes[:min(1, len(job.Nodes))]
	}
	if r.stopped() { // the script has ended in its own way
		job.Code = endCode(job.ExitCode, job.Signal)
		job.State = slurmStates[job.Code]
	}
	job.CancelledBy = nil
	return &JobRow{Job: &job, Source: r.Source, step: &step{id: tool.BatchStep, tasks: 1, used: &used}}
}

// stopped reports whether a job ended at its time limit, or because a user wanted that. Slurm's
// accounts then have no exit code of the job, but say how each of its steps ended.
func (r *JobRow) stopped() bool { return r.Code == model.Cancelled || r.Code == model.TimedOut }

// endCode is the state of a step that has ended with that.
func endCode(exitCode, signal int) model.JobState {
	switch {
	case signal != 0:
		return model.Cancelled // as Slurm has it, whatever sent the signal
	case exitCode != 0:
		return model.Failed
	}
	return model.Completed
}

// extern returns the row of what was started beside a job's script, on all of its nodes. Like that of the
// script it has the processor time of all attempts. Slurm ends it well, whatever becomes of the job.
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

// ofStep returns the row of a step with what all steps have.
func (r *JobRow) ofStep(id int, name string, nodes []string, start *api.Time) *JobRow {
	job := *r.Job
	job.Name, job.Nodes, job.Started, job.Ended, job.Attempts = name, nodes, start, nil, nil
	job.Submitted, job.Eligible, job.Reason = start, start, api.Reason{}
	job.Memory, job.ExitCode, job.Signal, job.CancelledBy = 0, 0, 0, nil
	return &JobRow{Job: &job, Source: r.Source, step: &step{id: strconv.Itoa(id)}}
}

// ended returns the row of a step that has ended.
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

// live returns the row of a step that runs.
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

// systemSeconds returns the part of cpuSeconds that the system had.
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

// attemptSeconds returns the processor time of an attempt, and the part of it that the system had. Of one
// that runs nothing is known but that of its steps.
func attemptSeconds(a *api.Attempt) (total, system float64) {
	others, othersSystem := besideSeconds(a)
	total, system = max(a.Usage.TotalCPU(), others), max(a.Usage.SystemCPU(), othersSystem)
	return total, min(system, othersSystem+total-others) // what is left to the script bounds what is left of the system's
}

// besideSeconds returns the processor time of everything that an attempt ran beside its script and
// that has ended: its steps, and programs started from outside.
func besideSeconds(a *api.Attempt) (total, system float64) {
	extern := a.Usage.OfExtern()
	total, system = extern.TotalCPU(), extern.SystemCPU()
	for i := range a.Steps {
		total, system = total+a.Steps[i].Usage.TotalCPU(), system+a.Steps[i].Usage.SystemCPU()
	}
	return total, system
}

// stepTRES writes what a step has or had, as sacct has it.
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

// stepList is the steps of a job in the JSON of sacct.
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
