package exits

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// TestTheTableHasAll notices a cause, or a launch type, that the product has and the table has not.
func TestTheTableHasAll(t *testing.T) {
	known := slices.Concat(stops, others)
	causes := causesOfTheProduct(t)
	if len(causes) != len(known) {
		t.Errorf("the product has %d causes, the table %d", len(causes), len(known))
	}
	for _, c := range causes {
		if !slices.Contains(known, c) {
			t.Errorf("add the cause %q to the table: to stops, or to others with what it is", c)
		}
	}
	for _, kind := range jobspec.LaunchTypes {
		if !slices.ContainsFunc(launches, func(l launch) bool { return l.kind == kind }) {
			t.Errorf("add the launch type %q to the table", kind)
		}
	}
}

// causesOfTheProduct reads the constants of type Cause.
func causesOfTheProduct(t *testing.T) []model.Cause {
	t.Helper()
	files, err := filepath.Glob("../../../../controld/model/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var all []model.Cause
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			v, is := n.(*ast.ValueSpec)
			if !is {
				return true
			}
			if kind, is := v.Type.(*ast.Ident); is && kind.Name == "Cause" {
				for _, value := range v.Values {
					text, err := strconv.Unquote(value.(*ast.BasicLit).Value)
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, model.Cause(text))
				}
			}
			return true
		})
	}
	return all
}
