package hclfile_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
)

// Refusing or computing a hostile file may take this much, on a slow machine with the race
// detector.
const (
	maxTime   = 20 * time.Second
	maxMemory = 256 << 20 // bytes allocated in all, freed ones included
)

// repeat writes a line for each of n.
func repeat(n int, line string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, line, i)
	}
	return b.String()
}

// laughs are locals each of which is ten of the one before.
func laughs(each string) string {
	var b strings.Builder
	b.WriteString("locals {\n l0 = \"ha\"\n")
	for i := 1; i < 20; i++ {
		fmt.Fprintf(&b, "l%d = "+each+"\n", i, i-1)
	}
	return b.String() + "}\njob \"a\" { path = local.l19 }\n"
}

func tenTimes(text, between string) string {
	return strings.Join(strings.Split(strings.Repeat(text+"\x00", 10), "\x00")[:10], between)
}

// job is a file with a job.
func job(text string) string { return "job \"a\" {\n" + text + "\n}\n" }

// hostile are files that ask for too much, and what is said about them, "" when any message will
// do.
var hostile = []struct{ name, src, says string }{
	{"a huge heredoc", "locals { a = <<EOT\n" + strings.Repeat("0123456789abcde\n", 200_000) + "EOT\n}\n" + job(""),
		"2097152"},
	{"two million blank lines", strings.Repeat("\n", 2<<20-100) + job(""), "100000 words"},
	{"two million commas", job("axes = { a = [" + strings.Repeat(",", 2<<20-100) + "] }"), "100000 words"},
	{"a long text and a million commas", job("path = \"" + strings.Repeat("a", 1<<20) + "\"" +
		strings.Repeat(",", 1<<20-100)), "100000 words"},
	{"a million blank lines in a script", job("path = <<EOT\n" + strings.Repeat("\n", 1<<20) + "EOT\n"), "100000 words"},
	{"a million commas in a template in JSON",
		`{ "job": { "a": { "path": "${` + strings.Repeat(",", 2<<20-100) + `}" } } }`,
		"100000 words"},
	{"a million elements", job("axes = { a = [" + strings.Repeat("1, ", 500_000) + "] }"), "100000 words"},
	{"a million elements in JSON", `{ "job": { "a": { "axes": { "a": [` + strings.Repeat("1,", 500_000) + `1] } } } }`,
		"100000 words"},
	{"a million combinations", job("axes = { a = setproduct(range(1000), range(1000)) }"), "8 MiB"},
	{"billion laughs in text", laughs(`"` + tenTimes("${local.l%[2]d}", "") + `"`), "8 MiB"},
	{"billion laughs in lists", laughs("[" + tenTimes("local.l%[2]d", ", ") + "]"), "8 MiB"},
	{"billion laughs in maps",
		laughs("{ a = local.l%[2]d, b = local.l%[2]d, c = [local.l%[2]d, local.l%[2]d, local.l%[2]d] }"), "8 MiB"},
	{"billion laughs in concat",
		strings.Replace(laughs("concat("+tenTimes("local.l%[2]d", ", ")+")"), `"ha"`, `["ha"]`, 1), "8 MiB"},
	{"loops in loops", job("codes = [for a in range(1000) : [for b in range(1000) : [for c in range(1000) : a]]]"),
		"8 MiB"},
	{"loops in templates", job("path = \"" + strings.Repeat("%{for a in range(1000)}", 3) + "x" +
		strings.Repeat("%{endfor}", 3) + "\""), "8 MiB"},
	{"repeated replacement", job(`path = replace(replace(replace(join("", [for i in range(1000) : "a"]), "a", ` +
		`join("", [for i in range(1000) : "b"])), "b", "cccccccc"), "c", "dddddddd")`), "8 MiB"},
	{"join with a long separator",
		job(`path = join(join("", [for i in range(1000) : "0123456789"]), [for i in range(1000) : "x"])`), "8 MiB"},
	{"long formats", job(`path = join("", [for i in range(1000) : join("", formatlist("%999d", range(100)))])`),
		"8 MiB"},
	{"a wide format", job(`path = format("%1000000000d", 1)`), "3 digits"},
	{"a huge indent", job(`path = indent(1000000000, "a\nb")`), "100 spaces"},
	{"a huge number", job(`count = 1e2000000000`), ""},
	{"a huge number of a product", job(`path = "${` + tenTimes("1e1000000", " * ") + `}"`), "8 MiB"},
	{"a huge number in JSON", `{ "job": { "a": { "count": 1e2000000000 } } }`, ""},
	{"deep brackets", job("codes = " + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)), "64"},
	{"deep blocks", strings.Repeat("job \"a\" {\n", 10_000) + strings.Repeat("}\n", 10_000), "64"},
	{"deep templates", job("path = " + strings.Repeat(`"${`, 10_000) + "1" + strings.Repeat(`}"`, 10_000)), "64"},
	{"deep parentheses", job("count = " + strings.Repeat("(", 10_000) + "1"), "64"},
	{"many signs", job("count = " + strings.Repeat("-", 90_000) + "1"), "16"},
	{"many negations", job("count = " + strings.Repeat("!", 90_000) + "true"), "16"},
	{"deep JSON", `{ "job": ` + strings.Repeat("[", 1_000_000), "64"},
	{"deep templates in JSON", `{ "job": { "a": { "path": "` + strings.Repeat("${[", 1000) + `" } } }`, "64"},
	{"deep types in JSON", `{ "variable": { "a": { "type": "` + strings.Repeat("list(", 10000) +
		`" } }, "job": { "a": {} } }`, "64"},
	{"dynamic blocks in dynamic blocks", job(`dynamic "task" {
			for_each = range(1000)
			labels   = [task.value]
			content {
				dynamic "mount" {
					for_each = range(1000)
					content {}
				}
			}
		}`), "10000 blocks"},
	{"a dynamic block with much in it",
		job("dynamic \"task\" {\nfor_each = range(1000)\nlabels = [task.value]\ncontent {\nenv {\n" +
			repeat(8000, "e%d = 1\n") + "}\n}\n}"), "8 MiB"},
	{"many locals", "locals {\n" + repeat(2000, "l%d = 1\n") + "}\n" + job(""), "1000 locals"},
	{"many variables", repeat(500, "variable \"v%d\" { default = 1 }\n") + job(""), "256 variables"},
	{"many mistakes", job(repeat(5000, "wrong%d = 1\n")), ""},
	{"a long chain of operators", job("count = " + strings.Repeat("1 + ", 40_000) + "\"x\""), ""},
	{"a long chain of conditions", job("count = " + strings.Repeat("true ? 1.5 : ", 20_000) + "1"), ""},
	{"a long chain of indexes", job("count = local.a" + strings.Repeat("[0]", 30_000)), ""},
	{"a long chain of splats", "locals { a = [[1]] }\n" + job("codes = local.a"+strings.Repeat("[*]", 30_000)), ""},
	{"a bad expression many times", job("codes = [" + strings.Repeat("nothing, ", 30_000) + "]"), ""},
	{"a long chain of locals", chain(), ""},
	{"a table with a long header",
		job(`path = jsonencode(csvdecode(join("\n", concat([join("", [for i in range(1000) : "0123456789"])], ` +
			`[for i in range(1000) : "1"]))))`), "8 MiB"},
	{"many types to unify", job(`count = length(tolist([for i in range(150) : [for j in range(150) : { a = j }]])) + 0.5`),
		""},
	{"many objects to unify", job(`count = length(tolist([for j in range(1000) : { a = { b = [j] } }])) + 0.5`), ""},
	{"many different objects to unify",
		job(`count = length(toset([for i in range(200) : { for j in range(50) : "k${j}" => i == j ? [i] : [] }])) + 0.5`),
		""},
	{"choices between huge types",
		job(`count = length(true ? [for i in range(1000) : { "a${i}" = 1 }] : ` +
			`[for i in range(1000) : { "b${i}" = 1 }]) + 0.5`), ""},
	{"merged maps", job(`count = length(merge([for i in range(1000) : { "a${i}" = i }]...)) + 0.5`), ""},
	{"a regular expression that explodes",
		job(`tags = regexall("(a+)+$", join("", [for i in range(1000) : "a"]))` + "\ncount = 1.5"), ""},
}

// TestBounds gives the engine hostile files. Each is refused with the limit in the message, soon
// and without much memory.
func TestBounds(t *testing.T) {
	for _, test := range hostile {
		t.Run(test.name, func(t *testing.T) {
			bounded(t, test.src, test.says)
		})
	}
}

// TestSmallFilesAreAffordable: the budget counts results of expressions, not results that other
// arguments could give. A refused expression leaves the budget to the others.
func TestSmallFilesAreAffordable(t *testing.T) {
	for _, expr := range []string{
		`join(",", formatlist("w%02d", range(4)))`,
		`join(",", [for i in range(200) : format("node-%03d", i)])`,
		`replace(join("", [for i in range(500) : "a"]), "b", join("", [for i in range(500) : "c"]))`,
		`jsonencode(regexall("[0-9]+", join(",", range(1000))))`,
		`join("-", [for i in range(1000) : element(range(1000), i) if i < 10])`,
	} {
		if _, _, diags := load("f.hcl", []byte(job("path = "+expr)), options()); len(diags) > 0 {
			t.Errorf("%s: %v", expr, diags)
		}
	}
	var refused int
	_, _, diags := load("f.hcl", []byte("locals {\n"+repeat(50, "l%d = setproduct(range(1000), range(1000))\n")+"}\n"+
		job("path = upercase(\"x\")")), options())
	for _, d := range diags {
		if d.Code == diagnostic.CodeLimit {
			refused++
		}
	}
	if last := diags[len(diags)-1]; refused != 10 || last.Code != diagnostic.CodeFunction {
		t.Errorf("%d expressions refused for their size, want 10; the last message is %v", refused, last)
	}
}

func chain() string {
	var b strings.Builder
	b.WriteString("locals {\nl999 = 1.5\n")
	for i := range 999 {
		fmt.Fprintf(&b, "l%d = local.l%d\n", i, i+1)
	}
	return b.String() + "}\njob \"a\" { count = local.l0 }\n"
}

func bounded(t *testing.T, src, says string) {
	t.Helper()
	name := "f.hcl"
	if strings.HasPrefix(src, "{") {
		name = "f.json"
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	_, _, diags := load(name, []byte(src), options())
	var text bytes.Buffer
	if err := diags.WriteText(&text, false); err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > maxMemory || took > maxTime {
		t.Errorf("it took %v and %d MiB", took, used>>20)
	}
	if !diags.HasErrors() || says != "" && !strings.Contains(text.String(), says) {
		t.Errorf("no message names the limit %q:\n%.2000s", says, text.String())
	}
	if says != "" && diags[0].Code != diagnostic.CodeLimit && !strings.Contains(says, "digits") &&
		!strings.Contains(says, "spaces") {
		t.Errorf("the code is %s", diags[0].Code)
	}
	if text.Len() > 100_000 {
		t.Errorf("the messages have %d bytes", text.Len())
	}
	t.Logf("%v, %d MiB", took, (after.TotalAlloc-before.TotalAlloc)>>20)
}
