// Package submit has the commands that submit jobs and wait for them: submit, run, wait, resubmit
// and plan.
package submit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/complete"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/follow"
	"github.com/rota-hpc/rota/cmd/rota/input"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Commands returns the commands of this package.
func Commands() []*command.Command {
	return command.InCategory("Jobs", []*command.Command{

		{Name: "submit", Aliases: []string{"s"}, Usage: "submit a job file or a batch script",
			ArgsUsage: "FILE.hcl|-|SCRIPT [ARGUMENTS...] [OPTIONS]", Action: submitJob,
			Description: "A batch script may have directives #SBATCH or #ROTA with the options below. Options precede the " +
				"script's name; arguments after it are passed\nto the script. The command line overrides SBATCH_* variables, and " +
				"these override directives. -o is json or the job's output file.",
			Flags: input.WithOutput(slices.Concat([]cli.Flag{
				command.Switch("follow,f", "show the job's output until it ends and return its exit code"),
				command.Text("idempotency-key", "submit only once, even if the command is repeated with the same `KEY`"),
			}, input.ScriptFlags(), input.VarFlags())), EndsFlags: input.IsScript, Arguments: complete.Files},
		{Name: "run", Usage: "run a command as a job and show its output",
			ArgsUsage: "[OPTIONS] [--] COMMAND...", Action: runCommand,
			Description: "Without --pty the command's standard input is empty. Ctrl-C cancels the job; a second Ctrl-C exits " +
				"at once. Returns the command's exit code,\n" +
				"or 128 plus the signal that ended it. Rota's own failures are 120 to 125: usage, not found, denied, no " +
				"controller, timed out, other.",
			Flags: command.WithCommon(
				command.Switch("pty", "connect the command to this terminal; the job ends when the terminal closes"),
				command.Text("gpus,G", "`N` GPUs for each worker, or part of a GPU such as 0.5"),
				&cli.IntFlag{Name: "cores", Aliases: []string{"c", "cpus-per-task"}, Usage: "`N` cores for each worker",
					DefaultText: "1"},
				&cli.StringFlag{Name: "mem", Usage: "`SIZE` of memory for each worker", DefaultText: "4GiB a core"},
				&cli.IntFlag{Name: "nodes", Aliases: []string{"N"}, Usage: "`N` workers, each on its own node", Value: 1},
				&cli.IntFlag{Name: "workers", Aliases: []string{"n", "ntasks"}, Usage: "`N` workers, on as few nodes as possible",
					DefaultText: "that of --nodes"},
				command.Text("image", "use the root file system in `DIR`"),
				&cli.StringFlag{Name: "workdir", Aliases: []string{"D", "chdir"}, Usage: "run in `DIR`",
					DefaultText: "the current directory"},
				command.List("env", "set a variable: `NAME=VALUE`"),
				command.Text("export", "copy environment variables that match `GLOBS`"),
				command.Text("name,J,job-name", "name the job `NAME`"),
				command.Text("queue,p,partition", "submit to `QUEUE`"),
				command.Text("account,A", "charge `ACCOUNT`"),
				command.Text("class,q,qos", "`CLASS` of the job, be or te"),
				command.Text("time,t", "limit each attempt to `TIME`: 30m, 2d, 1:30:00; a bare number is minutes"),
				command.Number("priority", "priority `N` among the account's jobs, 0 to 100"),
			), EndsFlags: command.AtFirstArgument, JobCode: true,
			FlagHint: sbatchHint, Arguments: complete.Programs},
		{Name: "wait", Usage: "wait for jobs to end and return their exit code",
			ArgsUsage: "JOB... [--any]", Action: waitForJobs,
			Description: "For several jobs, returns the highest exit code. Rota's own failures are 120 to 125, as for run.",
			Flags: command.WithCommon(command.Switch("any", "wait for the first job to end, and return its exit code"),
				command.Text("timeout", "give up after `DURATION` with exit code 124")),
			JobCode: true, Arguments: complete.AllJobs},
		{Name: "resubmit", Usage: "submit failed or cancelled jobs again",
			ArgsUsage: "JOB --failed | --cancelled", Action: resubmit,
			Description: "For an array, submits only the failed or cancelled tasks, as a new array with the same parameters.",
			Flags: command.WithCommon(
				command.Switch("failed", "resubmit if it failed, timed out, or was lost"),
				command.Switch("cancelled", "resubmit if it was cancelled"),
				command.Switch("parsable", "print only the id"),
			), Arguments: complete.AllJobs},
		{Name: "plan", Usage: "show whether and where a job would start now",
			ArgsUsage: "FILE.hcl|-|SCRIPT [ARGUMENTS...] [OPTIONS]", Action: planJob,
			Description: "The exit code is 0 if it would start now, 6 if it would wait.",
			Flags:       input.WithOutput(slices.Concat(input.ScriptFlags(), input.VarFlags())),
			EndsFlags:   input.IsScript, Arguments: complete.Files},
	})
}

func submitJob(env *command.Env, c *cli.Context) error {
	req, err := input.Read(env, c)
	if err != nil {
		return err
	}
	session, err := env.Dial(c)
	if err != nil {
		return err
	}
	if err := checkCluster(c.Context, session, req); err != nil {
		return err
	}
	if req.Result.TestOnly {
		return showPlan(c.Context, session, req, false)
	}
	key, err := idempotencyKey(c)
	if err != nil {
		return err
	}
	var id model.JobID
	err = req.OnFewestNodes(c.Context, session, func(job *jobspec.Job) (err error) {
		id, err = session.Submit(c.Context, key, job)
		return err
	})
	if err != nil {
		return submitFailed(req.Job.Name, key, err)
	}
	if req.AsJSON || req.Result.Parsable || !req.Result.Quiet {
		if err := printID(env, id, req.AsJSON, req.Result.Parsable); err != nil {
			return err
		}
	}
	switch {
	case c.Bool("follow"):
		return markSubmitted(attend(c.Context, session, id, follow.Job))
	case req.Result.Wait:
		return markSubmitted(Await(c.Context, session, id))
	}
	return nil
}

// checkCluster returns an error if a submission names other clusters only.
func checkCluster(ctx context.Context, session *command.Session, req *input.Submission) error {
	if req.Result.Clusters == "" {
		return nil
	}
	_, err := session.InCluster(ctx, req.Result.Clusters)
	return err
}

// markSubmitted marks an error after the submission, so that its exit code differs from the job's.
func markSubmitted(err error) error {
	var own *exit.CodeError
	if err == nil || errors.As(err, &own) {
		return err
	}
	return &exit.JobError{Err: err}
}

func idempotencyKey(c *cli.Context) (string, error) {
	if !c.IsSet("idempotency-key") {
		return api.NewKey(), nil // a retry after a lost answer then submits only once
	}
	key := c.String("idempotency-key")
	visible := strings.IndexFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
	if len(key) < 1 || len(key) > 64 || !visible {
		return "", exit.Usagef("--idempotency-key must have 1 to 64 visible ASCII characters")
	}
	return key, nil
}

// printID prints the id as sbatch does, because scripts parse it.
func printID(env *command.Env, id model.JobID, asJSON, parsable bool) (err error) {
	switch {
	case asJSON:
		err = table.PrintJSON(env.Stdout, api.SubmitResponse{IDs: []model.JobID{id}})
	case parsable:
		_, err = fmt.Fprintf(env.Stdout, "%d\n", id)
	default:
		_, err = fmt.Fprintf(env.Stdout, "Submitted batch job %d\n", id)
	}
	if err != nil { // otherwise the user would submit it again
		return fmt.Errorf("job %d is submitted, but: %w", id, err)
	}
	return nil
}
