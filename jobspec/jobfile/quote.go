package jobfile

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/rota-hpc/rota/jobspec/template"
)

// These two characters mark a reference in a text that is being written. No text of a job holds
// them.
const (
	refOpen  = '\x00'
	refClose = '\x01'
)

// opened returns a task's text with its references between marks. A text of a task without
// templates is literal.
func opened(text string, isTemplate bool) string {
	if !isTemplate {
		return text
	}
	marked, err := template.Expand(text,
		func(name string) (string, bool) { return string(refOpen) + name + string(refClose), true })
	if err != nil {
		panic("jobfile: every reference has a value here: " + err.Error())
	}
	return marked
}

// quoted writes a text as an HCL string, or as a bare reference if it consists of one.
func quoted(text string) string {
	if name, ok := strings.CutPrefix(text, string(refOpen)); ok && strings.IndexRune(name, refClose) == len(name)-1 {
		return name[:len(name)-1]
	}
	return `"` + escaped(text, inQuotes) + `"`
}

// heredoc writes a text of whole lines as a heredoc. It returns false for a text that needs quotes.
func heredoc(text string, isTemplate bool) (string, bool) {
	if !strings.HasSuffix(text, "\n") || strings.Count(text, "\n") < 2 || strings.ContainsFunc(text, unprintable) {
		return "", false
	}
	text = opened(text, isTemplate)
	end := "EOT"
	for hasLine(text, end) {
		end += "X"
	}
	return "<<" + end + "\n" + escaped(text, func(r rune) string { return string(r) }) + end, true
}

func unprintable(r rune) bool {
	return r != '\n' && r != '\t' && !unicode.IsGraphic(r)
}

func hasLine(text, line string) bool {
	for one := range strings.Lines(text) {
		if strings.TrimSpace(one) == line {
			return true
		}
	}
	return false
}

func inQuotes(r rune) string {
	switch r {
	case '"', '\\':
		return `\` + string(r)
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	}
	if r < ' ' || r == 0x7f {
		return fmt.Sprintf(`\u%04x`, r)
	}
	return string(r)
}

// escaped writes a text for HCL: ${ becomes $${, %{ becomes %%{, and references stay references.
// Further signs in front of these are written one by one.
func escaped(text string, plain func(rune) string) string {
	var b strings.Builder
	runes := []rune(text)
	for i := 0; i < len(runes); i++ {
		r := runes[i]
		switch r {
		case refOpen:
			end := i + slices.Index(runes[i:], refClose)
			b.WriteString("${" + string(runes[i+1:end]) + "}")
			i = end
		case '$', '%':
			n := 1
			for i+n < len(runes) && runes[i+n] == r {
				n++
			}
			next := rune(-1)
			if i+n < len(runes) {
				next = runes[i+n]
			}
			b.WriteString(signs(r, n, next))
			i += n - 1
		default:
			b.WriteString(plain(r))
		}
	}
	return b.String()
}

// signs writes n repetitions of a sign before a character.
func signs(sign rune, n int, next rune) string {
	single := fmt.Sprintf(`${"%c"}`, sign)
	switch next {
	case '{':
		return strings.Repeat(single, n-1) + strings.Repeat(string(sign), 2)
	case refOpen, '%': // the next character may open a reference or a directive
		return strings.Repeat(single, n)
	}
	return strings.Repeat(string(sign), n)
}
