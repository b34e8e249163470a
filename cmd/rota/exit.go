package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/rota-hpc/rota/controld/api"
)

// Exit codes of the command.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitDenied      = 4
	exitUnreachable = 5
	exitWouldWait   = 6
	exitTimeout     = 124
	exitInterrupted = 130
	exitPipe        = 141 // of a process that writes what nobody reads
)

// Exit codes of Rota's own failures where the job's code is returned otherwise (run, wait, and submit once the job is in).
const (
	ownUsage       = 120
	ownNotFound    = 121
	ownDenied      = 122
	ownUnreachable = 123
	ownTimeout     = 124
	ownFailed      = 125
)

// exitOOM is the code of a job that ran out of memory, as Slurm's srun has it.
const exitOOM = 253

var errPipe error = syscall.EPIPE

// errTimeout ends a command whose --timeout has passed.
var errTimeout = errors.New("timed out")

// errInterrupted ends a command that the user interrupted.
var errInterrupted = errors.New("interrupted")

// usageError is a command line that cannot be carried out.
type usageError struct {
	text string
	hint string
}

// Error implements error.
func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) *usageError {
	return &usageError{text: fmt.Sprintf(format, args...)}
}

// codeError ends the command with a code of its own; the text, if any, is printed.
type codeError struct {
	code int
	text string
}

// Error implements error.
func (e *codeError) Error() string { return e.text }

// jobError marks an error met where the job's own code is returned otherwise.
type jobError struct{ err error }

// Error implements error.
func (e *jobError) Error() string { return e.err.Error() }

// Unwrap returns the error itself.
func (e *jobError) Unwrap() error { return e.err }

// fail prints err and returns the exit code for it.
func (w *world) fail(jobCode, asJSON bool, err error) int {
	var own *codeError
	if errors.As(err, &own) {
		if own.text != "" {
			w.printError(asJSON, err)
		}
		return own.code
	}
	if isBrokenPipe(err) {
		return exitOK
	}
	w.printError(asJSON, err)
	code := exitCode(err)
	var job *jobError
	if jobCode || errors.As(err, &job) {
		return ownCode(code)
	}
	return code
}

// exitCode maps an error to the codes of the command.
func exitCode(err error) int {
	var usage *usageError
	var file *fileError
	var problem *api.Problem
	var unreachable *api.UnreachableError
	switch {
	case errors.As(err, &usage), errors.As(err, &file):
		return exitUsage
	case errors.Is(err, errInterrupted), errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, errTimeout), errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	case errors.As(err, &problem):
		return problemCode(problem)
	case errors.As(err, &unreachable):
		return exitUnreachable
	}
	return exitFailed
}

func problemCode(p *api.Problem) int {
	switch p.Code {
	case api.CodeInvalid, api.CodeInvalidJob, api.CodeImpossible, api.CodeUnsupported, api.CodeTooLarge:
		return exitUsage
	case api.CodeNotFound:
		return exitNotFound
	case api.CodeDenied, api.CodeUnauthorised:
		return exitDenied
	case api.CodeNoLeader, api.CodeNotLeader:
		return exitUnreachable
	case api.CodeTimeout:
		return exitTimeout
	}
	return exitFailed
}

// ownCode moves a code of the command to where it cannot be taken for the job's.
func ownCode(code int) int {
	switch code {
	case exitUsage:
		return ownUsage
	case exitNotFound:
		return ownNotFound
	case exitDenied:
		return ownDenied
	case exitUnreachable:
		return ownUnreachable
	case exitTimeout:
		return ownTimeout
	case exitInterrupted:
		return exitInterrupted
	}
	return ownFailed
}

// printError says on stderr what went wrong and what to do about it; as a problem in JSON where JSON was asked for.
func (w *world) printError(asJSON bool, err error) {
	var file *fileError
	if errors.As(err, &file) && file.print(w, asJSON) == nil {
		return
	}
	p := asProblem(err)
	if asJSON {
		p.Type = cmp.Or(p.Type, "urn:rota:problem:"+p.Code) // as the controllers have it
		b, encodeErr := json.Marshal(p)
		if encodeErr == nil {
			fmt.Fprintf(w.stderr, "%s\n", b)
			return
		}
	}
	fmt.Fprintf(w.stderr, "rota: %s\n", strings.TrimSpace(p.Detail))
	for _, line := range p.Errors {
		fmt.Fprintf(w.stderr, "  %s\n", line)
	}
	if p.Hint != "" {
		fmt.Fprintf(w.stderr, "  hint: %s\n", p.Hint)
	}
}

// wasInterrupted reports whether an error is that somebody pressed Ctrl-C.
func wasInterrupted(err error) bool {
	var own *codeError
	return errors.Is(err, errInterrupted) || errors.Is(err, context.Canceled) || errors.As(err, &own) && own.code == exitInterrupted
}

// asProblem gives every error the form that the API's have. What the API said is kept; the text is that of the whole chain.
func asProblem(err error) *api.Problem {
	var p *api.Problem
	if errors.As(err, &p) {
		full := *p
		full.Detail = err.Error()
		return &full
	}
	var usage *usageError
	var unreachable *api.UnreachableError
	switch {
	case errors.As(err, &usage):
		return &api.Problem{Title: "Usage", Status: 400, Code: "usage", Detail: err.Error(), Hint: usage.hint}
	case errors.As(err, &unreachable):
		return &api.Problem{Title: "Unreachable", Status: 503, Code: "unreachable", Detail: err.Error(), Hint: unreachableHint(unreachable)}
	case errors.Is(err, errTimeout), errors.Is(err, context.DeadlineExceeded):
		return &api.Problem{Title: "Timeout", Status: 504, Code: api.CodeTimeout, Detail: err.Error()}
	case wasInterrupted(err):
		return &api.Problem{Title: "Interrupted", Status: 499, Code: "interrupted", Detail: err.Error()} // 499: who asked has gone away
	}
	return &api.Problem{Title: "Failed", Status: 500, Code: "failed", Detail: err.Error()}
}

func unreachableHint(e *api.UnreachableError) string {
	if errors.Is(e, fs.ErrPermission) {
		return "the socket lies where you may not go: ask whoever runs the cluster, or use another address (ROTA_ADDR)"
	}
	for _, a := range e.Addrs {
		if strings.Contains(a, api.DefaultSocket) {
			return "no daemon listens on this machine: set ROTA_ADDR (http://host:7070, unix:PATH, or several with commas), or start a " +
				"cluster here with \"rota dev\""
		}
	}
	return "is a controller running there? ROTA_ADDR or --addr says where: http://host:7070, unix:PATH, or several with commas"
}
