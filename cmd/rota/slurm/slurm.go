// Package slurm has commands under Slurm's names: the one program is called by a link of that name.
// Their options, output, messages and exit codes are those of Slurm. What is not there yet is refused
// by name.
package slurm

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
)

// failed is the exit code for every failure, as in Slurm.
const failed = 1

// tool is a command under one of Slurm's names.
type tool struct {
	*command.Env
	name string
	args []string // behind the name
}

var tools = map[string]func(*tool, context.Context, []string) error{
	"sacct":    (*tool).sacct,
	"scontrol": (*tool).scontrol,
	"sinfo":    (*tool).sinfo,
	"squeue":   (*tool).squeue,
}

// Has reports whether a program that is called by this path has one of Slurm's names.
func Has(path string) bool { return tools[filepath.Base(path)] != nil }

// Run carries out a command line, whose first word is the name, and returns the exit code.
func Run(ctx context.Context, args []string, env *command.Env) int {
	t := &tool{Env: env, name: filepath.Base(args[0]), args: args[1:]}
	err := tools[t.name](t, ctx, args[1:])
	var said *loadError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errSaid):
	case errors.As(err, &said):
		fmt.Fprintf(env.Stderr, "%s error: %s\n", said.what, said.text)
	default:
		t.errorf("%s", show.Clean(err.Error()))
	}
	return failed
}

// errSaid ends a command that has said what was wrong.
var errSaid = errors.New("the command has failed")

// loadError is what Slurm says when a list cannot be had.
type loadError struct{ what, text string }

// noJob is that of a job that is not there.
var noJob = &loadError{"slurm_load_jobs", "Invalid job id specified"}

// Error implements error.
func (e *loadError) Error() string { return e.text }

func (t *tool) errorf(format string, args ...any) {
	fmt.Fprintf(t.Stderr, t.name+": error: "+format+"\n", args...)
}

// connect returns a session with the controllers of the default address.
func (t *tool) connect() (*command.Session, error) { return t.DialAt("", "") }

const noController = "Unable to contact slurm controller (connect failure)"

// isUnreachable reports whether no controller has answered.
func isUnreachable(err error) bool {
	var nowhere *api.UnreachableError
	var p *api.Problem
	return errors.As(err, &nowhere) || errors.As(err, &p) && p.Code == api.CodeNoLeader
}

// asSlurm returns an error of a request in Slurm's words, where a client may look for them.
func asSlurm(err error) error {
	var p *api.Problem
	switch {
	case isUnreachable(err):
		return errors.New(noController)
	case errors.As(err, &p) && p.Hint != "":
		return fmt.Errorf("%s (%s)", p.Detail, p.Hint)
	case errors.As(err, &p):
		return errors.New(p.Detail)
	}
	return err
}

// flags returns a set of flags that prints nothing by itself.
func (t *tool) flags() *pflag.FlagSet {
	f := pflag.NewFlagSet(t.name, pflag.ContinueOnError)
	f.Usage = func() {}
	f.SetOutput(t.Stderr)
	return f
}

// parse reads flags. Others than those of the set are refused by name.
func (t *tool) parse(f *pflag.FlagSet, args []string) (rest []string, err error) {
	if f.Lookup("help") == nil {
		f.Bool("help", false, "")
	}
	if err := f.Parse(args); err != nil {
		return nil, fmt.Errorf("%w: what is not there yet, rota has: \"rota help\"", err)
	}
	if given, _ := f.GetBool("help"); given {
		fmt.Fprintf(t.Stdout, "%s of Rota knows: %s\n", t.name, strings.TrimSpace(help[t.name]))
		return nil, errHelp
	}
	return f.Args(), nil
}

// errHelp ends a command that was asked for help.
var errHelp = errors.New("help")

var help = map[string]string{
	"scontrol": "show job|node|partition|config|hostnames|hostlist, requeue, hold, release, update JobId=ID " +
		"Name=NAME Comment=TEXT TimeLimit=TIME, update NodeName=NAMES State=DRAIN|RESUME Reason=TEXT",
	"squeue": "-h, -j IDS, -u USERS, --me, -o FORMAT",
}
