// Package diagnostic has the mistakes in a file: code, place, source line and hint, as text and for
// editors.
package diagnostic

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Codes of mistakes in the language. Each keeps its meaning for ever.
const (
	CodeSyntax        = "JS-001" // not HCL
	CodeEncoding      = "JS-002" // not UTF-8, or no text
	CodeLimit         = "JS-003" // too large, too deep, or too much to compute
	CodeUnknownName   = "JS-004" // no such attribute or block
	CodeDuplicate     = "JS-005" // a block that may be written once
	CodeMissing       = "JS-006" // an attribute or block that must be written
	CodeLabels        = "JS-007" // too many or too few labels
	CodeForm          = "JS-008" // an attribute written as a block, or the reverse
	CodeType          = "JS-010" // a value of another type
	CodeNoUnit        = "JS-011" // a duration or size without its unit
	CodeQuantity      = "JS-012" // not a duration or size
	CodeRange         = "JS-013" // a number that cannot be meant
	CodeValue         = "JS-014" // a value that its attribute refuses
	CodeReference     = "JS-020" // no such variable, local or name
	CodeFunction      = "JS-021" // no such function
	CodeExpression    = "JS-022" // an expression that cannot be computed
	CodeDeferred      = "JS-023" // a reference that only has a value once the job runs
	CodeCycle         = "JS-024" // locals that need each other
	CodeDeferredUse   = "JS-025" // something computed with such a reference
	CodeDynamic       = "JS-026" // a dynamic block that cannot be expanded
	CodeVariable      = "JS-030" // a variable without a value, or badly declared
	CodeVariableValue = "JS-031" // a value of another type than the variable
	CodeVariableRule  = "JS-032" // a value that the variable's validation refuses
	CodeNoVariable    = "JS-033" // a value for a variable that is not declared
	CodeVariableFile  = "JS-034" // a file of values that cannot be read
	CodeUnsupported   = "JS-050" // known, and not honoured by this version
)

// Pos is a place in a file; both numbers start at 1, columns count characters.
type Pos struct {
	Line   int `json:"line"`
	Column int `json:"column"`
}

// Diagnostic is one thing that is wrong with a file, where it is and what to do about it.
type Diagnostic struct {
	Code  string `json:"code"`
	File  string `json:"file"`
	Start Pos    `json:"start"`
	End   Pos    `json:"end"` // one behind the last character
	Text  string `json:"text"`
	Hint  string `json:"hint,omitempty"`
	Line  string `json:"source,omitempty"` // the line of Start

	start, end int // UTF-16 units in front of Start and End in their lines
	shift      int // how many characters of the line are left out in front of Line
}

// Diagnostics are all that is wrong with a file, in its order. They are an error when there are
// any.
type Diagnostics []Diagnostic

// HasErrors reports whether the file was refused.
func (d Diagnostics) HasErrors() bool { return len(d) > 0 }

// Error implements error with one line for each.
func (d Diagnostics) Error() string {
	lines := make([]string, len(d))
	for i, one := range d {
		lines[i] = one.headline()
		if one.Hint != "" {
			lines[i] += "; " + one.Hint
		}
	}
	return strings.Join(lines, "\n")
}

func (d Diagnostic) headline() string {
	where := d.File
	if d.Start.Line > 0 {
		where = fmt.Sprintf("%s:%d:%d", d.File, d.Start.Line, d.Start.Column)
	}
	return fmt.Sprintf("%s: %s (%s)", where, d.Text, d.Code)
}

// Terminal colours.
const (
	bold  = "\x1b[1m"
	red   = "\x1b[31m"
	cyan  = "\x1b[36m"
	plain = "\x1b[0m"
)

// WriteText writes d for users: position and text, the source line with the place underlined, and
// the hint.
func (d Diagnostics) WriteText(w io.Writer, color bool) error {
	paint := func(code, text string) string {
		if !color {
			return text
		}
		return code + text + plain
	}
	var b strings.Builder
	for i, one := range d {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(paint(bold, one.headline()) + "\n")
		if one.Line != "" {
			number := fmt.Sprintf("%4d", one.Start.Line)
			fmt.Fprintf(&b, "%s | %s\n     | %s\n", number, one.Line, paint(red, one.underline()))
		}
		if one.Hint != "" {
			b.WriteString("       " + paint(cyan, one.Hint) + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// InOrder sorts by file and place, and removes repetitions.
func (d Diagnostics) InOrder() Diagnostics {
	slices.SortStableFunc(d, func(a, b Diagnostic) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Start.Line-b.Start.Line, a.Start.Column-b.Start.Column)
	})
	return slices.CompactFunc(d, func(a, b Diagnostic) bool { return a.headline() == b.headline() })
}

// Merge adds more to d and puts all in the order of the file.
func (d Diagnostics) Merge(more Diagnostics) Diagnostics {
	return append(d[:len(d):len(d)], more...).InOrder()
}
