package explain

import (
	"fmt"
	"strings"
	"sync"

	"github.com/rota-hpc/rota/docs"
)

// page is docs/codes.md, whose tables explain the words.
const page = "codes.md"

// kindOfSection maps the title of a section to the kind of its words.
var kindOfSection = map[string]Kind{
	"States of jobs and nodes":  State,
	"Why a job waits, or ended": Reason,
	"Errors in a job":           Code,
}

// words returns the entries of the page by kind, in the page's order.
var words = sync.OnceValue(func() map[Kind][]Entry {
	text, err := docs.Pages.ReadFile(page)
	if err != nil {
		panic(fmt.Sprintf("explain: %v", err)) // the page is built into the program
	}
	found := map[Kind][]Entry{}
	var kind Kind
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if title, ok := strings.CutPrefix(line, "## "); ok {
			kind = kindOfSection[title]
		}
		if row, ok := strings.CutPrefix(line, "| `"); ok && kind != "" {
			found[kind] = append(found[kind], parseRow(kind, row)...)
		}
	}
	return found
})

// parseRow reads a row of a table after its first backquote: names, title and text, as an entry for
// each name. A bar within a cell has a backslash.
func parseRow(kind Kind, row string) (entries []Entry) {
	names, rest, _ := strings.Cut(row, "` | ")
	title, text, _ := strings.Cut(strings.TrimSuffix(rest, " |"), " | ")
	for name := range strings.SplitSeq(names, "`, `") {
		entries = append(entries, Entry{Kind: kind, Name: name, Title: title, Text: strings.ReplaceAll(text, `\|`, "|")})
	}
	return entries
}

// terms returns the glossary's terms, with an entry for each spelling.
var terms = sync.OnceValue(func() []Entry {
	text, err := docs.Pages.ReadFile("glossary.md")
	if err != nil {
		panic(fmt.Sprintf("explain: %v", err)) // the page is built into the program
	}
	var found []Entry
	_, table, _ := strings.Cut(string(text), "|---|---|\n")
	for line := range strings.Lines(table) {
		names, meaning, ok := strings.Cut(strings.Trim(line, "| \n"), " | ")
		if !ok {
			continue
		}
		for name := range strings.SplitSeq(names, ", ") {
			found = append(found, Entry{Kind: Term, Name: name, Title: "what it means", Text: meaning})
		}
	}
	return found
})

// pages returns the pages that rota explain shows whole.
var pages = sync.OnceValue(func() []Entry {
	text, err := docs.Pages.ReadFile("policy.md")
	if err != nil {
		panic(fmt.Sprintf("explain: %v", err)) // the page is built into the program
	}
	return []Entry{{Kind: Page, Name: "policy", Title: "how the default policy schedules", Text: string(text)}}
})
