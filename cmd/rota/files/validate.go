package files

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/input"
	"github.com/rota-hpc/rota/cmd/rota/table"
)

// validate checks all files, and fails if any is invalid.
func validate(env *command.Env, c *cli.Context) error {
	asJSON, err := env.PlainOrJSON(c)
	if err != nil {
		return err
	}
	if c.Args().Len() == 0 {
		return exit.Usagef("no job file given: rota validate %s", c.Command.ArgsUsage)
	}
	bad := 0
	for _, name := range c.Args().Slice() {
		if err := validateOne(env, name, c, asJSON); err != nil {
			bad++
			env.PrintError(asJSON, err)
		}
	}
	if bad > 0 {
		return exit.WithCode(exit.Usage)
	}
	return nil
}

func validateOne(env *command.Env, name string, c *cli.Context, asJSON bool) error {
	read, err := input.ReadFile(env, name, c)
	if err != nil {
		return err
	}
	if asJSON {
		value, err := shownJob(read)
		if err != nil {
			return err
		}
		return table.PrintJSON(env.Stdout, value)
	}
	_, err = fmt.Fprintf(env.Stdout, "%s: ok, job %s\n", name, read.Job.Name)
	return err
}
