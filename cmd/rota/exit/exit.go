// Package exit has the exit codes of rota, and the errors that become them.
package exit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"syscall"

	"github.com/rota-hpc/rota/controld/api"
)

// Exit codes of the command.
const (
	OK          = 0
	Failed      = 1
	Usage       = 2
	NotFound    = 3
	Denied      = 4
	Unreachable = 5
	WouldWait   = 6
	Broken      = 7 // of doctor: something keeps Rota from working
	Timeout     = 124
	Interrupted = 130
	Pipe        = 141 // as for a process that SIGPIPE ends
)

// Exit codes of Rota's own failures where a command returns the job's code: run, wait, and submit
// after the job is submitted.
const (
	OwnUsage       = 120
	OwnNotFound    = 121
	OwnDenied      = 122
	OwnUnreachable = 123
	OwnTimeout     = 124
	OwnFailed      = 125
)

// OutOfMemory is the exit code for a job that ran out of memory, as for Slurm's srun.
const OutOfMemory = 253

// ErrPipe is the error for output without a reader.
var ErrPipe error = syscall.EPIPE

// ErrTimeout is the cause when --timeout ends a command.
var ErrTimeout = errors.New("timed out")

// ErrInterrupted is the cause when the user interrupts a command.
var ErrInterrupted = errors.New("interrupted")

// UsageError is an invalid command line, with a hint what to do.
type UsageError struct {
	Text string
	Hint string
}

// Error implements error.
func (e *UsageError) Error() string { return e.Text }

// Usagef returns a UsageError without a hint.
func Usagef(format string, args ...any) *UsageError {
	return &UsageError{Text: fmt.Sprintf(format, args...)}
}

// WithHint sets the hint and returns the error.
func (e *UsageError) WithHint(hint string) *UsageError {
	e.Hint = hint
	return e
}

// CodeError ends a command with this exit code. The text is printed, unless it is empty.
type CodeError struct {
	Code int
	Text string
}

// Error implements error.
func (e *CodeError) Error() string { return e.Text }

// WithCode returns what ends a command with this exit code: nil for [OK], otherwise an error
// without a text.
func WithCode(code int) error {
	if code == OK {
		return nil
	}
	return &CodeError{Code: code}
}

// JobError marks an error after the submission of a job, where the command returns the job's code.
type JobError struct{ Err error }

// Error implements error.
func (e *JobError) Error() string { return e.Err.Error() }

// Unwrap returns the marked error.
func (e *JobError) Unwrap() error { return e.Err }

// LostAnswer adds the hint to an error after which it is not known whether the request was carried
// out. It returns other errors as they are.
func LostAnswer(err error, hint string) error {
	var lost *api.UncertainError
	if !errors.As(err, &lost) {
		return err
	}
	return &lostAnswer{err, hint}
}

// lostAnswer is an error of a request that may have been carried out, and how to find out.
type lostAnswer struct {
	error
	hint string
}

// Unwrap returns the error of the request.
func (e *lostAnswer) Unwrap() error { return e.error }

// Code returns the exit code for an error.
func Code(err error) int {
	var usage *UsageError
	var file *FileError
	var problem *api.Problem
	var unreachable *api.UnreachableError
	switch {
	case errors.As(err, &usage), errors.As(err, &file):
		return Usage
	case errors.Is(err, ErrInterrupted), errors.Is(err, context.Canceled):
		return Interrupted
	case errors.Is(err, ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case errors.As(err, &problem):
		return CodeOfProblem(problem)
	case errors.As(err, &unreachable):
		return Unreachable
	}
	return Failed
}

// CodeOfProblem returns the exit code for a problem of the API.
func CodeOfProblem(p *api.Problem) int {
	switch p.Code {
	case api.CodeInvalid, api.CodeInvalidJob, api.CodeImpossible, api.CodeUnsupported, api.CodeTooLarge:
		return Usage
	case api.CodeNotFound:
		return NotFound
	case api.CodeDenied, api.CodeUnauthorised:
		return Denied
	case api.CodeNoLeader:
		return Unreachable
	case api.CodeTimeout:
		return Timeout
	}
	return Failed
}

// OwnCode maps an exit code to one of 120 to 125, which cannot be taken for the job's code.
func OwnCode(code int) int {
	own := map[int]int{Usage: OwnUsage, NotFound: OwnNotFound, Denied: OwnDenied, Unreachable: OwnUnreachable,
		Timeout: OwnTimeout, Interrupted: Interrupted}
	return cmp.Or(own[code], OwnFailed)
}

// wasInterrupted reports whether the user pressed Ctrl-C.
func wasInterrupted(err error) bool {
	var own *CodeError
	return errors.Is(err, ErrInterrupted) || errors.Is(err, context.Canceled) || errors.As(err, &own) &&
		own.Code == Interrupted
}

// AsProblem turns an error into a problem as the API has it. A problem from the API is kept, with
// the text of the whole error. If the answer was lost, the code and the hint say so.
func AsProblem(err error) *api.Problem {
	p := problemOf(err)
	var lost *api.UncertainError
	if !errors.As(err, &lost) {
		return p
	}
	p.Code = api.CodeUncertain
	if p.Status != http.StatusBadGateway || p.Hint == "" { // else a node does not answer, and its hint says more
		p.Hint = "the request may or may not have taken effect: check before you repeat it"
	}
	var own *lostAnswer
	if errors.As(err, &own) {
		p.Hint = own.hint
	}
	return p
}

// ProblemType returns the type of a problem, by its code, as the controllers write it.
func ProblemType(code string) string { return "urn:rota:problem:" + code }

func problemOf(err error) *api.Problem {
	var p *api.Problem
	if errors.As(err, &p) {
		full := *p
		full.Detail = err.Error()
		return &full
	}
	problem := func(title string, status int, code, hint string) *api.Problem {
		return &api.Problem{Title: title, Status: status, Code: code, Detail: err.Error(), Hint: hint}
	}
	var usage *UsageError
	var unreachable *api.UnreachableError
	switch {
	case errors.As(err, &usage):
		return problem("Usage", 400, "usage", usage.Hint)
	case errors.As(err, &unreachable):
		return problem("Unreachable", 503, "unreachable", unreachableHint(unreachable))
	case errors.Is(err, ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return problem("Timeout", 504, api.CodeTimeout, "")
	case wasInterrupted(err):
		return problem("Interrupted", 499, "interrupted", "") // 499: the client closed the request
	}
	return problem("Failed", 500, "failed", "")
}

func unreachableHint(e *api.UnreachableError) string {
	if errors.Is(e, fs.ErrPermission) {
		return "you may not access the socket: ask the cluster's operators, or use another address (ROTA_ADDR)"
	}
	for _, a := range e.Addrs {
		if strings.Contains(a, api.DefaultSocket) {
			return "no daemon is running on this machine: set ROTA_ADDR (http://host:7070, unix:PATH, or a comma-separated " +
				"list), or start " +
				"a cluster with \"rota dev\""
		}
	}
	return "check that a controller is running, and that ROTA_ADDR or --addr has its address: http://host:7070, " +
		"unix:PATH, or a comma-separated list"
}

// IsNotFound reports whether a controller answered that something does not exist.
func IsNotFound(err error) bool {
	var p *api.Problem
	return errors.As(err, &p) && p.Code == api.CodeNotFound
}
