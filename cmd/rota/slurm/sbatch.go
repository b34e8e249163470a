package slurm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/input"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/jobfile"
	"github.com/rota-hpc/rota/jobspec/script"
)

// Submitter does what commands of rota do with jobs that they have submitted. All return the
// job's exit code as an [exit.CodeError].
type Submitter struct {
	// Attached submits a job, and shows its output until it ends.
	Attached func(context.Context, *command.Session, *jobspec.Job) error
	// AtTerminal submits a job of one task that runs at this terminal, until it ends.
	AtTerminal func(context.Context, *command.Session, *jobspec.Job) error
	// Await waits until a job has ended.
	Await func(context.Context, *command.Session, model.JobID) error
}

// standsForInput are the names of scripts that are read from standard input.
var standsForInput = []string{"-", "/dev/stdin", "/dev/fd/0"}

// sbatch submits a script.
func (t *tool) sbatch(ctx context.Context, args []string) error {
	if len(args) > 0 && t.about(args[0]) {
		return nil
	}
	flags, rest, bad := script.SbatchFlags(args)
	if len(bad) > 0 {
		return t.refuse("", bad)
	}
	name, src, arguments, err := t.batchScript(flags, rest)
	if err != nil {
		return err
	}
	req, err := input.Sbatch(t.Env, name, src, arguments, flags, t.warner(name))
	if err != nil {
		return t.unreadable(err)
	}
	session, cluster, err := t.connectFor(ctx, &req.Result)
	if err != nil {
		return submitError(err)
	}
	if req.Result.TestOnly {
		return t.testOnly(ctx, session, req)
	}
	var id model.JobID
	err = req.OnFewestNodes(ctx, session, func(job *jobspec.Job) (err error) {
		id, err = session.Submit(ctx, api.NewKey(), job)
		return err
	})
	if err != nil {
		return submitError(err)
	}
	if err := t.printID(id, cluster, &req.Result); err != nil {
		return fmt.Errorf("job %d is submitted, but: %w", id, err)
	}
	if req.Result.Wait {
		return t.does.Await(ctx, session, id)
	}
	return nil
}

// batchScript returns the script that sbatch is to submit, with its name and arguments: that of a
// file, of standard input, or a command as one.
func (t *tool) batchScript(flags []script.Flag, rest []string) (name string, src []byte, args []string, err error) {
	i := slices.IndexFunc(flags, func(f script.Flag) bool { return f.Name == "wrap" })
	switch {
	case i >= 0 && len(rest) > 0:
		return "", nil, nil, errors.New("Script arguments not permitted with --wrap option")
	case i >= 0 && strings.TrimSpace(flags[i].Value) == "":
		return "", nil, nil, errors.New("--wrap needs a command")
	case i >= 0:
		return "wrap", script.Wrap(flags[i].Value), nil, nil
	case len(rest) == 0:
		name, rest = "sbatch", []string{"-"}
	case rest[0] == ":":
		return "", nil, nil, errors.New("heterogeneous jobs are not supported on the command line")
	default:
		name = rest[0]
	}
	path := rest[0]
	if slices.Contains(standsForInput, path) {
		path = "-"
	}
	if src, _, _, err = jobfile.ReadFile(path, t.Stdin); errors.Is(err, fs.ErrNotExist) && filepath.Base(path) == path {
		if found, lookErr := exec.LookPath(path); lookErr == nil { // as sbatch does
			src, _, _, err = jobfile.ReadFile(found, nil)
		}
	}
	if err != nil {
		return "", nil, nil, fmt.Errorf("Unable to open file %s: %w", name, err)
	}
	return name, src, rest[1:], nil
}

// connectFor returns a session with the cluster that a submission names, and the cluster's name if it
// names any.
func (t *tool) connectFor(ctx context.Context, r *script.Result) (*command.Session, string, error) {
	session, err := t.connect()
	if err != nil || r.Clusters == "" {
		return session, "", err
	}
	cluster, err := session.InCluster(ctx, r.Clusters)
	return session, cluster, err
}

// printID prints the id of a job that is submitted, as programs read it.
func (t *tool) printID(id model.JobID, cluster string, r *script.Result) error {
	text := ""
	switch {
	case r.Parsable && cluster != "":
		text = fmt.Sprintf("%d;%s\n", id, cluster)
	case r.Parsable:
		text = fmt.Sprintf("%d\n", id)
	case r.Quiet:
	case cluster != "":
		text = fmt.Sprintf("Submitted batch job %d on cluster %s\n", id, cluster)
	default:
		text = fmt.Sprintf("Submitted batch job %d\n", id)
	}
	_, err := fmt.Fprint(t.Stdout, text)
	return err
}

// testOnly says where a job would start, or why it would wait.
func (t *tool) testOnly(ctx context.Context, session *command.Session, req *input.Submission) error {
	var plan *api.PlanResponse
	err := req.OnFewestNodes(ctx, session, func(job *jobspec.Job) (err error) {
		plan, err = session.Plan(ctx, job)
		return err
	})
	if err != nil {
		return submitError(err)
	}
	if !plan.Starts {
		t.Notef("Job would wait: %s", show.Clean(show.Reason(plan.Reason)))
		return nil
	}
	var nodes []string
	for _, place := range plan.Places {
		nodes = append(nodes, place.Node)
	}
	t.Notef("Job would start now on nodes %s", show.Hosts(nodes))
	return nil
}

// submitError is the error of a submission, in Slurm's words.
func submitError(err error) error {
	text := asSlurm(err).Error()
	var lost *api.UncertainError
	if errors.As(err, &lost) {
		text += " (the job may have been submitted: squeue --me shows it)"
	}
	return fmt.Errorf("Batch job submission failed: %s", text)
}

// warner prints the warnings about a script.
func (t *tool) warner(name string) func(script.Problem) {
	return func(p script.Problem) {
		t.Notef("warning: %s", show.Clean(strings.Replace(oneLine(name, p), "warning: ", "", 1)))
	}
}

// oneLine writes a problem of a script on one line: where it is, what it is, and what to do.
func oneLine(name string, p script.Problem) string {
	hint := p.Hint
	p.Quote, p.Hint = "", ""
	text := strings.TrimSpace(p.Format(name))
	if p.Where != "" || p.Line == 0 && p.Flag != "" {
		text = strings.TrimPrefix(strings.TrimPrefix(text, "command line: "), name+": ")
	}
	if hint != "" {
		text += ": " + hint
	}
	return text
}

// unreadable prints what is wrong with a script.
func (t *tool) unreadable(err error) error {
	var file *exit.FileError
	if !errors.As(err, &file) {
		return err
	}
	return t.refuse(file.Name, file.Problems)
}

func (t *tool) refuse(name string, problems script.Problems) error {
	for _, p := range problems {
		t.errorf("%s", show.Clean(oneLine(name, p)))
	}
	return errSaid
}
