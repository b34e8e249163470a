package rota

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// persons are words that stand for people. Jobs, nodes, accounts and commands are things.
var persons = regexp.MustCompile(`(?i)\b(who|whoever|whom|nobody|somebody|anybody|he|she)\b`)

// people are the places where these words are meant: the user nobody, and names in test data.
var people = regexp.MustCompile(`(?i)noBody reports|nobody is the uid|user "?nobody|nobody:|/nobody|=nobody|"nobody"|` +
	`\bas nobody\b|\bof nobody\b|"He said|is the user nobody`)

// TestWords refuses words for persons in comments and messages, because jobs, nodes and accounts are
// things: rule 2 of docs/glossary.md. TestSentences measures the rest of the prose.
func TestWords(t *testing.T) {
	for _, name := range goFiles(t) {
		if name == "words_test.go" {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		check := func(at token.Pos, what, text string) {
			for i, line := range strings.Split(text, "\n") {
				if word := persons.FindString(people.ReplaceAllString(line, "")); word != "" {
					p := fset.Position(at)
					t.Errorf("%s:%d: %q in a %s: %s", p.Filename, p.Line+i, word, what, strings.TrimSpace(line))
				}
			}
		}
		for _, group := range f.Comments {
			for _, c := range group.List {
				check(c.Pos(), "comment", c.Text)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			// One word alone is a value, such as the user nobody, and no message.
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && strings.Contains(lit.Value, " ") {
				check(lit.Pos(), "message", lit.Value)
			}
			return true
		})
	}
}

// TestExportedNamesHaveComments wants a comment for every exported name of the product. Methods
// that implement an interface of the standard library say so in their name.
func TestExportedNamesHaveComments(t *testing.T) {
	for _, name := range goFiles(t) {
		if strings.HasSuffix(name, "_test.go") || strings.Contains(name, "test/") {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		want := func(id *ast.Ident, docs ...*ast.CommentGroup) {
			if !id.IsExported() {
				return
			}
			for _, doc := range docs {
				if doc != nil {
					return
				}
			}
			t.Errorf("%s: %s has no comment", fset.Position(id.Pos()), id.Name)
		}
		for _, decl := range f.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if !standard[d.Name.Name] {
					want(d.Name, d.Doc)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						want(s.Name, d.Doc, s.Doc, s.Comment)
					case *ast.ValueSpec:
						for _, id := range s.Names {
							want(id, d.Doc, s.Doc, s.Comment)
						}
					}
				}
			}
		}
	}
}

// standard are methods whose meaning is that of an interface of the standard library.
var standard = map[string]bool{
	"Error": true, "Unwrap": true, "String": true, "Len": true, "Less": true, "Swap": true, "Push": true, "Pop": true,
	"MarshalJSON": true, "UnmarshalJSON": true, "MarshalText": true, "UnmarshalText": true, "Read": true, "Write": true,
	"Close":     true,
	"ServeHTTP": true, "Kind": true,
}

func goFiles(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.go").Output()
	if err != nil {
		t.Skipf("this is no checkout of git: %v", err)
	}
	var names []string
	for name := range strings.Lines(string(out)) {
		if name = strings.TrimSpace(name); name != "" {
			if _, err := os.Stat(name); err == nil {
				names = append(names, name)
			}
		}
	}
	return names
}
