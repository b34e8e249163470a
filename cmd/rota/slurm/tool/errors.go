package tool

import (
	"context"
	"errors"
	"fmt"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
)

// Words of Slurm, which clients look for.
const (
	NoSuchJob    = "Invalid job id specified"
	NotPermitted = "Access/permission denied"
	AlreadyEnded = "Job/step already completing or completed"
	noController = "Unable to contact slurm controller (connect failure)"
)

// ErrSaid ends a command that has said what was wrong.
var ErrSaid = errors.New("the command has failed")

// errHelp ends a command that was asked for help.
var errHelp = errors.New("help")

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

// HasEnded reports whether an error of a request is about a job that has ended.
func HasEnded(ctx context.Context, s *command.Session, ref string, err error) bool {
	var p *api.Problem
	if !errors.As(err, &p) || p.Code != api.CodeWrongState {
		return false
	}
	j, _, err := s.JobBy(ctx, ref, api.Read{})
	return err == nil && j.Code.Final()
}

// Denied returns what Slurm says when a request was refused because of its caller, with the hint if there is
// one. It reports whether it was.
func Denied(err error) (string, bool) {
	var p *api.Problem
	switch {
	case !errors.As(err, &p) || p.Code != api.CodeDenied:
		return "", false
	case p.Hint != "":
		return fmt.Sprintf("%s: %s (%s)", NotPermitted, p.Detail, p.Hint), true
	}
	return NotPermitted, true
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
		return fmt.Errorf("%s: %w (ROTA_ADDR says where controllers are)", noController, err)
	case errors.As(err, &p) && p.Hint != "":
		return fmt.Errorf("%s (%s)", p.Detail, p.Hint)
	case errors.As(err, &p):
		return errors.New(p.Detail)
	}
	return withHint(err)
}

// SubmitError is the error for a submission that has failed, in Slurm's words behind those of a command.
func SubmitError(words string, err error) error {
	text := AsSlurm(err).Error()
	var lost *api.UncertainError
	if errors.As(err, &lost) {
		text += " (the job may have been submitted: squeue --me shows it)"
	}
	return fmt.Errorf("%s: %s", words, text)
}

// withHint returns an error whose text has the hint of a command line that is not right, once.
func withHint(err error) error {
	var usage *exit.UsageError
	if errors.As(err, &usage) && usage.Hint != "" {
		return fmt.Errorf("%s (%s)", err, usage.Hint) //nolint:errorlint // what is behind it has the hint again
	}
	return err
}
