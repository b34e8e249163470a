package main

import (
	"go/importer"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// loadText loads a package of one or more files, which may not import anything.
func loadText(t *testing.T, text map[string]string) *source {
	t.Helper()
	files := map[string][]byte{}
	for name, content := range text {
		files[name] = []byte(content)
	}
	s, err := load(token.NewFileSet(), importer.Default(), "some/package", files)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// three files, of which a and b refer to each other and c refers to a alone.
var three = map[string]string{
	"a.go": "package p\n\n// T is a type.\ntype T[K any] struct{ f int }\n\nfunc (t *T[K]) grow() int { return limit }\n",
	"b.go": "package p\n\nconst limit = 2\n\nfunc (T[K]) Shrink() {}\n\nfunc use(t *T[int]) int { return t.grow() }\n",
	"c.go": "package p\n\ntype u struct{ limit int }\n\nfunc (x u) get(t T[int]) int { return x.limit }\n",
}

func TestReferences(t *testing.T) {
	got := references(loadText(t, three))
	for file, want := range map[string]string{"a.go": "b.go", "b.go": "a.go", "c.go": "a.go"} {
		if to := strings.Join(got[file], " "); to != want {
			t.Errorf("%s refers to %q, want %q", file, to, want)
		}
	}
}

// TestMethodsAreReferences: a call of a method refers to the file that declares it, also where the
// type is declared elsewhere.
func TestMethodsAreReferences(t *testing.T) {
	s := loadText(t, map[string]string{
		"type.go": "package p\n\ntype T struct{}\n\nvar global T\n",
		"m.go":    "package p\n\nfunc (T) m() {}\n",
		"use.go":  "package p\n\nfunc use() { global.m() }\n",
	})
	if got := references(s)["use.go"]; !slices.Equal(got, []string{"m.go", "type.go"}) {
		t.Errorf("use.go refers to %q", got)
	}
}

func TestLargestCycle(t *testing.T) {
	for _, test := range []struct {
		name, edges string // "a>b" means that a refers to b
		want        int
	}{
		{"nothing", "", 0},
		{"a chain", "a>b b>c", 0},
		{"itself", "a>a", 0},
		{"two", "a>b b>a b>c", 2},
		{"a ring with a tail", "t>a a>b b>c c>a c>z", 3},
		{"two rings that meet in one file", "a>b b>a b>c c>b", 3},
		{"the larger of two rings", "a>b b>a x>y y>z z>x a>x", 3},
		{"a cross edge to a finished ring", "a>b b>a c>a", 2},
	} {
		to := map[string][]string{}
		for _, e := range strings.Fields(test.edges) {
			from, at, _ := strings.Cut(e, ">")
			to[from] = append(to[from], at)
			to[at] = append(to[at], []string{}...)
		}
		if got := largestCycle(to); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

func TestCountTokens(t *testing.T) {
	// package p var x = 1 + f ( ) ; y
	n, err := countTokens("a.go", []byte("package p\n\n// a comment\nvar x = 1 /* another */ + f(); y\n"))
	if err != nil || n != 12 {
		t.Errorf("got %d tokens and %v, want 12", n, err)
	}
	if _, err := countTokens("a.go", []byte("package p\n\x00")); err == nil {
		t.Error("a file that is no Go was counted")
	}
}

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []int
		want   int
	}{{nil, 0}, {[]int{3}, 3}, {[]int{9, 1}, 1}, {[]int{9, 1, 4}, 4}} {
		if got := median(test.values); got != test.want {
			t.Errorf("median of %v: %d, want %d", test.values, got, test.want)
		}
	}
}

func TestIsProduct(t *testing.T) {
	for name, want := range map[string]bool{
		"cmd/rota": true, "controld/fsm": true, "noded/gpu/gputest": false,
		"examples/trainer": false, "examples": false, "": false,
	} {
		if got := isProduct(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestMeasureAndPrint(t *testing.T) {
	f, err := measure(loadText(t, three))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := printFigures(&out, []figures{f}); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{
		"18 96 3 2 some/package", "2 2 some/package.T 1 1 some/package.u",
		"functions and methods: 4, median length of a name: 3 letters",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, &out)
		}
	}
	if f.cycle != 2 || f.files != 3 {
		t.Errorf("%d of %d files are in a cycle, want 2 of 3", f.cycle, f.files)
	}
}

// TestRun measures this module.
func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run("../../..", &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"cmd/rota\n", "jobspec\n", "noded/shim\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "cmd/lab") {
		t.Errorf("measurement tools were counted:\n%s", &out)
	}
	if err := run(t.TempDir(), &out); err == nil {
		t.Error("a folder without a module was measured")
	}
}
