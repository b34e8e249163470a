package hclfile_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/jobspec/hclfile"
	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
)

const untidy = `# A comment at the top.
variable   "x"   {
type=number
default=[1,2,
3]
}   // behind
/* within */ job "a"{
      count=1
  limit   =    "1h" # why
  tags=["a",
"b"  ,   # of b
]
    task "t" {
  script=<<-EOT
      keep   this
        as it is
    EOT
command    = [ for x   in ["a"]:x if x!="b" ]


env {
A=1
  LONGER = "${ var.x }"
}
}
}`

const tidy = `# A comment at the top.
variable "x" {
  type = number
  default = [1, 2,
  3]
} // behind
/* within */ job "a" {
  count = 1
  limit = "1h" # why
  tags = ["a",
    "b", # of b
  ]
  task "t" {
    script  = <<-EOT
      keep   this
        as it is
    EOT
    command = [for x in ["a"] : x if x != "b"]


    env {
      A      = 1
      LONGER = "${var.x}"
    }
  }
}
`

func TestFormat(t *testing.T) {
	got, err := hclfile.Format("f.hcl", []byte(untidy))
	if err != nil || string(got) != tidy {
		t.Errorf("%v\ngot:\n%s\nwant:\n%s", err, got, tidy)
	}
}

// TestFormatKeeps formats every file of the tests that parses: nothing but white space changes, and
// the second time nothing at all.
func TestFormatKeeps(t *testing.T) {
	formatted := 0
	for _, name := range append(files(t, "testdata/*/*.hcl"), files(t, "../jobfile/testdata/*/*.hcl")...) {
		src := read(t, name)
		text, err := hclfile.Format(name, src)
		if err != nil {
			continue
		}
		formatted++
		again, err := hclfile.Format(name, text)
		if err != nil || !bytes.Equal(again, text) {
			t.Errorf("%s: formatted twice it is (%v)\n%s", name, err, again)
		}
		if a, b := strings.Join(strings.Fields(string(src)), ""),
			strings.Join(strings.Fields(string(text)), ""); strings.TrimPrefix(a, "\ufeff") != b {
			t.Errorf("%s: more than white space changed:\n%s", name, text)
		}
	}
	if formatted < 10 {
		t.Errorf("only %d files were formatted", formatted)
	}
}

func TestFormatRefuses(t *testing.T) {
	for src, code := range map[string]string{
		"job \"a\" {": diagnostic.CodeSyntax, "a = \"\xff\"": diagnostic.CodeEncoding,
		"a = " + strings.Repeat("[", 100): diagnostic.CodeLimit,
		"{ \"a\": 1 }":                    diagnostic.CodeUnsupported,
	} {
		text, err := hclfile.Format("f.hcl", []byte(src))
		var diags diagnostic.Diagnostics
		if !errors.As(err, &diags) || len(diags) == 0 || diags[0].Code != code || text != nil {
			t.Errorf("%.20q: %q, %v", src, text, err)
		}
	}
	if text, err := hclfile.Format("f.hcl", nil); err != nil || len(text) != 0 {
		t.Errorf("an empty file: %q, %v", text, err)
	}
}

// FuzzFormat wants a formatted file to say what it said, and formatting again to change nothing.
func FuzzFormat(f *testing.F) {
	f.Add([]byte(untidy))
	for _, name := range files(f, "testdata/*/*.hcl") {
		f.Add(read(f, name))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		text, err := hclfile.Format("f.hcl", src)
		if err != nil {
			return
		}
		again, err := hclfile.Format("f.hcl", text)
		if err != nil || !bytes.Equal(again, text) {
			t.Fatalf("%q becomes %q and then %q (%v)", src, text, again, err)
		}
		a, _, before := load("f.hcl", src, options())
		b, _, after := load("f.hcl", text, options())
		if len(before) != len(after) || !before.HasErrors() && toJSON(t, a) != toJSON(t, b) {
			t.Fatalf("%q says\n%s%v\nand %q says\n%s%v", src, toJSON(t, a), before, text, toJSON(t, b), after)
		}
	})
}
