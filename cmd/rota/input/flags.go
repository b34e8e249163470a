package input

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/listing"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/jobspec/script"
)

// ScriptFlags returns the flags of sbatch except --output, which is a common flag. Those that Rota
// does not honour are included but hidden, so that they are refused by name.
func ScriptFlags() []cli.Flag {
	var flags []cli.Flag
	for _, s := range script.Flags() {
		if s.Name == "output" {
			continue
		}
		aliases := slices.Clone(s.Also)
		if s.Short != 0 {
			aliases = append(aliases, string(s.Short))
		}
		text := &cli.StringFlag{Name: s.Name, Aliases: aliases, Usage: s.Usage, Hidden: !s.Honoured()}
		switch s.Takes {
		case script.Nothing:
			flags = append(flags, &cli.BoolFlag{Name: s.Name, Aliases: aliases, Usage: s.Usage, Hidden: !s.Honoured()})
		case script.Perhaps:
			flags = append(flags, command.NewMaybeFlag(text))
		default:
			flags = append(flags, text)
		}
	}
	return flags
}

// WithOutput adds the common flags, with both meanings of -o.
func WithOutput(flags []cli.Flag) []cli.Flag {
	for _, f := range command.CommonFlags() {
		if f.Names()[0] == "output" {
			f = command.Text("output,o", "output `FILE` of the job, such as %x-%j.out; or json, to print the answer as JSON")
		}
		flags = append(flags, f)
	}
	return flags
}

// givenFlags returns the flags of sbatch that the command line has. file is the value of --output
// if it names a file.
func givenFlags(c *cli.Context, file string) []script.Flag {
	var given []script.Flag
	for _, s := range script.Flags() {
		switch {
		case s.Name == "output" && file != "":
			given = append(given, script.Flag{Name: s.Name, Value: file, Has: true})
		case s.Name == "output" || !c.IsSet(s.Name):
		case s.Takes == script.Nothing:
			if c.Bool(s.Name) {
				given = append(given, script.Flag{Name: s.Name})
			}
		default:
			given = append(given, script.Flag{Name: s.Name, Value: c.String(s.Name),
				Has: s.Takes == script.Value || c.String(s.Name) != ""})
		}
	}
	return given
}

// outputFlag distinguishes the two meanings of -o: a format such as json, or the file for the job's
// output.
func outputFlag(env *command.Env, c *cli.Context) (asJSON bool, file string, err error) {
	text := c.String("output")
	isFormat := slices.Contains(listing.ListFormats, table.Format(text)) ||
		strings.HasPrefix(text, string(table.Template)+"=")
	if text != "" && !isFormat {
		return false, text, nil
	}
	asJSON, err = env.PlainOrJSON(c)
	return asJSON, "", err
}

// VarFlags returns the flags that give values to a job file's variables.
func VarFlags() []cli.Flag {
	return []cli.Flag{
		command.List("var", "set a variable: `NAME=VALUE`"),
		command.List("var-file", "read variables from `FILE`"),
		command.Text("allow-env", "allow env() to read the environment variables `NAMES`"),
	}
}
