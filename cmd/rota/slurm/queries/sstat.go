package queries

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/slurm/fields"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
)

// statFormat has the default fields of sstat that Rota measures. Rota measures the memory of a step
// on each node; this value stands for Slurm's memory of a task.
const statFormat = "JobID,Nodelist,MaxRSS,MaxRSSNode,AveRSS,AveCPU,NTasks"

// statRow is the resource usage of one step.
type statRow struct {
	id, node string // node: the node with the highest peak of memory
	nodes    []string
	tasks    int
	used     *api.Usage // nil: unknown
}

// statFields has all fields of sstat. Fields that Rota does not measure are empty, as in Slurm.
func statFields(src *fields.Source) []fields.Field[statRow] {
	all := []fields.Field[statRow]{
		fields.Titled("JobID", -12, func(r statRow) string { return r.id }),
		fields.Titled("Nodelist", 20, func(r statRow) string { return show.Hosts(r.nodes) }),
		fields.Titled("NTasks", 8, func(r statRow) string { return strconv.Itoa(r.tasks) }),
		fields.Titled("MaxRSS", 10, func(r statRow) string { return src.PeakOrNone(r.used.MaxRSS()) }),
		fields.Titled("MaxRSSNode", 10, func(r statRow) string { return r.node }),
		fields.Titled("AveRSS", 10, func(r statRow) string { return src.PeakOrNone(r.used.AveRSS()) }),
		fields.Titled("AveCPU", 10, func(r statRow) string {
			if r.used == nil {
				return ""
			}
			return fields.CPUClock(r.used.TotalCPU() / float64(max(r.tasks, 1)))
		}),
		fields.Titled("TRESUsageInTot", 20, func(r statRow) string { return r.used.TRESUsageInTot() }),
		fields.Titled("TRESUsageInAve", 20, func(r statRow) string { return r.used.TRESUsageInAve(r.tasks) }),
	}
	for _, name := range strings.Fields(`MaxRSSTask MaxVMSize MaxVMSizeNode MaxVMSizeTask AveVMSize MaxPages MaxPagesNode
		MaxPagesTask AvePages MinCPU MinCPUNode MinCPUTask MaxDiskRead MaxDiskReadNode MaxDiskReadTask AveDiskRead
		MaxDiskWrite MaxDiskWriteNode MaxDiskWriteTask AveDiskWrite ConsumedEnergy AveCPUFreq ReqCPUFreqMin ReqCPUFreqMax
		ReqCPUFreqGov Pids`) {
		all = append(all, fields.Titled(name, 10, func(statRow) string { return "" }))
	}
	return all
}

// statOptions are the options of sstat.
type statOptions struct {
	format                string
	jobs                  []string
	all, names, noConvert bool
}

func (o *statOptions) add(f *pflag.FlagSet, s *fields.Sheet[statRow]) {
	sheetFlags(f, s, &o.format)
	tool.Aliased(f, "format", "fields")
	f.StringArrayVarP(&o.jobs, "jobs", "j", nil, "")
	f.BoolVarP(&o.all, "allsteps", "a", false, "")
	f.BoolVarP(&o.names, "helpformat", "e", false, "")
	f.BoolVar(&o.noConvert, "noconvert", false, "")
	f.BoolP("help", "h", false, "")
	f.CountP("verbose", "v", "") // it prints no further messages
}

// sstat shows the resource usage of running steps, as reported by their nodes.
func sstat(ctx context.Context, t *tool.Tool, args []string) error {
	src := &fields.Source{} // rows of sstat have no times
	o, s, f := statOptions{}, fields.Sheet[statRow]{}, t.Flags()
	o.add(f, &s)
	words, err := t.Parse(f, args)
	switch {
	case err != nil:
		return err
	case o.names:
		fields.PrintNames(t.Stdout, fields.Titles(statFields(src)))
		return nil
	}
	src.Exact = o.noConvert
	if err := s.Choose(statFields(src), cmp.Or(o.format, statFormat)); err != nil {
		return err
	}
	refs, err := readJobs(append(o.jobs, words...)...)
	switch {
	case err != nil:
		return err
	case len(refs) == 0:
		return errors.New("You didn't give me any jobs to stat.")
	}
	session, err := t.Connect()
	if err != nil {
		return err
	}
	var rows []statRow
	var failure error
	for _, ref := range refs {
		some, err := stat(ctx, t, session, ref, o.all)
		switch {
		case tool.IsUnreachable(err):
			return tool.AsSlurm(err)
		case err != nil:
			failure = tool.ErrSaid
			t.Errorf("problem getting step_layout for %s: %s", ref, show.Clean(statProblem(err)))
		}
		rows = append(rows, some...)
	}
	return cmp.Or(s.Print(t.Stdout, slices.Values(rows)), failure)
}

// statProblem returns Slurm's message for a job without data.
func statProblem(err error) string {
	var p *api.Problem
	if errors.As(err, &p) && (p.Code == api.CodeNotFound || p.Code == api.CodeWrongState) {
		return tool.NoSuchJob
	}
	if text, denied := tool.Denied(err); denied {
		return text
	}
	return tool.AsSlurm(err).Error()
}

// stat returns the usage of a step, or of the steps of a job. If the user names no step, it is the
// first running step, or else the batch step; with all, every step.
func stat(ctx context.Context, t *tool.Tool, session *command.Session, ref string, all bool) ([]statRow, error) {
	job, step := tool.CutStep(ref)
	list, err := session.StepsBy(ctx, job) // neither the job nor its state is shown to other users
	if _, denied := tool.Denied(err); err != nil && (denied || !hasNoSteps(err)) {
		return nil, err
	}
	u, _, bad := session.UsageBy(ctx, job, 0)
	switch {
	case bad != nil:
		return nil, bad
	case !u.Live:
		return nil, &api.Problem{Code: api.CodeWrongState}
	}
	var rows []statRow
	if !u.Allocation {
		rows = append(rows, scriptStat(job, u))
	}
	rows = append(rows, externStat(job, u))
	first := len(rows) // index of the first running step
	if err == nil {
		for i := range list.Items {
			if one := &list.Items[i]; one.Waits == "" {
				rows = append(rows, stepStat(job, one, u))
			}
		}
	}
	if u.Missing > 0 {
		t.Errorf("the usage of %d workers of job %s is unknown: %s", u.Missing, job, show.Clean(u.Error))
	}
	switch {
	case all && step == "":
		return rows, nil
	case step == "" && len(rows) > first:
		return rows[first:][:1], nil
	case step == "":
		return rows[:1], nil
	}
	rows = slices.DeleteFunc(rows, func(r statRow) bool { return r.id != job+"."+step })
	if len(rows) == 0 {
		return nil, &api.Problem{Code: api.CodeNotFound}
	}
	return rows, nil
}

// externStat returns the usage of processes started outside the job's script, on all of its nodes.
func externStat(job string, u *api.JobUsage) statRow {
	row := statRow{id: job + "." + tool.ExternStep, used: u.Usage.OfExtern()}
	var most jobspec.Bytes
	for _, w := range u.Workers {
		if !slices.Contains(row.nodes, w.Node) {
			row.nodes = append(row.nodes, w.Node)
		}
		if peak := w.Usage.OfExtern().MaxRSS(); peak > most {
			row.node, most = w.Node, peak
		}
	}
	row.tasks = len(row.nodes)
	if row.used == nil && u.Usage != nil {
		row.used = &api.Usage{} // such a process never ran, so the usage is zero
	}
	return row
}

// scriptStat returns the usage of the job's processes outside of steps; its memory is unknown while
// steps run.
func scriptStat(job string, u *api.JobUsage) statRow {
	row := statRow{id: job + "." + tool.BatchStep, tasks: 1}
	for _, w := range u.Workers {
		row.nodes = append(row.nodes, w.Node)
	}
	if u.Usage == nil {
		return row
	}
	used := *u.Usage
	row.used = &used
	used.CPUSeconds -= used.OfExtern().TotalCPU()
	if len(u.Steps) == 0 {
		row.node = row.nodes[slices.IndexFunc(u.Workers, func(w api.WorkerUsage) bool {
			return w.Usage.MaxRSS() == used.MaxRSS()
		})]
		return row
	}
	row.nodes = row.nodes[:1]
	used.PeakMemory, used.Memory = 0, 0
	for i := range u.Steps {
		used.CPUSeconds -= u.Steps[i].Usage.TotalCPU()
	}
	used.CPUSeconds = max(0, used.CPUSeconds)
	return row
}

// stepStat returns the usage of a step, as far as its nodes have answered.
func stepStat(job string, s *api.StepStatus, u *api.JobUsage) statRow {
	row := statRow{id: fmt.Sprintf("%s.%d", job, s.Step), nodes: s.Nodes}
	for _, n := range s.Tasks {
		row.tasks += n
	}
	if at := slices.IndexFunc(u.Steps, func(o api.StepUsage) bool { return o.Step == s.Step }); at >= 0 {
		row.used, row.node = u.Steps[at].Usage, u.Steps[at].PeakNode
	}
	return row
}
