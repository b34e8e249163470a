// Package control has the commands that change jobs: cancel, hold, release, requeue, signal,
// update and array.
package control

import (
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/complete"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// Commands returns the commands of this package.
func Commands() []*command.Command {
	withReason := func(own ...cli.Flag) []cli.Flag {
		return command.WithCommon(append(own, command.Text("reason", "record `TEXT` as the reason"))...)
	}
	return command.InCategory("Change", []*command.Command{

		{Name: "cancel", Usage: "cancel jobs",
			ArgsUsage: "JOB... | --me | -u USER | -A ACCOUNT [-t STATES] [-n NAME]", Action: cancelJobs,
			Description: "With ids, cancels those jobs. With options, cancels every pending or running job that matches all " +
				"options and that you may cancel.",
			Flags: withReason(
				command.Switch("me", "all of your jobs"),
				command.Text("user,u", "jobs of `USER`"),
				command.Text("account,A", "jobs of `ACCOUNT`"),
				command.Text("name,n", "jobs with `NAME`"),
				command.Text("states,t,state", "jobs in `STATES`, such as PD"),
			), Arguments: complete.Jobs(), Values: map[string]command.Source{"name": complete.JobNames}},
		{Name: "hold", Usage: "hold pending jobs, so that they do not start", ArgsUsage: "JOB...",
			Flags:  withReason(),
			Action: controlJobs("held", model.VerbHold), Arguments: complete.Jobs(model.Pending)},
		{Name: "release", Usage: "release held jobs", ArgsUsage: "JOB...", Flags: withReason(),
			Action: controlJobs("released", model.VerbRelease), Arguments: complete.Jobs(model.Pending)},
		{Name: "requeue", Usage: "stop running jobs and put them back into the queue",
			ArgsUsage: "[JOB...]", Flags: withReason(), OwnJob: true,
			Description: "Without an id, a job requeues itself. This counts like exit code 85 (max_requeues).",
			Action:      controlJobs("requeued", model.VerbRequeue), Arguments: complete.Jobs()},
		{Name: "finished", Usage: "in a job: report that its program has done all its work",
			Description: "If a job with a checkpoint block is preempted and exits with 0, it is started again, unless it has " +
				"reported that it is finished. The command writes a line to $ROTA_PROGRESS_FILE.",
			Flags: command.WithCommon(), Action: sayFinished},
		{Name: "signal", Usage: "send a signal to the processes of running jobs",
			ArgsUsage: "JOB|JOB.STEP... --signal SIGNAL [--to script|programs]",
			Description: "The signal is sent once, and the job is not asked to stop. For an array, all running tasks get it. " +
				"123.0 is the first step that srun has started in job 123: KILL ends that step.",
			Flags: command.WithCommon(
				command.Text("signal,s", "`SIGNAL` such as USR1, SIGUSR1 or 10"),
				command.Text("to", "of a shell script, signal only this `PART`: script is the shell, programs are the processes "+
					"that the shell runs (default: both)"),
			), Action: signalJobs, Arguments: complete.Jobs(model.Running),
			Values: map[string]command.Source{"to": complete.Words("script", "programs")}},
		{Name: "update", Usage: "change the time limit, priority, name or comment of jobs",
			ArgsUsage: "[JOB...] --time T | --priority N | --name NAME | --comment TEXT", OwnJob: true,
			Description: "--time +2h and --time -30m change the limit by that much; --time 4h sets it. The limit of a running " +
				"job counts from the start of\nthe current attempt. For an array only tasks that have not started are changed.",
			Action: updateJobs, Flags: command.WithCommon(
				command.Text("time,t", "set the time limit to `T`, or change it by +T or -T"),
				command.Number("priority", "set the priority to `N`, 0 to 100"),
				command.Text("name,J", "rename the job to `NAME`, if it has not started"),
				command.Text("comment", "show `TEXT` with the job; \"\" removes the comment"),
			), Arguments: complete.Jobs()},
		{Name: "array", Usage: "keep the best tasks of an array and cancel the others",
			ArgsUsage: "prune JOB --metric NAME --keep \"top 25%\"",
			Description: "Tasks are compared by the latest value of a metric that they report ($ROTA_PROGRESS_FILE).\n" +
				"Tasks that have not reported it are not touched.",
			Action: pruneArray, Flags: command.WithCommon(
				command.Text("metric", "compare by `NAME`"),
				command.Text("keep", "how many tasks to keep: `COUNT` such as \"top 25%\" or \"top 4\""),
				&cli.StringFlag{Name: "goal", Usage: "whether the best value is the `min` or the max", Value: "min"},
				command.Number("at-step", "ignore tasks that have not reached step `N`"),
				command.Switch("dry-run", "show what would be cancelled, and cancel nothing"),
			), Arguments: complete.Subcommand(complete.Words("prune"), complete.Jobs()),
			Values: map[string]command.Source{"goal": complete.Words("min", "max")}},
	})
}

// controlJobs returns the action of a command that does the same to each of its jobs.
func controlJobs(done string, verb model.Verb) func(*command.Env, *cli.Context) error {
	return func(env *command.Env, c *cli.Context) error {
		session, refs, err := env.ConnectForJobs(c)
		if err != nil {
			return err
		}
		return session.ForEach(refs, "job", done, func(ref string) (*api.ControlResponse, error) {
			return session.Control(c.Context, ref, verb, c.String("reason"))
		})
	}
}

func cancelJobs(env *command.Env, c *cli.Context) error {
	request, err := cancelRequest(env, c)
	if err != nil {
		return err
	}
	session, err := env.Connect(c)
	if err != nil {
		return err
	}
	if len(request.Refs) > 0 {
		return session.ForEach(request.Refs, "job", "cancelled", func(ref string) (*api.ControlResponse, error) {
			return session.Control(c.Context, ref, model.VerbCancel, request.Reason)
		})
	}
	resp, err := session.CancelMany(c.Context, request)
	if err != nil {
		return err
	}
	return session.PrintOutcome(resp, "job", "cancelled")
}

func cancelRequest(env *command.Env, c *cli.Context) (api.CancelRequest, error) {
	if err := command.RefuseEmpty(c, "user", "account", "name", "states"); err != nil {
		return api.CancelRequest{}, err
	}
	refs, err := command.JobRefs(c.Args().Slice())
	if err != nil {
		return api.CancelRequest{}, err
	}
	r := api.CancelRequest{Refs: refs, Account: c.String("account"), Name: c.String("name"),
		States: command.SplitList(c.String("states")), Reason: c.String("reason")}
	if r.User, err = env.SelectedUser(c); err != nil {
		return r, err
	}
	filtered := strings.Join(append(r.States, r.User, r.Account, r.Name), "") != ""
	if len(refs) > 0 && filtered {
		return r, exit.Usagef("job ids and a filter exclude each other: rota cancel %s", c.Command.ArgsUsage)
	}
	if len(refs) == 0 && !filtered {
		return r, exit.Usagef("no job or filter given: rota cancel %s", c.Command.ArgsUsage)
	}
	return r, nil
}
