// Package explain has the texts of `rota explain`. Each diagnostic code, each state and reason of a
// job, and each attribute and block of a job file has a paragraph. It works without a cluster. The
// texts come from docs/codes.md and from the job file's tables.
package explain

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/jobspec/jobfile"
	"github.com/rota-hpc/rota/jobspec/typo"
)

// Kind is the kind of thing that an entry explains.
type Kind string

// Kinds of entries.
const (
	Code      Kind = "code"
	State     Kind = "state"
	Reason    Kind = "reason"
	Attribute Kind = "attribute"
	Block     Kind = "block"
	Term      Kind = "term"
	Page      Kind = "page"
)

// Entry explains one thing.
type Entry struct {
	Kind  Kind   `json:"kind"`
	Name  string `json:"name"`            // JS-112, PD, Priority, time_limit
	Where string `json:"where,omitempty"` // of an attribute or block: the enclosing block
	Title string `json:"title"`           // a few words
	Text  string `json:"text"`            // a paragraph
}

// All returns every entry: codes, states, reasons, then blocks and attributes in the order of the
// documentation.
func All() []Entry {
	found := words()
	return slices.Concat(found[Code], found[State], found[Reason], language())
}

// Find returns the meanings of a word; most words have one. A word is a code with or without its
// hyphen, a state, a reason, an attribute, a block, or a glossary term. An attribute may be written
// with its block (group.time_limit). The word policy stands for the page about policies. Case does
// not matter. A word may have several meanings.
func Find(word string) []Entry {
	word = strings.ToLower(strings.TrimSpace(word))
	where, name, qualified := strings.Cut(word, ".")
	var found []Entry
	for _, e := range slices.Concat(All(), terms(), pages()) {
		plain := strings.ToLower(e.Name)
		switch {
		case plain == word, e.Kind == Code && strings.ReplaceAll(plain, "-", "") == word:
		case qualified && plain == name && strings.ToLower(e.Where) == where:
		default:
			continue
		}
		found = append(found, e)
	}
	return found
}

// Nearest returns at most three words that resemble an unknown word.
func Nearest(word string) []string {
	word = strings.ToLower(word)
	type near struct {
		name     string
		distance int
	}
	var list []near
	for _, e := range All() {
		if d := typo.Distance(word, strings.ToLower(e.Name)); d <= 1+len(word)/3 {
			list = append(list, near{e.Name, d})
		}
	}
	slices.SortStableFunc(list, func(a, b near) int { return a.distance - b.distance })
	var names []string
	for _, n := range list {
		if !slices.Contains(names, n.name) && len(names) < 3 {
			names = append(names, n.name)
		}
	}
	return names
}

// Write writes entries as text.
func Write(w io.Writer, entries []Entry) error {
	for i, e := range entries {
		gap := ""
		if i > 0 {
			gap = "\n"
		}
		if e.Kind == Page {
			if _, err := fmt.Fprintf(w, "%s%s", gap, e.Text); err != nil {
				return err
			}
			continue
		}
		head := e.Name
		if e.Where != "" {
			head = e.Where + "." + e.Name
		}
		if _, err := fmt.Fprintf(w, "%s%s (%s): %s\n\n%s\n", gap, head, e.Kind, e.Title, wrapped(e.Text)); err != nil {
			return err
		}
	}
	return nil
}

const width = 100

// wrapped breaks a paragraph into indented lines.
func wrapped(text string) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case column == 0:
			b.WriteString("  ")
			column = 2
		case column+1+n > width:
			b.WriteString("\n  ")
			column = 2
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}

// language converts the tables of the job file into entries.
func language() []Entry {
	var list []Entry
	for _, a := range jobfile.Attributes() {
		e := Entry{Kind: Attribute, Name: a.Name, Where: a.Block, Title: a.Type}
		if a.IsBlock {
			e.Kind, e.Title = Block, "a block"
		}
		if a.Refused != "" {
			e.Title = strings.TrimPrefix(e.Title+", not supported yet", ", ")
		}
		e.Text = meaning(a)
		list = append(list, e)
	}
	return list
}

func meaning(a jobfile.Attribute) string {
	if a.Refused != "" {
		return fmt.Sprintf("Not supported yet: a file with it is refused with JS-050. Instead: %s.", a.Refused)
	}
	text := strings.ToUpper(a.Doc[:1]) + a.Doc[1:] + "."
	switch {
	case a.Required:
		text += " It is required."
	case a.Default != "":
		text += " Default: " + a.Default + "."
	}
	if a.Deferred {
		text += " It may contain references that get their value when the worker starts, such as ${array.index}."
	}
	if a.IsBlock && len(a.Content) > 0 {
		text += " It may hold " + strings.Join(a.Content, ", ") + "."
	}
	return strings.ReplaceAll(text, "`", "")
}
