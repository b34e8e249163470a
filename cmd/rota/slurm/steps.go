package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// batchStep is the name of the step that is a job's script or program itself.
const batchStep = "batch"

// step is a step of a job in a row.
type step struct {
	id    string // behind the job's: batch, 0
	tasks int
	used  *api.Usage // nil: nothing is known
}

// cutStep splits 7.batch, 7.0 or 8_3.extern into a job and a step. Other words behind a dot name
// groups of jobs.
func cutStep(ref string) (job, step string) {
	job, step, ok := strings.Cut(ref, ".")
	if ok && (isNumber(step) || slices.Contains([]string{batchStep, "extern", "interactive"}, step)) {
		return job, step
	}
	return ref, ""
}

// stepRef is a step that is asked for by its name, of a job or of tasks of an array.
type stepRef struct {
	of selection
	id string
}

// names reports whether a row is about a step that is asked for.
func (s *stepRef) names(r *jobRow) bool {
	if r.step == nil || r.step.id != s.id {
		return false
	}
	if len(s.of.tasks) > 0 {
		return r.Array.Index != nil && s.of.tasks[r.Array.Job][*r.Array.Index]
	}
	return slices.Contains(s.of.refs, show.ID(r.ID)) || slices.Contains(s.of.refs, show.ID(r.Array.Job))
}

// steps returns the rows of the steps of a job that has begun, of its last attempt. The first is that of
// its script, with all that was used outside of steps.
func (r *jobRow) steps() []*jobRow {
	if r.Started == nil {
		return nil
	}
	rows := []*jobRow{r.batch()}
	ended := r.lastSteps()
	for i := range ended {
		rows = append(rows, r.ended(&ended[i]))
	}
	for i := range r.running {
		id := strconv.Itoa(r.running[i].Step)
		if !slices.ContainsFunc(rows, func(o *jobRow) bool { return o.step.id == id }) { // else it has ended since
			rows = append(rows, r.live(&r.running[i]))
		}
	}
	slices.SortStableFunc(rows[1:], func(a, b *jobRow) int {
		return cmp.Or(cmp.Compare(len(a.step.id), len(b.step.id)), cmp.Compare(a.step.id, b.step.id))
	})
	return rows
}

// alone reports whether a job has no steps beside its script.
func (r *jobRow) alone() bool { return len(r.running) == 0 && len(r.lastSteps()) == 0 }

// lastSteps are the steps of the last attempt that have ended.
func (r *jobRow) lastSteps() []api.Step {
	if n := len(r.Attempts); n > 0 {
		return r.Attempts[n-1].Steps
	}
	return nil
}

// batch returns the row of a job's script. The memory of a worker is measured with that of the steps in
// it, so that it says nothing of the script where there are some.
func (r *jobRow) batch() *jobRow {
	job, used := *r.Job, show.Usage(r.Job)
	job.Name, used.CPUSeconds = batchStep, r.cpuSeconds()-r.stepSeconds()
	if !r.alone() {
		used.PeakMemory, used.Memory, used.Workers = 0, 0, 0
		for _, s := range r.lastSteps() {
			used.SystemSeconds -= s.Usage.SystemCPU()
		}
		used.SystemSeconds = min(max(0, used.SystemSeconds), used.CPUSeconds)
		job.Cores, job.GPUs, job.Memory = perNode(job.Cores, r.Job), perNode(job.GPUs, r.Job), perNode(job.Memory, r.Job)
		job.Nodes = job.Nodes[:min(1, len(job.Nodes))]
	}
	return &jobRow{Job: &job, source: r.source, step: &step{id: batchStep, tasks: 1, used: &used}}
}

// ofStep returns the row of a step with what all steps have.
func (r *jobRow) ofStep(id int, name string, nodes []string, start *api.Time) *jobRow {
	job := *r.Job
	job.Name, job.Nodes, job.Started, job.Ended, job.Attempts = name, nodes, start, nil, nil
	job.Submitted, job.Eligible, job.Reason = start, start, api.Reason{}
	job.Memory, job.ExitCode, job.Signal = 0, 0, 0
	return &jobRow{Job: &job, source: r.source, step: &step{id: strconv.Itoa(id)}}
}

// ended returns the row of a step that has ended.
func (r *jobRow) ended(s *api.Step) *jobRow {
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
	case s.Signal != 0:
		row.Code = model.Cancelled // as Slurm has it, whatever sent the signal
	case s.ExitCode != 0:
		row.Code = model.Failed
	default:
		row.Code = model.Completed
	}
	row.State = slurmStates[row.Code]
	return row
}

// live returns the row of a step that runs.
func (r *jobRow) live(s *api.StepStatus) *jobRow {
	row := r.ofStep(s.Step, s.Name, s.Nodes, api.At(s.Started))
	row.Cores, row.GPUs = s.Cores, s.GPUs
	for _, n := range s.Tasks {
		row.step.tasks += n
	}
	if r.Code != model.Suspended {
		row.Code, row.State = model.Running, slurmStates[model.Running]
	}
	row.Elapsed = 0
	if row.Started != nil {
		row.Elapsed = jobspec.Seconds(max(0, r.now.Sub(row.Started.Time)) / time.Second)
	}
	return row
}

// cpuSeconds returns the processor time of a step, or of all attempts of a job.
func (r *jobRow) cpuSeconds() float64 {
	if r.step != nil {
		return r.step.used.TotalCPU()
	}
	var sum float64
	for i := range r.Attempts { // of one that runs nothing is known but that of its steps
		sum += max(r.Attempts[i].Usage.TotalCPU(), stepSeconds(&r.Attempts[i]))
	}
	return sum
}

// stepSeconds returns the processor time of all steps of a job that have ended.
func (r *jobRow) stepSeconds() float64 {
	var sum float64
	for i := range r.Attempts {
		sum += stepSeconds(&r.Attempts[i])
	}
	return sum
}

func stepSeconds(a *api.Attempt) float64 {
	var sum float64
	for i := range a.Steps {
		sum += a.Steps[i].Usage.TotalCPU()
	}
	return sum
}

// stepTRES writes what a step has or had, as sacct has it.
func (r *jobRow) stepTRES() string {
	all := []string{fmt.Sprintf("cpu=%d", r.Cores)}
	if r.GPUs > 0 {
		all = append(all, fmt.Sprintf("gres/gpu=%d", r.GPUs))
	}
	if r.Memory > 0 {
		all = append(all, "mem="+memory(r.Memory))
	}
	return strings.Join(append(all, fmt.Sprintf("node=%d", r.nodeCount())), ",")
}

// What asking for the steps that run is bounded by: each job is a request to one of its nodes.
const (
	maxAsked   = 100
	askedOnce  = 16
	askingTime = 10 * time.Second
)

// askRunning asks for the steps of jobs that run. Those of jobs that are not the caller's are not told.
func (t *tool) askRunning(ctx context.Context, s *command.Session, rows []*jobRow) error {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r *jobRow) bool {
		return r.Code.Final() || r.Started == nil || len(r.Nodes) == 0
	})
	if len(rows) > maxAsked {
		t.errorf("%d jobs run: steps that run are shown of up to %d. Name jobs by --jobs to see theirs, or leave steps out "+
			"by --allocations", len(rows), maxAsked)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askingTime)
	defer cancel()
	var all sync.WaitGroup
	places, errs := make(chan struct{}, askedOnce), make([]error, len(rows))
	for i, r := range rows {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			list, err := s.StepsBy(ctx, show.ID(r.ID))
			if err != nil {
				errs[i] = err
				return
			}
			r.running = slices.DeleteFunc(list.Items, func(one api.StepStatus) bool { return one.Waits != "" })
		})
	}
	all.Wait()
	for i, err := range errs {
		switch {
		case err == nil || hasNoSteps(err):
		case isUnreachable(err):
			return loadFailure(err)
		default:
			t.errorf("the steps of job %s that run are not known: %s", rows[i].name(), show.Clean(asSlurm(err).Error()))
		}
	}
	return nil
}

// hasNoSteps reports whether a job has ended meanwhile, runs no steps, or is another user's.
func hasNoSteps(err error) bool {
	var p *api.Problem
	return errors.As(err, &p) &&
		slices.Contains([]string{api.CodeNotFound, api.CodeWrongState, api.CodeDenied}, p.Code)
}

// stepList is the steps of a job in the JSON of sacct.
func stepList(r *jobRow) any {
	list := []any{}
	for _, row := range r.steps() {
		mem := func(b jobspec.Bytes) []any {
			return []any{map[string]any{"type": "mem", "name": "", "id": 2, "count": int64(b)}}
		}
		used := row.step.used
		list = append(list, map[string]any{
			"step":      map[string]any{"id": row.rawID(), "name": row.Name},
			"state":     []string{row.State},
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
