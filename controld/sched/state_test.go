package sched_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoHiddenState reads the sources of the scheduler. A search takes values and returns values:
// no function returns a function that undoes something, and none is called by "defer f()()". No
// struct embeds a pointer, since a method that is promoted through one has no visible home.
func TestNoHiddenState(t *testing.T) {
	fset, files := token.NewFileSet(), 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.HasPrefix(path, "schedtest") {
			return err
		}
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		files++
		for _, found := range hiddenState(f) {
			t.Errorf("%s: %s", fset.Position(found.at), found.what)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 50 {
		t.Errorf("only %d files were read", files)
	}
}

// TestHiddenStateIsFound shows the test what it has to find.
func TestHiddenStateIsFound(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "a.go", `package a
type s struct { *s; n int }
func lift() (restore func()) { return func() {} }
func use() { defer lift()(); defer func() { recover() }() }
func yields(each func()) func(int) { return nil }
`, 0)
	if err != nil {
		t.Fatal(err)
	}
	if found := hiddenState(f); len(found) != 3 {
		t.Errorf("found %+v, want the embedded pointer, the result of lift and its use", found)
	}
}

type hidden struct {
	at   token.Pos
	what string
}

func hiddenState(f *ast.File) (found []hidden) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.StructType:
			for _, field := range n.Fields.List {
				if _, pointer := field.Type.(*ast.StarExpr); pointer && len(field.Names) == 0 {
					found = append(found, hidden{field.Pos(), "an embedded pointer: give the field a name"})
				}
			}
		case *ast.DeferStmt:
			if _, twice := n.Call.Fun.(*ast.CallExpr); twice {
				found = append(found, hidden{n.Pos(), "defer f()(): begin and end where it can be seen, with a value"})
			}
		case *ast.FuncDecl:
			if n.Type.Results == nil {
				break
			}
			for _, r := range n.Type.Results.List {
				if fn, ok := r.Type.(*ast.FuncType); ok && len(fn.Params.List) == 0 && fn.Results == nil {
					found = append(found, hidden{r.Pos(), "a function that undoes something: return a value"})
				}
			}
		}
		return true
	})
	return found
}
