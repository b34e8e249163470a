package tool

import (
	"errors"
	"fmt"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
)

// Words of Slurm, which clients look for.
const (
	NoSuchJob    = "Invalid job id specified"
	NotPermitted = "Access/permission denied"
	noController = "Unable to contact slurm controller (connect failure)"
)

// ErrSaid ends a command that has said what was wrong.
var ErrSaid = errors.New("the command has failed")

// ErrHelp ends a command that was asked for help.
var ErrHelp = errors.New("help")

// LoadError is what Slurm says when a list cannot be had.
type LoadError struct {
	What string // the call of Slurm's library
	Text string
}

// Error implements error.
func (e *LoadError) Error() string { return e.Text }

// NoJob is the error for a job that is not there.
var NoJob = &LoadError{"slurm_load_jobs", NoSuchJob}

// LoadFailure is the error for a request that reads jobs.
func LoadFailure(err error) error {
	var said *LoadError
	switch {
	case errors.As(err, &said):
		return err
	case exit.IsNotFound(err):
		return NoJob
	}
	return &LoadError{"slurm_load_jobs", show.Clean(AsSlurm(err).Error())}
}

// IsUnreachable reports whether no controller has answered.
func IsUnreachable(err error) bool {
	var nowhere *api.UnreachableError
	var p *api.Problem
	return errors.As(err, &nowhere) || errors.As(err, &p) && p.Code == api.CodeNoLeader
}

// AsSlurm returns an error of a request in Slurm's words, where a client may look for them.
func AsSlurm(err error) error {
	var p *api.Problem
	switch {
	case IsUnreachable(err):
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
