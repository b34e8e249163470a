package main

import (
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
func (w *world) controlCommands() []*cli.Command {
	reason := func() []cli.Flag {
		return append([]cli.Flag{&cli.StringFlag{Name: "reason", Usage: "say why with `TEXT`"}}, commonFlags()...)
	}
	return inCategory("Change", []*cli.Command{
		{Name: "cancel", Usage: "stop jobs for good", ArgsUsage: "JOB... | --me | -u USER | -A ACCOUNT [-t STATES] [-n NAME]", Action: w.cancel,
			Description: "With ids, those jobs. With options, every waiting or running job that matches all of them and that you may cancel.",
			Flags: with([]cli.Flag{
				&cli.BoolFlag{Name: "me", Usage: "all my jobs"},
				&cli.StringFlag{Name: "user", Aliases: []string{"u"}, Usage: "jobs of `USER`"},
				&cli.StringFlag{Name: "account", Aliases: []string{"A"}, Usage: "jobs of `ACCOUNT`"},
				&cli.StringFlag{Name: "name", Aliases: []string{"n"}, Usage: "jobs called `NAME`"},
				&cli.StringFlag{Name: "states", Aliases: []string{"t", "state"}, Usage: "jobs in `STATES`, such as PD"},
			}, reason())},
		{Name: "hold", Usage: "keep waiting jobs from starting", ArgsUsage: "JOB...", Flags: reason(),
			Action: w.control("held", (*api.Client).Hold)},
		{Name: "release", Usage: "let held jobs start", ArgsUsage: "JOB...", Flags: reason(),
			Action: w.control("released", (*api.Client).Release)},
		{Name: "requeue", Usage: "stop running jobs and let them wait again", ArgsUsage: "JOB...", Flags: reason(),
			Action: w.control("requeued", (*api.Client).Requeue)},
	})
}

// control is the action of a command that does one thing to each of its jobs.
func (w *world) control(done string, do func(*api.Client, context.Context, cluster.JobID, string) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		asJSON, err := w.plainOrJSON(c)
		if err != nil {
			return err
		}
		ids, err := someJobs(c)
		if err != nil {
			return err
		}
		client, err := w.dial(c)
		if err != nil {
			return err
		}
		return w.forEach(ids, done, asJSON, func(id cluster.JobID) error { return do(client, c.Context, id, c.String("reason")) })
	}
}

// forEach does something to each job, goes on after refusals, prints them, and fails with the last one's code.
func (w *world) forEach(ids []cluster.JobID, done string, asJSON bool, do func(cluster.JobID) error) error {
	resp := api.ControlResponse{Items: []api.ControlItem{}}
	for _, id := range ids {
		err := do(id)
		var p *api.Problem
		if err != nil && !errors.As(err, &p) {
			return err
		}
		resp.Items = append(resp.Items, api.ControlItem{ID: id, Error: p})
	}
	return w.controlled(&resp, done, asJSON)
}

// controlled prints what became of each job.
func (w *world) controlled(resp *api.ControlResponse, done string, asJSON bool) error {
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
			w.printError(false, fmt.Errorf("job %d: %w", item.ID, item.Error))
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
	if len(request.IDs) > 0 {
		return w.forEach(request.IDs, "cancelled", asJSON, func(id cluster.JobID) error { return client.Cancel(c.Context, id, request.Reason) })
	}
	resp, err := client.CancelMany(c.Context, request)
	if err != nil {
		return err
	}
	return w.controlled(resp, "cancelled", asJSON)
}

func (w *world) cancelRequest(c *cli.Context) (api.CancelRequest, error) {
	ids, err := jobIDs(c.Args().Slice())
	if err != nil {
		return api.CancelRequest{}, err
	}
	r := api.CancelRequest{IDs: ids, User: c.String("user"), Account: c.String("account"), Name: c.String("name"),
		States: splitList(c.String("states")), Reason: c.String("reason")}
	if c.Bool("me") {
		if r.User, err = w.currentUser(); err != nil {
			return r, err
		}
	}
	filtered := strings.Join(append(r.States, r.User, r.Account, r.Name), "") != ""
	if len(ids) > 0 && filtered {
		return r, usagef("give job ids or a filter, not both: rota cancel %s", c.Command.ArgsUsage)
	}
	if len(ids) == 0 && !filtered {
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
