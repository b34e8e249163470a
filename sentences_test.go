package rota

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// wordsMax is the longest sentence that a reader takes in at once.
const wordsMax = 25

// Today's debt: sentences that are still to be rewritten. Both numbers may only fall. A change that
// mends more than debtSlack sentences lowers them; the slack keeps small changes from meeting in
// these two lines.
const (
	longDebt   = 392
	turnedDebt = 33
	debtSlack  = 100
)

// TestSentences counts two kinds of sentences that readers stumble over: long ones, of more than
// wordsMax words, and turned ones, which put a stand-in where a noun should stand. It reads Go
// comments, all pages, and the messages and help texts of the product. A failure shows the sentences
// in files that the change touches. With -v the test lists them all.
func TestSentences(t *testing.T) {
	var long, turned []sentence
	for _, s := range allSentences(t) {
		if s.words > wordsMax {
			long = append(long, s)
		}
		if isTurned(s.text) {
			turned = append(turned, s)
		}
	}
	changed := changedFiles()
	settle(t, changed, "longDebt", fmt.Sprintf("sentences have more than %d words", wordsMax), long, longDebt)
	settle(t, changed, "turnedDebt",
		`sentences begin with "What", or have two of "of which", "that of", "those of", "there is not"`,
		turned, turnedDebt)
}

// settle compares the sentences of one kind with their debt.
func settle(t *testing.T, changed map[string]bool, name, kind string, found []sentence, debt int) {
	t.Helper()
	t.Logf("%d %s (%s = %d)", len(found), kind, name, debt)
	if testing.Verbose() {
		for _, s := range found {
			t.Logf("%s: %s:%d: %s", name, s.file, s.line, s.text)
		}
	}
	switch {
	case len(found) < debt-debtSlack:
		t.Errorf("only %d %s: lower %s in sentences_test.go to that number", len(found), kind, name)
	case len(found) > debt:
		shown := slices.DeleteFunc(slices.Clone(found), func(s sentence) bool { return !changed[s.file] })
		if len(shown) == 0 {
			shown = found[:min(10, len(found))]
		}
		var list strings.Builder
		for _, s := range shown {
			fmt.Fprintf(&list, "\n%s:%d: %s", s.file, s.line, s.text)
		}
		t.Errorf("%d %s, at most %d are allowed: rewrite some of these%s", len(found), kind, debt, &list)
	}
}

// TestSentencesAreFound shows each kind of text to the measures.
func TestSentencesAreFound(t *testing.T) {
	many := strings.TrimSpace(strings.Repeat("word ", wordsMax))
	for _, c := range []struct {
		name, text   string
		long, turned int
	}{
		{"page.md", many + ".", 0, 0},
		{"page.md", "Two: " + many + ".", 1, 0},
		{"page.md", "One sentence. " + many + ".\n" + many + "!", 0, 0},
		{"page.md", "- " + many + "\n- " + many + "\n\n" + many + "\n", 0, 0},
		{"page.md", "- " + many + "\n  and more\n", 1, 0},
		{"page.md", "| " + many + " | " + many + " |\n", 0, 0},
		{"page.md", "```\n" + many + many + "\n```\n`" + many + many + "`", 0, 0},
		{"page.md", "# What a heading may say\n\nWhat holds? What runs, e.g. now.", 0, 1},
		{"page.md", "The list of which that of the job is one. The list of which one is\nmissing.", 0, 1},
		{"a.go", "// Package a is short.\n//\n// " + many + "\n// more.\npackage a\n", 1, 0},
		{"a.go", "package a\n\n// A list:\n//  1. " + many + "\n//  2. " + many + "\n//\n//\tcode " + many + "\n", 0, 0},
		{"a.go", "package a\n\nvar x = 1 // What it is.\n\n//go:fix What\n", 0, 1},
		{"a.go", "package a\n\nvar x = \"What runs: \" +\n\t\"" + many + "\"\n", 1, 1},
		{"a_test.go", "package a\n\nvar x = \"What runs: " + many + "\"\n", 0, 0},
	} {
		long, turned := 0, 0
		for _, s := range sentencesOf(t, c.name, c.text) {
			if s.words > wordsMax {
				long++
			}
			if isTurned(s.text) {
				turned++
			}
		}
		if long != c.long || turned != c.turned {
			t.Errorf("%s: %d long and %d turned sentences, want %d and %d:\n%s", c.name, long, turned, c.long, c.turned, c.text)
		}
	}
}

var standIns = regexp.MustCompile(`(?i)\b(of which|that of|those of|there (is|are|was|were) not)\b`)

// isTurned reports whether a sentence avoids its subject.
func isTurned(text string) bool {
	if strings.HasPrefix(text, "What ") && !strings.HasSuffix(text, "?") {
		return true
	}
	return len(standIns.FindAllString(text, -1)) > 1
}

// sentence is one sentence of the project and where it begins.
type sentence struct {
	file  string
	line  int
	text  string
	words int
}

// allSentences returns the prose of the whole tree, in the order of files and lines.
func allSentences(t *testing.T) (all []sentence) {
	t.Helper()
	out, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md", "*.go").Output()
	if err != nil {
		t.Skipf("this is no checkout of git: %v", err)
	}
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSpace(name)
		text, err := os.ReadFile(name)
		if err != nil || name == "packaging/THIRD_PARTY_LICENSES.md" || strings.Contains(name, "testdata/") {
			continue // deleted, or written by others
		}
		all = append(all, sentencesOf(t, name, string(text))...)
	}
	return all
}

// changedFiles returns the files that differ from main, committed or not; on main itself, those of
// the last commit.
func changedFiles() map[string]bool {
	changed := map[string]bool{}
	for _, base := range []string{"main", "HEAD~1"} {
		out, _ := exec.Command("git", "diff", "--name-only", "--merge-base", base).Output()
		for name := range strings.Lines(string(out)) {
			changed[strings.TrimSpace(name)] = true
		}
		if len(changed) > 0 {
			break
		}
	}
	return changed
}

// sentencesOf returns the prose of one file. Messages count in files of the product only: strings in
// tests are data.
func sentencesOf(t *testing.T, name, text string) []sentence {
	t.Helper()
	p := &proseReader{file: name}
	if strings.HasSuffix(name, ".md") {
		p.page(text)
		return p.found
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range f.Comments {
		p.comment(fset, group)
	}
	if !strings.HasSuffix(name, "_test.go") {
		ast.Inspect(f, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			text, ok := stringOf(e)
			if ok {
				p.message(fset.Position(e.Pos()).Line, text)
			}
			return !ok
		})
	}
	slices.SortStableFunc(p.found, func(a, b sentence) int { return a.line - b.line })
	return p.found
}

// stringOf returns the value of a string literal, or of a sum of them.
func stringOf(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		x, ok := stringOf(e.X)
		y, ok2 := stringOf(e.Y)
		return x + y, ok && ok2
	}
	return "", false
}

// proseReader cuts text into sentences. A sentence never goes beyond its block: a paragraph, an item
// of a list, a cell of a table.
type proseReader struct {
	file  string
	found []sentence
	open  sentence // the sentence being read
	item  bool     // the block is an item of a list
}

var (
	listItem    = regexp.MustCompile(`^\s*([-*+]|\d+\.)\s+`)
	linkTarget  = regexp.MustCompile(`\]\([^)]*\)`)
	sentenceEnd = regexp.MustCompile(`[.!?]["'”)\]*_]*$`)
	sqlText     = regexp.MustCompile(`^\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|WITH|PRAGMA)\b`)
	wordChar    = regexp.MustCompile(`[\pL\pN]`)
	abbreviated = regexp.MustCompile(`(?i)^\W*(e\.g|i\.e|vs|cf|al|no|sec)\.$`)
)

// page reads a page in Markdown, without its code and its headings.
func (p *proseReader) page(text string) {
	for i, line := range prose(text) {
		line = linkTarget.ReplaceAllString(codeSpan.ReplaceAllString(line, "code"), "]")
		switch {
		case strings.TrimSpace(line) == "", strings.HasPrefix(line, "#"), strings.HasPrefix(line, "<"):
			p.endBlock()
		case strings.HasPrefix(line, "|"):
			for cell := range strings.SplitSeq(line, "|") {
				p.endBlock()
				p.line(i+1, cell)
			}
			p.endBlock()
		default:
			p.lineOfList(i+1, line)
		}
	}
	p.endBlock()
}

// comment reads a group of comments, without directives and indented code.
func (p *proseReader) comment(fset *token.FileSet, group *ast.CommentGroup) {
	for _, c := range group.List {
		at := fset.Position(c.Pos()).Line
		if text, ok := strings.CutPrefix(c.Text, "//"); ok {
			if text != "" && text[0] != ' ' && text[0] != '\t' { // a directive
				text = ""
			}
			p.textLine(at, strings.TrimPrefix(text, " "))
			continue
		}
		for i, text := range strings.Split(strings.Trim(c.Text, "/*"), "\n") {
			p.textLine(at+i, strings.TrimSpace(text))
		}
	}
	p.endBlock()
}

// message reads a string. Indented lines in it are code, as in a comment.
func (p *proseReader) message(at int, text string) {
	if sqlText.MatchString(text) {
		return
	}
	for line := range strings.SplitSeq(text, "\n") {
		p.textLine(at, line)
	}
	p.endBlock()
}

// textLine reads a line of a comment or a message.
func (p *proseReader) textLine(at int, line string) {
	indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
	switch {
	case strings.TrimSpace(line) == "":
		p.endBlock()
	case indented && !p.item && !listItem.MatchString(line), strings.HasPrefix(line, "\t"):
		p.endBlock()
	default:
		p.lineOfList(at, line)
	}
}

// lineOfList reads a line that may begin an item of a list.
func (p *proseReader) lineOfList(at int, line string) {
	if mark := listItem.FindString(line); mark != "" {
		p.endBlock()
		p.item, line = true, line[len(mark):]
	}
	p.line(at, line)
}

// line reads words into the open sentence.
func (p *proseReader) line(at int, text string) {
	for word := range strings.FieldsSeq(text) {
		if p.open.text == "" {
			p.open = sentence{file: p.file, line: at, text: word}
		} else {
			p.open.text += " " + word
		}
		if wordChar.MatchString(word) {
			p.open.words++
		}
		if sentenceEnd.MatchString(word) && !abbreviated.MatchString(word) {
			p.endSentence()
		}
	}
}

func (p *proseReader) endSentence() {
	if p.open.words > 0 {
		p.found = append(p.found, p.open)
	}
	p.open = sentence{}
}

func (p *proseReader) endBlock() {
	p.endSentence()
	p.item = false
}
