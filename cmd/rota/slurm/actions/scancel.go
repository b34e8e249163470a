package actions

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hostlist"
)

// cancelling is what a command line of scancel asks for.
type cancelling struct {
	*tool.Tool
	account, name, user, partition, qos, nodes, clusters, signal string
	states                                                       []string
	me, batch, full, ask, quiet                                  bool
	verbose                                                      int

	refs    []string
	session *command.Session
}

// stillPending is why Slurm does not signal a job that waits.
const stillPending = "Job is pending execution"

// scancel cancels jobs, or signals what runs of them.
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
	f.Bool("ctld", false, "")        // it is always so
	f.BoolP("hurry", "H", false, "") // there are no burst buffers
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

// variables sets the flags that the environment has under a prefix and the name of the flag.
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

// check reads the ids, and refuses what makes no sense.
func (c *cancelling) check(f *pflag.FlagSet, words []string) (err error) {
	for _, name := range []string{"account", "name", "jobname", "user", "partition", "qos", "nodelist", "state", "states",
		"signal"} {
		if flag := f.Lookup(name); flag.Changed && strings.Trim(flag.Value.String(), " ,[]") == "" {
			return fmt.Errorf("--%s is empty", name) // of a script's empty variable: it would select all jobs
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
				return fmt.Errorf("Invalid job id %s: a step is named alone, without --interactive and what selects jobs", ref)
			case step == tool.BatchStep && (c.signal == "" || command.SignalName(c.signal) == "SIGKILL"):
				return fmt.Errorf("Kill job error on job step id %s: a script ends with its job: \"scancel %s\" cancels it",
					ref, job)
			}
		}
		c.refs = append(c.refs, refs...)
	}
	if name := command.SignalName(c.signal); c.signal != "" {
		if c.signal = name; name == "SIGKILL" {
			c.signal = "" // a job is ended by cancelling it
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

// selects reports whether jobs are to be found by what they are.
func (c *cancelling) selects() bool {
	return cmp.Or(c.account, c.name, c.user, c.partition, c.qos, c.nodes) != "" || len(c.states) > 0
}

// whose returns the name of the user whose jobs are meant, "" for none.
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
	if _, err := strconv.Atoi(c.user); err != nil {
		return c.user, nil
	}
	u, err := user.LookupId(c.user)
	if err != nil {
		return "", fmt.Errorf("Invalid user: %s: %w", c.user, err)
	}
	return u.Username, nil
}

// named cancels or signals the jobs that are named, and goes on after a refusal.
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

// step ends or signals a step of a job. That of its script is only signalled.
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
	if err != nil { // extern or interactive, which jobs here do not have
		return &api.Problem{Code: api.CodeNotFound}
	}
	return c.session.SignalStep(ctx, job, n, cmp.Or(c.signal, "SIGKILL"))
}

// to is which processes get a signal. Without a flag it is what the script runs, and not its shell.
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

// said prints why something was not done to a job. It reports whether the refusal is no failure, as
// in Slurm: a job to be cancelled that has ended, or is unknown, needs no cancelling.
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
		case err != nil: // several tasks
		case j.Code.Final():
			return tool.AlreadyEnded
		case j.Code == model.Pending:
			return stillPending
		}
	}
	return tool.AsSlurm(err).Error()
}

// selection cancels or signals the jobs that match, one after another if it has to ask, and otherwise
// all at once.
func (c *cancelling) selection(ctx context.Context) error {
	refs, err := c.matching(ctx)
	if err != nil {
		return err
	}
	var failure error
	for _, ref := range c.refs { // one that does not match is no mistake, but one that there is not is
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
				continue // or it has ended since it was found
			}
			if !c.said(ctx, show.ID(item.ID), item.Error) {
				failure = tool.ErrSaid
			}
		}
	}
	return failure
}

// matching lists the jobs that have not ended and match. For a user, they are that user's own unless a
// user is named, as in Slurm.
func (c *cancelling) matching(ctx context.Context) ([]string, error) {
	on, err := hostlist.Expand(c.nodes)
	if c.nodes != "" && err != nil {
		return nil, fmt.Errorf("Invalid node list: %w", err)
	}
	filter := api.JobFilter{Refs: c.refs, User: c.user, Account: c.account, Queue: c.partition, Name: c.name, Class: c.qos,
		States: c.states}
	uid := uint32(os.Getuid()) //nolint:gosec // the kernel's numbers of users have 32 bits
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
		case c.signal != "" && (j.Code == model.Pending || j.Array.Indices != ""): // nothing of it runs
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

// confirmed asks about one job.
func (c *cancelling) confirmed(in *bufio.Reader, j *api.Job, ref string) bool {
	what := "Cancel"
	if c.signal != "" {
		what = "Signal"
	}
	fmt.Fprintf(c.Stdout, "%s job_id=%s name=%s partition=%s [y/n]? ", what, ref, show.Clean(j.Name), j.Queue)
	line, _ := in.ReadString('\n') // the end of the input means no
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "y")
}
