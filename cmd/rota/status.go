package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
)

// status shows each job in sections.
func (w *world) status(c *cli.Context) error {
	asJSON, err := w.plainOrJSON(c)
	if err != nil {
		return err
	}
	refs, err := someJobs(c)
	if err != nil {
		return err
	}
	client, err := w.dial(c)
	if err != nil {
		return err
	}
	for n, ref := range refs {
		job, answer, err := client.JobBy(c.Context, ref, api.Read{})
		if err != nil {
			return err
		}
		w.warnStale(answer)
		if asJSON {
			if err := printJSON(w.stdout, job); err != nil {
				return err
			}
			continue
		}
		if n > 0 {
			fmt.Fprintln(w.stdout)
		}
		if err := printStatus(w.stdout, job, c.Bool("utc")); err != nil {
			return err
		}
	}
	return nil
}

// sections writes labelled lines under headings; lines without a value are left out.
type sections struct{ out *bufio.Writer }

func (s sections) head(title string) { fmt.Fprintf(s.out, "\n%s\n", title) }

func (s sections) line(label, value string) {
	if value != "" {
		fmt.Fprintf(s.out, "  %-12s %s\n", label, value)
	}
}

func printStatus(out io.Writer, j *api.Job, utc bool) error {
	s := sections{bufio.NewWriter(out)}
	fmt.Fprintf(s.out, "Job %s  %s\n", calledAs(j), clean(j.Name))
	s.state(j, utc)
	s.family(j)
	s.request(j)
	s.placement(j)
	s.attempts(j, utc)
	s.program(j.Spec)
	return s.out.Flush()
}

func (s sections) state(j *api.Job, utc bool) {
	s.head("State")
	s.line("state", fmt.Sprintf("%s (%s)", j.State, strings.Join(append([]string{string(j.Code)}, j.Flags...), ",")))
	s.line("reason", clean(reasonText(j.Reason)))
	s.line("waits for", dependsText(j))
	s.line("submitted", stamp(j.Submitted, utc))
	s.line("not before", stamp(j.Eligible, utc))
	s.line("deadline", stamp(j.Deadline, utc))
	s.line("started", stamp(j.Started, utc))
	s.line("ended", stamp(j.Ended, utc))
	s.line("elapsed", fmt.Sprintf("%s of %s", clockText(j.Elapsed), limitText(j.TimeLimit)))
	if j.Ended != nil {
		s.line("exit", exitText(j)+" (code:signal)")
	}
	s.line("progress", progressText(j))
	s.line("charged", hoursText(j.GPUSeconds)+" GPU hours")
}

// progressText says how far a job has come, as its progress block names things.
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
		text += fmt.Sprintf(", %s %g", clean(name), j.Metrics[name])
		if p.Goal != "" {
			text += " (" + p.Goal + " is best)"
		}
	}
	return text
}

// progressOf returns the first progress block of a job, an empty one if there is none.
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

// family says what a job has to do with others: its elements or groups, or the job that it is a part of.
func (s sections) family(j *api.Job) {
	switch {
	case j.Array.Job != 0:
		s.head("Element")
		s.line("of array", idText(j.Array.Job))
		s.line("id", idText(j.ID))
		for _, name := range slices.Sorted(maps.Keys(j.Array.Params)) {
			s.line(name, clean(j.Array.Params[name]))
		}
	case j.Array.Size > 0:
		s.head("Elements")
		s.line("in all", fmt.Sprint(j.Array.Size))
		s.line("not begun", j.Array.Indices)
		s.line("ended", fmt.Sprintf("%d well, %d failed, %d cancelled; %d go on", j.Array.Completed, j.Array.Failed, j.Array.Cancelled, j.Array.Live))
	case j.Group != nil:
		s.head("Group")
		s.line("of job", idText(j.Group.Job))
	case len(j.Groups) > 0:
		s.head("Groups")
		for _, g := range j.Groups {
			s.line(g.Name, fmt.Sprintf("%s, %s", g.Code, count(g.Workers, "worker", "workers")))
		}
	}
}

func (s sections) request(j *api.Job) {
	s.head("Request")
	s.line("user", fmt.Sprintf("%s (uid %d)", j.User, j.UID))
	s.line("account", j.Account)
	s.line("queue", j.Queue)
	s.line("class", string(j.Class))
	s.line("priority", fmt.Sprint(j.Priority))
	s.line("workers", workersText(j))
	if e := j.Elastic; e != nil {
		s.line("elastic", e.Text)
	}
	s.line("in all", fmt.Sprintf("%s, %s, %s memory", count(j.GPUs, "GPU", "GPUs"), count(j.Cores, "core", "cores"), sizeText(j.Memory)))
	s.line("workdir", clean(j.Workdir))
}

func (s sections) placement(j *api.Job) {
	if len(j.Nodes) == 0 {
		return
	}
	s.head("Placement")
	s.line("nodes", hosts(j.Nodes))
}

func (s sections) attempts(j *api.Job, utc bool) {
	if len(j.Attempts) == 0 {
		return
	}
	s.head("Attempts")
	t := &table{columns: []column{{title: "  N", right: true}, {title: "START"}, {title: "END"}, {title: "CAUSE"}, {title: "EXIT", right: true},
		{title: "NODELIST", least: 8}}}
	if j.Elastic != nil {
		t.columns = append(t.columns, column{title: "WORKERS", right: true})
	}
	for _, a := range j.Attempts {
		exit := "-"
		if a.End != nil {
			exit = fmt.Sprintf("%d:%d", a.ExitCode, a.Signal)
		}
		row := []string{fmt.Sprint(a.N), dashIfEmpty(stamp(a.Start, utc)), dashIfEmpty(stamp(a.End, utc)), dashIfEmpty(string(a.Cause)), exit, hosts(a.Nodes)}
		if j.Elastic != nil {
			row = append(row, fmt.Sprint(a.Workers))
		}
		t.add(row...)
	}
	_ = t.print(s.out, formatTable, true) // an error stays in the writer until Flush
	p := j.Preemptions
	if p.TE+p.Reclaim+p.Order+j.Resizes+j.Migrations > 0 {
		s.line("preempted", fmt.Sprintf("%d by te, %d by reclaim, %d by order; %d resizes, %d migrations", p.TE, p.Reclaim, p.Order, j.Resizes, j.Migrations))
	}
}

func (s sections) program(spec *jobspec.Job) {
	if spec == nil {
		return
	}
	for _, g := range spec.Groups {
		for _, t := range g.Tasks {
			s.head("Task " + g.Name + "." + t.Name)
			s.line("image", clean(t.Image))
			s.line("command", clean(strings.Join(t.Command, " ")))
			if t.Script != "" {
				s.line("script", count(strings.Count(strings.TrimRight(t.Script, "\n"), "\n")+1, "line", "lines"))
			}
			if t.Launch != nil {
				s.line("launch", t.Launch.Type)
			}
			r := t.Resources
			s.line("each worker", fmt.Sprintf("%s, %s memory, %s, %s shm, %s tmp", count(r.Cores, "core", "cores"), sizeText(r.Memory), count(r.GPUs, "GPU", "GPUs"),
				sizeText(r.Shm), sizeText(r.Tmp)))
		}
	}
}

// printFunnel shows how many nodes are left after each obstacle.
func printFunnel(out io.Writer, steps []api.FunnelStep) error {
	t := &table{columns: []column{{title: "NODES", right: true}, {title: "THAT", least: 20}}}
	for _, step := range steps {
		t.add(fmt.Sprint(step.Nodes), step.What)
	}
	return t.print(out, formatTable, true)
}

// count writes a number with its noun.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// check exits 0 when every invariant holds, else 1 with those that do not.
func (w *world) check(c *cli.Context) error {
	if err := noArguments(c); err != nil {
		return err
	}
	asJSON, err := w.plainOrJSON(c)
	if err != nil {
		return err
	}
	client, err := w.dial(c)
	if err != nil {
		return err
	}
	check, answer, err := client.Check(c.Context)
	if err != nil {
		return err
	}
	w.warnStale(answer)
	if asJSON {
		if err := printJSON(w.stdout, check); err != nil {
			return err
		}
	} else {
		w.printCheck(check)
	}
	if !check.OK {
		return &codeError{code: exitFailed}
	}
	return nil
}

func (w *world) printCheck(check *api.Check) {
	if check.OK {
		fmt.Fprintf(w.stdout, "ok: every invariant holds at index %d\n", check.Index)
		return
	}
	for _, v := range check.Violations {
		fmt.Fprintln(w.stdout, v)
	}
	fmt.Fprintf(w.stderr, "rota: %s at index %d\n", count(len(check.Violations), "invariant does not hold", "invariants do not hold"), check.Index)
}

// ended reports whether a job is over.
func ended(j *api.Job) bool { return j.Code.Final() }
