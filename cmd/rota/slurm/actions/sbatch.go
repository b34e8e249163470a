package actions

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
	"github.com/rota-hpc/rota/cmd/rota/input"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/slurm/tool"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/jobfile"
	"github.com/rota-hpc/rota/jobspec/script"
)

// standsForInput are the names of scripts that are read from standard input.
var standsForInput = []string{"-", "/dev/stdin", "/dev/fd/0"}

// sbatch submits a script.
func sbatch(ctx context.Context, t *tool.Tool, args []string) error {
	if len(args) > 0 && t.About(args[0]) {
		return nil
	}
	flags, rest, bad := script.SbatchFlags(args)
	if len(bad) > 0 {
		return t.Refuse("", bad)
	}
	name, src, arguments, err := batchScript(t, flags, rest)
	if err != nil {
		return err
	}
	req, err := input.Sbatch(t.Env, name, src, arguments, flags, t.Warner(name))
	if err != nil {
		return t.Unreadable(err)
	}
	session, cluster, err := t.ConnectFor(ctx, req.Result.Clusters)
	if err != nil {
		return submitError(err)
	}
	if req.Result.TestOnly {
		return testOnly(ctx, t, session, req)
	}
	var id model.JobID
	err = req.OnFewestNodes(ctx, session, func(job *jobspec.Job) (err error) {
		id, err = session.Submit(ctx, api.NewKey(), job)
		return err
	})
	if err != nil {
		return submitError(err)
	}
	if err := printID(t, id, cluster, &req.Result); err != nil {
		return fmt.Errorf("job %d is submitted, but: %w", id, err)
	}
	if req.Result.Wait {
		return t.Await(ctx, session, id)
	}
	return nil
}

// batchScript returns the script to submit, with its name and arguments. The script comes from a
// file or standard input, or wraps a command.
func batchScript(t *tool.Tool, flags []script.Flag, rest []string) (name string, src []byte, args []string, err error) {
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

// printID prints the id of a submitted job in the form that scripts parse.
func printID(t *tool.Tool, id model.JobID, cluster string, r *script.Result) error {
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

// testOnly prints when and where a job would start, or why it would wait.
func testOnly(ctx context.Context, t *tool.Tool, session *command.Session, req *input.Submission) error {
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

// submitError puts the error of a submission into Slurm's words.
func submitError(err error) error {
	return tool.SubmitError("Batch job submission failed", err)
}
