// Command rota is what users of a Rota cluster type: it submits jobs, shows the queue, streams output, and, with `rota dev`, runs a
// whole cluster on one machine.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/controld/api"
)

func main() {
	os.Exit(run(context.Background(), os.Args, system()))
}

// world is everything outside the process that a command touches, so that tests can put something else in its place.
type world struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	environ        func() []string
	now            func() time.Time
	terminal       func(w io.Writer) bool // whether w is shown to somebody
	color          string                 // --color: always or never; else it depends
	client         api.Options            // zero but in tests
}

func system() *world {
	return &world{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		getenv: os.Getenv, environ: os.Environ, now: time.Now, terminal: isTerminal,
	}
}

// run carries out one command line and returns the exit code. Errors have been printed.
func run(ctx context.Context, args []string, w *world) int {
	app := newApp(w)
	if len(args) < 2 {
		args = []string{"rota", "help"}
	}
	ordered, err := reorder(args, app)
	if err == nil {
		args = ordered
		err = app.RunContext(ctx, args)
	}
	if err == nil {
		return exitOK
	}
	return w.fail(commandOf(args, app), wantsJSON(args), err)
}

// newApp builds the command table.
func newApp(w *world) *cli.App {
	app := &cli.App{
		Name:                      "rota",
		Usage:                     "submit and watch jobs on a deep-learning GPU cluster",
		UsageText:                 "rota COMMAND [OPTIONS] [ARGUMENTS]",
		Version:                   api.Build(),
		HideVersion:               true,
		HideHelp:                  true,
		Writer:                    w.stdout,
		ErrWriter:                 w.stderr,
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*cli.Context, error) {}, // run turns errors into exit codes
	}
	for _, group := range [][]*cli.Command{w.jobCommands(), w.lookCommands(), w.controlCommands(), w.fileCommands(), w.editCommands(), w.nodeCommands(), w.simCommands(), w.otherCommands()} {
		app.Commands = append(app.Commands, group...)
	}
	for _, c := range app.Commands {
		c.HideHelpCommand = true
		c.Before = w.readColor
		c.OnUsageError = func(_ *cli.Context, err error, _ bool) error {
			return usagef("%s", strings.TrimPrefix(err.Error(), "flag: "))
		}
	}
	return app
}

// commandOf names the command that args call, or "".
func commandOf(args []string, app *cli.App) string {
	for _, a := range args[1:] {
		if !strings.HasPrefix(a, "-") {
			if c := app.Command(a); c != nil {
				return c.Name
			}
		}
	}
	return ""
}

// wantsJSON reports whether -o json is among args, for errors that are met before they could be parsed.
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

// closeQuietly is for readers whose errors have been seen while reading.
func closeQuietly(c io.Closer) { _ = c.Close() }

// isBrokenPipe reports that the reader of our output has gone, as `rota queue | head -1` makes it.
func isBrokenPipe(err error) bool { return errors.Is(err, errPipe) }
