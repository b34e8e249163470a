// Package tool has the common parts of the commands with Slurm's names. It parses flags, connects
// to the controllers, and reports errors in Slurm's words.
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

// Release is the version of Slurm whose command lines and JSON Rota imitates. Clients read this
// version.
const Release = "24.11.0"

// Failed is the exit code for every failure, as in Slurm.
const Failed = 1

// Tool is one run of a Slurm command; the Name of its Env is the command's name.
type Tool struct {
	*command.Env
	Args []string // arguments after the name
	Submitter
	help string

	Inspect func(*pflag.FlagSet) // gets the command's flags, and the command does nothing else
}

// Command is a command with one of Slurm's names.
type Command struct {
	Does func(ctx context.Context, t *Tool, args []string) error
	Help string // one line about the command; "": see the manual page
}

// Commands maps names to commands.
type Commands map[string]Command

// Submitter lets these commands submit jobs in the way of rota's own commands.
type Submitter struct {
	// Await waits until a job has ended. It returns the job's exit code as an [exit.CodeError].
	Await func(context.Context, *command.Session, model.JobID) error
}

// Run runs a command line and returns its exit code. The first word is the command's name, or a
// path that ends in it. Run prints errors itself.
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

// Errorf prints an error in Slurm's format.
func (t *Tool) Errorf(format string, args ...any) {
	fmt.Fprintf(t.Stderr, t.Name+": error: "+format+"\n", args...)
}

// Infof prints a message in Slurm's format.
func (t *Tool) Infof(format string, args ...any) {
	fmt.Fprintf(t.Stderr, t.Name+": "+format+"\n", args...)
}

// Connect returns a session with the controllers at the default address.
func (t *Tool) Connect() (*command.Session, error) { return t.DialAt("", "") }

// ConnectFor returns a session with the cluster that --clusters names; the name is "" if the flag
// is unset.
func (t *Tool) ConnectFor(ctx context.Context, clusters string) (*command.Session, string, error) {
	session, err := t.Connect()
	if err != nil || clusters == "" {
		return session, "", err
	}
	cluster, err := session.InCluster(ctx, clusters)
	return session, cluster, err
}

// ClusterName returns the cluster's name and refuses a wrong one; "" and "all" accept every
// cluster.
func ClusterName(ctx context.Context, s *command.Session, wanted string) (string, error) {
	name, err := s.InCluster(ctx, cmp.Or(wanted, "all"))
	var other *exit.UsageError
	if err != nil && !errors.As(err, &other) {
		return "", &LoadError{"slurm_load_jobs", show.Clean(AsSlurm(err).Error())}
	}
	return name, err
}
