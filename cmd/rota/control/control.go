// Package control has the commands that change jobs: cancel, hold, release, requeue, update and
// array.
package control

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/complete"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
)

// Commands returns the commands of this package.
func Commands(env *command.Env) []*command.Command {
	reason := func() []cli.Flag {
		return append([]cli.Flag{&cli.StringFlag{Name: "reason", Usage: "record `TEXT` as the reason"}},
			command.CommonFlags()...)
	}
	return command.InCategory("Change", []*command.Command{

		{Command: &cli.Command{Name: "cancel", Usage: "cancel jobs",
			ArgsUsage: "JOB... | --me | -u USER | -A ACCOUNT [-t STATES] [-n NAME]", Action: env.Action(cancelJobs),
			Description: "With ids, cancels those jobs. With options, cancels every pending or running job that matches all " +
				"options and that you may cancel.",
			Flags: slices.Concat([]cli.Flag{
				&cli.BoolFlag{Name: "me", Usage: "all of your jobs"},
				&cli.StringFlag{Name: "user", Aliases: []string{"u"}, Usage: "jobs of `USER`"},
				&cli.StringFlag{Name: "account", Aliases: []string{"A"}, Usage: "jobs of `ACCOUNT`"},
				&cli.StringFlag{Name: "name", Aliases: []string{"n"}, Usage: "jobs with `NAME`"},
				&cli.StringFlag{Name: "states", Aliases: []string{"t", "state"}, Usage: "jobs in `STATES`, such as PD"},
			}, reason())}, Arguments: complete.Jobs(), Values: map[string]command.Source{"name": complete.JobNames}},
		{Command: &cli.Command{Name: "hold", Usage: "hold pending jobs, so that they do not start", ArgsUsage: "JOB...",
			Flags:  reason(),
			Action: controlJobs(env, "held", cluster.VerbHold)}, Arguments: complete.Jobs(cluster.Pending)},
		{Command: &cli.Command{Name: "release", Usage: "release held jobs", ArgsUsage: "JOB...", Flags: reason(),
			Action: controlJobs(env, "released", cluster.VerbRelease)}, Arguments: complete.Jobs(cluster.Pending)},
		{Command: &cli.Command{Name: "requeue", Usage: "stop running jobs and put them back into the queue",
			ArgsUsage: "JOB...", Flags: reason(),
			Action: controlJobs(env, "requeued", cluster.VerbRequeue)}, Arguments: complete.Jobs()},
		{Command: &cli.Command{Name: "update", Usage: "change the time limit, priority or name of jobs",
			ArgsUsage: "JOB... --time T | --priority N | --name NAME",
			Description: "--time +2h and --time -30m change the limit by that much; --time 4h sets it. For a running job " +
				"the current attempt counts.\n" +
				"For an array only tasks that have not started are changed.",
			Action: env.Action(updateJobs), Flags: slices.Concat([]cli.Flag{
				&cli.StringFlag{Name: "time", Aliases: []string{"t"}, Usage: "set the time limit to `T`, or change it by +T or -T"},
				&cli.IntFlag{Name: "priority", Usage: "set the priority to `N`, 0 to 100"},
				&cli.StringFlag{Name: "name", Aliases: []string{"J"}, Usage: "rename the job to `NAME`, if it has not started"},
			}, command.CommonFlags())}, Arguments: complete.Jobs()},
		{Command: &cli.Command{Name: "array", Usage: "keep the best tasks of an array and cancel the others",
			ArgsUsage: "prune JOB --metric NAME --keep \"top 25%\"",
			Description: "Tasks are compared by the latest value of a metric that they report ($ROTA_PROGRESS_FILE).\n" +
				"Tasks that have not reported it are not touched.",
			Action: env.Action(pruneArray), Flags: slices.Concat([]cli.Flag{
				&cli.StringFlag{Name: "metric", Usage: "compare by `NAME`"},
				&cli.StringFlag{Name: "keep", Usage: "how many tasks to keep: `COUNT` such as \"top 25%\" or \"top 4\""},
				&cli.StringFlag{Name: "goal", Usage: "whether the best value is the `min` or the max", Value: "min"},
				&cli.IntFlag{Name: "at-step", Usage: "ignore tasks that have not reached step `N`"},
				&cli.BoolFlag{Name: "dry-run", Usage: "show what would be cancelled, and cancel nothing"},
			}, command.CommonFlags())}, Arguments: complete.Subcommand(complete.Words("prune"), complete.Jobs()),
			Values: map[string]command.Source{"goal": complete.Words("min", "max")}},
	})
}

// controlJobs returns the action of a command that does the same to each of its jobs.
func controlJobs(env *command.Env, done string, verb cluster.Verb) cli.ActionFunc {
	return func(c *cli.Context) error {
		asJSON, err := env.PlainOrJSON(c)
		if err != nil {
			return err
		}
		refs, err := command.JobArguments(c)
		if err != nil {
			return err
		}
		client, err := env.Dial(c)
		if err != nil {
			return err
		}
		return env.ForEach(refs, "job", done, asJSON, func(ref string) (*api.ControlResponse, error) {
			return client.Control(c.Context, ref, verb, c.String("reason"))
		})
	}
}

func cancelJobs(env *command.Env, c *cli.Context) error {
	asJSON, err := env.PlainOrJSON(c)
	if err != nil {
		return err
	}
	request, err := cancelRequest(env, c)
	if err != nil {
		return err
	}
	client, err := env.Dial(c)
	if err != nil {
		return err
	}
	if len(request.Refs) > 0 {
		return env.ForEach(request.Refs, "job", "cancelled", asJSON, func(ref string) (*api.ControlResponse, error) {
			return client.Control(c.Context, ref, cluster.VerbCancel, request.Reason)
		})
	}
	resp, err := client.CancelMany(c.Context, request)
	if err != nil {
		return err
	}
	return env.PrintOutcome(resp, "job", "cancelled", asJSON)
}

func cancelRequest(env *command.Env, c *cli.Context) (api.CancelRequest, error) {
	if err := command.RefuseEmpty(c, "user", "account", "name", "states"); err != nil {
		return api.CancelRequest{}, err
	}
	refs, err := command.JobRefs(c.Args().Slice())
	if err != nil {
		return api.CancelRequest{}, err
	}
	r := api.CancelRequest{Refs: refs, User: c.String("user"), Account: c.String("account"), Name: c.String("name"),
		States: command.SplitList(c.String("states")), Reason: c.String("reason")}
	if c.Bool("me") {
		if r.User, err = env.CurrentUser(); err != nil {
			return r, err
		}
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
