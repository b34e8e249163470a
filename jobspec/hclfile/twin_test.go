package hclfile_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/jobspec/hclfile"
)

// writer draws files and writes each in both syntaxes.
type writer struct{ random *rand.Rand }

// twin is a part of a file in HCL and in JSON.
type twin struct{ hcl, json string }

func (w *writer) pick(list ...string) string { return list[w.random.IntN(len(list))] }

// text is what a string template says, without its quotation marks.
func (w *writer) text() string {
	text := ""
	for range w.random.IntN(6) {
		piece := w.pick("a", " ", "é", "😀", "\n", "\t", "\"", "\\", "$", "%", "{", "}", "$${", "%%{", "${local.x}", "${HOME}",
			"${var.n + 1}",
			"${max(1, 2)}", "%{if var.n > 1}y%{else}n%{endif}", "$${array.index}", "#", "//", "<<EOT")
		if strings.HasSuffix(text, "$") || strings.HasSuffix(text, "%") {
			text += "-" // or both would make another word
		}
		text += piece
	}
	return text
}

func (w *writer) scalar() twin {
	switch w.random.IntN(6) {
	case 0:
		return twin{"true", "true"}
	case 1:
		n := w.pick("0", "1", "2.5", "-3", "1e3")
		return twin{n, n}
	case 2:
		return twin{"local.x", `"${local.x}"`}
	default:
		return quoted(w.text())
	}
}

func quoted(text string) twin {
	inHCL := strings.NewReplacer("\\", "\\\\", "\"", "\\\"", "\n", "\\n", "\t", "\\t").Replace(text)
	inJSON, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return twin{`"` + inHCL + `"`, string(inJSON)}
}

func (w *writer) list(each func() twin) twin {
	var a, b []string
	for range w.random.IntN(4) {
		one := each()
		a, b = append(a, one.hcl), append(b, one.json)
	}
	return twin{"[" + strings.Join(a, ", ") + "]", "[" + strings.Join(b, ", ") + "]"}
}

func (w *writer) object(each func() twin) twin {
	var a, b []string
	for i := range w.random.IntN(3) {
		one := each()
		a = append(a, fmt.Sprintf("k%d = %s", i, one.hcl))
		b = append(b, fmt.Sprintf(`"k%d": %s`, i, one.json))
	}
	return twin{"{" + strings.Join(a, ", ") + "}", "{" + strings.Join(b, ", ") + "}"}
}

// body joins attributes and blocks.
func body(parts []twin) twin {
	var a, b []string
	for _, p := range parts {
		a, b = append(a, p.hcl), append(b, p.json)
	}
	return twin{"{\n" + strings.Join(a, "\n") + "\n}", "{" + strings.Join(b, ", ") + "}"}
}

func attr(name string, value twin) twin {
	return twin{name + " = " + value.hcl, `"` + name + `": ` + value.json}
}

func (w *writer) mount() twin {
	return body([]twin{attr("source", quoted(w.text())), attr("target", quoted(w.pick("/a", "/${array.index}")))})
}

func (w *writer) task() twin {
	parts := []twin{attr("command", w.list(w.scalar))}
	if w.random.IntN(2) == 0 {
		parts = append(parts, attr("script", quoted(w.text()+w.pick("", "${job.id}", "$${job.id}"))))
	}
	var inner []twin
	for i := range w.random.IntN(3) {
		inner = append(inner, attr(fmt.Sprintf("E%d", i), w.scalar()))
	}
	block := body(inner)
	parts = append(parts, twin{"env " + block.hcl, `"env": ` + block.json})
	var a, b []string
	for range w.random.IntN(3) {
		m := w.mount()
		a, b = append(a, "mount "+m.hcl), append(b, m.json)
	}
	parts = append(parts, twin{strings.Join(a, "\n"), `"mount": [` + strings.Join(b, ", ") + "]"})
	if w.random.IntN(3) == 0 {
		content := body([]twin{attr("source", quoted("${log.value}"))})
		dynamic := body([]twin{attr("for_each", twin{`["x"]`, `["x"]`}),
			{"content " + content.hcl, `"content": ` + content.json}})
		parts = append(parts, twin{`dynamic "log" ` + dynamic.hcl, `"dynamic": { "log": ` + dynamic.json + "}"})
	}
	return body(parts)
}

func (w *writer) file() twin {
	job := []twin{
		attr("tags", w.list(w.scalar)), attr("axes", w.object(func() twin { return w.list(w.scalar) })),
		attr("count", twin{"var.n", `"${var.n}"`}),
	}
	var a, b []string
	for i := range w.random.IntN(3) {
		one := w.task()
		a, b = append(a, fmt.Sprintf("task \"t%d\" %s", i, one.hcl)), append(b, fmt.Sprintf(`"t%d": %s`, i, one.json))
	}
	job = append(job, twin{strings.Join(a, "\n"), `"task": {` + strings.Join(b, ", ") + "}"})
	inner := body(job)
	x := quoted(w.pick("", "x", "$${array.index}", "${max(1, 2)}", "$"))
	n := w.pick("1", "2")
	return twin{
		"locals {\n x = " + x.hcl + "\n}\nvariable \"n\" {\n type = number\n default = " + n + "\n}\njob \"a\" " + inner.hcl +
			"\n",
		`{ "locals": { "x": ` + x.json + ` }, "variable": { "n": { "type": "number", "default": ` + n +
			` } }, "job": { "a": ` + inner.json + ` } }`,
	}
}

// TestTwins draws files in both syntaxes and wants both to say the same, and formatting to change
// nothing.
func TestTwins(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := &writer{rand.New(rand.NewPCG(seed, 1))}
	good := 0
	for range 500 {
		file := w.file()
		a, _, diagsA := load("f.hcl", []byte(file.hcl), options())
		b, _, diagsB := load("f.json", []byte(file.json), options())
		if diagsA.HasErrors() != diagsB.HasErrors() {
			t.Fatalf("HCL: %v\nJSON: %v\n%s\n%s", diagsA, diagsB, file.hcl, file.json)
		}
		if diagsA.HasErrors() {
			continue
		}
		good++
		said := toJSON(t, a)
		if other := toJSON(t, b); other != said {
			t.Fatalf("HCL says\n%s\nJSON says\n%s\n%s\n%s", said, other, file.hcl, file.json)
		}
		text, err := hclfile.Format("f.hcl", []byte(file.hcl))
		if err != nil {
			t.Fatalf("%v\n%s", err, file.hcl)
		}
		if formatted := mustLoad(t, "f.hcl", string(text), options()); formatted != said {
			t.Fatalf("formatted it says\n%s\nnot\n%s\n%s", formatted, said, file.hcl)
		}
	}
	if good < 250 {
		t.Errorf("only %d of the files were good", good)
	}
}
