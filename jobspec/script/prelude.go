package script

import (
	"strings"

	"github.com/rota-hpc/rota/jobspec/script/shell"
)

// scriptText returns the script of the job: the submitted text, with its arguments set before the
// first command.
func (a *request) scriptText(t *text) string {
	front := a.frontLines(t)
	if len(front) == 0 {
		return t.src
	}
	lines := strings.SplitAfter(t.src, "\n")
	at := min(t.body, len(lines))
	head := strings.Join(lines[:at], "")
	if !strings.HasSuffix(head, "\n") {
		head += "\n"
	}
	return head + strings.Join(front, "\n") + "\n" + strings.Join(lines[at:], "")
}

// frontLines returns the lines to insert before the first command.
func (a *request) frontLines(t *text) []string {
	var lines []string
	if len(a.opts.Args) > 0 {
		if shell.IsShell(t.shebang) {
			words := make([]string, len(a.opts.Args))
			for i, arg := range a.opts.Args {
				words[i] = shellQuoted(arg)
			}
			lines = append(lines, "set -- "+strings.Join(words, " "))
		} else {
			a.addLine(Mistake, CodeArguments, 1, "write the arguments into the script, or start the program from a shell script",
				"only shell scripts can have arguments, but %s runs this script", excerpt(t.shebang))
		}
	}
	return lines
}

// shellQuoted returns text as one word for a shell.
func shellQuoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
