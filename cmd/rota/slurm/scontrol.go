package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hostlist"
)

// scontrol carries out one command of scontrol.
func (t *tool) scontrol(ctx context.Context, args []string) error {
	f := t.flags()
	f.SetInterspersed(false)
	oneLine := f.BoolP("oneliner", "o", false, "")
	f.BoolP("quiet", "Q", false, "") // nothing is said of what went well
	words, err := t.parse(f, args)
	switch {
	case errors.Is(err, errHelp):
		return nil
	case err != nil:
		return err
	case len(words) == 0:
		return errors.New("no command given, and it is not asked for interactively: " + help["scontrol"])
	}
	switch verb := strings.ToLower(words[0]); verb {
	case "show":
		return t.show(ctx, words[1:], *oneLine)
	case "requeue", "hold", "release":
		return t.control(ctx, model.Verb(verb), words[1:])
	case "update":
		return t.update(ctx, words[1:])
	}
	return fmt.Errorf("invalid keyword: %s: scontrol of Rota knows: %s", words[0], help["scontrol"])
}

// control applies a verb to lists of jobs. It goes on after a refusal.
func (t *tool) control(ctx context.Context, verb model.Verb, words []string) error {
	if len(words) == 0 {
		return fmt.Errorf("too few arguments for keyword: %s", verb)
	}
	refs, err := command.JobRefs(words)
	if err != nil {
		return fmt.Errorf("Invalid job id specified: %w", err)
	}
	s, err := t.connect()
	if err != nil {
		return err
	}
	return t.each(refs, func(ref string) (*api.ControlResponse, error) { return s.Control(ctx, ref, verb, "") })
}

// each does something to each job. It goes on after a refusal, unless no controller answers.
func (t *tool) each(refs []string, do func(ref string) (*api.ControlResponse, error)) error {
	var failure error
	for _, ref := range refs {
		resp, err := do(ref)
		if err == nil {
			for _, item := range resp.Items {
				if item.Error != nil {
					err = item.Error
				}
			}
		}
		switch {
		case isUnreachable(err):
			return asSlurm(err)
		case err != nil:
			t.errorf("%s", show.Clean(command.About("job "+ref, asSlurm(err)).Error()))
			failure = errSaid
		}
	}
	return failure
}

// update changes jobs: JobId=7 Name=x TimeLimit=+10.
func (t *tool) update(ctx context.Context, words []string) error {
	var refs []string
	var change api.UpdateRequest
	for _, word := range words {
		key, value, ok := strings.Cut(word, "=")
		if !ok || value == "" {
			return fmt.Errorf("%q is no KEY=VALUE", word)
		}
		sign := ""
		if last := key[max(len(key)-1, 0):]; last == "+" || last == "-" { // TimeLimit+=10
			key, sign = key[:len(key)-1], last
		}
		var err error
		switch k := strings.ToLower(key); {
		case k == "timelimit":
			err = readLimit(&change, sign, value)
		case sign != "":
			err = fmt.Errorf("%s%s= is not supported", key, sign)
		case k == "jobid" || k == "job":
			refs, err = command.JobRefs([]string{value})
		case k == "name" || k == "jobname":
			change.Name = &value
		default:
			err = fmt.Errorf("update of %s is not supported: JobId, Name and TimeLimit are", key)
		}
		if err != nil {
			return err
		}
	}
	switch {
	case len(refs) == 0:
		return errors.New("update changes jobs only, and needs JobId=ID")
	case change == (api.UpdateRequest{}):
		return errors.New("no update specified: write Name=NAME or TimeLimit=TIME")
	}
	s, err := t.connect()
	if err != nil {
		return err
	}
	return t.each(refs, func(ref string) (*api.ControlResponse, error) { return s.Update(ctx, ref, change) })
}

// readLimit reads a time limit, or by how much to change it.
func readLimit(change *api.UpdateRequest, sign, value string) error {
	if sign == "" && strings.ContainsAny(value[:1], "+-") {
		sign, value = value[:1], value[1:]
	}
	limit, err := command.ParseLimit(value)
	switch {
	case err != nil:
		return fmt.Errorf("Invalid time limit specification: %w", err)
	case sign == "-":
		limit = -limit
		fallthrough
	case sign == "+":
		change.AddTime = &limit
	default:
		change.TimeLimit = &limit
	}
	return nil
}

// show carries out scontrol show.
func (t *tool) show(ctx context.Context, words []string, oneLine bool) error {
	if len(words) == 0 {
		return errors.New("too few arguments for keyword: show")
	}
	what := strings.ToLower(words[0])
	if len(words) > 2 {
		return fmt.Errorf("too many arguments for keyword: show %s", what)
	}
	arg := ""
	if len(words) == 2 {
		arg = words[1]
	}
	switch what {
	case "job", "jobs", "jobid":
		return t.showJobs(ctx, arg, oneLine)
	case "hostname", "hostnames":
		return t.showHostnames(arg)
	case "hostlist":
		names, err := hostlist.Expand(arg)
		if err != nil || arg == "" {
			return fmt.Errorf("Invalid hostlist: %q", arg)
		}
		fmt.Fprintln(t.Stdout, hostlist.Compress(names))
		return nil
	}
	return fmt.Errorf("invalid entity: %s for keyword: show: job, hostnames and hostlist are there", words[0])
}

// showHostnames prints the names of a list, each on a line of its own.
func (t *tool) showHostnames(list string) error {
	list = cmp.Or(list, t.Getenv("SLURM_JOB_NODELIST"))
	if list == "" {
		return errors.New("show hostnames needs a list, or SLURM_JOB_NODELIST")
	}
	names, err := hostlist.Expand(list)
	if err != nil {
		return fmt.Errorf("Invalid hostlist: %s: %w", list, err)
	}
	for _, name := range names {
		fmt.Fprintln(t.Stdout, name)
	}
	return nil
}

// showJobs prints everything about jobs, about all if none is named.
func (t *tool) showJobs(ctx context.Context, text string, oneLine bool) error {
	s, err := t.connect()
	if err != nil {
		return err
	}
	var refs []string
	if text != "" {
		if refs, err = command.JobRefs([]string{text}); err != nil {
			return &loadError{"Invalid job id specified"}
		}
	}
	print := func(j *api.Job) {
		text := strings.Join(t.fieldsOf(j), "\n   ")
		if oneLine {
			text = strings.ReplaceAll(text, "\n   ", " ")
		}
		fmt.Fprintln(t.Stdout, text)
		if !oneLine {
			fmt.Fprintln(t.Stdout)
		}
	}
	for _, ref := range refs {
		job, _, err := s.JobBy(ctx, ref, api.Read{})
		if err != nil {
			return loadFailure(err)
		}
		print(job)
	}
	if len(refs) > 0 {
		return nil
	}
	found := false
	if _, err := s.EachJob(ctx, api.JobFilter{}, api.Read{}, func(j *api.Job) error {
		found = true
		print(j)
		return nil
	}); err != nil {
		return loadFailure(err)
	}
	if !found {
		fmt.Fprintln(t.Stdout, "No jobs in the system")
	}
	return nil
}

// loadFailure is an error of a request that reads jobs.
func loadFailure(err error) error {
	var p *api.Problem
	if errors.As(err, &p) && p.Code == api.CodeNotFound {
		return &loadError{"Invalid job id specified"}
	}
	return &loadError{show.Clean(asSlurm(err).Error())}
}

// fieldsOf returns the lines of scontrol show job, as far as they are known.
func (t *tool) fieldsOf(j *api.Job) []string {
	first := fmt.Sprintf("JobId=%d ", j.ID)
	if j.Array.Job != 0 && j.Array.Index != nil {
		first += fmt.Sprintf("ArrayJobId=%d ArrayTaskId=%d ", j.Array.Job, *j.Array.Index)
	}
	nodes := show.NodeCount(j)
	lines := []string{
		first + "JobName=" + show.Clean(j.Name),
		fmt.Sprintf("UserId=%s(%d)", j.User, j.UID),
		fmt.Sprintf("Priority=%d Nice=0 Account=%s QOS=%s", j.Priority, j.Account, j.Class),
		fmt.Sprintf("JobState=%s Reason=%s Dependency=%s", longState(j), reasonCode(j), orNull(show.Dependencies(j))),
		fmt.Sprintf("Restarts=%d ExitCode=%s", max(j.Attempt-1, 0), show.Exit(j)),
		fmt.Sprintf("RunTime=%s TimeLimit=%s TimeMin=N/A", clock(j.Elapsed), limit(j.TimeLimit)),
		fmt.Sprintf("SubmitTime=%s EligibleTime=%s", when(j.Submitted), when(j.Eligible)),
		fmt.Sprintf("StartTime=%s EndTime=%s Deadline=%s", when(j.Started), endOf(j), when(j.Deadline)),
		"Partition=" + j.Queue,
		"NodeList=" + orNull(show.Hosts(j.Nodes)),
	}
	if len(j.Nodes) > 0 {
		lines = append(lines, "BatchHost="+j.Nodes[0])
	}
	tres := fmt.Sprintf("cpu=%d,mem=%dM,node=%d", j.Cores, j.Memory/jobspec.MiB, nodes)
	if j.GPUs > 0 {
		tres += fmt.Sprintf(",gres/gpu=%d", j.GPUs)
	}
	lines = append(lines, fmt.Sprintf("NumNodes=%d NumCPUs=%d", nodes, j.Cores), "TRES="+tres)
	if j.Workdir != "" {
		lines = append(lines, "WorkDir="+show.Clean(j.Workdir))
	}
	return lines
}
