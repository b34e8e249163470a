package main

import (
	"fmt"
	"runtime"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld/api"
)

// manualCommands are those that describe the command itself: its help, its manual, and what the shells complete. The other
// commands are all.
func (w *world) manualCommands(all []*Command) []*Command {
	own := inCategory("Other", []*Command{
		{Command: &cli.Command{Name: "completion", Usage: "print completions for a shell", ArgsUsage: "bash|zsh|fish", Action: w.completion,
			Description: "bash: eval \"$(rota completion bash)\"    zsh: the same with zsh    fish: rota completion fish | source"}, Arguments: completeShells},
		{Command: &cli.Command{Name: "version", Usage: "print the version", Action: w.version, Flags: commonFlags()}},
		{Command: &cli.Command{Name: "help", Aliases: []string{"h"}, Usage: "list the commands, or tell more of one", ArgsUsage: "[COMMAND]"}, Arguments: CompleteCommands},
	})
	own[2].Action = func(c *cli.Context) error { return w.help(c, all) }
	writePages := func(c *cli.Context) error { return writeManual(c, all) }
	complete := func(c *cli.Context) error { return w.complete(c, all) }
	own = append(own, &Command{Command: &cli.Command{Name: "man", Hidden: true, Usage: "write the manual's pages", ArgsUsage: "DIR", Action: writePages}},
		&Command{Command: &cli.Command{Name: "complete", Hidden: true, Usage: "print what may follow, for the shells' completions",
			Action: complete, Flags: commonFlags()}})
	all = append(all, own...)
	return own
}

func (w *world) version(c *cli.Context) error {
	asJSON, err := w.plainOrJSON(c)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(w.stdout, map[string]string{"version": api.Build(), "go": runtime.Version()})
	}
	_, err = fmt.Fprintf(w.stdout, "rota %s\n", api.Build())
	return err
}
