// Package slurm has commands under Slurm's names: the one program is called by a link of that name.
// Their options, output, messages and exit codes are those of Slurm. What is not there yet is refused
// by name.
package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
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
	does Submitter

	inspect func(*pflag.FlagSet) // gets the flags of the command, which then does nothing; nil: none
}

var tools = map[string]func(*tool, context.Context, []string) error{
	"sacct":    (*tool).sacct,
	"scontrol": (*tool).scontrol,
	"sinfo":    (*tool).sinfo,
	"squeue":   (*tool).squeue,
	"salloc":   (*tool).salloc,
	"sattach":  (*tool).sattach,
	"sbatch":   (*tool).sbatch,
	"srun":     (*tool).srun,
	"scancel":  (*tool).scancel,
	"sacctmgr": (*tool).sacctmgr,
	"sshare":   (*tool).sshare,
	"sprio":    (*tool).sprio,
	"sstat":    (*tool).sstat,
}

// Has reports whether a program that is called by this path has one of Slurm's names.
func Has(path string) bool { return tools[filepath.Base(path)] != nil }

// Names returns the names under which this program is a command of Slurm, in order.
func Names() []string { return slices.Sorted(maps.Keys(tools)) }

// Run carries out a command line, whose first word is the name, and returns the exit code.
func Run(ctx context.Context, args []string, env *command.Env, does Submitter) int {
	own := *env
	own.Name = filepath.Base(args[0])
	t := &tool{Env: &own, name: own.Name, args: args[1:], does: does}
	err := tools[t.name](t, ctx, args[1:])
	var said *loadError
	var job *exit.CodeError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errSaid):
	case errors.As(err, &job):
		if job.Text != "" {
			t.errorf("%s", show.Clean(job.Text))
		}
		return job.Code
	case errors.As(err, &said):
		fmt.Fprintf(env.Stderr, "%s error: %s\n", said.what, said.text)
	default:
		t.errorf("%s", show.Clean(withHint(err).Error()))
	}
	return failed
}

// errSaid ends a command that has said what was wrong.
var errSaid = errors.New("the command has failed")

// loadError is what Slurm says when a list cannot be had.
type loadError struct{ what, text string }

// noJob is that of a job that is not there.
var noJob = &loadError{"slurm_load_jobs", noSuchJob}

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
	return withHint(err)
}

// withHint returns an error whose text has the hint of a command line that is not right.
func withHint(err error) error {
	var usage *exit.UsageError
	if errors.As(err, &usage) && usage.Hint != "" {
		return fmt.Errorf("%w (%s)", err, usage.Hint)
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
	if f.Lookup("usage") == nil {
		f.Bool("usage", false, "")
	}
	if f.Lookup("version") == nil && f.ShorthandLookup("V") == nil {
		f.BoolP("version", "V", false, "")
	}
	if t.inspect != nil {
		t.inspect(f)
		return nil, errHelp
	}
	switch err := f.Parse(args); {
	case errors.Is(err, pflag.ErrHelp): // -h, where it means nothing else
		t.about("--help")
		return nil, errHelp
	case err != nil:
		return nil, fmt.Errorf("%w: what is not there yet, rota has: \"rota help\"", err)
	}
	for _, name := range []string{"help", "usage", "version"} {
		if given, _ := f.GetBool(name); given {
			t.about("--" + name)
			return nil, errHelp
		}
	}
	return f.Args(), nil
}

// about answers a flag that asks for the version or for help. It reports whether it is one.
func (t *tool) about(flag string) bool {
	switch flag {
	case "-V", "--version":
		fmt.Fprintf(t.Stdout, "slurm %s\n", release)
	case "-h", "--help", "--usage":
		fmt.Fprintf(t.Stdout, "%s of Rota knows: %s\n", t.name, cmp.Or(help[t.name], "see its manual page"))
	default:
		return false
	}
	return true
}

// errHelp ends a command that was asked for help.
var errHelp = errors.New("help")

var help = map[string]string{
	"scontrol": "show job|node|partition|config|hostnames|hostlist, requeue, hold, release, update JobId=ID " +
		"Name=NAME Comment=TEXT TimeLimit=TIME, update NodeName=NAMES State=DRAIN|RESUME Reason=TEXT",
	"squeue": "-h, -o FORMAT, -O FORMAT, -j IDS, -u USERS, --me, -n NAMES, -p PARTITIONS, -A ACCOUNTS, -t STATES, " +
		"-w NODES, -S FIELDS, -r, --start, --json",
	"sacct": "-X, -n, -P, -p, --delimiter, -o FIELDS, -e, -j IDS, -u USERS, -a, -A ACCOUNTS, --name, -r PARTITIONS, " +
		"-s STATES, -S TIME, -E TIME, --units, --json",
	"sinfo":  "-h, -a, -N, -o FORMAT, -O FORMAT, -p PARTITIONS, -n NODES, -t STATES, -S FIELDS, -R, -s, -l, --json",
	"sbatch": "the flags of docs/batch-scripts.md, SCRIPT [ARGUMENTS...], --wrap COMMAND, or a script on standard input",
	"scancel": "JOB... -n NAME, -u USER, --me, -t STATES, -p PARTITION, -A ACCOUNT, -q QOS, -w NODES, -s SIGNAL, -b, " +
		"-f, -i, -Q, -v, -M CLUSTERS",
	"sacctmgr": "list user|account|association|cluster [NAMES] [withassoc] [where user=, account=, cluster=] " +
		"[format=], -n, -p, -P",
	"sshare":  "-A ACCOUNTS, -a, -u USERS, -U, -n, -p, -P, -o FORMAT, -M CLUSTERS",
	"sprio":   "-h, -j IDS, -u USERS",
	"sstat":   "-j JOBS[.STEP], -a, -o FIELDS, -e, -n, -p, -P, --noconvert",
	"salloc":  "the flags of docs/slurm-flags.md about resources, -I, -K, --no-shell, and a command; without one, $SHELL",
	"sattach": "-l, -Q, JOB.STEP",
	"srun": "the flags of docs/from-slurm.md for a step of a job, outside of one those of sbatch about resources, and a " +
		"command",
}
