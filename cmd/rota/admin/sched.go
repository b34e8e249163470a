package admin

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/complete"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
)

// pausable are the parts of scheduling that can be paused.
var pausable = []string{"preemption", "growth", "migration", "slicing", "packing", "all"}

func schedCommand() *command.Command {
	return &command.Command{Name: "sched", Usage: "pause parts of scheduling, or only record which jobs would be " +
		"displaced",
		ArgsUsage: "status | pause [PART] [--reason TEXT] | resume [PART] | dry-run on|off [--reason TEXT]",
		Action:    steerScheduler,
		Description: "PART is one of these; without it, pause and resume mean all:\n" +
			"  preemption  no job has to leave, move or give up workers for another job, be it for a trial-and-error\n" +
			"              job, a quota or the service order\n" +
			"  growth      elastic jobs keep their size, unless they give up workers for another job\n" +
			"  migration   no job moves to other nodes to run better there, to make room for a larger job, or to even out " +
			"nodes\n" +
			"  slicing     no job is suspended so that jobs take turns; suspended jobs resume where there is room\n" +
			"  packing     no further jobs share a GPU\n" +
			"  all         nothing starts, no room is reserved, and none of the above happens. Running jobs continue until\n" +
			"              they end, reach their time limit, are cancelled or lose their node; new jobs wait\n" +
			"Jobs that have already been asked to leave still do so. resume all ends every pause, but leaves a dry run on.\n" +
			"During a dry run no job leaves, moves or gives up workers for another one. Each displacement that the dry run\n" +
			"prevents is recorded once: as an event (rota events --type would-preempt), in rota sched status and in rota " +
			"why.\n" +
			"rota cluster and rota why show what is paused. Every user may see status, but only operators its list of jobs.\n" +
			"The other commands are for operators.",
		Flags: command.WithCommon(command.Text("reason", "record `TEXT` as the reason")),
		Arguments: complete.Subcommand(complete.Words("status", "pause", "resume", "dry-run"),
			complete.Words(append(slices.Clone(pausable), "on", "off")...))}
}

// steerScheduler shows or changes what operators have told the scheduler.
func steerScheduler(env *command.Env, c *cli.Context) error {
	req, err := schedRequest(c)
	if err != nil {
		return err
	}
	session, err := env.Connect(c)
	if err != nil {
		return err
	}
	if req == nil {
		return showSched(env, c, session)
	}
	now, err := session.Steer(c.Context, *req)
	if err != nil {
		return err
	}
	if session.AsJSON {
		return table.PrintJSON(env.Stdout, now)
	}
	printSettings(env, now.Settings, c.Bool("utc"))
	return nil
}

// schedRequest returns what the arguments ask for, nil for the status.
func schedRequest(c *cli.Context) (*api.SchedRequest, error) {
	verb, rest := c.Args().First(), c.Args().Tail()
	usage := exit.Usagef("rota sched %s", c.Command.ArgsUsage)
	if verb != "pause" && verb != "dry-run" {
		if err := command.RefuseFlags(c, "rota sched pause and dry-run on", "reason"); err != nil {
			return nil, err
		}
	}
	if len(rest) > 1 {
		return nil, usage
	}
	word := strings.Join(rest, "")
	switch verb {
	case "", "status":
		if word != "" {
			return nil, usage
		}
		return nil, nil
	case "pause", "resume":
		word = cmp.Or(word, "all")
		if !slices.Contains(pausable, word) {
			return nil, exit.Usagef("%q is not a part of scheduling: write one of %s", word, strings.Join(pausable, ", "))
		}
		return &api.SchedRequest{What: word, On: verb == "pause", Reason: c.String("reason")}, nil
	case "dry-run":
		if word != "on" && word != "off" {
			return nil, exit.Usagef("rota sched dry-run on|off [--reason TEXT]")
		}
		if word == "off" {
			if err := command.RefuseFlags(c, "rota sched pause and dry-run on", "reason"); err != nil {
				return nil, err
			}
		}
		return &api.SchedRequest{What: "dry-run", On: word == "on", Reason: c.String("reason")}, nil
	}
	return nil, usage
}

// schedShown is the JSON of rota sched status.
type schedShown struct {
	*api.Sched
	Displacements []api.Displacement `json:"displacements,omitempty"`
}

// showSched prints what is on. The list of jobs is for operators: it is left out for other users.
func showSched(env *command.Env, c *cli.Context, session *command.Session) error {
	now, answer, err := session.Sched(c.Context)
	if err != nil {
		return err
	}
	shown := schedShown{Sched: now}
	list, err := session.Displacements(c.Context)
	var p *api.Problem
	switch {
	case err == nil:
		shown.Displacements = list.Items
	case !errors.As(err, &p) || p.Code != api.CodeDenied:
		return err
	}
	env.WarnStale(answer)
	if session.AsJSON {
		return table.PrintJSON(env.Stdout, shown)
	}
	printSettings(env, now.Settings, c.Bool("utc"))
	for _, d := range shown.Displacements {
		fmt.Fprintf(env.Stdout, "  %s  %s\n", show.Time(d.Since, c.Bool("utc")), show.Displacement(d))
	}
	return nil
}

func printSettings(env *command.Env, settings []api.SchedSetting, utc bool) {
	if len(settings) == 0 {
		fmt.Fprintln(env.Stdout, "nothing is paused")
	}
	for _, s := range settings {
		fmt.Fprintln(env.Stdout, show.Steering(s, utc))
	}
}
