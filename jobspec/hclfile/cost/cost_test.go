package cost

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/rota-hpc/rota/jobspec/hclfile/functions"
)

// TestEstimateIsABound computes expressions that multiply what they are given, and wants none to
// yield more than was estimated.
func TestEstimateIsABound(t *testing.T) {
	texts := make([]cty.Value, 100)
	for i := range texts {
		texts[i] = cty.StringVal(fmt.Sprint("text ", i))
	}
	locals := map[string]cty.Value{
		"t": cty.StringVal(strings.Repeat("ab,c\n", 200)), "l": cty.TupleVal(texts), "n": cty.NumberIntVal(50),
		"m": cty.MapVal(map[string]cty.Value{"a": cty.StringVal("x"), "b": cty.StringVal("y")}),
		"csv": cty.StringVal(strings.Repeat("h", 400) + "," + strings.Repeat("g", 400) + "\n" +
			strings.Repeat("1,2\n", 100)),
		"json": cty.StringVal("[" + strings.Repeat("[],", 300) + "[]]"),
	}
	files := map[string][]byte{"f.csv": []byte(strings.Repeat("h", 500) + "\n" + strings.Repeat("1\n", 100))}
	read := func(name string) ([]byte, error) { return files[name], nil }
	scope := &Scope{
		Value:    func(_, name string) (cty.Value, bool) { v, ok := locals[name]; return v, ok },
		Iterator: func(string) (cty.Value, bool) { return cty.NilVal, false }, ReadFile: read,
	}
	table := functions.Table(functions.Environment{ReadFile: read})
	for _, text := range []string{
		"local.t", "local.l", "[local.t, local.t]", "{ a = local.t, b = [local.l] }", `"${local.t}${local.t}"`,
		"[for x in local.l : [for y in local.l : x]]",
		"{ for x in local.l : x => local.t }", "{ for x in local.l : \"k\" => x... }", "local.l[*]",
		"[for i in range(local.n) : local.t]", "range(1000)", "range(0, 1000, 2)",
		"[for i in range(strlen(local.t)) : i]", "replace(local.t, \"a\", local.t)",
		"regexreplace(local.t, \"a\", \"$0$0$0$0$0$0$0$0\")", "regexall(\"a\", local.t)",
		"regexall(\"(?P<first>a)(?P<second>b)(?P<third>)(?P<fourth>)\", local.t)", "csvdecode(local.csv)",
		"jsonencode(csvdecode(local.csv))", "csvdecode(file(\"f.csv\"))",
		"csvdecode(\"${local.csv}\")", "jsondecode(local.json)", "jsonencode(jsondecode(local.json))",
		"jsonencode(jsonencode(local.l))", "setproduct(local.l, local.l)",
		"join(local.t, local.l)", "format(\"%999s\", local.t)", "formatlist(\"%s-%999s\", local.l, local.t)",
		"indent(100, local.t)", "split(\",\", local.t)", "split(\"\", local.t)",
		"flatten([local.l, [local.l, local.l]])", "concat(local.l, local.l)", "chunklist(local.l, 1)",
		"zipmap(local.l, local.l)", "merge(local.m, local.m)", "distinct(local.l)",
		"upper(local.t)", "title(local.t)", "strrev(local.t)", "toset(local.l)", "keys(zipmap(local.l, local.l))",
		"coalescelist([], local.l)", "sort(local.l)",
		"pow(10, 300) * pow(10, 300)", "formatlist(\"%s\", [for x in local.l : local.t])",
		"[for x in local.l : { a = x, b = local.t }][*].b", "true ? local.l : local.l",
		"file(\"f.csv\")", "[for k, v in local.m : \"${k}${v}\"]", "setunion(toset(local.l), toset(local.l))",
		"slice(local.l, 0, 50)", "reverse(local.l)", "element(local.l, 3)",
	} {
		expr, found := hclsyntax.ParseExpression([]byte(text), "x", hcl.InitialPos)
		if found.HasErrors() {
			t.Fatalf("%s: %v", text, found)
		}
		bound := Of(expr, scope)
		value, found := expr.Value(&hcl.EvalContext{Variables: map[string]cty.Value{"local": cty.ObjectVal(locals)},
			Functions: table})
		if found.HasErrors() {
			t.Fatalf("%s: %v", text, found)
		}
		if size := plainSize(value); size > bound {
			t.Errorf("%s has %.0f bytes, estimated were %.0f", text, size, bound)
		}
	}
}

// plainSize counts the bytes of all texts and one for every element.
func plainSize(v cty.Value) float64 {
	size := 1.0
	if !v.IsNull() && v.Type() == cty.String {
		return size + float64(len(v.AsString()))
	}
	if v.CanIterateElements() {
		for it := v.ElementIterator(); it.Next(); {
			key, element := it.Element()
			if key.Type() == cty.String {
				size += float64(len(key.AsString()))
			}
			size += plainSize(element)
		}
	}
	return size
}
