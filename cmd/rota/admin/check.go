package admin

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
)

// checkState ends with exit code 0 if all invariants hold, otherwise with 1 and the list of
// violations.
func checkState(env *command.Env, c *cli.Context) error {
	if err := command.RefuseArguments(c); err != nil {
		return err
	}
	session, err := env.Connect(c)
	if err != nil {
		return err
	}
	check, answer, err := session.Check(c.Context)
	if err != nil {
		return err
	}
	env.WarnStale(answer)
	if session.AsJSON {
		if err := table.PrintJSON(env.Stdout, check); err != nil {
			return err
		}
	} else {
		printCheck(env, check)
	}
	if !check.OK {
		return exit.WithCode(exit.Failed)
	}
	return nil
}

func printCheck(env *command.Env, check *api.Check) {
	if check.OK {
		fmt.Fprintf(env.Stdout, "ok: all invariants hold at index %d\n", check.Index)
		return
	}
	for _, v := range check.Violations {
		fmt.Fprintln(env.Stdout, v)
	}
	env.Notef("%s at index %d", show.Count(len(check.Violations), "invariant does not hold",
		"invariants do not hold"), check.Index)
}
