package input

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
	"github.com/rota-hpc/rota/jobspec/jobfile"
)

// LoadFile reads the text of a job file with the variables of the command line, and prints
// warnings.
func LoadFile(env *command.Env, c *cli.Context, shown string, src []byte, dir string) (jobfile.Read, error) {
	vars, err := command.Assignments("-var", c.StringSlice("var"))
	if err != nil {
		return jobfile.Read{}, err
	}
	read, diags := jobfile.Load(shown, src, jobfile.Options{Vars: vars, VarFiles: c.StringSlice("var-file"), Dir: dir,
		Now:    env.Now,
		Getenv: env.LookupEnv, AllowEnv: command.SplitList(c.String("allow-env")), NewUUID: newUUID})
	if diags.HasErrors() {
		return jobfile.Read{}, &exit.FileError{Name: shown, Diags: diags}
	}
	return read, warnOfFile(env, read.Warnings, c)
}

// warnOfFile prints the warnings about a job file to stderr; with -o json in the form for editors.
func warnOfFile(env *command.Env, warnings diagnostic.Diagnostics, c *cli.Context) error {
	if len(warnings) == 0 {
		return nil
	}
	if c.String("output") != string(table.JSON) {
		marked := slices.Clone(warnings)
		for i := range marked {
			marked[i].Text = "warning: " + marked[i].Text
		}
		return marked.WriteText(env.Stderr, env.Colour(env.Stderr))
	}
	var report diagnostic.Report
	report.Warn(warnings)
	b, err := json.Marshal(report)
	if err == nil {
		_, err = fmt.Fprintf(env.Stderr, "%s\n", b)
	}
	return err
}
