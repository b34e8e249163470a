package tool

import (
	"context"
	"errors"
	"fmt"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
)

// Messages of Slurm that clients search for.
const (
	NoSuchJob    = "Invalid job id specified"
	NotPermitted = "Access/permission denied"
	AlreadyEnded = "Job/step already completing or completed"
	noController = "Unable to contact slurm controller (connect failure)"
	overPolicy   = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
)

// ErrSaid ends a command that has already printed its error.
var ErrSaid = errors.New("the command has failed")

// errHelp ends a command that has printed its help.
var errHelp = errors.New("help")

// LoadError is Slurm's error for a list that could not be fetched.
type LoadError struct {
	What string // name of the call in Slurm's library
	Text string
}

// Error implements error.
func (e *LoadError) Error() string { return e.Text }

// NoJob is the error for an unknown job.
var NoJob = &LoadError{"slurm_load_jobs", NoSuchJob}

// LoadFailure is the error for a failed request that reads jobs.
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

// HasEnded reports whether a request failed because its job has ended.
func HasEnded(ctx context.Context, s *command.Session, ref string, err error) bool {
	var p *api.Problem
	if !errors.As(err, &p) || p.Code != api.CodeWrongState {
		return false
	}
	j, _, err := s.JobBy(ctx, ref, api.Read{})
	return err == nil && j.Code.Final()
}

// Denied returns Slurm's message for a request that the caller may not make, with a hint if the
// error has one. It returns false for other errors.
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

// IsUnreachable reports whether the request failed because no controller answered.
func IsUnreachable(err error) bool {
	var nowhere *api.UnreachableError
	var p *api.Problem
	return errors.As(err, &nowhere) || errors.As(err, &p) && p.Code == api.CodeNoLeader
}

// AsSlurm puts the error of a request into Slurm's words if clients may search for them.
func AsSlurm(err error) error {
	var p *api.Problem
	switch {
	case IsUnreachable(err):
		return fmt.Errorf("%s: %w (ROTA_ADDR sets the address of the controllers)", noController, err)
	case errors.As(err, &p) && p.Hint != "":
		return fmt.Errorf("%s (%s)", p.Detail, p.Hint)
	case errors.As(err, &p):
		return errors.New(p.Detail)
	}
	return withHint(err)
}

// SubmitError is the error for a failed submission: the command's words, then Slurm's.
func SubmitError(words string, err error) error {
	text := AsSlurm(err).Error()
	if model.NamesLimit(text) {
		text = overPolicy + ": " + text
	}
	var lost *api.UncertainError
	if errors.As(err, &lost) {
		text += " (the job may have been submitted: squeue --me shows it)"
	}
	return fmt.Errorf("%s: %s", words, text)
}

// withHint appends the usage hint to the error of a bad command line, once.
func withHint(err error) error {
	var usage *exit.UsageError
	if errors.As(err, &usage) && usage.Hint != "" {
		return fmt.Errorf("%s (%s)", err, usage.Hint) //nolint:errorlint // the wrapped error has the hint already
	}
	return err
}
