package shell

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// listed writes the commands of a script, one for each line: its number and the words.
func listed(s *Script) string {
	var b strings.Builder
	for _, c := range s.Commands {
		fmt.Fprintf(&b, "%d:", c.Line)
		for _, w := range c.Words {
			b.WriteString(" " + w.Raw)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestParse(t *testing.T) {
	for _, test := range []struct{ name, shebang, src, want string }{
		{"plain", "/bin/sh", "a b >c 2>d 2>&1 >>e\n", "1: a b\n"},
		{"prefixes", "/bin/bash", "A=1 exec env B=2 srun x &>f\nC=(1 2)\n", "1: srun x\n"},
		{"pipe over lines", "/bin/bash", "a |\n  b && c\n", "1: a\n2: b\n2: c\n"},
		{"substitutions", "/bin/bash", "a \"$(b `c`)\" ${X:-$(d)}\n",
			"1: a \"$(b `c`)\" ${X:-$(d)}\n1: b `c`\n1: c\n1: d\n"},
		{"blocks", "/bin/bash", "if a; then b; fi\nf() { c; }\ncase $1 in d) e;; esac\n",
			"1: a\n1: b\n2: c\n3: e\n"},
		{"no keywords", "/bin/bash", "[[ -n $x ]] && export A=1\n((i++))\nlet i=1\n", ""},
		{"zsh", "/bin/zsh", "for x in a; do c; done\nd ${(f)x}\n", "1: c\n2: d ${(f)x}\n"},
		{"a mistake alone", "/bin/bash", "a\n)\nb\nfi\nc; )\nd\n", "1: a\n3: b\n5: c\n6: d\n"},
		{"an open condition", "/bin/bash", "a\nif b; then\n  c\nd\n", "1: a\n3: c\n4: d\n"},
		{"a mistake behind a here-document", "/bin/bash", "cat <<A | b\nx y\nA\n)\nc <<A\nA\n)\nd\n",
			"1: cat\n1: b\n5: c\n8: d\n"},
		{"an open here-document", "/bin/bash", "a\ncat <<'A' | b\nx y\n", "1: a\n2: cat\n2: b\n"},
		{"csh", "/bin/tcsh", "foreach x (a b)\n  echo $x\nend\n", "2: echo $x\n3: end\n"},
	} {
		got := listed(Parse(test.src, test.shebang, 0))
		lines, want := strings.Split(got, "\n"), strings.Split(test.want, "\n")
		slices.Sort(lines)
		slices.Sort(want)
		if !slices.Equal(lines, want) {
			t.Errorf("%s: got\n%swant\n%s", test.name, got, test.want)
		}
	}
}

func TestDocuments(t *testing.T) {
	for src, want := range map[string][]string{
		"a <<X <<-Y\n1\nX\n\t2\n\tY\nb\n": {"1\nX\n", "\t2\n\tY\n"},
		"a <<'X'\n$(b\nX\n":               {"$(b\nX\n"},
		"a <<X\nX\nb <<X\n1\n":            {"X\n", "1\n"},
		"a \"<<X\" $((1 << 2))\n1\nX\n":   nil,
	} {
		var got []string
		for _, d := range Parse(src, "/bin/bash", 0).Documents {
			got = append(got, src[d.Begin:d.End])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", src, got, want)
		}
	}
}

// TestDeepNesting reads scripts that would overflow the stack if they were read to their ends.
func TestDeepNesting(t *testing.T) {
	for _, unit := range []string{"( ", "$(", "((", "((-", "{ ", "if ", "${a:-", "a && ", "a | ", "[[ ! ", "(\n", "! ",
		"time ", "\"$("} {
		s := Parse("first\n"+strings.Repeat(unit, 1<<20/len(unit))+"\n", "/bin/bash", 0)
		if len(s.Commands) == 0 || s.Commands[0].Words[0].Raw != "first" {
			t.Errorf("%q: the command in front of it is not found", unit)
		}
	}
}

// FuzzParse looks for places that are not in the script, or not those of the words.
func FuzzParse(f *testing.F) {
	for _, src := range []string{"a b | c\n", "x=$(srun `y`)", "cat <<-A\n\tb\n\tA\n", "if a; then (b); fi >f",
		"a 'b\n' \"c $(d)\"; )\ne", "f() { g; }; <h i"} {
		f.Add(src, "/bin/bash")
		f.Add(src, "/bin/zsh")
	}
	f.Fuzz(func(t *testing.T, src, shebang string) {
		s := Parse(src, shebang, 0)
		last := 0
		for _, c := range s.Commands {
			if c.Words[0].Begin < last {
				t.Fatalf("%q: the command %v is not in order", src, c)
			}
			last = c.Words[0].Begin
			for _, w := range c.Words {
				if w.End <= w.Begin || w.End > len(src) || len(w.Raw) != w.End-w.Begin {
					t.Fatalf("%q: the word %v is not in the script", src, w)
				}
			}
		}
		for _, d := range s.Documents {
			if d.Begin > d.End || d.End > len(src) {
				t.Fatalf("%q: the here-document %v is not in the script", src, d)
			}
		}
	})
}

func TestIsShell(t *testing.T) {
	for shebang, want := range map[string][2]bool{
		"/bin/sh": {true, true}, "/usr/bin/env bash": {true, true}, "/usr/bin/env -S zsh -e": {true,
			true}, "/bin/bash -l": {true, true},
		"/bin/tcsh": {false, true}, "/usr/bin/python3": {false, false}, "/usr/bin/env": {false, false}, "": {false, false},
	} {
		if got := [2]bool{IsShell(shebang), HasDocuments(shebang)}; got != want {
			t.Errorf("%q: got %v, want %v", shebang, got, want)
		}
	}
}

func TestPlain(t *testing.T) {
	for raw, want := range map[string]string{
		"a": "a", `"a b"`: "a b", "'a'": "a", `a"b"`: "", "$(a)": "", "`a`": "", "$A": "$A", `"`: "", `\a`: "",
	} {
		if got := (Word{Raw: raw}).Plain(); got != want {
			t.Errorf("%s: got %q, want %q", raw, got, want)
		}
	}
	if got := (Command{Words: []Word{{Raw: "'/usr/bin/srun'"}}}).Name(); got != "srun" {
		t.Errorf("got %q", got)
	}
}
