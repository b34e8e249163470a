package main

import (
	"fmt"
	"runtime"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld/api"
)

// fileCommands are those that look at job files.
func (w *world) fileCommands() []*cli.Command {
	return inCategory("Job files", []*cli.Command{
		{Name: "validate", Usage: "check job files without a cluster", ArgsUsage: "FILE.hcl... [OPTIONS]", Action: w.validate,
			Description: "With -o json the canonical form of each job is printed, or what is wrong with the file.",
			Flags:       with(varFlags(), commonFlags())},
		{Name: "plan", Usage: "say whether and where a job would start now", ArgsUsage: "FILE.hcl|-|SCRIPT [ARGUMENTS...] [OPTIONS]", Action: w.plan,
			Description: "Exit code 0 when it would start now, 6 when it would wait.",
			Flags:       with(scriptFlags(), withOutput(varFlags()))},
		w.convertCommand(),
	})
}

// otherCommands are the rest.
func (w *world) otherCommands() []*cli.Command {
	commands := inCategory("Other", []*cli.Command{
		w.devCommand(),
		{Name: "completion", Usage: "print completions for a shell", ArgsUsage: "bash|zsh|fish", Action: w.completion,
			Description: "bash: eval \"$(rota completion bash)\"    zsh: the same with zsh    fish: rota completion fish | source"},
		{Name: "version", Usage: "print the version", Action: w.version, Flags: commonFlags()},
		{Name: "help", Aliases: []string{"h"}, Usage: "list the commands, or tell more of one", ArgsUsage: "[COMMAND]", Action: w.help},
	})
	return append(commands, &cli.Command{Name: "man", Hidden: true, Usage: "write the manual's pages", ArgsUsage: "DIR", Action: w.man},
		&cli.Command{Name: "complete", Hidden: true, Usage: "print what may follow, for the shells' completions",
			Action: w.complete, Flags: commonFlags()})
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

// validate checks every file, and fails when any is wrong.
func (w *world) validate(c *cli.Context) error {
	asJSON, err := w.plainOrJSON(c)
	if err != nil {
		return err
	}
	if c.Args().Len() == 0 {
		return usagef("which job file? rota validate %s", c.Command.ArgsUsage)
	}
	bad := 0
	for _, name := range c.Args().Slice() {
		if err := w.validateOne(name, c, asJSON); err != nil {
			bad++
			w.printError(asJSON, err)
		}
	}
	if bad > 0 {
		return &codeError{code: exitUsage}
	}
	return nil
}

func (w *world) validateOne(name string, c *cli.Context, asJSON bool) error {
	read, err := w.readJob(name, c)
	if err != nil {
		return err
	}
	if asJSON {
		value, err := shownJob(read)
		if err != nil {
			return err
		}
		return printJSON(w.stdout, value)
	}
	_, err = fmt.Fprintf(w.stdout, "%s: ok, job %s\n", name, read.Job.Name)
	return err
}
