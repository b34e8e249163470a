// Package tool has the common parts of all commands under Slurm's names. It reads flags, reaches
// the controllers, and reports errors in Slurm's words.
package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/model"
)

// Release is the version of Slurm whose command lines and JSON these are. Clients read it.
const Release = "24.11.0"

// Failed is the exit code for every failure, as in Slurm.
const Failed = 1

// Tool is one call of a command under one of Slurm's names, which is the Name of its Env.
type Tool struct {
	*command.Env
	Args []string // behind the name
	Submitter
	help string

	Inspect func(*pflag.FlagSet) // gets the flags of the command, which then does nothing; nil: none
}

// Command is a command under one of Slurm's names.
type Command struct {
	Does func(ctx context.Context, t *Tool, args []string) error
	Help string // what it knows, in a line; "": its manual page says it
}

// Commands are commands by their names.
type Commands map[string]Command

// Submitter does what commands of rota do with jobs that they have submitted.
type Submitter struct {
	// Await waits until a job has ended. It returns the job's exit code as an [exit.CodeError].
	Await func(context.Context, *command.Session, model.JobID) error
}

// Run carries out a command line and returns its exit code. Its first word is the name of the
// command, or a path that ends in it. Run prints errors itself.
func (c Commands) Run(ctx context.Context, args []string, env *command.Env, does Submitter) int {
	own := *env
	own.Name = filepath.Base(args[0])
	t := &Tool{Env: &own, Args: args[1:], Submitter: does, help: c[own.Name].Help}
	err := c[own.Name].Does(ctx, t, t.Args)
	var said *LoadError
	var job *exit.CodeError
	switch {
	case err == nil, errors.Is(err, errHelp):
		return 0
	case errors.Is(err, ErrSaid):
	case errors.As(err, &job):
		if job.Text != "" {
			t.Errorf("%s", show.Clean(job.Text))
		}
		return job.Code
	case errors.As(err, &said):
		fmt.Fprintf(t.Stderr, "%s error: %s\n", said.What, said.Text)
	default:
		t.Errorf("%s", show.Clean(withHint(err).Error()))
	}
	return Failed
}

// Errorf prints an error as Slurm does.
func (t *Tool) Errorf(format string, args ...any) {
	fmt.Fprintf(t.Stderr, t.Name+": error: "+format+"\n", args...)
}

// Infof prints a message as Slurm does.
func (t *Tool) Infof(format string, args ...any) {
	fmt.Fprintf(t.Stderr, t.Name+": "+format+"\n", args...)
}

// Connect returns a session with the controllers of the default address.
func (t *Tool) Connect() (*command.Session, error) { return t.DialAt("", "") }

// ConnectFor returns a session with the cluster that --clusters names, and the cluster's name if it names
// any.
func (t *Tool) ConnectFor(ctx context.Context, clusters string) (*command.Session, string, error) {
	session, err := t.Connect()
	if err != nil || clusters == "" {
		return session, "", err
	}
	cluster, err := session.InCluster(ctx, clusters)
	return session, cluster, err
}

// ClusterName returns the name of the cluster, and refuses others than that which is wanted: "" and all
// stand for any.
func ClusterName(ctx context.Context, s *command.Session, wanted string) (string, error) {
	name, err := s.InCluster(ctx, cmp.Or(wanted, "all"))
	var other *exit.UsageError
	if err != nil && !errors.As(err, &other) {
		return "", &LoadError{"slurm_load_jobs", show.Clean(AsSlurm(err).Error())}
	}
	return name, err
}
