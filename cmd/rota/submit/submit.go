// Package submit has the commands that submit jobs and wait for them: submit, run, wait, resubmit
// and plan.
package submit

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/complete"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/input"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
)

// Commands returns the commands of this package.
func Commands(env *command.Env) []*command.Command {
	return command.InCategory("Jobs", []*command.Command{

		{Command: &cli.Command{Name: "submit", Aliases: []string{"s"}, Usage: "submit a job file or a batch script",
			ArgsUsage: "FILE.hcl|-|SCRIPT [ARGUMENTS...] [OPTIONS]", Action: env.Action(submitJob),
			Description: "A batch script may have directives #SBATCH or #ROTA with the options below. Options precede the " +
				"script's name; what follows it is passed\n" +
				"to the script. The command line overrides SBATCH_* variables, and these override directives. -o is json or " +
				"the job's output file.",
			Flags: slices.Concat(slices.Concat([]cli.Flag{
				&cli.BoolFlag{Name: "follow", Aliases: []string{"f"},
					Usage: "show the job's output until it ends and return its exit code"},
				&cli.StringFlag{Name: "idempotency-key",
					Usage: "submit only once, however often the command is repeated with this `KEY`"},
			}, input.ScriptFlags()), input.WithOutput(input.VarFlags()))}, EndsFlags: input.IsScript, Arguments: complete.Files},
		{Command: &cli.Command{Name: "run", Usage: "run a command as a job and show its output",
			ArgsUsage: "[OPTIONS] [--] COMMAND...", Action: env.Action(runCommand),
			Description: "The command's standard input is empty. Ctrl-C cancels the job; a second Ctrl-C exits at once. " +
				"Returns the command's exit code,\n" +
				"or 128 plus the signal that ended it. Rota's own failures are 120 to 125: usage, not found, denied, no " +
				"controller, timed out, other.",
			Flags: slices.Concat(slices.Concat([]cli.Flag{
				&cli.IntFlag{Name: "gpus", Aliases: []string{"G"}, Usage: "`N` GPUs for each worker"},
				&cli.IntFlag{Name: "cores", Aliases: []string{"c", "cpus-per-task"}, Usage: "`N` cores for each worker",
					DefaultText: "1"},
				&cli.StringFlag{Name: "mem", Usage: "`SIZE` of memory for each worker", DefaultText: "4GiB a core"},
				&cli.IntFlag{Name: "nodes", Aliases: []string{"N"}, Usage: "`N` workers, each on its own node", Value: 1},
				&cli.StringFlag{Name: "image", Usage: "use the root file system in `DIR`"},
				&cli.StringFlag{Name: "workdir", Aliases: []string{"D", "chdir"}, Usage: "run in `DIR`",
					DefaultText: "the current directory"},
				&cli.StringSliceFlag{Name: "env", Usage: "set a variable: `NAME=VALUE`"},
				&cli.StringFlag{Name: "export", Usage: "copy environment variables that match `GLOBS`"},
			}, overrideFlags()), command.CommonFlags())}, EndsFlags: command.AtFirstArgument, JobCode: true,
			FlagHint: sbatchHint, Arguments: complete.Programs},
		{Command: &cli.Command{Name: "wait", Usage: "wait for jobs to end and return their exit code",
			ArgsUsage: "JOB... [--any]", Action: env.Action(waitForJobs),
			Description: "For several jobs, returns the highest exit code. Rota's own failures are 120 to 125, as for run.",
			Flags: slices.Concat([]cli.Flag{&cli.BoolFlag{Name: "any",
				Usage: "wait for the first job to end, and return its exit code"},
				&cli.StringFlag{Name: "timeout", Usage: "give up after `DURATION` with exit code 124"}}, command.CommonFlags())},
			JobCode: true, Arguments: complete.AllJobs},
		{Command: &cli.Command{Name: "resubmit", Usage: "submit failed or cancelled jobs again",
			ArgsUsage: "JOB --failed | --cancelled", Action: env.Action(resubmit),
			Description: "For an array, submits only the failed or cancelled tasks, as a new array with the same parameters.",
			Flags: slices.Concat([]cli.Flag{
				&cli.BoolFlag{Name: "failed", Usage: "resubmit if it failed, timed out, or was lost"},
				&cli.BoolFlag{Name: "cancelled", Usage: "resubmit if it was cancelled"},
				&cli.BoolFlag{Name: "parsable", Usage: "print only the id"},
			}, command.CommonFlags())}, Arguments: complete.AllJobs},
		{Command: &cli.Command{Name: "plan", Usage: "show whether and where a job would start now",
			ArgsUsage: "FILE.hcl|-|SCRIPT [ARGUMENTS...] [OPTIONS]", Action: env.Action(planJob),
			Description: "The exit code is 0 if it would start now, 6 if it would wait.",
			Flags: slices.Concat(input.ScriptFlags(),
				input.WithOutput(input.VarFlags()))}, EndsFlags: input.IsScript, Arguments: complete.Files},
	})
}

func submitJob(env *command.Env, c *cli.Context) error {
	asJSON, file, err := input.OutputFlag(env, c)
	if err != nil {
		return err
	}
	req, err := input.Read(env, c, asJSON, file)
	if err != nil {
		return err
	}
	client, err := env.Dial(c)
	if err != nil {
		return err
	}
	if req.Result.TestOnly {
		return showPlan(c.Context, env, client, req.Job, asJSON, false)
	}
	key, err := idempotencyKey(c)
	if err != nil {
		return err
	}
	id, err := client.Submit(c.Context, key, req.Job)
	if err != nil {
		return aboutSpec("submit", req.Job.Name, err)
	}
	if err := printID(env, id, asJSON, req.Result.Parsable); err != nil {
		return err
	}
	switch {
	case c.Bool("follow"):
		return markSubmitted(followSubmitted(c.Context, env, client, id))
	case req.Result.Wait:
		return markSubmitted(awaitSubmitted(c.Context, env, client, id))
	}
	return nil
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
func printID(env *command.Env, id cluster.JobID, asJSON, parsable bool) (err error) {
	switch {
	case asJSON:
		err = table.PrintJSON(env.Stdout, api.SubmitResponse{IDs: []cluster.JobID{id}})
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
