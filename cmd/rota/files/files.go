// Package files has the commands for job files, which need no cluster: validate, convert, fmt,
// parse, init and explain.
package files

import (
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/complete"
	"github.com/rota-hpc/rota/cmd/rota/input"
)

// Commands returns the commands of this package.
func Commands(env *command.Env) []*command.Command {
	return command.InCategory("Job files", []*command.Command{

		{Command: &cli.Command{Name: "validate", Usage: "check job files without a cluster",
			ArgsUsage: "FILE.hcl... [OPTIONS]", Action: env.Action(validate),
			Description: "With -o json, prints the canonical form of each job, or what is wrong with the file.",
			Flags:       slices.Concat(input.VarFlags(), command.CommonFlags())}, Arguments: complete.Files},
		convertCommand(env),
		{Command: &cli.Command{Name: "fmt", Usage: "format job files", ArgsUsage: "[FILE.hcl|DIR|-]... [--check]",
			Action: env.Action(formatFiles),
			Description: "Changes files in place and prints their names; without arguments, all job files in the current " +
				"directory. - formats standard input.",
			Flags: slices.Concat([]cli.Flag{&cli.BoolFlag{Name: "check",
				Usage: "change nothing; exit code 1 if a file is not formatted"}}, command.CommonFlags())},
			Arguments: complete.Files},
		{Command: &cli.Command{Name: "parse", Usage: "print a job file with all expressions evaluated",
			ArgsUsage: "FILE.hcl|-", Action: env.Action(parseFile),
			Description: "Values from sensitive variables are hidden.",
			Flags: slices.Concat(input.VarFlags(), slices.Concat([]cli.Flag{&cli.BoolFlag{Name: "sensitive",
				Usage: "show sensitive values"},
				&cli.BoolFlag{Name: "digest", Usage: "print only the job's version, which is the same for equal jobs"}},
				command.CommonFlags()))}, Arguments: complete.Files},
		{Command: &cli.Command{Name: "init", Usage: "write a new job file from a template",
			ArgsUsage: "[FILE.hcl] --template NAME", Action: env.Action(writeTemplate),
			Description: "Without --template, lists the templates. The default FILE is job.hcl; - prints to standard " +
				"output. Existing files are not overwritten.",
			Flags: slices.Concat([]cli.Flag{&cli.StringFlag{Name: "template", Usage: "template `NAME`"}},
				command.CommonFlags())}, Arguments: complete.Files,
			Values: map[string]command.Source{"template": completeTemplates}},
		{Command: &cli.Command{Name: "explain", Usage: "explain a code, state, reason, or job file attribute",
			ArgsUsage: "WORD...", Action: env.Action(explainWords),
			Description: "For example JS-112, PD, Priority, time_limit or group.count.",
			Flags:       command.CommonFlags()}, Arguments: completeExplained},
	})
}
