package views

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/listing"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// efficiency is the share of its resources that a job's attempt has used. Unknown values are null.
type efficiency struct {
	ID      model.JobID     `json:"id"`
	Ref     string          `json:"ref"`
	Name    string          `json:"name"`
	State   string          `json:"state"`
	Code    model.JobState  `json:"code"`
	Attempt int             `json:"attempt"` // 0: the job has not started
	Live    bool            `json:"live"`    // the attempt has not ended
	Workers int             `json:"workers"`
	Nodes   []string        `json:"nodes"`
	Elapsed jobspec.Seconds `json:"elapsed"` // run time of the attempt without suspensions

	Cores  float64       `json:"cores"` // cores of the attempt; memory and GPUs below likewise
	Memory jobspec.Bytes `json:"memory"`
	GPUs   float64       `json:"gpus"`
	Usage  *api.Usage    `json:"usage"`
	// percent: processor time of cores times elapsed, peak memory of the memory, mean utilisation
	// of the GPUs
	CPUEfficiency    *float64 `json:"cpu_efficiency"`
	MemoryEfficiency *float64 `json:"memory_efficiency"`
	GPUEfficiency    *float64 `json:"gpu_efficiency"`
	Killed           string   `json:"killed,omitempty"` // the process that was killed for memory, and the limit
	Note             string   `json:"note,omitempty"`   // why some values are unknown

	seconds float64 // elapsed, not rounded
}

// liveTasks bounds the requests to nodes for an array's running tasks: one request for each task.
const liveTasks = 32

// showEfficiency shows the share of requested resources that jobs have used.
func showEfficiency(env *command.Env, c *cli.Context) error {
	if n := c.Int("attempt"); c.IsSet("attempt") && n < 1 {
		return exit.Usagef("--attempt %d: attempts are numbered from 1", n)
	}
	session, refs, err := env.ConnectForJobs(c)
	if err != nil {
		return err
	}
	all := api.List[efficiency]{APIVersion: api.Version, Kind: "EfficiencyList", Items: []efficiency{}}
	for n, ref := range refs {
		job, answer, err := session.JobBy(c.Context, ref, api.Read{})
		if err != nil {
			return err
		}
		env.WarnStale(answer)
		all.Index = answer.Index
		// membersOf returns an array's started tasks, or a pipeline job's groups, sorted by id.
		parent := show.IsArray(job) || show.IsPipeline(job)
		jobs := []api.Job{*job}
		if parent {
			if jobs, err = membersOf(c.Context, session, ref); err != nil {
				return err
			}
		}
		// efficiencyOf returns the recorded efficiency of an attempt; attempt 0 means the last one.
		// an elastic job may have run with another number of workers
		part := []efficiency{}
		asked := 0
		for i := range jobs {
			e, err := efficiencyOf(env, &jobs[i], c.Int("attempt"))
			if err != nil {
				return err
			}
			if e.Live {
				if asked++; asked <= liveTasks {
					e.askNodes(c.Context, session)
				} else {
					e.Note = fmt.Sprintf("it is running: \"rota eff %s\" queries its nodes", e.Ref)
				}
			}
			part = append(part, e)
		}
		// askNodes will fill in the usage
		if session.AsJSON {
			all.Items = append(all.Items, part...)
			continue
		}
		if n > 0 {
			fmt.Fprintln(env.Stdout)
		}
		if parent {
			err = printMembers(env.Stdout, env.Screen(), job, part)
		} else {
			err = part[0].print(env.Stdout, env.Screen(), len(job.Attempts))
		}
		if err != nil {
			return err
		}
	}
	if session.AsJSON {
		return table.PrintJSON(env.Stdout, all)
	}
	return nil
}

// askNodes asks the nodes of a running attempt for its usage so far.
func membersOf(ctx context.Context, session *command.Session, ref string) ([]api.Job, error) {
	live, _, err := listing.JoinPages(func(page string) (*api.List[api.Job], error) {
		list, _, err := session.Jobs(ctx, api.JobFilter{Refs: []string{ref}, All: true, Page: page}, api.Read{})
		return list, err
	}, 0)
	if err != nil {
		return nil, err
	}
	ended, _, err := listing.JoinPages(func(page string) (*api.List[api.Job], error) {
		list, _, err := session.History(ctx, api.HistoryFilter{Refs: []string{ref}, Page: page}, api.Read{})
		return list, err
	}, 0)
	if err != nil {
		return nil, err
	}
	all := slices.DeleteFunc(slices.Concat(ended.Items, live.Items), func(j api.Job) bool {
		return show.IsArray(&j) || show.IsPipeline(&j) || len(j.Attempts) == 0
	})
	slices.SortStableFunc(all, func(a, b api.Job) int { return int(a.ID - b.ID) })
	return slices.CompactFunc(all, func(a, b api.Job) bool { return a.ID == b.ID }), nil
}

// compute calculates the percentages of what the attempt had.
func efficiencyOf(env *command.Env, j *api.Job, attempt int) (efficiency, error) {
	e := efficiency{ID: j.ID, Ref: show.JobName(j), Name: j.Name, State: j.State, Code: j.Code, Nodes: []string{}}
	if len(j.Attempts) == 0 && attempt == 0 {
		e.Note = "it has not started"
		return e, nil
	}
	a := len(j.Attempts) - 1
	if attempt != 0 {
		a = slices.IndexFunc(j.Attempts, func(a api.Attempt) bool { return a.N == attempt })
	}
	if a < 0 {
		return e, &exit.CodeError{Code: exit.NotFound,
			Text: fmt.Sprintf("job %s has no attempt %d, or it is no longer kept", e.Ref, attempt)}
	}
	at := &j.Attempts[a]
	e.Attempt, e.Live, e.Nodes, e.Workers, e.Usage = at.N, at.End == nil, at.Nodes, at.Workers, at.Usage
	e.Killed = at.Killed
	part := float64(at.Workers) / float64(max(1, j.Workers)) // otherwise the driver reported nothing
	e.Cores, e.Memory = float64(j.Cores)*part, jobspec.Bytes(float64(j.Memory)*part)
	e.GPUs = float64(show.GPUAmount(j.GPUs, j.GPUThousandths)) / 1000 * part
	if at.Start != nil {
		end := env.Now()
		if at.End != nil {
			end = at.End.Time
		}
		e.seconds = max(0, end.Sub(at.Start.Time).Seconds()-float64(at.SuspendedSeconds))
		e.Elapsed = jobspec.Seconds(e.seconds)
	}
	switch {
	case e.Live: // ofKnown returns the cores and the memory of the workers with known usage.
	case at.Start == nil:
		e.Note = "its commands have not started"
	case e.Usage == nil:
		e.Note = "its nodes have not reported what it used"
	case e.Usage.Workers < e.Workers:
		e.Note = fmt.Sprintf("%d of %d workers were lost before they reported their usage",
			e.Workers-e.Usage.Workers, e.Workers)
	}
	e.compute()
	return e, nil
}

// percentOf returns part / whole in percent, to a tenth; nil if the whole is 0.
func (e *efficiency) askNodes(ctx context.Context, session *command.Session) {
	u, _, err := session.UsageBy(ctx, show.ID(e.ID), e.Attempt)
	if err != nil {
		e.Note = "its nodes were not queried: " + err.Error()
		return
	}
	e.Usage, e.Note = u.Usage, ""
	if u.Missing > 0 {
		e.Note = fmt.Sprintf("%d of %d workers are not included: %s", u.Missing, len(u.Workers), u.Error)
	} else if u.Usage == nil {
		e.Note = "none of its workers is running yet"
	}
	e.compute()
}

// percentText formats a percentage, with a dash for an unknown one.
func (e *efficiency) compute() {
	e.CPUEfficiency, e.MemoryEfficiency, e.GPUEfficiency = nil, nil, nil
	if e.Usage == nil {
		return
	}
	cores, memory := e.ofKnown()
	e.CPUEfficiency = percentOf(e.Usage.CPUSeconds, cores*e.seconds)
	e.MemoryEfficiency = percentOf(float64(e.Usage.Memory), float64(memory))
	if e.GPUs > 0 && e.Usage.PeakGPUMemory > 0 { // print writes the efficiency of one job as text.
		e.GPUEfficiency = percentOf(float64(e.Usage.GPUUtil), 100)
	}
}

// printMembers writes the efficiency of an array's tasks or a pipeline job's groups.
func (e *efficiency) ofKnown() (cores float64, memory jobspec.Bytes) {
	part := float64(e.Usage.Workers) / float64(max(1, e.Workers))
	return e.Cores * part, jobspec.Bytes(float64(e.Memory) * part)
}

// Each has a line, and the last line sums them up.
func percentOf(part, whole float64) *float64 {
	if whole <= 0 {
		return nil
	}
	p := math.Round(part/whole*1000) / 10
	return &p
}

// percentText writes a percentage, a dash for one that is not known.
func percentText(p *float64) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", *p)
}

// print writes the efficiency of one job in plain words.
func (e *efficiency) print(out io.Writer, screen table.Screen, attempts int) error {
	s := sections{bufio.NewWriter(out), screen}
	s.text(fmt.Sprintf("Job %s  %s", e.Ref, show.Clean(e.Name)))
	s.painted("state", fmt.Sprintf("%s (%s)", e.State, e.Code), table.StateOf(e.State))
	if e.Attempt > 0 {
		of := ""
		if attempts > 1 {
			of = fmt.Sprintf("attempt %d, ", e.Attempt)
		}
		so := ""
		if e.Live {
			so = " so far"
		}
		s.linef("ran", "%s%s%s, %s on %s", of, show.Clock(e.Elapsed), so, show.Count(e.Workers, "worker", "workers"),
			show.Hosts(e.Nodes))
	}
	if u := e.Usage; u != nil {
		cores, memory := e.ofKnown()
		cpu := fmt.Sprintf("%s used: %s of processor time (%s of it system time%s), of %s available on %s",
			percentText(e.CPUEfficiency), show.Clock(jobspec.Seconds(u.CPUSeconds)),
			show.Clock(jobspec.Seconds(u.SystemSeconds)), externText(u, ", "), show.Clock(jobspec.Seconds(cores*e.seconds)),
			show.Count(int(math.Round(cores)), "core", "cores"))
		if u.PeakCores > 0 {
			cpu += fmt.Sprintf("; at most %.1f cores at once", u.PeakCores)
		}
		s.line("CPU", cpu)
		text := fmt.Sprintf("%s used: at most %s of %s", percentText(e.MemoryEfficiency), show.Size(u.Memory),
			show.Size(memory))
		if u.Workers > 1 {
			text += fmt.Sprintf("; at most %s in one worker", show.Size(u.PeakMemory))
		}
		s.line("memory", text)
		switch {
		case e.GPUs == 0:
		case e.GPUEfficiency == nil:
			s.linef("GPU", "unknown: the driver reported nothing about %s", show.CountGPUs(int64(e.GPUs*1000)))
		default:
			s.linef("GPU", "%s used: mean utilisation of %s, at most %d%%; at most %s of their memory",
				percentText(e.GPUEfficiency), show.CountGPUs(int64(e.GPUs*1000)), u.PeakGPUUtil, show.Size(u.PeakGPUMemory))
		}
	}
	if e.Killed != "" {
		s.painted("killed", show.Clean(e.Killed), table.Bad)
	}
	s.line("note", show.Clean(e.Note))
	return s.out.Flush()
}

// printMembers writes the efficiency of the tasks of an array, or of the groups of a pipeline job.
// Each has a line, and a last line is about all of them.
func printMembers(out io.Writer, screen table.Screen, j *api.Job, members []efficiency) error {
	b := bufio.NewWriter(out)
	s := sections{b, screen}
	s.text(fmt.Sprintf("Job %s  %s", show.ID(j.ID), show.Clean(j.Name)))
	if len(members) == 0 {
		fmt.Fprintln(b, "  nothing has started")
		return b.Flush()
	}
	t := table.New("  JOB", "ST", ">ELAPSED", ">CPU", ">CPUTIME", ">MEM", ">MAXMEM", ">GPU", ">MAXGPUMEM")
	t.Columns[1].Paint = table.StateOf
	var used, had, peak, memory, busy, gpus float64
	notes := []string{}
	for i := range members {
		e := &members[i]
		u := api.Usage{}
		if e.Usage != nil {
			u = *e.Usage
			cores, of := e.ofKnown()
			used, had = used+u.CPUSeconds, had+cores*e.seconds
			peak, memory = peak+float64(u.Memory), memory+float64(of)
		}
		if e.GPUEfficiency != nil {
			busy, gpus = busy+*e.GPUEfficiency/100*e.GPUs*e.seconds, gpus+e.GPUs*e.seconds
		}
		row := []string{"  " + e.Ref, string(e.Code), show.Clock(e.Elapsed), "-", "-", "-", "-", "-", "-"}
		if e.Usage != nil {
			row = append(row[:3], percentText(e.CPUEfficiency), show.Clock(jobspec.Seconds(u.CPUSeconds)),
				percentText(e.MemoryEfficiency), show.Size(u.PeakMemory), percentText(e.GPUEfficiency), "-")
		}
		if u.PeakGPUMemory > 0 {
			row[8] = show.Size(u.PeakGPUMemory)
		}
		t.Add(row...)
		if e.Note != "" && !slices.Contains(notes, e.Note) {
			notes = append(notes, e.Note)
		}
	}
	if err := t.Print(b, screen, table.AsTable, true); err != nil {
		return err
	}
	sum := fmt.Sprintf("Together they used %s of their processor time and %s of their memory",
		percentText(percentOf(used, had)), percentText(percentOf(peak, memory)))
	if gpus > 0 {
		sum += fmt.Sprintf(", and %s of their GPUs", percentText(percentOf(busy, gpus)))
	}
	s.text(sum + ".")
	if len(notes) > 0 {
		s.text("Some values are unknown: " + show.Clean(strings.Join(notes[:min(3, len(notes))], "; ")))
	}
	return b.Flush()
}
