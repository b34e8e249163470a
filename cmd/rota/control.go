package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/cluster"
)

// controlCommands are those that change jobs.
func (w *world) controlCommands() []*Command {
	reason := func() []cli.Flag {
		return append([]cli.Flag{&cli.StringFlag{Name: "reason", Usage: "say why with `TEXT`"}}, commonFlags()...)
	}
	return inCategory("Change", []*Command{

		{Command: &cli.Command{Name: "cancel", Usage: "stop jobs for good", ArgsUsage: "JOB... | --me | -u USER | -A ACCOUNT [-t STATES] [-n NAME]", Action: w.cancel,
			Description: "With ids, those jobs. With options, every waiting or running job that matches all of them and that you may cancel.",
			Flags: with([]cli.Flag{
				&cli.BoolFlag{Name: "me", Usage: "all my jobs"},
				&cli.StringFlag{Name: "user", Aliases: []string{"u"}, Usage: "jobs of `USER`"},
				&cli.StringFlag{Name: "account", Aliases: []string{"A"}, Usage: "jobs of `ACCOUNT`"},
				&cli.StringFlag{Name: "name", Aliases: []string{"n"}, Usage: "jobs called `NAME`"},
				&cli.StringFlag{Name: "states", Aliases: []string{"t", "state"}, Usage: "jobs in `STATES`, such as PD"},
			}, reason())}, Arguments: CompleteJobs(), Values: map[string]Source{"name": CompleteJobNames}},
		{Command: &cli.Command{Name: "hold", Usage: "keep waiting jobs from starting", ArgsUsage: "JOB...", Flags: reason(),
			Action: w.control("held", cluster.VerbHold)}, Arguments: CompleteJobs(cluster.Pending)},
		{Command: &cli.Command{Name: "release", Usage: "let held jobs start", ArgsUsage: "JOB...", Flags: reason(),
			Action: w.control("released", cluster.VerbRelease)}, Arguments: CompleteJobs(cluster.Pending)},
		{Command: &cli.Command{Name: "requeue", Usage: "stop running jobs and let them wait again", ArgsUsage: "JOB...", Flags: reason(),
			Action: w.control("requeued", cluster.VerbRequeue)}, Arguments: CompleteJobs()},
		{Command: &cli.Command{Name: "update", Usage: "change the time limit, priority or name of jobs", ArgsUsage: "JOB... --time T | --priority N | --name NAME",
			Description: "--time +2h and --time -30m add to the limit and take away from it; --time 4h sets it. A running job's own attempt counts.\n" +
				"Of an array it counts for what has not begun.",
			Action: w.update, Flags: with([]cli.Flag{
				&cli.StringFlag{Name: "time", Aliases: []string{"t"}, Usage: "set the time limit to `T`, or add +T or -T to it"},
				&cli.IntFlag{Name: "priority", Usage: "set the priority to `N`, 0 to 100"},
				&cli.StringFlag{Name: "name", Aliases: []string{"J"}, Usage: "call it `NAME`, while nothing of it has begun"},
			}, commonFlags())}, Arguments: CompleteJobs()},
		{Command: &cli.Command{Name: "resubmit", Usage: "submit again what failed or was cancelled", ArgsUsage: "JOB --failed | --cancelled", Action: w.resubmit,
			Description: "Of an array only those elements are submitted, as a new array with the same parameters.",
			Flags: with([]cli.Flag{
				&cli.BoolFlag{Name: "failed", Usage: "what ended in any way but well or cancelled"},
				&cli.BoolFlag{Name: "cancelled", Usage: "what was cancelled"},
				&cli.BoolFlag{Name: "parsable", Usage: "print the id alone"},
			}, commonFlags())}, Arguments: CompleteAllJobs},
		{Command: &cli.Command{Name: "array", Usage: "keep the best elements of an array and cancel the others", ArgsUsage: "prune JOB --metric NAME --keep \"top 25%\"",
			Description: "Elements are compared by the newest value of the metric that they have reported ($ROTA_PROGRESS_FILE).\n" +
				"Those that have reported none are left alone.",
			Action: w.array, Flags: with([]cli.Flag{
				&cli.StringFlag{Name: "metric", Usage: "compare by `NAME`"},
				&cli.StringFlag{Name: "keep", Usage: "how many go on: \"top 25%\" or \"top 4\""},
				&cli.StringFlag{Name: "goal", Usage: "`min` or max: which value is the best", Value: "min"},
				&cli.IntFlag{Name: "at-step", Usage: "leave alone what has not come to step `N`"},
				&cli.BoolFlag{Name: "dry-run", Usage: "only say what would be cancelled"},
			}, commonFlags())}, Arguments: CompleteSubcommand(CompleteWords("prune"), CompleteJobs()), Values: map[string]Source{"goal": CompleteWords("min", "max")}},
	})
}

// control is the action of a command that does one thing to each of its jobs.
func (w *world) control(done string, verb cluster.Verb) cli.ActionFunc {
	return func(c *cli.Context) error {
		asJSON, err := w.plainOrJSON(c)
		if err != nil {
			return err
		}
		refs, err := someJobs(c)
		if err != nil {
			return err
		}
		client, err := w.dial(c)
		if err != nil {
			return err
		}
		return w.forEach(refs, "job", done, asJSON, func(ref string) (*api.ControlResponse, error) {
			return client.Control(c.Context, ref, verb, c.String("reason"))
		})
	}
}

// forEach does something to each job, or whatever noun says, goes on after refusals, prints them, and fails with the last one's code.
func (w *world) forEach(refs []string, noun, done string, asJSON bool, do func(string) (*api.ControlResponse, error)) error {
	all := api.ControlResponse{Items: []api.ControlItem{}}
	var names []string
	for _, ref := range refs {
		resp, err := do(ref)
		var p *api.Problem
		switch {
		case err != nil && !errors.As(err, &p):
			return err
		case err != nil:
			all.Items = append(all.Items, api.ControlItem{Ref: ref, Error: p})
		default:
			all.Items = append(all.Items, resp.Items...)
		}
		for len(names) < len(all.Items) {
			names = append(names, ref)
		}
	}
	for i := range all.Items {
		all.Items[i].Ref = names[i]
	}
	return w.controlled(&all, noun, done, asJSON)
}

// controlled prints what became of each.
func (w *world) controlled(resp *api.ControlResponse, noun, done string, asJSON bool) error {
	if asJSON {
		if err := printJSON(w.stdout, resp); err != nil {
			return err
		}
	}
	good, code := 0, exitOK
	for _, item := range resp.Items {
		if item.Error == nil {
			good++
			continue
		}
		code = max(code, problemCode(item.Error))
		if !asJSON {
			w.printError(false, about(noun+" "+cmp.Or(item.Ref, idText(item.ID)), item.Error))
		}
	}
	if !asJSON && (good > 0 || code == exitOK) {
		fmt.Fprintf(w.stdout, "%d %s\n", good, done)
	}
	if code != exitOK {
		return &codeError{code: code}
	}
	return nil
}

// about puts before an error what it is about, unless it says so itself.
func about(subject string, err error) error {
	_, rest, found := strings.Cut(strings.ReplaceAll(err.Error(), `"`, ""), subject)
	if found && (rest == "" || strings.ContainsAny(rest[:1], " ,:;")) {
		return err
	}
	return fmt.Errorf("%s: %w", subject, err)
}

// aboutSpec is about for a job that has no number yet.
func aboutSpec(verb, name string, err error) error {
	if strings.HasPrefix(err.Error(), fmt.Sprintf("job %q: ", name)) {
		return err
	}
	return fmt.Errorf("%s %s: %w", verb, name, err)
}

func (w *world) cancel(c *cli.Context) error {
	asJSON, err := w.plainOrJSON(c)
	if err != nil {
		return err
	}
	request, err := w.cancelRequest(c)
	if err != nil {
		return err
	}
	client, err := w.dial(c)
	if err != nil {
		return err
	}
	if len(request.Refs) > 0 {
		return w.forEach(request.Refs, "job", "cancelled", asJSON, func(ref string) (*api.ControlResponse, error) {
			return client.Control(c.Context, ref, cluster.VerbCancel, request.Reason)
		})
	}
	resp, err := client.CancelMany(c.Context, request)
	if err != nil {
		return err
	}
	return w.controlled(resp, "job", "cancelled", asJSON)
}

func (w *world) cancelRequest(c *cli.Context) (api.CancelRequest, error) {
	if err := notEmpty(c, "user", "account", "name", "states"); err != nil {
		return api.CancelRequest{}, err
	}
	refs, err := jobRefs(c.Args().Slice())
	if err != nil {
		return api.CancelRequest{}, err
	}
	r := api.CancelRequest{Refs: refs, User: c.String("user"), Account: c.String("account"), Name: c.String("name"),
		States: splitList(c.String("states")), Reason: c.String("reason")}
	if c.Bool("me") {
		if r.User, err = w.currentUser(); err != nil {
			return r, err
		}
	}
	filtered := strings.Join(append(r.States, r.User, r.Account, r.Name), "") != ""
	if len(refs) > 0 && filtered {
		return r, usagef("give job ids or a filter, not both: rota cancel %s", c.Command.ArgsUsage)
	}
	if len(refs) == 0 && !filtered {
		return r, usagef("which jobs? rota cancel %s", c.Command.ArgsUsage)
	}
	return r, nil
}

// interruptible is ctx that ends with errInterrupted when the user presses Ctrl-C.
func interruptible(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
			cancel(errInterrupted)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}
