package actions

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/api/directory"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hostlist"
)

// cancelling holds the options of one scancel command.
type cancelling struct {
	*tool.Tool
	account, name, user, partition, qos, nodes, clusters, signal string
	states                                                       []string
	me, batch, full, ask, quiet                                  bool
	verbose                                                      int

	refs    []string
	session *command.Session
}

// stillPending is Slurm's message when a user signals a pending job.
const stillPending = "Job is pending execution"

// scancel cancels jobs, or sends a signal to their processes.
func scancel(ctx context.Context, t *tool.Tool, args []string) error {
	c := &cancelling{Tool: t}
	f := t.Flags()
	f.StringVarP(&c.account, "account", "A", "", "")
	f.StringVarP(&c.name, "name", "n", "", "")
	f.StringVar(&c.name, "jobname", "", "")
	f.StringVarP(&c.user, "user", "u", "", "")
	f.BoolVar(&c.me, "me", false, "")
	f.StringVarP(&c.partition, "partition", "p", "", "")
	f.StringVarP(&c.qos, "qos", "q", "", "")
	f.StringVarP(&c.nodes, "nodelist", "w", "", "")
	f.StringSliceVarP(&c.states, "state", "t", nil, "")
	f.StringSliceVar(&c.states, "states", nil, "")
	f.StringVarP(&c.signal, "signal", "s", "", "")
	f.BoolVarP(&c.batch, "batch", "b", false, "")
	f.BoolVarP(&c.full, "full", "f", false, "")
	f.BoolVarP(&c.ask, "interactive", "i", false, "")
	f.BoolVarP(&c.quiet, "quiet", "Q", false, "")
	f.CountVarP(&c.verbose, "verbose", "v", "")
	f.StringVarP(&c.clusters, "clusters", "M", "", "")
	f.Bool("ctld", false, "")        // scancel always goes through the controller
	f.BoolP("hurry", "H", false, "") // burst buffers do not exist here
	if err := variables(t, f, "SCANCEL_"); err != nil {
		return err
	}
	words, err := t.Parse(f, args)
	if err != nil {
		return err
	}
	if err := c.check(f, words); err != nil {
		return err
	}
	if c.session, _, err = t.ConnectFor(ctx, c.clusters); err != nil {
		return tool.AsSlurm(err)
	}
	if c.selects() || c.ask {
		return c.selection(ctx)
	}
	return c.named(ctx)
}

// variables sets flags from environment variables, which are named prefix + FLAG.
func variables(t *tool.Tool, f *pflag.FlagSet, prefix string) (err error) {
	f.VisitAll(func(flag *pflag.Flag) {
		name := prefix + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
		value := t.Getenv(name)
		if value == "" {
			return
		}
		if bad := tool.SetFrom(f, flag.Name, name, value); bad != nil {
			err = bad
		}
	})
	return err
}

// check parses the job ids and refuses flags that contradict each other.
func (c *cancelling) check(f *pflag.FlagSet, words []string) (err error) {
	for _, name := range []string{"account", "name", "jobname", "user", "partition", "qos", "nodelist", "state", "states",
		"signal"} {
		if flag := f.Lookup(name); flag.Changed && strings.Trim(flag.Value.String(), " ,[]") == "" {
			return fmt.Errorf("--%s is empty", name) // an empty shell variable would otherwise select all jobs
		}
	}
	if c.user, err = c.whose(); err != nil {
		return err
	}
	for _, word := range words {
		refs, err := command.JobRefs([]string{word})
		if err != nil {
			return fmt.Errorf("Invalid job id %s", word)
		}
		for _, ref := range refs {
			job, step := tool.CutStep(ref)
			switch {
			case step != "" && (c.selects() || c.ask):
				return fmt.Errorf("Invalid job id %s: a step cannot be combined with --interactive or with options that select "+
					"jobs", ref)
			case step == tool.BatchStep && (c.signal == "" || command.SignalName(c.signal) == "SIGKILL"):
				return fmt.Errorf("Kill job error on job step id %s: a script ends with its job: \"scancel %s\" cancels it",
					ref, job)
			}
		}
		c.refs = append(c.refs, refs...)
	}
	if name := command.SignalName(c.signal); c.signal != "" {
		if c.signal = name; name == "SIGKILL" {
			c.signal = "" // KILL for a whole job means: cancel it
		}
	}
	switch {
	case c.quiet && c.verbose > 0:
		return errors.New("--quiet and --verbose exclude each other")
	case len(c.refs) == 0 && !c.selects():
		return errors.New("No job identification provided")
	}
	return nil
}

// selects reports whether the command selects jobs by filters, not only by id.
func (c *cancelling) selects() bool {
	return cmp.Or(c.account, c.name, c.user, c.partition, c.qos, c.nodes) != "" || len(c.states) > 0
}

// whose returns the user whose jobs the command selects; "" means all users.
func (c *cancelling) whose() (string, error) {
	uid := strconv.Itoa(os.Getuid())
	switch {
	case c.me && c.user != "":
		return "", errors.New("--me and --user exclude each other")
	case c.me:
		c.user = uid
	case c.user == "":
		return "", nil
	}
	n, err := strconv.ParseUint(c.user, 10, 32)
	if err != nil {
		return c.user, nil
	}
	u, err := directory.Machine.UserByID(uint32(n))
	if err != nil {
		return "", fmt.Errorf("Invalid user: %s: %w", c.user, err)
	}
	return u.Name, nil
}

// named cancels or signals the jobs with the given ids; it continues after a refusal.
func (c *cancelling) named(ctx context.Context) error {
	var failure error
	for _, ref := range c.refs {
		switch err := c.one(ctx, ref); {
		case tool.IsUnreachable(err):
			return tool.AsSlurm(err)
		case err != nil && !c.said(ctx, ref, err):
			failure = tool.ErrSaid
		}
	}
	return failure
}

// one cancels or signals one job, or several tasks of an array.
func (c *cancelling) one(ctx context.Context, ref string) error {
	var resp *api.ControlResponse
	var err error
	if job, step := tool.CutStep(ref); step != "" {
		return c.step(ctx, ref, job, step)
	}
	if c.signal == "" {
		c.tell("Terminating job %s", ref)
		resp, err = c.session.Control(ctx, ref, model.VerbCancel, "")
	} else {
		c.tell("Signal %s to job %s", c.signal, ref)
		resp, err = c.session.Signal(ctx, ref, api.SignalRequest{Signal: c.signal, To: c.to()})
	}
	if err != nil {
		return err
	}
	for _, item := range resp.Items {
		if item.Error != nil {
			err = item.Error
		}
	}
	return err
}

// step cancels or signals a step of a job. The batch step, which is the script itself, can only be
// signalled.
func (c *cancelling) step(ctx context.Context, ref, job, step string) error {
	if c.signal == "" {
		c.tell("Terminating step %s", ref)
	} else {
		c.tell("Signal %s to step %s", c.signal, ref)
	}
	if step == tool.BatchStep {
		_, err := c.session.Signal(ctx, job, api.SignalRequest{Signal: c.signal, To: jobspec.SignalScript})
		return err
	}
	n, err := strconv.Atoi(step)
	if err != nil { // jobs here have no extern or interactive step
		return &api.Problem{Code: api.CodeNotFound}
	}
	return c.session.SignalStep(ctx, job, n, cmp.Or(c.signal, "SIGKILL"))
}

// to returns which processes get a signal. By default these are the steps and the script's
// children, but not the script's shell.
func (c *cancelling) to() string {
	switch {
	case c.full:
		return ""
	case c.batch:
		return jobspec.SignalScript
	}
	return jobspec.SignalPrograms
}

func (c *cancelling) tell(format string, args ...any) {
	if c.verbose > 0 {
		c.Notef(format, args...)
	}
}

// said prints why a job was not cancelled or signalled. It returns true if the refusal is no
// failure in Slurm either: cancelling an ended or unknown job succeeds.
func (c *cancelling) said(ctx context.Context, ref string, err error) bool {
	what := "job"
	job, step := tool.CutStep(ref)
	if step != "" {
		what = "job step"
	}
	text := c.inSlurmsWords(ctx, job, err)
	if step != "" && text == tool.AlreadyEnded {
		text = tool.NoSuchJob
	}
	gone := text == tool.AlreadyEnded || text == tool.NoSuchJob
	if !c.quiet || !gone {
		c.Errorf("Kill job error on %s id %s: %s", what, ref, show.Clean(text))
	}
	return gone && !strings.Contains(ref, ".") && c.signal == ""
}

func (c *cancelling) inSlurmsWords(ctx context.Context, ref string, err error) string {
	if text, denied := tool.Denied(err); denied {
		return text
	}
	var p *api.Problem
	if !errors.As(err, &p) {
		return tool.AsSlurm(err).Error()
	}
	switch p.Code {
	case api.CodeNotFound:
		return tool.NoSuchJob
	case api.CodeWrongState:
		j, _, err := c.session.JobBy(ctx, ref, api.Read{})
		switch {
		case err != nil: // a list of tasks
		case j.Code.Final():
			return tool.AlreadyEnded
		case j.Code == model.Pending:
			return stillPending
		}
	}
	return tool.AsSlurm(err).Error()
}

// selection cancels or signals the jobs that match the filters: all at once, or one by one if it
// asks the user about each.
func (c *cancelling) selection(ctx context.Context) error {
	refs, err := c.matching(ctx)
	if err != nil {
		return err
	}
	var failure error
	for _, ref := range c.refs { // a job that does not match is skipped, but an unknown job is an error
		if _, _, err := c.session.JobBy(ctx, ref, api.Read{}); exit.IsNotFound(err) && !c.said(ctx, ref, err) {
			failure = tool.ErrSaid
		}
	}
	if c.signal != "" || c.verbose > 0 {
		c.refs = refs
		if err := c.named(ctx); err != nil {
			return err
		}
		return failure
	}
	for chunk := range slices.Chunk(refs, model.MaxJobsPerCall) {
		resp, err := c.session.CancelMany(ctx, api.CancelRequest{Refs: chunk})
		if err != nil {
			return tool.AsSlurm(err)
		}
		for _, item := range resp.Items {
			if item.Error == nil || item.Error.Code == api.CodeWrongState || item.Error.Code == api.CodeNotFound {
				continue // the job has ended since the list was made
			}
			if !c.said(ctx, show.ID(item.ID), item.Error) {
				failure = tool.ErrSaid
			}
		}
	}
	return failure
}

// matching lists the unfinished jobs that match the filters. A caller other than root gets only its
// own jobs unless it names a user or jobs, as in Slurm.
func (c *cancelling) matching(ctx context.Context) ([]string, error) {
	on, err := hostlist.Expand(c.nodes)
	if c.nodes != "" && err != nil {
		return nil, fmt.Errorf("Invalid node list: %w", err)
	}
	filter := api.JobFilter{Refs: c.refs, User: c.user, Account: c.account, Queue: c.partition, Name: c.name, Class: c.qos,
		States: c.states}
	uid := uint32(os.Getuid()) //nolint:gosec // user ids of the kernel have 32 bits
	own := c.user == "" && uid != 0 && len(c.refs) == 0
	answers := bufio.NewReader(c.Stdin)
	var refs []string
	_, err = c.session.EachJob(ctx, filter, api.Read{}, func(j *api.Job) error {
		ref, _, limited := strings.Cut(show.JobName(j), "%")
		if limited {
			ref += "]"
		}
		switch {
		case j.Code.Final() || own && j.UID != uid || show.IsPipeline(j) || show.IsArray(j) && j.Array.Indices == "":
		case c.nodes != "" && !slices.ContainsFunc(j.Nodes, func(n string) bool { return slices.Contains(on, n) }):
		case c.signal != "" && (j.Code == model.Pending || j.Array.Indices != ""): // it has no processes
		case c.ask && !c.confirmed(answers, j, ref):
		default:
			refs = append(refs, ref)
		}
		return nil
	})
	if err != nil {
		return nil, tool.AsSlurm(err)
	}
	return refs, nil
}

// confirmed asks the user whether to cancel a job.
func (c *cancelling) confirmed(in *bufio.Reader, j *api.Job, ref string) bool {
	what := "Cancel"
	if c.signal != "" {
		what = "Signal"
	}
	fmt.Fprintf(c.Stdout, "%s job_id=%s name=%s partition=%s [y/n]? ", what, ref, show.Clean(j.Name), j.Queue)
	line, _ := in.ReadString('\n') // the end of the input counts as no
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "y")
}
