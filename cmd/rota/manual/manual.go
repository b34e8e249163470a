// Package manual has the commands that describe rota itself: help, version, completion, and the
// pages of the manual.
package manual

import (
	"fmt"
	"runtime"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/complete"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
)

// Commands returns the commands of this package. all has the commands of the other groups.
func Commands(all []*command.Command) []*command.Command {
	own := command.InCategory("Other", []*command.Command{
		{Name: "completion", Usage: "print the completion script of a shell",
			ArgsUsage: "bash|zsh|fish", Action: printCompletion,
			Description: "bash: eval \"$(rota completion bash)\"    zsh: the same with zsh    fish: rota completion fish | " +
				"source", Arguments: completeShells},
		{Name: "version", Usage: "print the version", Action: showVersion,
			Flags: command.CommonFlags()},
		{Name: "help", Aliases: []string{"h"}, Usage: "list the commands, or describe one",
			ArgsUsage: "[COMMAND]", Arguments: complete.Commands,
			Action: func(env *command.Env, c *cli.Context) error { return showHelp(env, c, all) }},
		{Name: "man", Hidden: true, Usage: "write the manual pages", ArgsUsage: "DIR",
			Action: func(_ *command.Env, c *cli.Context) error { return writeManual(c, all) }},
		{Name: "complete", Hidden: true, Usage: "print completions of a command line, for the shells' completion scripts",
			Flags:  command.CommonFlags(),
			Action: func(env *command.Env, c *cli.Context) error { return complete.Print(env, c, all) }},
	})
	all = append(all, own...)
	return own
}

func showVersion(env *command.Env, c *cli.Context) error {
	if err := command.RefuseArguments(c); err != nil {
		return err
	}
	asJSON, err := env.PlainOrJSON(c)
	if err != nil {
		return err
	}
	if asJSON {
		return table.PrintJSON(env.Stdout, map[string]string{"apiVersion": api.Version, "kind": "Version",
			"version": api.Build(), "go": runtime.Version()})
	}
	_, err = fmt.Fprintf(env.Stdout, "rota %s\n", api.Build())
	return err
}
