package template_test

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/jobspec/template"
)

func value(name string) (string, bool) { return "<" + name + ">", true }

func TestExpand(t *testing.T) {
	tests := []struct{ text, want string }{
		{"", ""},
		{"plain $HOME ${HOME} $$ {} $", "plain $HOME ${HOME} $$ {} $"},
		{"run-${array.index}.${array.lr}", "run-<array.index>.<array.lr>"},
		{"$${array.index}", "${array.index}"},
		{"$$${array.index}", "$<array.index>"},
		{"$$$${job.id}", "$${job.id}"},
		{"${job.idx} ${array.LR} ${array.} ${worker.rank}", "${job.idx} ${array.LR} ${array.} ${worker.rank}"},
		{"${${node.name}}", "${<node.name>}"},
	}
	for _, test := range tests {
		got, err := template.Expand(test.text, value)
		if err != nil || got != test.want {
			t.Errorf("%q becomes %q (%v), want %q", test.text, got, err, test.want)
		}
	}
}

func TestExpandWithoutValue(t *testing.T) {
	_, err := template.Expand("a ${array.lr}", func(string) (string, bool) { return "", false })
	missing := &template.NoValueError{}
	if !errors.As(err, &missing) || missing.Name != "array.lr" {
		t.Errorf("got %v, want array.lr to have no value", err)
	}
	if got, err := template.Expand("$${array.lr}", func(string) (string, bool) { return "", false }); err != nil ||
		got != "${array.lr}" {
		t.Errorf("got %q, %v for plain text", got, err)
	}
}

func TestReferences(t *testing.T) {
	got := template.References("${job.id} $${job.attempt} ${array.b} $$${array.a} ${job.id}")
	if want := []string{"job.id", "array.b", "array.a"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, name := range template.Names() {
		if !template.Known(name) || len(template.References("${"+name+"}")) != 1 {
			t.Errorf("%s is not known", name)
		}
	}
	for _, name := range []string{"array", "array.", "array.A", "array.a-b", "job.name", "worker.index.x", "xarray.a"} {
		if template.Known(name) {
			t.Errorf("%q is known", name)
		}
	}
}

// TestRoundTrip builds templates of random pieces and wants exactly these pieces back.
func TestRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	pieces := []string{"$", "$$", "{", "}", "${", "${array.", "index}", "array.index}", "${job.id}", "$${job.id}", "a",
		"{node.name}", "\n"}
	for range 20000 {
		var b template.Builder
		var want strings.Builder
		for range random.IntN(8) {
			if random.IntN(3) == 0 {
				name := template.Names()[random.IntN(len(template.Names()))]
				b.Reference(name)
				want.WriteString("<" + name + ">")
				continue
			}
			piece := pieces[random.IntN(len(pieces))]
			b.Literal(piece)
			want.WriteString(piece)
		}
		text := b.String()
		if got, err := template.Expand(text, value); err != nil || got != want.String() {
			t.Fatalf("template %q gives %q (%v), want %q", text, got, err, want.String())
		}
	}
}

// FuzzEscape wants every text to survive being written as a template.
func FuzzEscape(f *testing.F) {
	f.Add("$${array.index}$")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := template.Expand(template.Escape(text), func(string) (string, bool) { return "", false })
		if err != nil || got != text {
			t.Errorf("%q becomes %q: %v", text, got, err)
		}
	})
}
