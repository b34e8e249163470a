package script

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/script/shell"
)

// text is a script, taken apart.
type text struct {
	src     string // with the line ends of Unix
	lines   []string
	body    int           // index of the first line behind the directives: the first command, or the number of lines
	shebang string        // the first line without #!
	flags   []directive   // in their order
	shell   *shell.Script // its commands; nil when no shell runs it
}

// directive is one line of flags.
type directive struct {
	line  int
	words []string
	own   bool // #ROTA
}

// reader takes a script apart.
type reader struct {
	*notes
	text *text
}

// prefixes of lines that carry flags.
var prefixes = [...]string{"#SBATCH", "#ROTA"}

// readText checks that src is a script and finds its directives. It returns nil when it is none.
func readText(src []byte, n *notes) *text {
	if !isText(src, n) {
		return nil
	}
	unix := strings.ReplaceAll(strings.TrimPrefix(string(src), "\uFEFF"), "\r\n", "\n") // a byte order mark, and the line ends of DOS
	t := &text{src: unix, lines: strings.Split(unix, "\n")}
	n.lines = t.lines
	first := t.lines[0]
	line, found := strings.CutPrefix(first, "#!")
	if t.shebang = strings.TrimSpace(line); !found || t.shebang == "" {
		n.at(Mistake, CodeNoScript, 1, "write the program that runs the script there, such as #!/bin/bash",
			"this is not a batch script: its first line does not begin with #! and a program")
		return nil
	}
	if len(unix) != len(src) {
		n.at(Warning, CodeChanged, 0, "", "the line ends of DOS, or its byte order mark, are taken out")
	}
	r := &reader{n, t}
	r.head()
	from := 0
	for _, line := range t.lines[:t.body] {
		from += len(line) + 1
	}
	if from = min(from, len(t.src)); shell.HasDocuments(t.shebang) {
		t.shell = shell.Parse(t.src, t.shebang, from)
	}
	r.late(from)
	return t
}

// isText refuses what no shell could read.
func isText(src []byte, n *notes) bool {
	line := 1 + strings.Count(string(src[:max(0, firstBad(src))]), "\n")
	switch bad := firstBad(src); {
	case len(src) == 0:
		n.at(Mistake, CodeNoScript, 0, "write the commands to run, below a first line #!/bin/bash", "the script is empty")
	case len(src) > jobspec.MaxScriptBytes:
		n.at(Mistake, CodeNoScript, 0, "keep data in files of their own", "the script has %d bytes; at most %d are taken", len(src), jobspec.MaxScriptBytes)
	case bad >= 0 && src[bad] == 0:
		n.add(Problem{Kind: Mistake, Code: CodeNoScript, Line: line, Text: "the script has a NUL byte, so it is no text", Hint: "is this the program itself? Submit a script that starts it"})
	case bad >= 0:
		n.add(Problem{Kind: Mistake, Code: CodeNoScript, Line: line, Text: "the script is not in UTF-8", Hint: "convert it: iconv -f ISO-8859-1 -t UTF-8"})
	default:
		return true
	}
	return false
}

// firstBad is the place of the first NUL byte or of what is not UTF-8, -1 when there is none.
func firstBad(src []byte) int {
	for i := 0; i < len(src); {
		r, size := utf8.DecodeRune(src[i:])
		if src[i] == 0 || r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// head reads the lines in front of the first command.
func (r *reader) head() {
	for i, line := range r.text.lines {
		r.text.body = i
		switch trimmed := strings.TrimSpace(line); {
		case i == 0:
		case trimmed == "":
		case trimmed[0] != '#':
			return
		default:
			r.comment(i+1, line)
		}
	}
	r.text.body = len(r.text.lines)
}

// comment reads a line that begins with #, which may be a directive.
func (r *reader) comment(number int, line string) {
	for _, prefix := range prefixes {
		rest, found := strings.CutPrefix(line, prefix)
		if !found {
			continue
		}
		if rest != "" && rest[0] != ' ' && rest[0] != '\t' {
			if rest[0] == '-' {
				r.at(Mistake, CodeWords, number, "write "+prefix+" "+excerpt(rest), "a space is missing behind %s", prefix)
			}
			return
		}
		r.directive(number, rest, prefix == "#ROTA")
		return
	}
	r.almost(number, line)
}

// almost warns of comments that somebody may have meant as directives.
func (r *reader) almost(number int, line string) {
	bare := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#"))
	word, rest, _ := strings.Cut(bare, " ")
	if rest = strings.TrimSpace(rest); !strings.HasPrefix(rest, "-") {
		return
	}
	switch {
	case strings.HasPrefix(strings.TrimSpace(line), "##"):
	case strings.EqualFold(word, "SBATCH"), strings.EqualFold(word, "ROTA"):
		r.at(Warning, CodeLooksLike, number, fmt.Sprintf("write #%s at the start of the line to mean it", strings.ToUpper(word)), "this is a comment, and says nothing about the job")
	case word == "PBS" || word == "BSUB" || word == "OAR" || word == "$" || word == "FLUX:":
		r.at(Warning, CodeLooksLike, number, "write #SBATCH, with Slurm's flags", "directives of other systems are comments here")
	}
}

func (r *reader) directive(number int, rest string, own bool) {
	words, err := split(rest)
	if err != nil {
		r.at(Mistake, CodeWords, number, "", "%v", err)
		return
	}
	if len(words) == 1 && (words[0] == "hetjob" || words[0] == "packjob") {
		r.at(Refused, CodeHetJob, number, "write a job file: one group for each component, and gang_scope = \"job\"",
			"%s: the components of a heterogeneous job cannot be said in a script", words[0])
		return
	}
	if len(words) > 0 {
		r.text.flags = append(r.text.flags, directive{number, words, own})
	}
}

// split takes a directive apart as sbatch does: words stand apart by blanks, quotes keep blanks within a word, a backslash takes the
// next character as it is, and # begins a comment.
func split(line string) ([]string, error) {
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
			return nil, fmt.Errorf("a directive ends with its line: \\ does not join the next line to it")
		case c == '\'' || c == '"':
			quote, open = c, true
		case c == ' ' || c == '\t':
			if open {
				words, open = append(words, word.String()), false
				word.Reset()
			}
		case c == '#' && !open:
			return words, nil
		default:
			word.WriteByte(c)
			open = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote %c is not closed", quote)
	}
	if open {
		words = append(words, word.String())
	}
	return words, nil
}

// late refuses directives behind the first command, which begins at a place. They would say nothing, and whoever wrote them believes that they do. In
// here-documents they are text.
func (r *reader) late(at int) {
	var texts []shell.Span
	if r.text.shell != nil {
		texts = r.text.shell.Documents
	}
	for i, line := range r.text.lines[r.text.body:] {
		for len(texts) > 0 && texts[0].End <= at {
			texts = texts[1:]
		}
		if len(texts) == 0 || at < texts[0].Begin {
			r.lateLine(r.text.body+i+1, line)
		}
		at += len(line) + 1
	}
}

func (r *reader) lateLine(number int, line string) {
	for _, prefix := range prefixes {
		rest, found := strings.CutPrefix(line, prefix)
		if !found || rest == "" || rest[0] != ' ' && rest[0] != '\t' || !strings.HasPrefix(strings.TrimSpace(rest), "-") {
			continue
		}
		r.at(Mistake, CodeLate, number, fmt.Sprintf("move it above line %d, or write ##%s to switch it off", r.text.body+1, prefix[1:]),
			"a directive behind the first command (line %d) has no effect", r.text.body+1)
	}
}
