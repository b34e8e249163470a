package sched_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPhases: the cycle is one function of at most sixty lines. Its phases are those that
// docs/policy.md lists, with the same numbers in the same order.
func TestPhases(t *testing.T) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "cycle.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var decide *ast.FuncDecl
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "decide" {
			decide = f
		}
	}
	if decide == nil {
		t.Fatal("cycle.go has no function decide")
	}
	if n := fset.Position(decide.End()).Line - fset.Position(decide.Pos()).Line + 1; n > 60 {
		t.Errorf("the cycle has %d lines", n)
	}
	numbered := regexp.MustCompile(`^// ([0-9]\. [A-Z][a-z ]+):`)
	var code []string
	for _, g := range file.Comments {
		if m := numbered.FindStringSubmatch(g.List[0].Text); m != nil && decide.Pos() < g.Pos() &&
			g.End() < decide.End() {
			code = append(code, strings.ToLower(strings.Replace(m[1], ".", "", 1)))
		}
	}
	page, err := os.ReadFile("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, m := range regexp.MustCompile(`(?m)^ ([0-9] [a-z]+(?: [a-z]+)?)  +`).FindAllStringSubmatch(string(page), -1) {
		listed = append(listed, m[1])
	}
	if len(code) < 9 || !slices.Equal(code, listed) {
		t.Errorf("the cycle has the phases %q, docs/policy.md lists %q", code, listed)
	}
}

// TestNothingIsEmbeddedByPointer: the structs of the scheduler name what they point to, so that a call
// says which struct it is of.
func TestNothingIsEmbeddedByPointer(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.HasPrefix(path, "schedtest") {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					if _, pointer := f.Type.(*ast.StarExpr); pointer && len(f.Names) == 0 {
						t.Errorf("%s: a struct embeds a pointer: give the field a name", fset.Position(f.Pos()))
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
