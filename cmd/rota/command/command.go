// Package command runs the commands of rota. It describes a command and what is around it: streams,
// environment, clock, and the connection to the controllers. It also reads command lines: flags,
// arguments, times and sizes.
package command

import (
	"context"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/controld/api"
)

// Command is one command of rota: its flags, its help, its action, and how the shells complete it.
type Command struct {
	Name        string
	Aliases     []string
	Category    string // heading in the help
	Usage       string // one line of help
	ArgsUsage   string // form of the arguments
	Description string
	Hidden      bool // not in the help
	Flags       []cli.Flag
	Action      func(*Env, *cli.Context) error

	EndsFlags func(argument string) bool // whether flags end at this first argument; nil: never
	Once      bool                       // its own flags may be given only once
	JobCode   bool                       // returns the job's exit code; Rota's own failures are then 120 to 125
	FlagHint  func(flag string) string   // hint for an unknown flag; "" or nil: the default hint
	OwnJob    bool                       // without arguments, in a job, it is about that job
	Arguments Source                     // completes the arguments; nil: no completion
	Values    map[string]Source          // complete values of flags, by the flag's first name
}

// Names returns the name and the aliases.
func (c *Command) Names() []string { return append([]string{c.Name}, c.Aliases...) }

// Run executes a command line and returns its exit code. It has printed the error, if any.
func Run(ctx context.Context, args []string, env *Env, commands []*Command) int {
	if len(args) < 2 {
		args = []string{"rota", "help"}
	}
	c, words, err := Parse(args[1:], commands)
	if err == nil {
		if own := env.OwnJob(); c != nil && c.OwnJob && own != "" && words[len(words)-1] == "--" {
			words = append(words, own)
		}
		args = append([]string{args[0]}, words...)
		err = env.newApp(commands).RunContext(ctx, args)
	}
	if err == nil {
		return exit.OK
	}
	return env.reportFailure(c != nil && c.JobCode, wantsJSON(args), err)
}

// Parse finds the command of a command line, and orders the words for the flag package: name,
// flags, "--", arguments. It returns nil as the command if rota itself answers, as for --version.
func Parse(args []string, commands []*Command) (*Command, []string, error) {
	root := RootCommand()
	before, rest, err := root.SplitArgs(args)
	if err != nil {
		return nil, nil, err
	}
	for _, flag := range before {
		if name, _, _ := strings.Cut(flag, "="); name == "--version" || name == "--help" && len(rest) == 0 {
			return nil, []string{strings.TrimPrefix(name, "--")}, nil
		}
	}
	if len(rest) == 0 {
		return nil, nil, exit.Usagef("no command given: \"rota help\" lists them")
	}
	c := FindCommand(commands, rest[0])
	if c == nil {
		return nil, nil, UnknownCommand(rest[0], commands)
	}
	flags, rest, err := c.SplitArgs(append(before, rest[1:]...))
	if err != nil {
		return c, nil, err
	}
	for _, flag := range flags {
		if flag == "--help" {
			return c, []string{"help", "--", c.Name}, nil
		}
	}
	words := append([]string{c.Name}, flags...)
	return c, append(append(words, "--"), rest...), nil
}

// RootCommand returns a command without a name whose flags are those that may precede a command.
func RootCommand() *Command {
	version := Switch("version,v", "")
	return &Command{Flags: append(CommonFlags(), version),
		EndsFlags: AtFirstArgument}
}

// FindCommand returns the command with this name or alias, nil if there is none.
func FindCommand(commands []*Command, name string) *Command {
	i := slices.IndexFunc(commands, func(c *Command) bool { return slices.Contains(c.Names(), name) })
	if i < 0 {
		return nil
	}
	return commands[i]
}

// newApp returns the commands as an application of the cli library.
func (env *Env) newApp(commands []*Command) *cli.App {
	app := &cli.App{
		Name:                      "rota",
		Version:                   api.Build(),
		HideVersion:               true,
		HideHelp:                  true,
		Writer:                    env.Stdout,
		ErrWriter:                 env.Stderr,
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*cli.Context, error) {}, // Run turns errors into exit codes
	}
	for _, c := range commands {
		app.Commands = append(app.Commands, &cli.Command{
			Name: c.Name, Aliases: c.Aliases, ArgsUsage: c.ArgsUsage, Flags: knowingNames(c.Flags),
			HideHelpCommand: true, Before: env.readColor,
			Action: func(flags *cli.Context) error { return c.Action(env, flags) },
			OnUsageError: func(_ *cli.Context, err error, _ bool) error {
				return exit.Usagef("%s", strings.TrimPrefix(err.Error(), "flag: "))
			},
		})
	}
	return app
}

// wantsJSON reports whether args ask for -o json. Errors may occur before the flags are parsed.
func wantsJSON(args []string) bool {
	for i, a := range args {
		switch a {
		case "--":
			return false
		case "-o=json", "--output=json", "--o=json":
			return true
		case "-o", "--output":
			return i+1 < len(args) && args[i+1] == "json"
		}
	}
	return false
}
