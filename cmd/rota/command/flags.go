package command

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/cmd/rota/table"
	"github.com/rota-hpc/rota/controld/api"
)

// CommonFlags returns the flags of every command. They may also precede the command.
func CommonFlags() []cli.Flag {
	return []cli.Flag{
		Text("addr", "address `ADDR` of the controllers: http://host:port, unix:PATH, or a "+
			"comma-separated list (default $ROTA_ADDR)"),
		Text("token", "authenticate with API `TOKEN` (default $ROTA_TOKEN, which unlike an option is hidden from other "+
			"users)"),
		Text("output,o", "output `FORMAT`, such as json"),
		&cli.StringFlag{Name: "color", Aliases: []string{"colour"},
			Usage: "colour the output `WHEN`: auto, always or never", DefaultText: "auto"},
		Switch("utc", "show times in UTC"),
	}
}

// WithCommon returns flags of a command followed by the common flags.
func WithCommon(own ...cli.Flag) []cli.Flag { return append(own, CommonFlags()...) }

// Text returns a flag with a value. names are its name and its other names, separated by commas.
func Text(names, usage string) *cli.StringFlag {
	all := strings.Split(names, ",")
	return &cli.StringFlag{Name: all[0], Aliases: all[1:], Usage: usage}
}

// Number is [Text] for a value that is a whole number.
func Number(names, usage string) *cli.IntFlag {
	all := strings.Split(names, ",")
	return &cli.IntFlag{Name: all[0], Aliases: all[1:], Usage: usage}
}

// Switch is [Text] for a flag without a value.
func Switch(names, usage string) *cli.BoolFlag {
	all := strings.Split(names, ",")
	return &cli.BoolFlag{Name: all[0], Aliases: all[1:], Usage: usage}
}

// List returns a flag that may be repeated.
func List(name, usage string) *cli.StringSliceFlag {
	return &cli.StringSliceFlag{Name: name, Usage: usage}
}

// Format returns the format of -o, otherwise of ROTA_OUTPUT, otherwise the first of allowed.
func (env *Env) Format(c *cli.Context, allowed ...table.Format) (table.Format, error) {
	if c.IsSet("output") && c.String("output") == "" {
		return "", exit.Usagef("--output is empty")
	}
	if text := c.String("output"); text != "" {
		return parseFormat(text, allowed...)
	}
	if f, err := parseFormat(env.Getenv("ROTA_OUTPUT"), allowed...); err == nil {
		return f, nil
	}
	return allowed[0], nil
}

// PlainOrJSON reports whether -o asks for JSON, for commands that otherwise print text.
func (env *Env) PlainOrJSON(c *cli.Context) (asJSON bool, err error) {
	f, err := env.Format(c, table.AsTable, table.JSON)
	return f == table.JSON, err
}

// WarnStale prints a warning if an answer comes from a controller without a leader.
func (env *Env) WarnStale(a api.Answer) {
	if a.Stale > 0 {
		env.Notef("warning: the controller has had no contact with a leader for %s: its data may be that old", a.Stale)
	}
}

// InCategory puts commands under a heading of the help.
func InCategory(name string, commands []*Command) []*Command {
	for _, c := range commands {
		c.Category = name
	}
	return commands
}

// parseFormat returns the format named text if it is one of allowed.
func parseFormat(text string, allowed ...table.Format) (table.Format, error) {
	if slices.Contains(allowed, table.Format(text)) {
		return table.Format(text), nil
	}
	names := show.Words(allowed)
	return "", exit.Usagef("unknown format -o %s: must be one of %s", text, strings.Join(names, ", ")).
		WithHint(DidYouMean("did you mean -o %s?", text, names))
}
