package script

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/script/shell"
)

// text is a script, split into directives and commands.
type text struct {
	src     string // with Unix line ends
	lines   []string
	body    int         // index of the first line after the directives: the first command, or the number of lines
	shebang string      // the first line without #!
	flags   []directive // in their order
	// number of components separated by lines #SBATCH hetjob; 0: one component
	components int
	shell      *shell.Script // parsed commands; nil if the script is no shell script
}

// directive is a line with flags.
type directive struct {
	line  int
	words []string
	own   bool // a line #ROTA
	// component that the line belongs to
	component int
}

// reader splits a script into its parts.
type reader struct {
	*report
	text *text
}

// prefixes are the beginnings of directives.
// sbatch takes #SLURM too, and asks for the usual one.
var prefixes = [...]string{"#SBATCH", "#ROTA", "#SLURM"}

// readText checks that src is a script, and finds its directives and commands. It returns nil if
// src is no script.
func readText(src []byte, n *report) *text {
	if !isText(src, n) {
		return nil
	}
	unix := strings.ReplaceAll(strings.TrimPrefix(string(src), "\uFEFF"), "\r\n",
		"\n") // remove a byte order mark, and convert the line ends of DOS
	t := &text{src: unix, lines: strings.Split(unix, "\n")}
	n.lines = t.lines
	first := t.lines[0]
	line, found := strings.CutPrefix(first, "#!")
	if t.shebang = strings.TrimSpace(line); !found || t.shebang == "" {
		n.addLine(Mistake, CodeNoScript, 1, "name the program that runs the script there, such as #!/bin/bash",
			"this is not a batch script: its first line does not begin with #! and a program")
		return nil
	}
	if len(unix) != len(src) {
		n.addLine(Warning, CodeChanged, 0, "", "DOS line ends and the byte order mark are removed")
	}
	r := &reader{n, t}
	r.readHead()
	from := 0
	for _, line := range t.lines[:t.body] {
		from += len(line) + 1
	}
	if from = min(from, len(t.src)); shell.HasDocuments(t.shebang) {
		t.shell = shell.Parse(t.src, t.shebang, from)
	}
	r.warnOfLate(from)
	return t
}

// isText reports whether src can be a script. Otherwise it adds the reason as a problem.
func isText(src []byte, n *report) bool {
	line := 1 + strings.Count(string(src[:max(0, firstInvalid(src))]), "\n")
	switch bad := firstInvalid(src); {
	case len(src) == 0:
		n.addLine(Mistake, CodeNoScript, 0, "write the commands to run, below a first line #!/bin/bash",
			"the script is empty")
	case len(src) > jobspec.MaxScriptBytes:
		n.addLine(Mistake, CodeNoScript, 0, "keep data in files of their own",
			"the script has %d bytes; at most %d are taken", len(src), jobspec.MaxScriptBytes)
	case bad >= 0 && src[bad] == 0:
		n.add(Problem{Kind: Mistake, Code: CodeNoScript, Line: line, Text: "the script has a NUL byte, so it is not a text " +
			"file",
			Hint: "is this the program itself? Submit a script that starts it"})
	case bad >= 0:
		n.add(Problem{Kind: Mistake, Code: CodeNoScript, Line: line, Text: "the script is not in UTF-8",
			Hint: "convert it: iconv -f ISO-8859-1 -t UTF-8"})
	default:
		return true
	}
	return false
}

// firstInvalid returns the offset of the first byte that is NUL or not UTF-8, or -1.
func firstInvalid(src []byte) int {
	for i := 0; i < len(src); {
		r, size := utf8.DecodeRune(src[i:])
		if src[i] == 0 || r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// readHead reads the lines before the first command.
func (r *reader) readHead() {
	for i, line := range r.text.lines {
		r.text.body = i
		switch trimmed := strings.TrimSpace(line); {
		case i == 0:
		case trimmed == "":
		case trimmed[0] != '#':
			return
		default:
			r.readComment(i+1, line)
		}
	}
	r.text.body = len(r.text.lines)
}

// readComment reads a line that begins with #, which may be a directive.
func (r *reader) readComment(number int, line string) {
	for _, prefix := range prefixes {
		rest, found := strings.CutPrefix(line, prefix)
		if !found {
			continue
		}
		blank := rest == "" || rest[0] == ' ' || rest[0] == '\t'
		switch {
		case prefix == "#SLURM" && (!blank || !strings.HasPrefix(strings.TrimSpace(rest), "-")):
			return // a comment about Slurm
		case prefix == "#SLURM":
			r.addLine(Warning, CodeLooksLike, number, "write #SBATCH"+excerpt(rest), "it counts as #SBATCH, as in Slurm")
		case blank || prefix == "#SBATCH" && rest[0] == '-':
		case prefix == "#ROTA" && startsWord(rest):
			return // a comment about rotations
		default:
			r.addLine(Mistake, CodeWords, number, "write a blank there; #"+prefix+" begins a comment",
				"a blank is missing after %s", prefix)
			return
		}
		r.readDirective(number, rest, prefix == "#ROTA")
		return
	}
	r.warnOfLookalike(number, line)
}

// startsWord reports whether a text begins with a letter.
func startsWord(text string) bool {
	c, _ := utf8.DecodeRuneInString(text)
	return unicode.IsLetter(c)
}

// warnOfLookalike warns of a comment that may be a mistyped directive.
func (r *reader) warnOfLookalike(number int, line string) {
	bare := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#"))
	word, rest, _ := strings.Cut(bare, " ")
	if rest = strings.TrimSpace(rest); !strings.HasPrefix(rest, "-") {
		return
	}
	switch {
	case strings.HasPrefix(strings.TrimSpace(line), "##"):
	case strings.EqualFold(word, "SBATCH"), strings.EqualFold(word, "ROTA"):
		r.addLine(Warning, CodeLooksLike, number,
			fmt.Sprintf("write #%s at the start of the line to make it one",
				strings.ToUpper(word)), "this is a comment, not a directive")
	case word == "PBS" || word == "BSUB" || word == "OAR" || word == "$" || word == "FLUX:":
		r.addLine(Warning, CodeLooksLike, number, "write #SBATCH, with Slurm's flags",
			"directives of other batch systems are comments")
	}
}

func (r *reader) readDirective(number int, rest string, own bool) {
	words, err := SplitWords(rest, true)
	if err != nil {
		r.addLine(Mistake, CodeWords, number, "", "%v", err)
		return
	}
	if len(words) == 1 && (words[0] == "hetjob" || words[0] == "packjob") {
		r.text.components = max(r.text.components, 1) + 1
		return
	}
	if len(words) > 0 {
		r.text.flags = append(r.text.flags, directive{number, words, own, max(r.text.components-1, 0)})
	}
}

// SplitWords splits a directive as sbatch does: quotes keep blanks in a word, and a backslash
// escapes the next character. comments: a word that starts with # starts a comment
func SplitWords(line string, comments bool) ([]string, error) {
	var words []string
	var word strings.Builder
	open, quote := false, byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote == '\'' && c != '\'', quote == '"' && c != '"' && c != '\\':
			word.WriteByte(c)
		case quote != 0 && c == quote:
			quote = 0
		case c == '\\' && i+1 < len(line):
			i++
			word.WriteByte(line[i])
			open = true
		case c == '\\':
			return nil, fmt.Errorf("\\ at the end of a directive does not continue it on the next line")
		case c == '\'' || c == '"':
			quote, open = c, true
		case c == ' ' || c == '\t':
			if open {
				words, open = append(words, word.String()), false
				word.Reset()
			}
		case comments && c == '#' && !open:
			return words, nil
		default:
			word.WriteByte(c)
			open = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("the quote %c is not closed", quote)
	}
	if open {
		words = append(words, word.String())
	}
	return words, nil
}

// warnOfLate warns of directives after the first command, because sbatch ignores them and users
// believe that they count. In here-documents such lines are text.
func (r *reader) warnOfLate(at int) {
	var texts []shell.Span
	if r.text.shell != nil {
		texts = r.text.shell.Documents
	}
	for i, line := range r.text.lines[r.text.body:] {
		for len(texts) > 0 && texts[0].End <= at {
			texts = texts[1:]
		}
		if len(texts) == 0 || at < texts[0].Begin {
			r.warnOfLateLine(r.text.body+i+1, line)
		}
		at += len(line) + 1
	}
}

func (r *reader) warnOfLateLine(number int, line string) {
	for _, prefix := range prefixes {
		rest, found := strings.CutPrefix(line, prefix)
		if !found || rest == "" || rest[0] != ' ' && rest[0] != '\t' || !strings.HasPrefix(strings.TrimSpace(rest), "-") {
			continue
		}
		r.addLine(Warning, CodeLate, number, fmt.Sprintf("move it above line %d, or write #%s to switch it off",
			r.text.body+1, prefix),
			"a directive after the first command (line %d) has no effect", r.text.body+1)
	}
}
