package cost

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/rota-hpc/rota/jobspec/hclfile/functions"
)

// world has the names and functions that the expressions of the tests use.
func world() (map[string]cty.Value, map[string]function.Function) {
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
	files := map[string][]byte{"f.csv": []byte(strings.Repeat("h", 500) + "\n" + strings.Repeat("1\n", 100)),
		"quoted.csv": []byte("\"" + strings.Repeat("h\n", 300) + "\",b\n" + strings.Repeat("1,2\n", 100))}
	table := functions.Table(functions.Environment{ReadFile: func(name string) ([]byte, error) {
		return files[name],
			nil
	}})
	return map[string]cty.Value{"local": cty.ObjectVal(locals)}, table
}

// evaluated computes an expression without a budget, and with one. It returns what was spent.
func evaluated(t *testing.T, text string, budget int) (plain, metered cty.Value, spent float64, ok bool) {
	t.Helper()
	names, table := world()
	expr, found := hclsyntax.ParseExpression([]byte(text), "x", hcl.InitialPos)
	if found.HasErrors() {
		t.Fatalf("%s: %v", text, found)
	}
	plain, found = expr.Value(&hcl.EvalContext{Variables: names, Functions: table})
	m := NewMeter(budget)
	metered, again := m.Expression(expr).Value(&hcl.EvalContext{Variables: names, Functions: m.Functions(table)})
	if !m.Exhausted() && found.Error() != again.Error() {
		t.Errorf("%s: %v, and with a budget %v", text, found, again)
	}
	return plain, metered, float64(budget) - m.left, !found.HasErrors()
}

// TestEverythingIsCharged computes expressions that multiply what they are given, and wants none to
// yield more than it spends.
func TestEverythingIsCharged(t *testing.T) {
	for _, text := range []string{
		"local.t", "local.l", "[local.t, local.t]", "{ a = local.t, b = [local.l] }", `"${local.t}${local.t}"`,
		"[for x in local.l : [for y in local.l : x]]",
		"{ for x in local.l : x => local.t }", "{ for x in local.l : \"k\" => x... }", "local.l[*]",
		"[for i in range(local.n) : local.t]", "range(1000)", "range(0, 1000, 2)",
		"[for i in range(strlen(local.t)) : i]", "replace(local.t, \"a\", local.t)",
		"regexreplace(local.t, \"a\", \"$0$0$0$0$0$0$0$0\")", "regexall(\"a\", local.t)",
		"regexall(\"(?P<first>a)(?P<second>b)(?P<third>)(?P<fourth>)\", local.t)", "csvdecode(local.csv)",
		"jsonencode(csvdecode(local.csv))", "csvdecode(file(\"f.csv\"))",
		"csvdecode(\"${local.csv}\")", "csvdecode(file(\"quoted.csv\"))", "jsondecode(local.json)",
		"jsonencode(jsondecode(local.json))",
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
		plain, metered, spent, ok := evaluated(t, text, 1<<30)
		if !ok || !metered.RawEquals(plain) {
			t.Errorf("%s: %#v, and with a budget %#v", text, plain, metered)
		}
		if size := plainSize(plain); size > spent {
			t.Errorf("%s has %.0f bytes and spent %.0f", text, size, spent)
		}
	}
}

// TestSmallExpressionsAreAffordable draws expressions of small parts. They pay for the values that
// they yield, not for those that they could yield with other arguments.
func TestSmallExpressionsAreAffordable(t *testing.T) {
	const budget, seed = 8 << 20, 39
	computed := 0
	for i := range 1500 {
		d := drawn{rand.New(rand.NewPCG(seed, uint64(i)))}
		text := d.expression(3)
		plain, metered, spent, ok := evaluated(t, text, budget)
		if !ok {
			continue
		}
		computed++
		size := plainSize(plain)
		switch {
		case spent > 200_000:
			t.Errorf("seed %d, expression %d: %s yields %.0f bytes and spent %.0f", seed, i, text, size, spent)
		case size > spent:
			t.Errorf("seed %d, expression %d: %s yields %.0f bytes and spent only %.0f", seed, i, text, size, spent)
		case !metered.RawEquals(plain):
			t.Errorf("seed %d, expression %d: %s is %#v, and with a budget %#v", seed, i, text, plain, metered)
		}
	}
	if computed < 500 {
		t.Errorf("only %d expressions could be computed; the test would prove little", computed)
	}
}

// drawn writes expressions: texts, lists of texts and numbers, of at most five elements.
type drawn struct{ *rand.Rand }

func (d drawn) one(forms ...string) string { return forms[d.IntN(len(forms))] }

// filled writes one of the forms, with expressions of a depth in place of the names of kinds.
func (d drawn) filled(depth int, forms ...string) string {
	return strings.NewReplacer("LIST", d.list(depth), "TEXT", d.text(depth), "NUMBER", d.number(depth), "FLAT", d.list(0)).
		Replace(d.one(forms...))
}

func (d drawn) expression(depth int) string {
	switch d.IntN(3) {
	case 0:
		return d.text(depth)
	case 1:
		return d.list(depth)
	}
	return d.number(depth)
}

func (d drawn) number(depth int) string {
	if depth == 0 {
		return d.one("1", "4", "0", "2.5", "17")
	}
	return d.filled(depth-1, "length(LIST)", "strlen(TEXT)", "(NUMBER + 1)", "max(NUMBER, 2)", "pow(2, NUMBER)",
		"(NUMBER > 2 ? 1 : 5)", "index(LIST, \"a\")", "abs(NUMBER)", "length(distinct(LIST))")
}

func (d drawn) text(depth int) string {
	if depth == 0 {
		return d.one(`"a"`, `"w%02d"`, `","`, `"rack-7"`, `""`, `"[1,[],{\"k\":2}]"`, `"h,i\n1,2\n"`)
	}
	return d.filled(depth-1, `join(",", LIST)`, `join(TEXT, LIST)`, `format("%s-%03d", TEXT, NUMBER)`,
		`replace(TEXT, "a", TEXT)`, `upper(TEXT)`, `jsonencode(LIST)`, `"x${TEXT}y"`, `"%{for x in LIST}${x};%{endfor}"`,
		`indent(NUMBER, TEXT)`, `regexreplace(TEXT, "(a)", "$1$1")`, `trimspace(TEXT)`, `title(TEXT)`, `substr(TEXT, 0, 3)`,
		`(length(LIST) > 1 ? TEXT : "z")`, `element(LIST, 0)`, `lookup({ a = TEXT }, "a", "")`, `LIST[0]`)
}

func (d drawn) list(depth int) string {
	if depth == 0 {
		return d.one(`["a"]`, `["a", "b", "c"]`, "range(4)", "[1, 2]", `split(",", "n1,n2,n3,n4")`, "[]")
	}
	return d.filled(depth-1, `formatlist("w%02d", range(4))`, `formatlist("%s", LIST)`, `[for x in LIST : "${x}-${TEXT}"]`,
		`[for i, x in LIST : i if i > 0]`, `concat(LIST, LIST)`, `setproduct(LIST, FLAT)`, `split(",", TEXT)`,
		`distinct(LIST)`, `reverse(LIST)`, `regexall("[a-z]", TEXT)`, `[TEXT, TEXT]`, `LIST[*]`, `flatten([LIST, FLAT])`,
		`keys({ for x in LIST : "k${x}" => TEXT... })`, `chunklist(LIST, 2)`, `slice(LIST, 0, 1)`, `jsondecode(TEXT)`,
		`csvdecode(TEXT)`, `values({ a = TEXT, b = TEXT })`, `[for x in LIST : [for y in FLAT : x]]`, `sort(LIST)`,
		`range(NUMBER)`)
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
