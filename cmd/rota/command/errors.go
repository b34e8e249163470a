package command

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/exit"
)

// reportFailure prints err and returns its exit code.
func (env *Env) reportFailure(jobCode, asJSON bool, err error) int {
	var own *exit.CodeError
	if errors.As(err, &own) {
		if own.Text != "" {
			env.PrintError(asJSON, err)
		}
		return own.Code
	}
	if errors.Is(err, exit.ErrPipe) {
		return exit.OK
	}
	env.PrintError(asJSON, err)
	code := exit.Code(err)
	var job *exit.JobError
	if jobCode || errors.As(err, &job) {
		return exit.OwnCode(code)
	}
	return code
}

// Notef prints a message to standard error.
func (env *Env) Notef(format string, args ...any) {
	fmt.Fprintf(env.Stderr, cmp.Or(env.Name, "rota")+": "+format+"\n", args...)
}

// PrintError prints err and its hint to standard error, as JSON if asJSON.
func (env *Env) PrintError(asJSON bool, err error) {
	var file *exit.FileError
	if errors.As(err, &file) && file.Print(env.Stderr, env.Colour(env.Stderr), asJSON) == nil {
		return
	}
	p := exit.AsProblem(err)
	if asJSON {
		p.Type = cmp.Or(p.Type, exit.ProblemType(p.Code))
		b, encodeErr := json.Marshal(p)
		if encodeErr == nil {
			fmt.Fprintf(env.Stderr, "%s\n", b)
			return
		}
	}
	detail := strings.TrimSpace(p.Detail)
	env.Notef("%s", detail)
	for _, line := range p.Errors {
		if strings.HasSuffix(detail, line) {
			continue // it is the first of them
		}
		fmt.Fprintf(env.Stderr, "  %s\n", line)
	}
	if p.Hint != "" {
		fmt.Fprintf(env.Stderr, "  hint: %s\n", p.Hint)
	}
}
