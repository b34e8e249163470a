package jobfile

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/rota-hpc/rota/jobspec/hclfile"
)

// inJSON rewrites a file from HCL to JSON: every expression becomes a template with the same parts.
type inJSON struct{ src []byte }

func (j inJSON) body(b *hclsyntax.Body, inVariable bool) map[string]any {
	object := map[string]any{"//": "a comment"}
	for name, a := range b.Attributes {
		if object[name] = j.expression(a.Expr); name == "type" && inVariable || name == "iterator" {
			object[name] = string(a.Expr.Range().SliceBytes(j.src))
		}
	}
	for _, block := range b.Blocks {
		var content any = j.body(block.Body, block.Type == "variable")
		for _, label := range slices.Backward(block.Labels) {
			content = map[string]any{label: content}
		}
		list, _ := object[block.Type].([]any)
		object[block.Type] = append(list, content)
	}
	return object
}

func (j inJSON) expression(expr hclsyntax.Expression) any {
	switch x := expr.(type) {
	case *hclsyntax.TemplateExpr:
		var b strings.Builder
		for _, part := range x.Parts {
			if lit, ok := part.(*hclsyntax.LiteralValueExpr); ok && lit.Val.Type() == cty.String {
				b.WriteString(strings.NewReplacer("${", "$${", "%{", "%%{").Replace(lit.Val.AsString()))
				continue
			}
			b.WriteString("${" + string(part.Range().SliceBytes(j.src)) + "}")
		}
		return b.String()
	case *hclsyntax.TupleConsExpr:
		list := []any{}
		for _, item := range x.Exprs {
			list = append(list, j.expression(item))
		}
		return list
	}
	return "${" + string(expr.Range().SliceBytes(j.src)) + "}"
}

// TestJSONSaysTheSame rewrites every good file in JSON and wants the same job.
func TestJSONSaysTheSame(t *testing.T) {
	for _, name := range files(t, "testdata/ok/*.hcl") {
		t.Run(filepath.Base(name), func(t *testing.T) {
			src, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			parsed, found := hclsyntax.ParseConfig(src, name, hcl.InitialPos)
			if found.HasErrors() {
				t.Fatal(found)
			}
			text, err := json.MarshalIndent(inJSON{src}.body(parsed.Body.(*hclsyntax.Body), false), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			want, diags := Parse(name, src, optionsOf(src))
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			got, diags := Parse(name+".json", text, optionsOf(src))
			if diags.HasErrors() {
				t.Fatalf("in JSON it is refused:\n%v\n%s", diags, text)
			}
			a, _ := json.MarshalIndent(want, "", "  ")
			if b, _ := json.MarshalIndent(got, "", "  "); string(a) != string(b) {
				t.Errorf("HCL says\n%s\nJSON says\n%s", a, b)
			}
		})
	}
}

// TestFormatSaysTheSame formats every good file and wants the same job.
func TestFormatSaysTheSame(t *testing.T) {
	for _, name := range files(t, "testdata/ok/*.hcl") {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := hclfile.Format(name, src)
		if err != nil {
			t.Fatal(err)
		}
		want, diags := Parse(name, src, optionsOf(src))
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		got, diags := Parse(name, text, optionsOf(src))
		a, _ := json.Marshal(want)
		if b, _ := json.Marshal(got); diags.HasErrors() || string(a) != string(b) {
			t.Errorf("%s says (%v)\n%s\nand formatted\n%s", name, diags, a, b)
		}
	}
}
