// Package shell finds the commands of a shell script and their places in the text. mvdan.cc/sh
// parses the text. A script with mistakes is read as far as possible: the parser starts again after
// a line that it refuses.
package shell

import (
	"cmp"
	"errors"
	"path"
	"slices"
	"sort"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Script is what Parse finds in a script. Each list is in the order of the text.
type Script struct {
	Commands  []Command
	Documents []Span // here-documents, including their end markers
}

// Span is a part of a text, in bytes. End is the first byte behind it.
type Span struct{ Begin, End int }

// Command is one simple command: a program or function with its arguments, without the variables
// assigned before it.
type Command struct {
	Line  int // line of the first word, from 1
	Words []Word
}

// Word is one word of a command, as written.
type Word struct {
	Span
	Raw string
}

// Name returns the program of a command without its directory, "." if the program is unknown. when
// that is not known.
func (c Command) Name() string { return path.Base(c.Words[0].Plain()) }

// Plain returns a word without the quotes around it, "" when only the shell can compute its value.
func (w Word) Plain() string {
	text := w.Raw
	if n := len(text); n >= 2 && (text[0] == '"' || text[0] == '\'') && text[n-1] == text[0] {
		text = text[1 : n-1]
	}
	if strings.ContainsAny(text, "\"'\\`") || strings.Contains(text, "$(") {
		return ""
	}
	return text
}

// IsShell reports whether a shell runs the script, by the text behind its #!. Shells of the family
// of csh, whose language is another one, do not count.
func IsShell(shebang string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "zsh", "ksh", "ksh93", "mksh"}, interpreter(shebang))
}

// HasDocuments reports whether the program behind #! knows here-documents.
func HasDocuments(shebang string) bool { return IsShell(shebang) || strings.Contains(shebang, "csh") }

// interpreter returns the program behind #! without its directory. It passes over env and flags.
func interpreter(shebang string) string {
	for i, word := range strings.Fields(shebang) {
		base := word[strings.LastIndex(word, "/")+1:]
		if base != "env" && (i == 0 || !strings.HasPrefix(word, "-")) {
			return base
		}
	}
	return ""
}

// reader collects what a script has.
type reader struct {
	src    string
	starts []int // of lines
	found  Script
}

const (
	// maxMistakes bounds how often the parser starts again behind a mistake, and maxReads how much
	// it reads in all, in multiples of the script's length.
	maxMistakes, maxReads = 1000, 4
	// maxDepth bounds how deeply a statement is searched. Scripts written by hand are not
	// nested as deeply.
	maxDepth = 10_000
)

// Parse finds the commands of a script that begin at the byte from or behind it.
func Parse(src, shebang string, from int) *Script {
	r := &reader{src: src, starts: []int{0}}
	for i := range len(src) {
		if src[i] == '\n' {
			r.starts = append(r.starts, i+1)
		}
	}
	language := syntax.LangBash // it has what sh, dash and ksh have
	if interpreter(shebang) == "zsh" {
		language = syntax.LangZsh
	}
	parser := syntax.NewParser(syntax.Variant(language))
	frames := make([]uintptr, maxFrames)
	given := 0
	for mistakes := 0; mistakes < maxMistakes && given <= maxReads*len(src); mistakes++ {
		in := &input{text: r.src[from:], frames: frames}
		next, err := r.statements(parser, in, from)
		if err == nil {
			break
		}
		from, given = next, given+in.given
	}
	slices.SortStableFunc(r.found.Commands, func(a, b Command) int {
		return cmp.Compare(a.Words[0].Begin, b.Words[0].Begin)
	})
	slices.SortStableFunc(r.found.Documents, func(a, b Span) int { return cmp.Compare(a.Begin, b.Begin) })
	return &r.found
}

// statements reads statements up to the end, or to the first mistake. Then it returns the place
// where to go on.
func (r *reader) statements(parser *syntax.Parser, in *input, from int) (next int, err error) {
	next = from
	for stmt, mistake := range parser.StmtsSeq(in) {
		if stmt != nil {
			r.statement(stmt, from)
			next = max(next, from+int(stmt.End().Offset()))
			if n := len(r.found.Documents); n > 0 {
				next = max(next, r.found.Documents[n-1].End)
			}
		}
		err = cmp.Or(err, mistake)
	}
	var at syntax.ParseError
	switch {
	case err == nil:
	case errors.As(err, &at) && strings.HasPrefix(at.Text, "unclosed here-document"):
		r.endDocument(from + int(at.Pos.Offset()))
	case next == from: // not one statement was read, so its first line is passed over
		begin := from + len(r.src[from:]) - len(strings.TrimLeft(r.src[from:], " \t\n"))
		next = r.nextLine(begin)
	}
	return next, err
}

// endDocument makes an unclosed here-document end with the script, as the shell does. It cuts off
// the text, and the command that reads it reads a file instead.
func (r *reader) endDocument(at int) {
	at += strings.Index(r.src[at:], "<<")
	end := r.nextLine(at)
	r.found.Documents = append(r.found.Documents, Span{end, len(r.src)})
	r.src = r.src[:at] + " <" + r.src[at+2:end]
}

// nextLine returns where the line behind a place begins.
func (r *reader) nextLine(at int) int {
	if i := r.line(at); i < len(r.starts) {
		return min(r.starts[i], len(r.src))
	}
	return len(r.src)
}

// line returns the number of the line that holds a place.
func (r *reader) line(at int) int { return sort.SearchInts(r.starts, at+1) }

// statement searches one statement. Places in it count from the byte from of the script.
func (r *reader) statement(stmt *syntax.Stmt, from int) {
	depth := 0
	syntax.Walk(stmt, func(node syntax.Node) bool {
		if node == nil {
			depth--
			return false
		}
		switch n := node.(type) {
		case *syntax.CallExpr:
			r.call(n, from)
		case *syntax.Redirect:
			r.document(n, from)
		}
		if depth >= maxDepth {
			return false
		}
		depth++
		return true
	})
}

// document adds a here-document, with the line that ends it.
func (r *reader) document(redirect *syntax.Redirect, from int) {
	if redirect.Op != syntax.Hdoc && redirect.Op != syntax.DashHdoc {
		return
	}
	begin := r.nextLine(from + int(redirect.OpPos.Offset()))
	text := Span{begin, begin} // for an empty one
	if redirect.Hdoc != nil {
		text = r.span(redirect.Hdoc, from)
	}
	text.End = r.nextLine(text.End)
	r.found.Documents = append(r.found.Documents, text)
}

func (r *reader) span(n syntax.Node, from int) Span {
	return Span{from + int(n.Pos().Offset()), from + int(n.End().Offset())}
}

// prefixes are commands that start the command behind them.
var prefixes = []string{"exec", "command", "nohup", "env", "builtin"}

// call adds a simple command.
func (r *reader) call(call *syntax.CallExpr, from int) {
	var words []Word
	for _, w := range call.Args {
		words = append(words, r.word(w, from))
	}
	for len(words) > 0 && (isAssignment(words[0].Raw) || slices.Contains(prefixes, words[0].Raw)) {
		words = words[1:]
	}
	if len(words) == 0 {
		return
	}
	r.found.Commands = append(r.found.Commands, Command{Words: words, Line: r.line(words[0].Begin)})
}

func (r *reader) word(n syntax.Node, from int) Word {
	s := r.span(n, from)
	return Word{s, r.src[s.Begin:s.End]}
}

// isAssignment reports whether a word is NAME=VALUE.
func isAssignment(raw string) bool {
	name, _, is := strings.Cut(raw, "=")
	return is && syntax.ValidName(name)
}
