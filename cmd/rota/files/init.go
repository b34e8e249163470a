package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/jobspec/jobfile"
)

// writeTemplate writes a new job file from a template.
func writeTemplate(env *command.Env, c *cli.Context) error {
	if f := c.String("output"); f != "" {
		return exit.Usagef("-o %s: rota init can only write a job file", f)
	}
	name := c.String("template")
	templates := jobfile.Templates()
	if name == "" && c.Args().Len() == 0 {
		t := &table.Table{Columns: []table.Column{{Title: "TEMPLATE"}, {Title: "DESCRIPTION", Least: 20}}}
		for _, one := range templates {
			t.Add(one.Name, one.Doc)
		}
		return t.Print(env.Stdout, env.Screen(), table.AsTable, true)
	}
	if c.Args().Len() > 1 {
		return exit.Usagef("rota init writes one file: rota init %s", c.Command.ArgsUsage)
	}
	for _, one := range templates {
		if one.Name == name {
			return writeNew(env, c.Args().First(), one.Text)
		}
	}
	return noTemplate(name, templates)
}

func noTemplate(name string, templates []jobfile.Template) error {
	names := make([]string, len(templates))
	for i, t := range templates {
		names[i] = t.Name
	}
	if name == "" {
		return exit.Usagef("no template given: --template %s", strings.Join(names, ", "))
	}
	return exit.Usagef("unknown template %q: must be one of %s", name, strings.Join(names, ", ")).
		WithHint(command.DidYouMean("did you mean %s?", name, names))
}

// writeNew writes a file that must not exist.
func writeNew(env *command.Env, name, text string) error {
	if name == "-" {
		_, err := fmt.Fprint(env.Stdout, text)
		return err
	}
	if name == "" {
		name = "job.hcl"
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return exit.Usagef("%s already exists", name).WithHint("choose another file, or - to print it")
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	_, err = fmt.Fprintf(env.Stdout, "Wrote %s. Submit it with \"rota submit %s\".\n", name, name)
	return err
}

func completeTemplates(*command.Line) []command.Candidate {
	var found []command.Candidate
	for _, t := range jobfile.Templates() {
		found = append(found, command.Candidate{Word: t.Name, About: t.Doc})
	}
	return found
}
