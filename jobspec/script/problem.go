package script

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Kind is the consequence of a problem for the job.
type Kind string

// The kinds of a problem.
const (
	Mistake Kind = "mistake" // not understood: there is no job
	Refused Kind = "refused" // understood but not supported: the job would not do what it says
	Warning Kind = "warning" // left out or done in another way, without harm to the job
)

// Codes of problems in a script or its flags. A code never changes its meaning. Problems of the
// resulting job have the codes of package jobspec.
const (
	CodeNoScript  = "SB-001" // not a script
	CodeLate      = "SB-002" // a directive after the first command
	CodeWords     = "SB-003" // a directive that cannot be split into words
	CodeUnknown   = "SB-004" // no such flag
	CodeAmbiguous = "SB-005" // a short form of several flags
	CodeNoValue   = "SB-006" // a value is missing, or the flag has none
	CodeValue     = "SB-007" // a value that the flag does not allow
	CodeConflict  = "SB-008" // flags that exclude or need each other
	CodeNotHere   = "SB-009" // a flag or value that is not supported
	CodeHetJob    = "SB-011" // components of a heterogeneous job
	CodeArguments = "SB-012" // arguments for a script that cannot have them
	CodeIgnored   = "SB-090" // a flag without effect
	CodeChanged   = "SB-091" // something that is done in another way
	CodeLooksLike = "SB-092" // a comment that looks like a directive
	CodeUnclear   = "SB-094" // something that could not be checked, and may be right
)

// Problem is a mistake in a script, or a part of it that is not done as written.
type Problem struct {
	Kind  Kind   `json:"kind"`
	Code  string `json:"code"`
	Line  int    `json:"line,omitempty"`  // line of the script; 0: elsewhere
	Where string `json:"where,omitempty"` // the variable or "command line", if the flag is not in the script
	Flag  string `json:"flag,omitempty"`  // --mem
	Text  string `json:"text"`
	Hint  string `json:"hint,omitempty"`   // what to do about it
	Quote string `json:"source,omitempty"` // the line
}

// Format writes the problem for users; name is the script's name.
func (p Problem) Format(name string) string {
	var b strings.Builder
	switch {
	case p.Line > 0:
		fmt.Fprintf(&b, "%s:%d: ", name, p.Line)
	case p.Where != "":
		b.WriteString(p.Where + ": ")
	default:
		b.WriteString(name + ": ")
	}
	if p.Kind == Warning {
		b.WriteString("warning: ")
	}
	if p.Flag != "" {
		b.WriteString(p.Flag + " ")
	}
	fmt.Fprintf(&b, "%s (%s)\n", p.Text, p.Code)
	if p.Quote != "" {
		fmt.Fprintf(&b, "%4d | %s\n", p.Line, p.Quote)
	}
	if p.Hint != "" {
		b.WriteString("       " + p.Hint + "\n")
	}
	return b.String()
}

// Error implements error.
func (p Problem) Error() string { return strings.TrimSuffix(p.Format("script"), "\n") }

// Problems are all problems of a script, in the order of its lines.
type Problems []Problem

// Of returns the problems of the given kinds.
func (ps Problems) Of(kinds ...Kind) Problems {
	var out Problems
	for _, p := range ps {
		if slices.Contains(kinds, p.Kind) {
			out = append(out, p)
		}
	}
	return out
}

// Has reports whether there is a problem of a kind.
func (ps Problems) Has(kind Kind) bool { return len(ps.Of(kind)) > 0 }

// Format writes all problems for users; name is the script's name.
func (ps Problems) Format(name string) string {
	var b strings.Builder
	for _, p := range ps {
		b.WriteString(p.Format(name))
	}
	return b.String()
}

// maxProblems bounds the number of problems, because users do not read more.
const maxProblems = 100

// report collects problems.
type report struct {
	list  Problems
	lines []string // lines of the script, for quotes
}

func (n *report) add(p Problem) {
	p.Quote, p.Flag, p.Text, p.Hint = "", excerpt(p.Flag), visible(p.Text), visible(p.Hint)
	if len(n.list) >= maxProblems || slices.ContainsFunc(n.list, p.same) {
		return
	}
	if p.Line > 0 && p.Line <= len(n.lines) {
		p.Quote = excerpt(n.lines[p.Line-1])
	}
	n.list = append(n.list, p)
}

// same reports whether two problems say the same.
func (p Problem) same(q Problem) bool {
	p.Quote = q.Quote
	return p == q
}

// excerpt returns a line for a message, without control characters, cut to 160 characters.
func excerpt(line string) string {
	const most = 160
	line = visible(strings.TrimRight(line, " \t\r\n"))
	if runes := []rune(line); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return line
}

// visible returns text without characters that control a terminal or change the direction of text.
func visible(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\uFFFD':
			return '?'
		}
		return r
	}, text)
}

// addLine adds a problem about a line of the script.
func (n *report) addLine(kind Kind, code string, line int, hint, format string, args ...any) {
	n.add(Problem{Kind: kind, Code: code, Line: line, Text: fmt.Sprintf(format, args...), Hint: hint})
}

// addFlag adds a problem about a flag, with the place of the flag.
func (n *report) addFlag(kind Kind, code string, s setting, hint, format string, args ...any) {
	n.add(Problem{Kind: kind, Code: code, Line: s.line, Where: s.where, Flag: s.shown(),
		Text: fmt.Sprintf(format, args...), Hint: hint})
}

// sorted returns the problems by line; problems without a line come last.
func (n *report) sorted() Problems {
	slices.SortStableFunc(n.list, func(a, b Problem) int {
		if (a.Line == 0) != (b.Line == 0) {
			return b.Line - a.Line
		}
		return a.Line - b.Line
	})
	return n.list
}
