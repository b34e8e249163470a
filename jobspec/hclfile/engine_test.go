package hclfile_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rota-hpc/rota/jobspec/hclfile"
	"github.com/rota-hpc/rota/jobspec/hclfile/decode"
	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
	"github.com/rota-hpc/rota/jobspec/hclfile/functions"
	"github.com/rota-hpc/rota/jobspec/template"
)

// TestPrecedence removes the strongest source of a value one after the other and wants the next to
// win.
func TestPrecedence(t *testing.T) {
	files := map[string]string{
		"first": `x = "first file"`, "second": `{ "x": "second file" }`,
		"a.auto": `x = "first auto file"`, "b.auto": "x = \"second auto file\"\nother = 1\n",
	}
	environment := map[string]string{"ROTA_VAR_x": "environment", "ROTA_VAR_unknown": "ignored"}
	opts := options()
	opts.Vars = map[string]string{"x": "command line"}
	opts.VarFiles = []string{"first", "second"}
	opts.AutoFiles = []string{"a.auto", "b.auto"}
	opts.Getenv = func(name string) (string, bool) { v, ok := environment[name]; return v, ok }
	opts.ReadVars = func(name string) ([]byte, error) { return []byte(files[name]), nil }
	const src = "variable \"x\" { default = \"default\" }\njob \"a\" { path = var.x }\n"
	weaken := []struct {
		want string
		next func()
	}{
		{"command line", func() { opts.Vars = nil }},
		{"second file", func() { opts.VarFiles = opts.VarFiles[:1] }},
		{"first file", func() { opts.VarFiles = nil }},
		{"environment", func() { delete(environment, "ROTA_VAR_x") }},
		{"second auto file", func() { opts.AutoFiles = opts.AutoFiles[:1] }},
		{"first auto file", func() { opts.AutoFiles = nil }},
		{"default", func() {}},
	}
	for _, step := range weaken {
		w, _, diags := load("f.hcl", []byte(src), opts)
		if diags.HasErrors() || w.Path != step.want {
			t.Errorf("got %q (%v), want %q", w.Path, diags, step.want)
		}
		step.next()
	}
}

// TestNothingOffered wants what the caller does not offer to be refused, not to be taken from the
// process.
func TestNothingOffered(t *testing.T) {
	for _, call := range []string{"uuid()", "timestamp()", `env("HOME")`, `file("bounds_test.go")`} {
		_, _, diags := load("f.hcl", []byte("job \"a\" { path = "+call+" }\n"), hclfile.Options{})
		if len(diags) != 1 || diags[0].Code != diagnostic.CodeExpression {
			t.Errorf("%s: %v", call, diags)
		}
	}
	opts := options()
	opts.Now, opts.NewUUID = nil, nil
	opts.ReadFile = func(string) ([]byte, error) { return nil, fs.ErrPermission }
	_, _, diags := load("f.hcl", []byte(`job "a" { path = file("x") }`), opts)
	if len(diags) != 1 || !strings.Contains(diags[0].Text, "permission") {
		t.Errorf("a file that cannot be read: %v", diags)
	}
}

// TestEveryFunction calls each function that is advertised.
func TestEveryFunction(t *testing.T) {
	calls := map[string]string{
		"abs": "abs(-1)", "ceil": "ceil(1.5)", "chomp": `chomp("a\n")`, "chunklist": "chunklist([1, 2, 3], 2)",
		"coalesce":     `coalesce(null, "a")`,
		"coalescelist": "coalescelist([], [1])", "compact": `compact(["", "a"])`, "concat": "concat([1], [2])",
		"contains":  "contains([1], 1)",
		"csvdecode": `csvdecode("a,b\n1,2\n")`, "distinct": "distinct([1, 1])", "duration": `duration("1m")`,
		"element": "element([1], 0)",
		"env":     `env("ALLOWED")`, "file": `file("text.txt")`, "flatten": "flatten([[1], [2]])", "floor": "floor(1.5)",
		"format":     `format("%s-%03d", "a", 7)`,
		"formatdate": `formatdate("YYYY", timestamp())`, "formatlist": `formatlist("%s!", ["a"])`,
		"hasindex": `hasindex(tomap({ a = 1 }), "a")`,
		"indent":   `indent(2, "a\nb")`, "index": `index(["a"], 0)`, "int": "int(1.5)", "join": `join("-", ["a", "b"])`,
		"jsondecode": `jsondecode("[1]")`,
		"jsonencode": "jsonencode({ a = 1 })", "keys": "keys({ a = 1 })", "length": "length([1])", "log": "log(8, 2)",
		"lookup": `lookup({ a = 1 }, "b", 2)`,
		"lower":  `lower("A")`, "max": "max(1, 2)", "merge": "merge({ a = 1 }, { b = 2 })", "min": "min(1, 2)",
		"parseint": `parseint("ff", 16)`,
		"pow":      "pow(2, 3)", "range": "range(3)", "regex": `regex("a+", "baa")`, "regexall": `regexall("a", "aa")`,
		"regexreplace": `regexreplace("aa", "a", "b")`, "replace": `replace("aa", "a", "b")`, "reverse": "reverse([1, 2])",
		"setintersection": `setintersection(["a"], ["a", "b"])`, "setproduct": `setproduct(["a"], ["b"])`,
		"setsubtract":            `setsubtract(["a"], ["b"])`,
		"setsymmetricdifference": `setsymmetricdifference(["a"], ["b"])`, "setunion": `setunion(["a"], ["b"])`,
		"signum": "signum(-2)", "size": `size("1K")`,
		"slice": "slice([1, 2], 0, 1)", "sort": `sort(["b", "a"])`, "split": `split(",", "a,b")`, "strlen": `strlen("é")`,
		"strrev": `strrev("ab")`,
		"substr": `substr("abc", 1, 1)`, "timeadd": `timeadd(timestamp(), "1h")`, "timestamp": "timestamp()",
		"title":  `title("a b")`,
		"tobool": `tobool("true")`, "tolist": `tolist(["a"])`, "tomap": `tomap({ a = 1 })`, "tonumber": `tonumber("1")`,
		"toset":    `toset(["a"])`,
		"tostring": "tostring(1)", "trim": `trim("xax", "x")`, "trimprefix": `trimprefix("xa", "x")`,
		"trimspace":  `trimspace(" a ")`,
		"trimsuffix": `trimsuffix("ax", "x")`, "upper": `upper("a")`, "uuid": "uuid()", "values": "values({ a = 1 })",
		"zipmap": `zipmap(["a"], [1])`,
	}
	var b strings.Builder
	b.WriteString("job \"a\" {\n  lists = {\n")
	names := slices.Sorted(maps.Keys(functions.Table(functions.Environment{Quantities: options().Quantities})))
	for _, name := range names {
		if calls[name] == "" {
			t.Errorf("no call of %s", name)
			continue
		}
		fmt.Fprintf(&b, "    %s = [jsonencode(%s)]\n", name, calls[name])
	}
	b.WriteString("  }\n}\n")
	golden(t, "testdata/functions.out", []byte(mustLoad(t, "f.hcl", b.String(), options())))
}

// TestReferencesStay puts references into texts and lists, which keep them for the launch.
func TestReferencesStay(t *testing.T) {
	src := "job \"a\" {\n  task \"t\" {\n    command = [\"x\", array.lr, \"${job.id}-${array.lr}\"]\n    env {\n      " +
		"A = array.size\n    }\n  }\n}\n"
	w, _, diags := load("f.hcl", []byte(src), options())
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	task := w.Tasks[0]
	want := []string{"x", "${array.lr}", "${job.id}-${array.lr}"}
	if !reflect.DeepEqual(task.Command, want) || task.Env["A"] != "${array.size}" || !task.Template {
		t.Errorf("got %+v", task)
	}
}

// TestNames writes a name as text and as a reference.
func TestNames(t *testing.T) {
	for text, want := range map[string]string{
		`"node.gpu.model"`: "node.gpu.model", `"${node.gpu.model}"`: "node.gpu.model", "node.gpu.model": "node.gpu.model",
		"node.name":           "node.name",
		`node.label["a.b/c"]`: "node.label.a.b/c", `"node.${"cores"}"`: "node.cores",
	} {
		if w, _, diags := load("f.hcl", []byte("job \"a\" { where = "+text+" }\n"), options()); diags.HasErrors() ||
			w.Where != want {
			t.Errorf("%s: got %q (%v), want %q", text, w.Where, diags, want)
		}
	}
	for _, text := range []string{"node.gpu[0]", "nodes.gpu", `"x${node.name}"`, "node.gpu.*.x", `upper(node.name)`} {
		if w, _, diags := load("f.hcl", []byte("job \"a\" { where = "+text+" }\n"), options()); !diags.HasErrors() {
			t.Errorf("%s is accepted as %q", text, w.Where)
		}
	}
}

// TestOldSchema wants a schema without attributes for references to refuse each by its name.
func TestOldSchema(t *testing.T) {
	for _, name := range append(template.Names(), "array.lr") {
		diags := hclfile.Decode("d.hcl", []byte("name = "+name+"\n"), &daemon{})
		if len(diags) != 1 || diags[0].Code != diagnostic.CodeDeferred ||
			!strings.Contains(diags[0].Text, name+" is not supported yet") || diags[0].Hint == "" {
			t.Errorf("%s: %v", name, diags)
		}
	}
}

// TestSensitive wants the places of sensitive values to be known, and rules about them to say
// nothing of them.
func TestSensitive(t *testing.T) {
	const src = `variable "password" {
  sensitive = true
}
locals { half = substr(var.password, 0, 4) }
job "a" {
  tags = ["x", upper(local.half)]
  task "t" {
    command = ["login", "--user=${array.index}", "--password=${var.password}"]
    image   = "plain"
    env {
      PASSWORD = var.password
      PLAIN    = "x"
    }
  }
}
`
	opts := options()
	opts.Vars["password"] = "hunter2"
	w, result, diags := load("f.hcl", []byte(src), opts)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	if got := w.Tasks[0].Command[2]; got != "--password=hunter2" {
		t.Errorf("the job itself has %q", got)
	}
	if got, want := result.Sensitive(),
		[]string{"tags", "tasks[0].command", "tasks[0].env.PASSWORD"}; !reflect.DeepEqual(got, want) {
		t.Errorf("sensitive are %q, want %q", got, want)
	}
	for _, path := range []string{"tags[1]", "tasks[0].command", "tasks[0].command[2]", "tasks[0].env.PASSWORD"} {
		d := result.At(path, "JS-999", "HUNT is wrong", "write HUNT2")
		if strings.Contains(d.Text+d.Hint, "HUNT") || d.Code != "JS-999" || d.Start.Line < 5 {
			t.Errorf("%s: %+v", path, d)
		}
	}
	if d := result.At("tasks[0].image", "JS-999", `"plain" and "hunter2" are wrong`,
		""); d.Text != `"plain" and "(sensitive)" are wrong` {
		t.Errorf("got %q", d.Text)
	}
}

// TestNoSecretInGoldens wants no message about the files with secrets to have one in it.
func TestNoSecretInGoldens(t *testing.T) {
	for _, name := range append(files(t, "testdata/bad/sens*.txt"), files(t, "testdata/bad/*secret*.txt")...) {
		for _, secret := range []string{"hunter2", "abc", "battery", "correct horse", "hun"} {
			if text := read(t, name); bytes.Contains(bytes.ReplaceAll(text, []byte("hunter2-"), nil), []byte(secret)) {
				t.Errorf("%s shows %q", name, secret)
			}
		}
	}
}

// TestTemplateIsWhatWasWritten fills templates in and wants what a plain evaluation gives with
// variables in the place of references. The texts have I, L, J and W for them.
func TestTemplateIsWhatWasWritten(t *testing.T) {
	names := map[string]string{"I": "array.index", "L": "array.lr", "J": "job.id", "W": "worker.count"}
	values := map[string]string{"array.index": "7", "array.lr": "$${job.id}${array.index}", "job.id": "$",
		"worker.count": ""}
	texts := []string{
		`"<I>"`, `"$${array.index}<I>"`, `"${"$"}<I>"`, `"${"$$$"}<L>$${array.lr}"`, `"a${"$"}${"{"}array.index}<J>"`,
		`"${HOME}<L>${HOME}"`,
		`join("$", [@L, @J, @I])`, `"<W>${"{array.index}"}"`, `"${"$"}<W>{array.index}"`, `"${"$"}<W>{array.index}<J><J><I>"`,
	}
	opts := options()
	var src strings.Builder
	for letter, name := range names {
		opts.Vars[letter] = values[name]
		fmt.Fprintf(&src, "variable %q {}\n", letter)
	}
	for _, text := range texts {
		deferred, plain := text, text
		for letter, name := range names {
			deferred = strings.NewReplacer("<"+letter+">", "${"+name+"}", "@"+letter, name).Replace(deferred)
			plain = strings.NewReplacer("<"+letter+">", "${var."+letter+"}", "@"+letter, "var."+letter).Replace(plain)
		}
		file := src.String() + "job \"a\" {\n path = " + plain + "\n task \"t\" {\n script = " + deferred + "\n }\n}\n"
		w, _, diags := load("f.hcl", []byte(file), opts)
		if diags.HasErrors() {
			t.Errorf("%s: %v", file, diags)
			continue
		}
		got, err := template.Expand(w.Tasks[0].Script,
			func(name string) (string, bool) { v, ok := values[name]; return v, ok })
		if err != nil || !w.Tasks[0].Template || got != w.Path {
			t.Errorf("%s: template %q (%v) gives %q (%v), want %q", deferred, w.Tasks[0].Script, w.Tasks[0].Template, got, err,
				w.Path)
		}
	}
}

// TestRepeatedMistake wants a mistake in a dynamic block to be told once, and what follows as well.
func TestRepeatedMistake(t *testing.T) {
	_, _, diags := load("f.hcl", []byte(`job "a" {
  dynamic "task" {
    for_each = range(500)
    labels   = ["t${task.value}"]
    content {
      cores = "many"
      wrong = 1
    }
  }
  task "t" { cores = "few" }
}
`), options())
	if len(diags) != 3 || diags[2].Start.Line != 10 {
		t.Errorf("got %v", diags)
	}
}

// TestManyMistakes wants a dynamic block that cannot be expanded to be left alone also when no more
// mistakes are told.
func TestManyMistakes(t *testing.T) {
	src := "job \"a\" {\n" + repeat(100, "wrong%d = 1\n") +
		"dynamic \"task\" {\n labels = [1]\n content {}\n}\ndynamic \"task\" {\n for_each = [1]\n}\n}\n"
	if w, _, diags := load("f.hcl", []byte(src), options()); len(diags) == 0 || len(w.Tasks) != 0 {
		t.Errorf("%d tasks and %d diagnostics", len(w.Tasks), len(diags))
	}
}

// TestReport keeps the JSON for editors apart from the list for people, and counts UTF-16 units.
func TestReport(t *testing.T) {
	if text := toJSON(t, diagnostic.Diagnostics(nil).Report()); text != "{\n  \"files\": []\n}\n" {
		t.Errorf("without diagnostics: %s", text)
	}
	made := diagnostic.Diagnostics{{Code: "JS-1", File: "b", Text: "x", Start: diagnostic.Pos{Line: 2, Column: 3}},
		{Code: "JS-2", File: "a", Text: "y", Hint: "z"}}
	report := made.Report()
	if len(report.Files) != 2 || report.Files[0].File != "a" ||
		report.Files[1].Diagnostics[0].Range.Start != (diagnostic.EditorPosition{Line: 1, Character: 2}) {
		t.Errorf("got %+v", report)
	}
	report.Warn(diagnostic.Diagnostics{{Code: "JS-3", File: "a", Text: "w"}})
	if warned := report.Files[0].Diagnostics; len(warned) != 2 || warned[0].Severity != 1 || warned[1].Severity != 2 {
		t.Errorf("with a warning: %+v", report)
	}
	if made[0].File != "b" {
		t.Error("the report changed the order of what it was made from")
	}
}

// TestValue reads each kind of value, and refuses each as another.
func TestValue(t *testing.T) {
	type all struct{ got []string }
	show := func(a *all, v decode.Value, _ hclfile.Source) error {
		text, errText := v.Text()
		texts, errTexts := v.Texts()
		entries, errEntries := v.Entries()
		a.got = append(a.got, strings.TrimSpace(fmt.Sprintln(text, errText == nil, texts, errTexts == nil, len(entries),
			errEntries == nil, v.IsList())))
		return nil
	}
	schema := &hclfile.Block{Attrs: []hclfile.Attr{hclfile.Any("a", "any", show), hclfile.Any("b", "any", show),
		hclfile.Any("c", "any", show), hclfile.Any("d", "any", show)}}
	got := &all{}
	_, diags := hclfile.Load("f.hcl", []byte("a = 5\nb = [\"x\", 1]\nc = { y = 1, x = [2] }\nd = \"text\"\n"), schema, got,
		hclfile.Options{})
	want := []string{
		"5 true [] false 0 false false", "false [x 1] true 0 false true", "false [] false 2 true false",
		"text true [] false 0 false false",
	}
	if diags.HasErrors() || !reflect.DeepEqual(got.got, want) {
		t.Errorf("got %q (%v), want %q", got.got, diags, want)
	}
}

// TestNoTerminalIsToldAnything shows lines with characters that a terminal would act on.
func TestNoTerminalIsToldAnything(t *testing.T) {
	for _, bad := range []string{"\x1b[2J", "\u009b2J", "\x07", "\u202ecba", "\u2066"} {
		_, _, diags := load("f.hcl", []byte("job \"a\" {\n\tcuont = \"x"+bad+"y\"\n}\n"), options())
		var shown strings.Builder
		if err := diags.WriteText(&shown, false); err != nil || len(diags) == 0 {
			t.Fatalf("%q: %v, %v", bad, diags, err)
		}
		first, _ := utf8.DecodeRuneInString(bad)
		if strings.ContainsRune(shown.String(), first) || !strings.Contains(shown.String(), "\tcuont") {
			t.Errorf("%q is shown:\n%q", bad, shown.String())
		}
	}
}
