package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// submitCommands are those that start jobs and stay with them.
func (w *world) submitCommands() []*Command {
	return inCategory("Jobs", []*Command{

		{Command: &cli.Command{Name: "submit", Aliases: []string{"s"}, Usage: "submit a job file or a batch script", ArgsUsage: "FILE.hcl|-|SCRIPT [ARGUMENTS...] [OPTIONS]", Action: w.submit,
			Description: "A batch script has directives #SBATCH or #ROTA with the options below. What follows its name is for the script; options stand before it.\n" +
				"The command line wins over SBATCH_* variables, and these over directives. -o is a format (json) or the file that the job writes to.",
			Flags: with(with([]cli.Flag{
				&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "show its output until it ends and return its code"},
				&cli.StringFlag{Name: "idempotency-key", Usage: "submit once however often this is repeated with `KEY`"},
			}, scriptFlags()), withOutput(varFlags()))}, EndsFlags: namesScript, Arguments: CompleteFiles},
		{Command: &cli.Command{Name: "run", Usage: "run a command as a job and show its output", ArgsUsage: "[OPTIONS] [--] COMMAND...", Action: w.run,
			Description: "The command's standard input is empty. Ctrl-C cancels the job, twice leaves at once. The code is the command's\n" +
				"own (128+signal when one ended it); Rota's own failures are 120 to 125: usage, not found, denied, no controller, timed out, other.",
			Flags: with(with([]cli.Flag{
				&cli.IntFlag{Name: "gpus", Aliases: []string{"G"}, Usage: "`N` GPUs for each worker"},
				&cli.IntFlag{Name: "cores", Aliases: []string{"c", "cpus-per-task"}, Usage: "`N` cores for each worker", DefaultText: "1"},
				&cli.StringFlag{Name: "mem", Usage: "`SIZE` of memory for each worker", DefaultText: "4GiB a core"},
				&cli.IntFlag{Name: "nodes", Aliases: []string{"N"}, Usage: "`N` workers, each on its own node", Value: 1},
				&cli.StringFlag{Name: "image", Usage: "run in the root file system at `DIR`"},
				&cli.StringFlag{Name: "workdir", Aliases: []string{"D", "chdir"}, Usage: "run in `DIR`", DefaultText: "this directory"},
				&cli.StringSliceFlag{Name: "env", Usage: "set a variable, `NAME=VALUE`"},
				&cli.StringFlag{Name: "export", Usage: "copy variables that match `GLOBS`"},
			}, overrideFlags()), commonFlags())}, EndsFlags: always, JobCode: true, FlagHint: sbatchHint, Arguments: CompletePrograms},
		{Command: &cli.Command{Name: "wait", Usage: "wait for jobs to end and return their code", ArgsUsage: "JOB... [--any]", Action: w.wait,
			Description: "With several jobs the highest code is returned. Rota's own failures are 120 to 125, as with run.",
			Flags: with([]cli.Flag{&cli.BoolFlag{Name: "any", Usage: "wait for the first to end, and return its code"},
				&cli.StringFlag{Name: "timeout", Usage: "give up after `DURATION` with code 124"}}, commonFlags())}, JobCode: true, Arguments: CompleteAllJobs},
		{Command: &cli.Command{Name: "plan", Usage: "say whether and where a job would start now", ArgsUsage: "FILE.hcl|-|SCRIPT [ARGUMENTS...] [OPTIONS]", Action: w.plan,
			Description: "Exit code 0 when it would start now, 6 when it would wait.",
			Flags:       with(scriptFlags(), withOutput(varFlags()))}, EndsFlags: namesScript, Arguments: CompleteFiles},
	})
}

// overrideFlags change what a job file says.
func overrideFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "name", Aliases: []string{"J", "job-name"}, Usage: "call the job `NAME`"},
		&cli.StringFlag{Name: "queue", Aliases: []string{"p", "partition"}, Usage: "submit to `QUEUE`"},
		&cli.StringFlag{Name: "account", Aliases: []string{"A"}, Usage: "charge `ACCOUNT`"},
		&cli.StringFlag{Name: "class", Aliases: []string{"q", "qos"}, Usage: "`CLASS` te or be"},
		&cli.StringFlag{Name: "time", Aliases: []string{"t"}, Usage: "limit each attempt to `TIME`: 30m, 2d, 1:30:00; a bare number is minutes"},
		&cli.IntFlag{Name: "priority", Usage: "`N` from 0 to 100 among the account's jobs"},
	}
}

// varFlags give values to a job file's variables.
func varFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "var", Usage: "set a variable, `NAME=VALUE`"},
		&cli.StringSliceFlag{Name: "var-file", Usage: "read variables from `FILE`"},
		&cli.StringFlag{Name: "allow-env", Usage: "let the file read the variables `NAMES` with env()"},
	}
}

func (w *world) submit(c *cli.Context) error {
	asJSON, file, err := w.output(c)
	if err != nil {
		return err
	}
	req, err := w.submission(c, asJSON, file)
	if err != nil {
		return err
	}
	client, err := w.dial(c)
	if err != nil {
		return err
	}
	if req.read.TestOnly {
		return w.showPlan(c.Context, client, req.job, asJSON, false)
	}
	key, err := idempotencyKey(c)
	if err != nil {
		return err
	}
	id, err := client.Submit(c.Context, key, req.job)
	if err != nil {
		return aboutSpec("submit", req.job.Name, err)
	}
	if err := w.submitted(id, asJSON, req.read.Parsable); err != nil {
		return err
	}
	switch {
	case c.Bool("follow"):
		return inJob(w.followSubmitted(c.Context, client, id))
	case req.read.Wait:
		return inJob(w.awaitSubmitted(c.Context, client, id))
	}
	return nil
}

// inJob marks what fails once the job is in, so that its code cannot be taken for the job's own.
func inJob(err error) error {
	var own *codeError
	if err == nil || errors.As(err, &own) {
		return err
	}
	return &jobError{err}
}

func idempotencyKey(c *cli.Context) (string, error) {
	if !c.IsSet("idempotency-key") {
		return api.NewKey(), nil // so that asking again after a lost answer submits once
	}
	key := c.String("idempotency-key")
	visible := strings.IndexFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
	if len(key) < 1 || len(key) > 64 || !visible {
		return "", usagef("--idempotency-key takes 1 to 64 visible ASCII characters")
	}
	return key, nil
}

// submitted prints the id as sbatch does, because scripts read it.
func (w *world) submitted(id cluster.JobID, asJSON, parsable bool) (err error) {
	switch {
	case asJSON:
		err = printJSON(w.stdout, api.SubmitResponse{IDs: []cluster.JobID{id}})
	case parsable:
		_, err = fmt.Fprintf(w.stdout, "%d\n", id)
	default:
		_, err = fmt.Fprintf(w.stdout, "Submitted batch job %d\n", id)
	}
	if err != nil { // or it would be submitted again
		return fmt.Errorf("job %d is submitted, but: %w", id, err)
	}
	return nil
}

// plan asks whether a job would start now.
func (w *world) plan(c *cli.Context) error {
	asJSON, file, err := w.output(c)
	if err != nil {
		return err
	}
	req, err := w.submission(c, asJSON, file)
	if err != nil {
		return err
	}
	client, err := w.dial(c)
	if err != nil {
		return err
	}
	return w.showPlan(c.Context, client, req.job, asJSON, true)
}

// showPlan prints where job would start, or why it would wait; strict makes waiting exit code 6.
func (w *world) showPlan(ctx context.Context, client *api.Client, job *jobspec.Job, asJSON, strict bool) error {
	plan, err := client.Plan(ctx, job)
	if err != nil {
		return aboutSpec("plan", job.Name, err)
	}
	if asJSON {
		err = printJSON(w.stdout, plan)
	} else {
		err = w.printPlan(job, plan)
	}
	if err == nil && strict && !plan.Starts {
		return &codeError{code: exitWouldWait}
	}
	return err
}

func (w *world) printPlan(job *jobspec.Job, plan *api.PlanResponse) error {
	if !plan.Starts {
		fmt.Fprintf(w.stdout, "%s would wait: %s\n", job.Name, clean(dashIfEmpty(reasonText(plan.Reason))))
		if plan.Ahead > 0 {
			fmt.Fprintf(w.stdout, "%s it\n", count(plan.Ahead, "job goes before", "jobs go before"))
		}
		if len(plan.Funnel) > 0 {
			fmt.Fprintln(w.stdout)
			if err := printFunnel(w.stdout, plan.Funnel); err != nil {
				return err
			}
		}
		if plan.Advice != "" {
			fmt.Fprintf(w.stdout, "\n%s\n", clean(plan.Advice))
		}
		return nil
	}
	if plan.Begins > 1 {
		what := "elements"
		if len(job.Groups) > 1 && job.Array == nil {
			what = "groups"
		}
		fmt.Fprintf(w.stdout, "%d %s of %s would start now, the first of them here\n", plan.Begins, what, job.Name)
	} else {
		fmt.Fprintf(w.stdout, "%s would start now\n", job.Name)
	}
	t := &table{columns: []column{{title: "WORKER", right: true}, {title: "NODE", least: 8}, {title: "GPUS", least: 8}}}
	for i, place := range plan.Places {
		gpus := make([]string, len(place.GPUs))
		for n, g := range place.GPUs {
			gpus[n] = strconv.Itoa(g)
		}
		t.add(strconv.Itoa(i), place.Node, dashIfEmpty(strings.Join(gpus, ",")))
	}
	return t.print(w.stdout, formatTable, true)
}
