package hclfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
)

// Codes of what can be wrong with a file before its meaning is looked at. Each keeps its meaning for ever.
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
}

// Diagnostics are all that is wrong with a file, in its order. They are an error when there are any.
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

// JSON writes d for editors and programs: {"diagnostics":[…]}.
func (d Diagnostics) JSON() ([]byte, error) {
	list := struct {
		Diagnostics []Diagnostic `json:"diagnostics"`
	}{append([]Diagnostic{}, d...)}
	return json.MarshalIndent(list, "", "  ")
}

// Terminal colours.
const (
	bold  = "\x1b[1m"
	red   = "\x1b[31m"
	cyan  = "\x1b[36m"
	plain = "\x1b[0m"
)

// WriteText writes d for people: position and text, the source line with the place underlined, and the hint.
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

// underline puts carets below the part of the line that is meant; tabs stay tabs so that it lines up.
func (d Diagnostic) underline() string {
	var b strings.Builder
	column := 1
	for _, r := range d.Line {
		if column >= d.Start.Column {
			break
		}
		if r == '\t' {
			b.WriteByte('\t')
		} else {
			b.WriteByte(' ')
		}
		column++
	}
	width := 1
	if d.End.Line == d.Start.Line {
		width = max(1, d.End.Column-d.Start.Column)
	} else if d.End.Line > d.Start.Line {
		width = max(1, utf8.RuneCountInString(d.Line)-d.Start.Column+1)
	}
	b.WriteString(strings.Repeat("^", width))
	return b.String()
}

// maxLineShown bounds a source line in a diagnostic; a longer one is left out.
const maxLineShown = 160

// maxDiagnostics bounds how many are kept for one file: behind that, nobody reads.
const maxDiagnostics = 50

func (r *reader) add(at hcl.Range, code, hint, format string, args ...any) {
	if len(r.diags) < maxDiagnostics {
		r.diags = append(r.diags, r.diagnostic(at, code, hint, fmt.Sprintf(format, args...)))
	}
}

// once adds a diagnostic unless there is the same already.
func (r *reader) once(at hcl.Range, code, hint, format string, args ...any) {
	one := r.diagnostic(at, code, hint, fmt.Sprintf(format, args...))
	if len(r.diags) < maxDiagnostics && !slices.Contains(r.diags, one) {
		r.diags = append(r.diags, one)
	}
}

func (r *reader) diagnostic(at hcl.Range, code, hint, text string) Diagnostic {
	d := Diagnostic{
		Code: code, File: at.Filename, Text: r.withoutSecrets(text), Hint: r.withoutSecrets(hint), Line: r.lineShown(at),
		Start: Pos{at.Start.Line, at.Start.Column}, End: Pos{at.End.Line, at.End.Column},
	}
	src := r.sources[at.Filename]
	d.Start.Column, d.start = columns(src, at.Start)
	d.End.Column, d.end = columns(src, at.End)
	return d
}

// columns counts the characters and the UTF-16 units in front of a place. The parser counts what is seen as one character, which the
// caret line and editors do not.
func columns(src []byte, at hcl.Pos) (column, utf16Units int) {
	if at.Line == 0 || at.Byte > len(src) || src == nil {
		return at.Column, max(0, at.Column-1)
	}
	before := src[bytes.LastIndexByte(src[:at.Byte], '\n')+1 : at.Byte]
	for _, r := range string(before) {
		utf16Units += max(1, utf16.RuneLen(r))
	}
	return utf8.RuneCount(before) + 1, utf16Units
}

// addHCL takes over what the parser or the evaluator found.
func (r *reader) addHCL(code, hint string, found hcl.Diagnostics) {
	for _, one := range found {
		if one.Severity != hcl.DiagError {
			continue
		}
		at := hcl.Range{Filename: r.name}
		if one.Subject != nil {
			at = *one.Subject
		}
		text := strings.TrimSuffix(one.Summary, ".")
		if one.Detail != "" {
			text += ": " + one.Detail
		}
		r.add(at, code, hint, "%s", strings.Join(strings.Fields(strings.TrimSuffix(text, ".")), " "))
	}
}

// lineAt returns the line of src that holds the byte at offset, without its end.
func lineAt(src []byte, offset int) string {
	if offset > len(src) || len(src) == 0 {
		return ""
	}
	start := offset
	for start > 0 && src[start-1] != '\n' {
		start--
	}
	end := offset
	for end < len(src) && src[end] != '\n' {
		end++
	}
	line := strings.TrimSuffix(string(src[start:end]), "\r")
	if len(line) > maxLineShown || !utf8.ValidString(line) || strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' }) {
		return ""
	}
	return line
}

// inOrder sorts by place, keeps the first of what says the same twice, and keeps files together.
func (d Diagnostics) inOrder() Diagnostics {
	slices.SortStableFunc(d, func(a, b Diagnostic) int {
		if a.File != b.File {
			return strings.Compare(a.File, b.File)
		}
		if a.Start.Line != b.Start.Line {
			return a.Start.Line - b.Start.Line
		}
		return a.Start.Column - b.Start.Column
	})
	return slices.CompactFunc(d, func(a, b Diagnostic) bool { return a.headline() == b.headline() })
}
