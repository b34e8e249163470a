package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/replay"
	"github.com/rota-hpc/rota/controld/replay/datadir"
)

// logFlags are the options that go with --from-log.
var logFlags = []string{"from-log", "cluster", "no-cache"}

// checkLogFlags refuses options that say nothing about a log, and those of a log without one.
func checkLogFlags(c *cli.Context) error {
	fromLog := c.IsSet("from-log")
	for _, f := range simFlags() {
		name := f.Names()[0]
		ofLog := slices.Contains(logFlags, name)
		switch {
		case !c.IsSet(name) || ofLog == fromLog:
		case fromLog:
			return exit.Usagef("--%s cannot be combined with --from-log: nodes, jobs and policy are those of the log", name)
		default:
			return exit.Usagef("--%s needs --from-log", name)
		}
	}
	if fromLog && c.NArg() > 0 {
		return exit.Usagef("unexpected argument %q: --from-log names one directory", c.Args().First())
	}
	if fromLog && c.String("from-log") == "" {
		return exit.Usagef("--from-log is empty: name the data directory of a controller")
	}
	return nil
}

// replayLog runs rota sim --from-log.
func replayLog(env *command.Env, c *cli.Context) error {
	form, err := env.Format(c, table.AsTable, table.JSON)
	if err != nil {
		return err
	}
	ctx, cancel := command.Interruptible(c.Context)
	defer cancel()
	dir := c.String("from-log")
	report, err := datadir.Replay(dir, datadir.Options{
		Cluster: c.String("cluster"), Cache: !c.Bool("no-cache"), Stopped: func() bool { return ctx.Err() != nil },
	})
	if errors.Is(context.Cause(ctx), exit.ErrInterrupted) {
		return &exit.CodeError{Code: exit.Interrupted, Text: "interrupted: the log was not replayed to its end"}
	}
	if err != nil {
		return fmt.Errorf("replay %s: %w", dir, err)
	}
	if form == table.JSON {
		err = table.PrintJSON(env.Stdout, report)
	} else {
		err = printReplay(env, report)
	}
	if err == nil && !report.Same() {
		return exit.WithCode(exit.Failed)
	}
	return err
}

func printReplay(env *command.Env, r *replay.Report) error {
	cache := "one cycle cache for all"
	if !r.Cache {
		cache = "an empty cycle cache for each"
	}
	fmt.Fprintf(env.Stdout, "cluster %s, index %d to %d: %s and %s replayed, with %s\n", r.Cluster, r.From, r.To,
		show.Count(r.Commands, "command", "commands"), show.Count(r.Plans, "plan", "plans"), cache)
	t := table.New("PLANS", ">NUMBER")
	for _, row := range []struct {
		name string
		n    int
	}{
		{"identical", r.Identical}, {"differing", r.Differing}, {"other versions", r.OtherVersion},
		{"out of reach", r.OutOfReach},
	} {
		t.Add(row.name, fmt.Sprint(row.n))
	}
	if err := t.Print(env.Stdout, table.Wide, true); err != nil {
		return err
	}
	if r.Snapshots > 0 {
		fmt.Fprintf(env.Stdout, "%s compared with the state that the log makes\n",
			show.Count(r.Snapshots, "snapshot was", "snapshots were"))
	}
	if r.First != nil {
		fmt.Fprintf(env.Stdout, "first difference: %s\n", r.First)
	}
	if r.State != "" {
		fmt.Fprintln(env.Stdout, r.State)
	}
	return nil
}
