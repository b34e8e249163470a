package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/cmd/rota/terminal/progress"
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
		return exit.Usagef("--from-log is empty: give the data directory of a controller")
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
	var from, at, to atomic.Uint64
	line := progress.Show(env.Stderr, progress.Task{What: "replaying", Unit: "entries", Done: func() (int64, int64) {
		return int64(at.Load() - from.Load()), int64(to.Load() - from.Load())
	}})
	report, err := datadir.Replay(dir, datadir.Options{
		Cluster: c.String("cluster"), Cache: !c.Bool("no-cache"), Stopped: func() bool { return ctx.Err() != nil },
		Reached: func(index, last uint64) {
			from.CompareAndSwap(0, index)
			at.Store(index)
			to.Store(last)
		},
	})
	line.Stop()
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
	screen := env.Screen()
	out := show.Fold(env.Stdout, screen.Width)
	cache := "one cycle cache for all plans"
	if !r.Cache {
		cache = "an empty cycle cache for each plan"
	}
	fmt.Fprintf(out, "cluster %s, index %d to %d: %s and %s replayed, with %s\n", r.Cluster, r.From, r.To,
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
	if err := t.Print(out, screen, table.AsTable, true); err != nil {
		return err
	}
	if r.Snapshots > 0 {
		fmt.Fprintf(out, "%s compared with the state that the log yields\n",
			show.Count(r.Snapshots, "snapshot was", "snapshots were"))
	}
	if r.First != nil {
		fmt.Fprintf(out, "first difference: %s\n", r.First)
	}
	if r.State != "" {
		fmt.Fprintln(out, r.State)
	}
	return nil
}
