// Package files has the commands for job files, which need no cluster: validate, convert, fmt,
// parse, init and explain.
package files

import (
	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/complete"
	"github.com/rota-hpc/rota/cmd/rota/input"
)

// Commands returns the commands of this package.
func Commands() []*command.Command {
	return command.InCategory("Job files", []*command.Command{

		{Name: "validate", Usage: "check job files without a cluster",
			ArgsUsage: "FILE.hcl... [OPTIONS]", Action: validate,
			Description: "With -o json, prints the canonical form of each job, or the errors in the file.",
			Flags:       command.WithCommon(input.VarFlags()...), Arguments: complete.Files},
		{Name: "convert", Usage: "convert a batch script to a job file",
			ArgsUsage: "[OPTIONS] SCRIPT [ARGUMENTS...]", Action: convert,
			Description: "Lists what could not be converted on standard error. The options are those of submit.",
			Flags:       input.WithOutput(input.ScriptFlags()), EndsFlags: input.IsScript, Arguments: complete.Files},
		{Name: "fmt", Usage: "format job files", ArgsUsage: "[FILE.hcl|DIR|-]... [--check]",
			Action: formatFiles,
			Description: "Changes files in place and prints their names; without arguments, all job files in the current " +
				"directory. - formats standard input.",
			Flags:     command.WithCommon(command.Switch("check", "change nothing; exit code 1 if a file is not formatted")),
			Arguments: complete.Files},
		{Name: "parse", Usage: "print a job file with all expressions evaluated",
			ArgsUsage: "FILE.hcl|-", Action: parseFile,
			Description: "Values from sensitive variables are hidden.",
			Flags: command.WithCommon(append(input.VarFlags(), command.Switch("sensitive", "show sensitive values"),
				command.Switch("digest", "print only the job's version: a digest, the same for equal jobs"))...),
			Arguments: complete.Files},
		{Name: "init", Usage: "write a new job file from a template",
			ArgsUsage: "[FILE.hcl] --template NAME", Action: writeTemplate,
			Description: "Without --template, lists the templates. The default FILE is job.hcl; - prints to standard " +
				"output. Existing files are not overwritten.",
			Flags: command.WithCommon(command.Text("template", "template `NAME`")), Arguments: complete.Files,
			Values: map[string]command.Source{"template": completeTemplates}},
		{Name: "explain", Usage: "explain a code, state, reason, or job file attribute",
			ArgsUsage: "WORD...", Action: explainWords,
			Description: "For example JS-112, PD, Priority, time_limit or group.count.",
			Flags:       command.CommonFlags(), Arguments: completeExplained},
	})
}
