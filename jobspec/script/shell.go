package script

import (
	"path"
	"slices"
	"sort"
	"strings"
)

// command is one simple command of a shell script.
type command struct {
	begin, end int
	line       int
	words      []word
	inside     bool // within $( ), ` `, ( ), or a pipe that feeds it
	block      bool // within a loop, condition or function
}

// name is the program, without its directory.
func (c command) name() string { return path.Base(c.words[0].plain()) }

// assignment is NAME=VALUE in front of a command or alone.
type assignment struct {
	line        int
	name, value string
}

// document is a here-document that is to come: it ends with a line, which may have tabs in front when it was begun with <<-.
type document struct {
	last string
	tabs bool
}

// span is a part of a text.
type span struct{ begin, end int }

// output is a file that a command makes anew, by a redirection.
type output struct {
	of   int // where the command begins
	file string
}

// shell finds the simple commands of a script. It understands quotes, comments, here-documents, substitutions and blocks as far as it takes
// to know where a command begins; what it cannot follow, it passes over.
type shell struct {
	src         string
	i           int
	starts      []int // of lines
	out         []command
	assignments []assignment
	outputs     []output
	depth       int // of blocks
	nested      int // of substitutions
	parens      int
	ticked      bool       // within backticks, so that one more ends it
	pending     []document // here-documents that begin in this line
	texts       []span     // of here-documents, in their order

	words   []word // of the command that is being read
	open    bool   // a command has begun
	feeding bool   // the last separator was a pipe
}

const maxNesting = 40

// parse finds the commands of src that begin at or behind from.
func parse(src string, from int) *shell {
	sh := &shell{src: src, i: from, starts: []int{0}}
	for i := range len(src) {
		if src[i] == '\n' {
			sh.starts = append(sh.starts, i+1)
		}
	}
	for sh.i < len(sh.src) {
		sh.list(0)
	}
	sort.SliceStable(sh.out, func(i, j int) bool { return sh.out[i].begin < sh.out[j].begin })
	return sh
}

// line returns the number of the line that holds a place.
func (sh *shell) line(at int) int { return sort.SearchInts(sh.starts, at+1) }

// lineEnd is the end of the line that holds a place, and of those that it goes on in.
func (sh *shell) lineEnd(at int) int {
	for at < len(sh.src) && (sh.src[at] != '\n' || at > 0 && sh.src[at-1] == '\\') {
		at++
	}
	return at
}

// list reads commands up to the end of the substitution that it is in: ) or `, or 0 for the whole text.
func (sh *shell) list(end byte) {
	outer, open, feeding, parens := sh.words, sh.open, sh.feeding, sh.parens
	sh.words, sh.open, sh.feeding, sh.parens = nil, false, false, 0
	defer func() { sh.words, sh.open, sh.feeding, sh.parens = outer, open, feeding, parens }()
	for sh.i < len(sh.src) {
		c := sh.src[sh.i]
		switch {
		case c == ' ' || c == '\t':
			sh.i++
		case c == '\\' && strings.HasPrefix(sh.src[sh.i:], "\\\n"):
			sh.i += 2
		case c == end && (end == '`' || end == ')' && sh.parens == 0):
			sh.flush()
			sh.i++
			return
		default:
			sh.token(c)
		}
	}
	sh.flush()
}

// token reads one word, operator or comment.
func (sh *shell) token(c byte) {
	switch c {
	case '#':
		for sh.i < len(sh.src) && sh.src[sh.i] != '\n' {
			sh.i++
		}
	case '\n':
		sh.flush()
		sh.i++
		sh.feeding = false
		sh.documents()
	case ';', '&', '|':
		if strings.HasPrefix(sh.src[sh.i:], "&>") {
			sh.redirect()
			return
		}
		sh.flush()
		sh.feeding = c == '|' && !strings.HasPrefix(sh.src[sh.i:], "||")
		for sh.i < len(sh.src) && sh.src[sh.i] == c {
			sh.i++
		}
	case '(':
		sh.paren()
	case ')':
		sh.flush()
		sh.parens = max(sh.parens-1, 0)
		sh.i++
	case '<', '>':
		sh.redirect()
	default:
		sh.command(sh.word())
	}
}

// paren reads ( of a subshell, of arithmetic, or of a function's name.
func (sh *shell) paren() {
	if len(sh.words) == 1 && sh.open && strings.HasPrefix(sh.src[sh.i:], "()") {
		sh.i += 2
		sh.words, sh.open = nil, false
		return
	}
	if strings.HasPrefix(sh.src[sh.i:], "((") && !sh.open {
		sh.i = sh.behind(sh.i+2, "))")
		return
	}
	sh.flush()
	sh.parens++
	sh.i++
}

// redirect reads < and > with what they are about.
func (sh *shell) redirect() {
	rest := sh.src[sh.i:]
	switch {
	case strings.HasPrefix(rest, "<<<"):
		sh.i += 3
		sh.blanks()
		sh.word()
	case strings.HasPrefix(rest, "<<"):
		sh.i += 2
		tabs := strings.HasPrefix(sh.src[sh.i:], "-")
		if tabs {
			sh.i++
		}
		sh.blanks()
		if w := sh.word(); w.raw != "" {
			sh.pending = append(sh.pending, document{strings.NewReplacer("'", "", `"`, "", `\`, "").Replace(w.raw), tabs})
		}
	case strings.HasPrefix(rest, "<(") || strings.HasPrefix(rest, ">("):
		sh.i += 2
		sh.within(')')
	default:
		begin := sh.i
		for sh.i < len(sh.src) && strings.IndexByte("<>&|", sh.src[sh.i]) >= 0 {
			sh.i++
		}
		operator := sh.src[begin:sh.i]
		sh.blanks()
		sh.output(operator, sh.word().raw)
	}
}

// output notes a file that the command which is being read makes anew.
func (sh *shell) output(operator, target string) {
	copied := strings.HasSuffix(operator, "&") && strings.Trim(target, "0123456789-") == "" // 2>&1
	if sh.open && !copied && target != "" && (operator == ">" || operator == ">|" || operator == ">&" || operator == "&>") {
		sh.outputs = append(sh.outputs, output{sh.words[0].begin, target})
	}
}

func (sh *shell) blanks() {
	for sh.i < len(sh.src) && (sh.src[sh.i] == ' ' || sh.src[sh.i] == '\t') {
		sh.i++
	}
}

// documents passes over the here-documents that began in the line that has ended.
func (sh *shell) documents() {
	begin := sh.i
	for _, d := range sh.pending {
		for sh.i < len(sh.src) {
			line, _, _ := strings.Cut(sh.src[sh.i:], "\n")
			sh.i = min(sh.i+len(line)+1, len(sh.src))
			if line == d.last || d.tabs && strings.TrimLeft(line, "\t") == d.last {
				break
			}
		}
	}
	if sh.i > begin {
		sh.texts = append(sh.texts, span{begin, sh.i})
	}
	sh.pending = nil
}

// within reads a substitution.
func (sh *shell) within(end byte) {
	if sh.nested >= maxNesting {
		sh.i = len(sh.src)
		return
	}
	outer := sh.ticked
	sh.ticked = outer || end == '`'
	sh.nested++
	sh.list(end)
	sh.nested--
	sh.ticked = outer
}

// Words with a meaning of their own at the start of a command.
var (
	opening  = map[string]bool{"if": true, "while": true, "until": true, "for": true, "case": true, "select": true, "{": true}
	closing  = map[string]bool{"fi": true, "done": true, "esac": true, "}": true}
	stepping = map[string]bool{"then": true, "do": true, "else": true, "elif": true, "!": true, "if": true, "while": true, "until": true, "{": true,
		"time": true, "exec": true, "command": true, "nohup": true, "env": true, "builtin": true}
)

// command takes a word into the command that is being read.
func (sh *shell) command(w word) {
	if digits := strings.Trim(w.raw, "0123456789") == ""; digits && w.end < len(sh.src) && (sh.src[w.end] == '<' || sh.src[w.end] == '>') {
		return // the number of a descriptor
	}
	if sh.open {
		if sh.words[0].raw == "function" && w.raw == "{" {
			sh.depth++
			sh.words, sh.open = nil, false
			return
		}
		sh.words = append(sh.words, w)
		return
	}
	if name, value, is := assigned(w.raw); is {
		sh.assignments = append(sh.assignments, assignment{sh.line(w.begin), name, value})
		return
	}
	if opening[w.raw] {
		sh.depth++
	}
	if closing[w.raw] {
		sh.depth = max(sh.depth-1, 0)
		return
	}
	if stepping[w.raw] {
		return
	}
	sh.words, sh.open = []word{w}, true
}

// assigned splits NAME=VALUE.
func assigned(raw string) (name, value string, is bool) {
	name, value, is = strings.Cut(raw, "=")
	name = strings.TrimSuffix(name, "+")
	if i := strings.IndexByte(name, '['); i > 0 {
		name = name[:i]
	}
	if !is || name == "" || strings.Trim(name, "_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789") != "" || name[0] >= '0' && name[0] <= '9' {
		return "", "", false
	}
	return name, value, true
}

// flush ends the command that is being read.
func (sh *shell) flush() {
	if sh.open {
		first, last := sh.words[0], sh.words[len(sh.words)-1]
		sh.out = append(sh.out, command{
			begin: first.begin, end: last.end, line: sh.line(first.begin), words: sh.words, inside: sh.nested > 0 || sh.parens > 0 || sh.feeding, block: sh.depth > 0,
		})
	}
	sh.words, sh.open = nil, false
}

// likeShell reports whether a program has here-documents as shells have them, whose language may be another.
func likeShell(shebang string) bool { return shellScript(shebang) || strings.Contains(shebang, "csh") }

// shellScript reports whether the program in the first line is a shell whose language is understood.
func shellScript(shebang string) bool {
	words := strings.Fields(shebang)
	for i, w := range words {
		base := w[strings.LastIndex(w, "/")+1:]
		switch {
		case base == "env" || i > 0 && strings.HasPrefix(w, "-"):
		default:
			return slices.Contains([]string{"sh", "bash", "dash", "zsh", "ksh", "ksh93", "mksh"}, base)
		}
	}
	return false
}
