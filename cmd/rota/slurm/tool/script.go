package tool

import (
	"errors"
	"strings"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/show"
	"github.com/rota-hpc/rota/jobspec/script"
)

// Warner returns a function that prints the warnings about a script or command line.
func (t *Tool) Warner(name string) func(script.Problem) {
	return func(p script.Problem) {
		t.Notef("warning: %s", show.Clean(strings.Replace(oneLine(name, p), "warning: ", "", 1)))
	}
}

// oneLine formats a problem of a script on one line: place, message and hint.
func oneLine(name string, p script.Problem) string {
	hint := p.Hint
	p.Quote, p.Hint = "", ""
	text := strings.TrimSpace(p.Format(name))
	if p.Where != "" || p.Line == 0 && p.Flag != "" {
		text = strings.TrimPrefix(strings.TrimPrefix(text, "command line: "), name+": ")
	}
	if hint != "" {
		text += ": " + hint
	}
	return text
}

// Unreadable prints the problems of a script if the error holds any, and returns the error that
// ends the command.
func (t *Tool) Unreadable(err error) error {
	var file *exit.FileError
	if !errors.As(err, &file) {
		return err
	}
	return t.Refuse(file.Name, file.Problems)
}

// Refuse prints the problems of a script or command line, and returns the error that ends the
// command.
func (t *Tool) Refuse(name string, problems script.Problems) error {
	for _, p := range problems {
		t.Errorf("%s", show.Clean(oneLine(name, p)))
	}
	return ErrSaid
}
