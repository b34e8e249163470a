package views

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
)

// showStatus shows everything about each job, in sections.
func showStatus(env *command.Env, c *cli.Context) error {
	if err := command.RefuseEmpty(c, "metric"); err != nil {
		return err
	}
	if c.IsSet("metric") && !c.Bool("plot") {
		return exit.Usagef("--metric needs --plot")
	}
	session, refs, err := env.ConnectForJobs(c)
	if err != nil {
		return err
	}
	for n, ref := range refs {
		if c.Bool("plot") {
			if n > 0 && !session.AsJSON {
				fmt.Fprintln(env.Stdout)
			}
			if err := showPlot(env, session, c, ref); err != nil {
				return err
			}
			continue
		}
		job, answer, err := session.JobBy(c.Context, ref, api.Read{})
		if err != nil {
			return err
		}
		env.WarnStale(answer)
		if session.AsJSON {
			if err := table.PrintJSON(env.Stdout, job); err != nil {
				return err
			}
			continue
		}
		if n > 0 {
			fmt.Fprintln(env.Stdout)
		}
		if err := printStatus(env.Stdout, env.Screen(), job, c.Bool("utc")); err != nil {
			return err
		}
	}
	return nil
}

// sections writes labelled lines under headings, and omits lines without a value.
type sections struct {
	out *bufio.Writer
	table.Screen
}

func (s sections) heading(title string) {
	fmt.Fprintln(s.out)
	s.text(title)
}

// text writes a line of its own.
func (s sections) text(line string) {
	for _, part := range show.Wrap(line, s.Width) {
		fmt.Fprintln(s.out, part)
	}
}

func (s sections) line(label, value string) {
	if value != "" {
		s.painted(label, value, table.Plain)
	}
}

// painted writes a line whose value has a colour. A value that is too wide for the terminal goes on below
// its beginning.
func (s sections) painted(label, value string, paint table.Paint) {
	column := 2 + max(12, len(label)) + 1
	lines := show.Wrap(value, s.Room(column))
	for i := range lines {
		lines[i] = s.Of(paint, lines[i])
	}
	fmt.Fprintf(s.out, "  %-12s %s\n", label, strings.Join(lines, "\n"+strings.Repeat(" ", column)))
}

func (s sections) linef(label, format string, args ...any) {
	s.line(label, fmt.Sprintf(format, args...))
}

func printStatus(out io.Writer, screen table.Screen, j *api.Job, utc bool) error {
	s := sections{bufio.NewWriter(out), screen}
	s.text(fmt.Sprintf("Job %s  %s", show.JobName(j), show.Clean(j.Name)))
	s.state(j, utc)
	s.relations(j)
	s.request(j)
	s.placement(j)
	s.attempts(j, utc)
	s.used(j)
	s.steps(j, utc)
	s.tasks(j.Spec)
	return s.out.Flush()
}

func (s sections) state(j *api.Job, utc bool) {
	s.heading("State")
	s.painted("state", fmt.Sprintf("%s (%s)", j.State, strings.Join(append([]string{string(j.Code)}, j.Flags...), ",")),
		table.StateOf(j.State))
	s.line("cancelled by", show.CancelledBy(j))
	s.line("reason", show.Clean(show.Reason(j.Reason)))
	if a := show.Leaving(j); a != nil {
		s.line("leaving", show.Left(a))
		if a.LeaveBy != nil {
			s.linef("leaves by", "%s, then it is killed", show.Time(a.LeaveBy, utc))
		}
		s.line("lost so far", show.Loss(a.Lost))
	}
	s.line("suspended", show.Suspended(j, utc))
	s.line("depends on", show.Dependencies(j))
	s.line("submitted", show.Time(j.Submitted, utc))
	s.line("not before", show.Time(j.Eligible, utc))
	s.line("deadline", show.Time(j.Deadline, utc))
	s.line("started", show.Time(j.Started, utc))
	s.line("ended", show.Time(j.Ended, utc))
	s.linef("elapsed", "%s of %s", show.Clock(j.Elapsed), show.Limit(j.TimeLimit))
	if j.Ended != nil {
		s.painted("exit", show.Exit(j)+" (code:signal)", table.ExitOf(show.Exit(j)))
	}
	s.line("progress", progressText(j))
	s.line("bad progress", show.Clean(j.ProgressProblem))
	s.line("progress class", j.ProgressClass)
	s.line("charged", show.Hours(j.GPUSeconds)+" GPU hours")
}

// progressText formats a job's step and metrics, in the order of its progress block.
func progressText(j *api.Job) string {
	if j.Steps == 0 && j.SavedStep == 0 && len(j.Metrics) == 0 {
		return ""
	}
	p := progressOf(j.Spec)
	text := fmt.Sprintf("step %d", j.Steps)
	if p.Total > 0 {
		text += fmt.Sprintf(" of %d (%d%%)", p.Total, 100*min(j.Steps, p.Total)/p.Total)
	}
	text += fmt.Sprintf(", saved %d", j.SavedStep)
	for _, name := range slices.Sorted(maps.Keys(j.Metrics)) {
		if p.Metric != "" && name != p.Metric {
			continue
		}
		text += fmt.Sprintf(", %s %g", show.Clean(name), j.Metrics[name])
		if p.Goal != "" {
			text += " (" + p.Goal + " is best)"
		}
	}
	return text
}

// progressOf returns a job's first progress block, or an empty block.
func progressOf(spec *jobspec.Job) jobspec.Progress {
	if spec == nil {
		return jobspec.Progress{}
	}
	for _, g := range spec.Groups {
		for _, t := range g.Tasks {
			if t.Progress != nil {
				return *t.Progress
			}
		}
	}
	return jobspec.Progress{}
}

// relations writes the array tasks or groups of a job, or the job that it belongs to.
func (s sections) relations(j *api.Job) {
	switch {
	case j.Array.Job != 0:
		s.heading("Array task")
		s.line("of array", show.ID(j.Array.Job))
		s.line("id", show.ID(j.ID))
		for _, name := range slices.Sorted(maps.Keys(j.Array.Params)) {
			s.line(show.Clean(name), show.Clean(j.Array.Params[name]))
		}
	case j.Array.Size > 0:
		s.heading("Array tasks")
		s.line("total", fmt.Sprint(j.Array.Size))
		s.line("not started", j.Array.Indices)
		s.linef("ended", "%d completed, %d failed, %d cancelled; %d still running", j.Array.Completed,
			j.Array.Failed, j.Array.Cancelled, j.Array.Live)
	case j.Group != nil:
		s.heading("Group")
		s.line("of job", show.ID(j.Group.Job))
	case len(j.Groups) > 0:
		s.heading("Groups")
		for _, g := range j.Groups {
			s.line(g.Name, fmt.Sprintf("%s, %s", g.Code, show.Count(g.Workers, "worker", "workers")))
		}
	}
}

func (s sections) request(j *api.Job) {
	s.heading("Request")
	s.linef("user", "%s (uid %d)", j.User, j.UID)
	s.line("account", j.Account)
	s.line("queue", j.Queue)
	s.line("class", string(j.Class))
	s.line("priority", fmt.Sprint(j.Priority))
	s.line("workers", show.Workers(j))
	if e := j.Elastic; e != nil {
		s.line("elastic", e.Text)
	}
	s.linef("total", "%s, %s, %s memory", show.CountGPUs(show.GPUAmount(j.GPUs, j.GPUThousandths)),
		show.Count(j.Cores, "core", "cores"), show.Size(j.Memory))
	s.line("workdir", show.Clean(j.Workdir))
	s.line("comment", show.Clean(j.Comment))
}

func (s sections) placement(j *api.Job) {
	if len(j.Nodes) == 0 {
		return
	}
	s.heading("Placement")
	s.line("nodes", show.Hosts(j.Nodes))
}

func (s sections) attempts(j *api.Job, utc bool) {
	if len(j.Attempts) == 0 {
		return
	}
	s.heading("Attempts")
	t := &table.Table{Columns: []table.Column{{Title: "  N", Right: true}, {Title: "START"}, {Title: "END"},
		{Title: "CAUSE", Paint: table.CauseOf}, {Title: "EXIT", Right: true, Paint: table.ExitOf},
		{Title: "NODELIST", Least: 8}}}
	for i := range j.Attempts {
		if j.Attempts[i].Lost != nil {
			t.Columns = slices.Insert(t.Columns, 4, table.Column{Title: "FOR", Least: 6},
				table.Column{Title: "LOST GPU S", Right: true})
			break
		}
	}
	lost := len(t.Columns) > 6
	suspended := slices.ContainsFunc(j.Attempts, func(a api.Attempt) bool { return a.SuspendedSeconds > 0 })
	if suspended {
		t.Columns = append(t.Columns, table.Column{Title: "SUSPENDED", Right: true})
	}
	if j.Elastic != nil {
		t.Columns = append(t.Columns, table.Column{Title: "WORKERS", Right: true})
	}
	for _, a := range j.Attempts {
		exit := "-"
		if a.End != nil {
			exit = fmt.Sprintf("%d:%d", a.ExitCode, a.Signal)
		}
		row := []string{fmt.Sprint(a.N), show.DashIfEmpty(show.Time(a.Start, utc)),
			show.DashIfEmpty(show.Time(a.End, utc)), show.DashIfEmpty(string(a.Cause)), exit, show.Hosts(a.Nodes)}
		if lost {
			row = slices.Insert(row, 4, show.DashIfEmpty(show.ForJob(a.For, a.ForUser, a.ForAccount)),
				show.NumberOrDash(a.LostGPUSeconds))
		}
		if suspended {
			row = append(row, show.Clock(jobspec.Seconds(a.SuspendedSeconds)))
		}
		if j.Elastic != nil {
			row = append(row, fmt.Sprint(a.Workers))
		}
		t.Add(row...)
	}
	_ = t.Print(s.out, s.Screen, table.AsTable, true) // the error is returned by Flush
	p := j.Preemptions
	if p.TE+p.Reclaim+p.Order+j.Resizes+j.Migrations > 0 {
		s.linef("preempted", "%d by te, %d by reclaim, %d by order; %d resizes, %d migrations", p.TE, p.Reclaim,
			p.Order, j.Resizes, j.Migrations)
	}
	if j.Suspensions > 0 {
		s.linef("suspended", "%s, %d GPU seconds", show.Count(j.Suspensions, "time", "times"), j.SuspendedGPUSeconds)
	}
	if lost {
		s.line("lost", show.Loss(totalLoss(j)))
	}
	label := "output"
	for i := range j.Attempts {
		for _, text := range show.OutputLosses(j.ID, &j.Attempts[i], -1) {
			if len(j.Attempts) > 1 {
				text = fmt.Sprintf("attempt %d: %s", j.Attempts[i].N, text)
			}
			s.line(label, text)
			label = ""
		}
	}
	s.trials(j)
}

// used writes the measured usage of the last attempt.
func (s sections) used(j *api.Job) {
	for i := len(j.Attempts) - 1; i >= 0; i-- {
		u := j.Attempts[i].Usage
		if u == nil {
			continue
		}
		extern := externText(u, "")
		if extern != "" {
			extern = " (" + extern + ")"
		}
		text := fmt.Sprintf("%s of processor time%s, at most %s of memory in a worker",
			show.Clock(jobspec.Seconds(u.CPUSeconds)), extern, show.Size(u.PeakMemory))
		if u.PeakGPUMemory > 0 {
			text += fmt.Sprintf(", GPUs %d%% busy, at most %s of their memory", u.GPUUtil, show.Size(u.PeakGPUMemory))
		}
		s.line("used", text)
		return
	}
}

// externText formats the processor time of rota exec and rota shell; "" below a second.
func externText(u *api.Usage, before string) string {
	if cpu := u.OfExtern().TotalCPU(); cpu >= 1 {
		return before + show.Clock(jobspec.Seconds(cpu)) + " by rota exec and rota shell"
	}
	return ""
}

// maxSteps is the greatest number of steps shown for a job.
const maxSteps = 10

// steps writes the newest ended steps of the last attempt.
func (s sections) steps(j *api.Job, utc bool) {
	n := len(j.Attempts)
	if n == 0 || len(j.Attempts[n-1].Steps) == 0 {
		return
	}
	all := j.Attempts[n-1].Steps
	last := all[max(0, len(all)-maxSteps):]
	title := "Steps that have ended"
	if len(last) < len(all) {
		title = fmt.Sprintf("%s: the last %d of %d", title, len(last), len(all))
	}
	s.heading(title)
	t := &table.Table{Columns: []table.Column{{Title: "  ID", Right: true}, {Title: "NAME", Least: 8}, {Title: "END"},
		{Title: "TASKS", Right: true}, {Title: "EXIT", Right: true, Paint: table.ExitOf}, {Title: "CPU", Right: true},
		{Title: "MEMORY", Right: true}, {Title: "NODELIST", Least: 8}, {Title: "WHY", Least: 8}}}
	for i := range last {
		one := &last[i]
		cpu, memory := "-", "-"
		if u := one.Usage; u != nil {
			cpu = show.Clock(jobspec.Seconds(u.CPUSeconds))
			if u.PeakMemory > 0 {
				memory = show.Size(u.PeakMemory)
			}
		}
		t.Add(fmt.Sprint(one.ID), show.DashIfEmpty(show.Clean(one.Name)), show.DashIfEmpty(show.Time(one.End, utc)),
			fmt.Sprint(one.Tasks), fmt.Sprintf("%d:%d", one.ExitCode, one.Signal), cpu, memory, show.Hosts(one.Nodes),
			show.DashIfEmpty(show.Clean(one.Why)))
	}
	_ = t.Print(s.out, s.Screen, table.AsTable, true) // the error is returned by Flush
}

// trials writes the changes that were tried with a job's attempts, and their results.
func (s sections) trials(j *api.Job) {
	label := "tried"
	for i := range j.Attempts {
		a := &j.Attempts[i]
		for k := range a.Trials {
			s.line(label, show.Trial(&a.Trials[k], show.Hosts(a.Nodes)))
			label = ""
		}
	}
}

// totalLoss sums up the work that the attempts of a job have lost.
func totalLoss(j *api.Job) *api.Lost {
	var sum api.Lost
	for i := range j.Attempts {
		if l := j.Attempts[i].Lost; l != nil {
			sum.GPUSeconds += l.GPUSeconds
			sum.Work += l.Work
			sum.Grace += l.Grace
			sum.Restart += l.Restart
		}
	}
	return &sum
}

func (s sections) tasks(spec *jobspec.Job) {
	if spec == nil {
		return
	}
	for _, g := range spec.Groups {
		for _, t := range g.Tasks {
			s.heading("Task " + g.Name + "." + t.Name)
			s.line("image", show.Clean(t.Image))
			s.line("command", show.Clean(strings.Join(t.Command, " ")))
			if t.Script != "" {
				s.line("script", show.Count(strings.Count(strings.TrimRight(t.Script, "\n"), "\n")+1, "line", "lines"))
			}
			if t.Launch != nil {
				s.line("launch", t.Launch.Type)
			}
			r := t.Resources
			s.linef("each worker", "%s, %s memory, %s, %s shm, %s tmp", show.Count(r.Cores, "core", "cores"),
				show.Size(r.Memory), resourceGPUs(&r),
				show.Size(r.Shm), show.Size(r.Tmp))
		}
	}
}

// resourceGPUs describes a task's GPUs, or its share of one GPU's memory.
func resourceGPUs(r *jobspec.Resources) string {
	if g := r.GPU; g != nil && g.Share > 0 {
		text := show.CountGPUs(int64(g.Share))
		if g.MaxMemory > 0 {
			text += " (" + show.Size(g.MaxMemory) + " of its memory)"
		}
		return text
	}
	return show.Count(r.GPUs, "GPU", "GPUs")
}
