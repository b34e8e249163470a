package hclfile_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/jobspec/hclfile"
	"github.com/rota-hpc/rota/jobspec/template"
)

// FuzzLoad wants every file, in HCL and in JSON, to be read or refused with places in it, soon, and
// no secret to be shown.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/*/*.hcl", "testdata/*/*.json"} {
		for _, name := range files(f, pattern) {
			f.Add(read(f, name))
		}
	}
	f.Add([]byte("variable \"s\" {\nsensitive = true\ndefault = \"x-SECRET-x\"\n}\njob \"a\" { count = var.s }"))
	f.Fuzz(func(t *testing.T, src []byte) {
		name := "f.hcl"
		if hclfile.IsJSON(name, src) {
			name = "f.json"
		}
		start := time.Now()
		w, result, diags := load(name, src, options())
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%d bytes took %v", len(src), took)
		}
		lines := strings.Count(string(src), "\n") + 1
		for _, d := range diags {
			if d.Code == "" || d.Text == "" || d.File == "" ||
				d.File == name && (d.Start.Line > lines || d.Start.Line < 1 || d.Start.Column < 1) {
				t.Errorf("a diagnostic without its place: %+v", d)
			}
		}
		if err := diags.WriteText(&strings.Builder{}, true); err != nil {
			t.Error(err)
		}
		if _, err := json.Marshal(diags.Report()); err != nil {
			t.Error(err)
		}
		result.At("tasks[0].command[3]", "JS-999", "text", "hint")
		if !diags.HasErrors() {
			checkTemplates(t, w)
		}
	})
}

// checkTemplates wants every reference that was kept to be found in a template again.
func checkTemplates(t *testing.T, w *workload) {
	t.Helper()
	for _, task := range w.Tasks {
		if !task.Template {
			continue
		}
		for _, text := range append([]string{task.Script}, task.Command...) {
			if _, err := template.Expand(text, func(string) (string, bool) { return "v", true }); err != nil {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
}

// FuzzSensitive computes with a sensitive value in every kind of attribute, and wants no part of it
// to be shown.
func FuzzSensitive(f *testing.F) {
	for _, expr := range []string{
		"var.s", "upper(var.s)", "var.s + 1", `[var.s, "x"]`, `{ "${var.s}" = 1 }`, "var.s[0]",
		"duration(substr(var.s, 0, 3))", "file(var.s)",
		`{ a = 1 }[var.s]`, `{ a = 1 }[strrev(var.s)]`, `join(var.s, [array.lr, 1])`, `regex(var.s, "(")`,
		`regex("(${var.s}", "a")`, `formatdate(var.s, timestamp())`,
		`jsondecode(var.s)`, `parseint(var.s, 10)`, `toset([var.s, [1]])`, `[for x in var.s : x]`,
		`{ for x in [var.s, var.s] : x => x }`, `"${[var.s]}"`,
		`var.s ? 1 : 2`, `env(var.s)`, `merge({ a = var.s }, { b = 1 }).c`, `lookup({ a = 1 }, var.s)`, `element([1], var.s)`,
		`tonumber(var.s)`, "local.l.x",
		`zipmap([var.s], [1, 2])`, `format("%d", var.s)`, `format(var.s, 1)`, `timeadd(var.s, "1h")`, `{ (var.s) = 1 }.x`,
		`index([1], var.s)`, "-var.s", "local.l[var.s]",
	} {
		f.Add(expr)
	}
	const secret = "QZXJKVWYBHQ"
	f.Fuzz(func(t *testing.T, expr string) {
		src := "variable \"s\" {\n sensitive = true\n}\nlocals {\n l = { a = \"x${var.s}\" }\n m = " + expr +
			"\n}\njob \"a\" {\n limit = " + expr +
			"\n count = local.m\n tags = " + expr + "\n tokens = local.m\n axes = " + expr + "\n meta {\n m = " + expr +
			"\n}\n task \"t\" {\n script = " + expr +
			"\n memory = " + expr + "\n dynamic \"mount\" {\n for_each = " + expr +
			"\n content {\n source = mount.value\n}\n}\n}\n}\n"
		opts := options()
		opts.Vars["s"] = secret
		_, _, diags := load("f.hcl", []byte(src), opts)
		var shown strings.Builder
		if err := diags.WriteText(&shown, false); err != nil {
			t.Fatal(err)
		}
		text, written := strings.ToUpper(shown.String()), strings.ToUpper(expr)
		for _, part := range []string{secret, reversed(secret)} {
			for i := range len(part) - 2 {
				if three := part[i : i+3]; strings.Contains(text, three) && !strings.Contains(written, three) {
					t.Fatalf("%q of the secret is shown:\n%s", three, shown.String())
				}
			}
		}
	})
}

func reversed(text string) string {
	letters := []byte(text)
	slices.Reverse(letters)
	return string(letters)
}

// FuzzValues gives a text to variables of every kind, in a file of values and as a value. The text
// is read or refused, and nothing of a sensitive variable is shown.
func FuzzValues(f *testing.F) {
	for _, text := range []string{"any = 1\n", `{ "any": [1, "${x}"], "//": 2 }`, "list = [\"a\"]\r\n",
		"object = { a = 1, b = \"x\" }", `["a", "b"]`, "{ a = 1 }", "0x10", "1e400", "\xff", "null"} {
		f.Add(text)
	}
	const src = `
variable "any" { default = 1 }
variable "number" {
  type    = number
  default = 1
}
variable "list" {
  type    = list(string)
  default = []
}
variable "object" {
  type    = object({ a = number, b = optional(string, "x") })
  default = { a = 1 }
}
variable "hidden" {
  type      = list(number)
  default   = []
  sensitive = true
}
job "a" {
  count = length(var.list)
  tags  = concat([var.any, var.number, var.object.a, var.object.b], var.list, var.hidden)
}
`
	names := []string{"any", "number", "list", "object", "hidden"}
	f.Fuzz(func(t *testing.T, text string) {
		for i := -1; i < len(names); i++ {
			opts := options()
			if i < 0 {
				opts.VarFiles = []string{"values"}
				opts.ReadVars = func(string) ([]byte, error) { return []byte(text), nil }
			} else {
				opts.Vars = map[string]string{names[i]: text}
			}
			_, _, diags := load("f.hcl", []byte(src), opts)
			for _, d := range diags {
				if d.Code == "" || d.Text == "" || d.File == "" {
					t.Errorf("a diagnostic without its place: %+v", d)
				}
			}
			var shown strings.Builder
			if err := diags.WriteText(&shown, false); err != nil {
				t.Error(err)
			}
			if i >= 0 && names[i] == "hidden" && len(text) > 12 && strings.Contains(shown.String(), text) {
				t.Errorf("a sensitive value is shown:\n%s", &shown)
			}
		}
	})
}
