package control

import (
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model/ranges"
)

// pruneArray implements rota array prune.
func pruneArray(env *command.Env, c *cli.Context) error {
	if c.Args().Len() != 2 || c.Args().First() != "prune" {
		return exit.Usagef("rota array %s", c.Command.ArgsUsage)
	}
	refs, err := command.JobRefs([]string{c.Args().Get(1)})
	if err != nil {
		return err
	}
	req := api.PruneRequest{Metric: c.String("metric"), Keep: c.String("keep"), Goal: c.String("goal"),
		AtStep: int64(c.Int("at-step")), DryRun: c.Bool("dry-run")}
	if req.Metric == "" || req.Keep == "" {
		return exit.Usagef("--metric and --keep are required: rota array %s", c.Command.ArgsUsage)
	}
	session, err := env.Connect(c)
	if err != nil {
		return err
	}
	resp, err := session.Prune(c.Context, refs[0], req)
	if err != nil {
		return err
	}
	if session.AsJSON {
		return table.PrintJSON(env.Stdout, resp)
	}
	verb := "cancelled"
	if req.DryRun {
		verb = "would be cancelled"
	}
	fmt.Fprintf(env.Stdout, "kept: %s\n%s: %s\n", indexList(resp.Kept), verb, indexList(resp.Cancelled))
	if len(resp.Silent) > 0 {
		fmt.Fprintf(env.Stdout, "not pruned, because they have not reported %s yet: %s\n", req.Metric, indexList(resp.Silent))
	}
	return nil
}

// indexList writes indices with ranges.
func indexList(indices []int) string {
	if len(indices) == 0 {
		return "none"
	}
	indices = slices.Sorted(slices.Values(indices))
	var r ranges.Ranges
	for _, n := range indices {
		r = r.With(ranges.Span(n, n))
	}
	return r.String()
}
