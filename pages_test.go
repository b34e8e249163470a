package rota

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// TestPages finds broken tables, and links to missing files and sections, in every page.
func TestPages(t *testing.T) {
	out, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md").Output()
	if err != nil {
		t.Skipf("this is no checkout of git: %v", err)
	}
	pages := map[string]string{}
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSpace(name)
		text, err := os.ReadFile(name)
		if err != nil || name == "packaging/THIRD_PARTY_LICENSES.md" { // deleted, or written by others
			continue
		}
		pages[name] = string(text)
	}
	if len(pages) < 20 {
		t.Fatalf("only %d pages", len(pages))
	}
	exists := func(name string) bool { _, err := os.Stat(name); return err == nil }
	words := 0
	for name, text := range pages {
		if strings.HasPrefix(name, "docs/") {
			words += len(strings.Fields(text))
		}
		for _, problem := range append(brokenTables(text), deadLinks(name, pages, exists)...) {
			t.Errorf("%s%s", name, problem)
		}
	}
	if words > docsWords {
		t.Errorf("docs has %d words, and %d are the most: shorten a page, or move results to cmd/lab", words, docsWords)
	}
}

// docsWords is how many words all pages of docs may have. More are not read.
const docsWords = 75_000

// TestPagesFindsProblems shows each kind of problem to the checks of TestPages.
func TestPagesFindsProblems(t *testing.T) {
	const table = "| a | b |\n|---|---|\n"
	pages := map[string]string{"docs/b.md": "# One page\n\n## `Two`, or 3\n\n```sh\n# no section\n```\n"}
	exists := func(name string) bool { return name == "docs/b.md" || name == "Makefile" }
	for text, want := range map[string]string{
		table + "| 1 | 2 |\n":                        "",
		table + "| 1 | a \\| b |\n\nText.\n":         "",
		"```\n| no table\n```\n":                     "",
		table + "| 1 |\n":                            ":3: 1 cells in a table of 2",
		table + "| 1 | a | b |\n":                    ":3: 3 cells in a table of 2",
		table + "| 1 | 2\nthree |\n":                 ":3: the row does not end",
		table + "| 1 | 2 |\nText.\n":                 ":4: text in a table: it needs an empty line before it",
		"Text.\n" + table:                            ":2: a table needs an empty line before it",
		"| a | b |\n| 1 | 2 |\n":                     ":2: a table needs a line of dashes below its head",
		"[b](b.md), [2](b.md#two-or-3)":              "",
		"[build](../Makefile), [x](https://x.org/#)": "",
		"`[a](gone.md)`\n```\n[a](gone.md)\n```\n":   "",
		"[b](c.md)":                                  ":1: c.md is missing",
		"\n[b](b.md#four)":                           ":2: b.md has no section #four",
		"[b](b.md#no-section)":                       ":1: b.md has no section #no-section",
		"# Up\n[b](#up) [c](#down)":                  ":2: the page has no section #down",
	} {
		pages["docs/a.md"] = text
		got := strings.Join(append(brokenTables(text), deadLinks("docs/a.md", pages, exists)...), "\n")
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// brokenTables returns the mistakes in a page's tables, each with its line.
func brokenTables(text string) (problems []string) {
	lines := prose(text)
	report := func(i int, format string, args ...any) {
		problems = append(problems, fmt.Sprintf(":%d: ", i+1)+fmt.Sprintf(format, args...))
	}
	for i := 0; i < len(lines); i++ {
		if !strings.HasPrefix(lines[i], "|") {
			continue
		}
		if i > 0 && lines[i-1] != "" && !strings.HasPrefix(lines[i-1], "<!--") && lines[i-1] != "-->" {
			report(i, "a table needs an empty line before it")
		}
		width := cells(lines[i])
		if i+1 == len(lines) || strings.Trim(lines[i+1], "|-: ") != "" || cells(lines[i+1]) == 0 {
			report(i+1, "a table needs a line of dashes below its head")
		}
		for ; i < len(lines) && lines[i] != ""; i++ {
			switch n := cells(lines[i]); {
			case strings.HasPrefix(lines[i], "<!--"):
			case !strings.HasPrefix(lines[i], "|"):
				report(i, "text in a table: it needs an empty line before it")
			case !strings.HasSuffix(strings.TrimSpace(lines[i]), "|"):
				report(i, "the row does not end")
			case n != width:
				report(i, "%d cells in a table of %d", n, width)
			default:
				continue
			}
			break
		}
	}
	return problems
}

// cells counts the cells of a row. A bar within a cell has a backslash.
func cells(row string) int { return strings.Count(strings.ReplaceAll(row, `\|`, ""), "|") - 1 }

var (
	codeSpan = regexp.MustCompile("`[^`]*`")
	mdLink   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
)

// deadLinks returns the links of a page to missing files and sections, each with its line.
func deadLinks(name string, pages map[string]string, exists func(string) bool) (problems []string) {
	for i, line := range prose(pages[name]) {
		for _, m := range mdLink.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, ""), -1) {
			file, section, hasSection := strings.Cut(m[1], "#")
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			target, label := path.Join(path.Dir(name), file), file
			if file == "" {
				target, label = name, "the page"
			}
			switch {
			case file != "" && !exists(target):
				problems = append(problems, fmt.Sprintf(":%d: %s is missing", i+1, file))
			case hasSection && !anchors(pages[target])[section]:
				problems = append(problems, fmt.Sprintf(":%d: %s has no section #%s", i+1, label, section))
			}
		}
	}
	return problems
}

// anchors returns the names by which links reach the sections of a page.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, line := range prose(text) {
		title := strings.TrimLeft(line, "#")
		if title == line || !strings.HasPrefix(title, " ") {
			continue
		}
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(title))
		for n := 1; found[slug]; n++ { // the second section of a name has a number
			if next := fmt.Sprintf("%s-%d", slug, n); !found[next] {
				slug = next
			}
		}
		found[slug] = true
	}
	return found
}

// prose returns the lines of a page. Lines of code blocks are empty.
func prose(text string) []string {
	lines, fence := strings.Split(text, "\n"), ""
	for i, line := range lines {
		line = strings.TrimSpace(line)
		switch {
		case fence == "" && strings.HasPrefix(line, "```"):
			fence, lines[i] = "```", ""
		case fence != "":
			if line == fence {
				fence = ""
			}
			lines[i] = ""
		}
	}
	return lines
}
