package sched_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTunablesPage compares docs/tunables.md with the comments and values of the Tunables structs.
func TestTunablesPage(t *testing.T) {
	const file = "../../docs/tunables.md"
	want := tunablesPage(t)
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s differs from the Tunables structs (%v): run make golden", file, err)
	}
}

// tunablesPage returns the page: a table for each package that declares Tunables.
func tunablesPage(t *testing.T) []byte {
	files, err := filepath.Glob("*/tunables.go")
	if err != nil || len(files) < 4 {
		t.Fatalf("tunables in %v, %v", files, err)
	}
	var b bytes.Buffer
	b.WriteString("# Tunables of the scheduler\n\nNumbers that steer policies, with their defaults. " +
		"`make golden` writes this page from the Tunables structs of `controld/sched`.\nThe policy block of " +
		"`cluster.hcl` replaces the default where the page says \"if the policy block does not say\".\n" +
		"All others are fixed in the program.\n")
	for _, file := range files {
		fmt.Fprintf(&b, "\n## Package %s\n\n| name | default | unit | what it does | reason | evidence |\n"+
			"| --- | --- | --- | --- | --- | --- |\n", filepath.Dir(file))
		for _, row := range tunableRows(t, file) {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", row[0], row[1], row[2], row[3], row[4], row[5])
		}
	}
	return b.Bytes()
}

// tunableText matches a field's comment: name, unit, what it does, reason, evidence.
var tunableText = regexp.MustCompile(`^(\w+), in ([^:]+): (.+) Reason: (.+) Evidence: (.+)\.$`)

// docLink matches a link to another declaration.
var docLink = regexp.MustCompile(`\[([\w.]+)\]`)

// evidencePage matches evidence that is a section of a page of measurements.
var evidencePage = regexp.MustCompile(`^cmd/lab/([\w-]+\.md), "(.+)"$`)

// tunableRows returns name, default, unit, effect, reason and evidence of each field of Tunables.
func tunableRows(t *testing.T, file string) (rows [][6]string) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	var fields []*ast.Field
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			if s, ok := n.Type.(*ast.StructType); ok && n.Name.Name == "Tunables" {
				fields = s.Fields.List
			}
		case *ast.KeyValueExpr:
			values[n.Key.(*ast.Ident).Name] = defaultValue(fset, n.Value)
		}
		return true
	})
	for _, f := range fields {
		text := strings.Join(strings.Fields(f.Doc.Text()), " ")
		m := tunableText.FindStringSubmatch(text)
		name := f.Names[0].Name
		if m == nil || m[1] != name || values[name] == "" {
			t.Errorf("%s: %s needs a default and a comment of the form \"%[2]s, in UNIT: effect. Reason: reason. "+
				"Evidence: evidence.\"", file, name)
			continue
		}
		row := [6]string{name, values[name], m[2], m[3], m[4], m[5]}
		if page := evidencePage.FindStringSubmatch(m[5]); page != nil && !hasSection(t, page[1], page[2]) {
			t.Errorf("%s: cmd/lab/%s has no section %q", name, page[1], page[2])
		}
		for i := 2; i < len(row); i++ {
			row[i] = docLink.ReplaceAllString(strings.ReplaceAll(row[i], "|", `\|`), "`$1`")
			row[i] = evidencePage.ReplaceAllString(row[i], "[$1](../cmd/lab/$1), \"$2\"")
			if row[i] = strings.TrimSuffix(row[i], "."); i == 3 || i == 4 {
				row[i] = strings.ToUpper(row[i][:1]) + row[i][1:]
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// hasSection reports whether a page has a section under a title, or one that begins with it in
// bold.
func hasSection(t *testing.T, page, title string) bool {
	text, err := os.ReadFile("../../cmd/lab/" + page)
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.QuoteMeta(title)
	return regexp.MustCompile(`(?m)^(#+ ` + quoted + `$|\*\*` + quoted + `[.*])`).Match(text)
}

// defaultValue returns a number if an expression has only literals, otherwise the expression.
func defaultValue(fset *token.FileSet, e ast.Expr) string {
	text := types.ExprString(e)
	if v, err := types.Eval(fset, nil, token.NoPos, text); err == nil && v.Value != nil {
		return v.Value.ExactString()
	}
	return "`" + text + "`"
}
