// Package files has the commands for job files, which need no cluster: validate, convert, fmt, parse, init and explain.
package files

import (
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/complete"
	"github.com/rota-hpc/rota/cmd/rota/input"
)

// Commands are those that write job files or tell of their language, without a cluster.
func Commands(env *command.Env) []*command.Command {
	return command.InCategory("Job files", []*command.Command{

		{Command: &cli.Command{Name: "validate", Usage: "check job files without a cluster", ArgsUsage: "FILE.hcl... [OPTIONS]", Action: env.Action(validate),
			Description: "With -o json the canonical form of each job is printed, or what is wrong with the file.",
			Flags:       slices.Concat(input.VarFlags(), command.CommonFlags())}, Arguments: complete.Files},
		convertCommand(env),
		{Command: &cli.Command{Name: "fmt", Usage: "format job files as they are usually written", ArgsUsage: "[FILE.hcl|DIR|-]... [--check]", Action: env.Action(formatFiles),
			Description: "Files are changed in place and their names printed; without any, those of this directory. - formats standard input.",
			Flags:       slices.Concat([]cli.Flag{&cli.BoolFlag{Name: "check", Usage: "change nothing; exit code 1 when something would change"}}, command.CommonFlags())}, Arguments: complete.Files},
		{Command: &cli.Command{Name: "parse", Usage: "print what a job file says, with every expression evaluated", ArgsUsage: "FILE.hcl|-", Action: env.Action(parseFile),
			Description: "Values that came from sensitive variables are left out.",
			Flags: slices.Concat(input.VarFlags(), slices.Concat([]cli.Flag{&cli.BoolFlag{Name: "sensitive", Usage: "print sensitive values too"},
				&cli.BoolFlag{Name: "digest", Usage: "print the job's version instead: what asks for the same has the same"}}, command.CommonFlags()))}, Arguments: complete.Files},
		{Command: &cli.Command{Name: "init", Usage: "write a job file to begin with", ArgsUsage: "[FILE.hcl] --template NAME", Action: env.Action(writeTemplate),
			Description: "Without --template the templates are listed. FILE is job.hcl unless it is named; - prints. What is there already is not overwritten.",
			Flags:       slices.Concat([]cli.Flag{&cli.StringFlag{Name: "template", Usage: "the kind of job: `NAME`"}}, command.CommonFlags())}, Arguments: complete.Files, Values: map[string]command.Source{"template": completeTemplates}},
		{Command: &cli.Command{Name: "explain", Usage: "explain a code, a state, a reason, or an attribute of job files", ArgsUsage: "WORD...", Action: env.Action(explainWords),
			Description: "Such as JS-112, PD, Priority, time_limit or group.count.", Flags: command.CommonFlags()}, Arguments: completeExplained},
	})
}
