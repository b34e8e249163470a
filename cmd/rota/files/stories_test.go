package files

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/manual"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/jobspec/jobfile"
)

// tidy and untidy are a job file as rota fmt writes it, and one that it changes.
const (
	tidy   = "job \"a\" {\n  task \"t\" {\n    command = [\"true\"]\n  }\n}\n"
	untidy = "job \"a\" {\n task \"t\" {\n command=[\"true\"]\n }\n}\n"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	return name
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestFmtOfSeveral notices a file that is not formatted because another cannot be, and one that is changed
// although it was only to be checked.
func TestFmtOfSeveral(t *testing.T) {
	dir, empty := filepath.Join(t.TempDir(), "jobs[1]*"), t.TempDir()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	a, b := write(t, filepath.Join(dir, "a.hcl"), untidy), write(t, filepath.Join(dir, "b.hcl"), "job {")
	c := write(t, filepath.Join(dir, "notes.txt"), untidy)
	s := rotatest.Session{Commands: groups, T: t, Stdin: untidy}
	got := s.Run("fmt", "--check", a, filepath.Join(dir, "missing.hcl"), empty, dir)
	if got.Code != exit.Usage || got.Stdout != a+"\n"+a+"\n" || read(t, a) != untidy ||
		!strings.Contains(got.Stderr, "missing.hcl: no such file") || !strings.Contains(got.Stderr,
		"no *.hcl files in "+empty) ||
		!strings.Contains(got.Stderr, "b.hcl:1:") || !strings.HasPrefix(got.Stderr, "rota: ") {
		t.Errorf("%+v", got)
	}
	if got := s.Run("fmt", empty, dir); got.Code != exit.Usage || got.Stdout != a+"\n" || read(t, a) != tidy ||
		read(t, b) != "job {" || read(t, c) != untidy {
		t.Errorf("%+v", got)
	}
	if got := s.Run("fmt", "-"); got.Code != 0 || got.Stdout != tidy {
		t.Errorf("standard input: %+v", got)
	}
	if got := s.Run("fmt", "-", "--check"); got.Code != exit.Failed || got.Stdout != "<stdin>\n" {
		t.Errorf("standard input, checked: %+v", got)
	}
	s.Stdin = tidy
	if got := s.Run("fmt", "-", "--check"); got.Code != 0 || got.Stdout != "" {
		t.Errorf("standard input, tidy: %+v", got)
	}
	t.Chdir(dir)
	write(t, "a.hcl", untidy)
	if got := s.Run("fmt"); got.Stdout != "a.hcl\n" || read(t, "a.hcl") != tidy {
		t.Errorf("the current directory: %+v", got)
	}
	if got := s.Run("fmt", "-o", "yaml"); got.Code != exit.Usage ||
		got.Stderr != "rota: -o yaml: rota fmt prints only file names\n" {
		t.Errorf("%+v", got)
	}
}

// TestFmtKeepsLinks notices a link that becomes a file of its own.
func TestFmtKeepsLinks(t *testing.T) {
	dir := t.TempDir()
	file, link := write(t, filepath.Join(dir, "a.hcl"), untidy), filepath.Join(t.TempDir(), "link.hcl")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	got := rotatest.Session{Commands: groups, T: t}.Run("fmt", link)
	if info, err := os.Lstat(link); got.Code != 0 || err != nil || info.Mode().Type() != os.ModeSymlink || read(t,
		file) != tidy {
		t.Errorf("%+v, %v, %v", got, info, err)
	}
}

// TestAFileThatCannotBeReplaced notices a file that is said to be formatted and is not.
func TestAFileThatCannotBeReplaced(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "a.hcl"), untidy)
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("/proc/self/fd/%d", f.Fd()) // it can be read, and there is nothing to replace
	got := rotatest.Session{Commands: groups, T: t}.Run("fmt", name)
	if got.Code != exit.Usage || got.Stdout != "" || !strings.Contains(got.Stderr, "no such file or directory") {
		t.Errorf("%+v", got)
	}
}

// TestNewJobFiles notices a file that is overwritten, and a template that cannot be submitted.
func TestNewJobFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	s := rotatest.Session{Commands: groups, T: t, Addr: "unix:/nowhere"}
	list := s.Run("init")
	for _, one := range jobfile.Templates() {
		if !strings.Contains(list.Stdout, one.Name) {
			t.Errorf("%s is not listed: %+v", one.Name, list)
		}
		name := one.Name + ".hcl"
		if got := s.Run("init", name, "--template", one.Name); got.Code != 0 || read(t, name) != one.Text ||
			got.Stdout != "Wrote "+name+". Submit it with \"rota submit "+name+"\".\n" {
			t.Errorf("%s: %+v", one.Name, got)
		}
		if got := s.Run("init", "--template", one.Name, "-"); got.Code != 0 || got.Stdout != one.Text {
			t.Errorf("%s, printed: %+v", one.Name, got)
		}
		if got := s.Run("validate", name); got.Code != 0 {
			t.Errorf("%s is not valid: %+v", one.Name, got)
		}
		if got := s.Run("fmt", "--check", name); got.Code != 0 {
			t.Errorf("%s is not formatted: %+v", one.Name, got)
		}
	}
	first := jobfile.Templates()[0].Name
	if got := s.Run("init", "--template", first); got.Code != 0 || !strings.HasPrefix(got.Stdout, "Wrote job.hcl.") {
		t.Errorf("%+v", got)
	}
	write(t, "job.hcl", "mine")
	for args, want := range map[string]string{
		"init --template " + first:           "rota: job.hcl already exists\n  hint: choose another file, or - to print it\n",
		"init a b --template " + first:       "rota: rota init writes one file: rota init [FILE.hcl] --template NAME\n",
		"init a.hcl":                         "rota: no template given: --template ",
		"init a.hcl --template " + first[1:]: "rota: unknown template \"" + first[1:] + "\": must be one of ",
		"init --template nonsense":           "rota: unknown template \"nonsense\": must be one of ",
		"init -o yaml":                       "rota: -o yaml: rota init can only write a job file\n",
	} {
		if got := s.Run(strings.Fields(args)...); got.Code != exit.Usage || got.Stdout != "" ||
			!strings.HasPrefix(got.Stderr, want) {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
	if read(t, "job.hcl") != "mine" {
		t.Error("the user's file was overwritten")
	}
	if got := s.Run("init", "no/such/dir.hcl", "--template", first); got.Code != exit.Failed ||
		!strings.Contains(got.Stderr,
			"no/such/dir.hcl: no such file or directory") {
		t.Errorf("%+v", got)
	}
}

// TestConversions notices an option of a script that the job file loses in silence.
func TestConversions(t *testing.T) {
	script := "#!/bin/bash\n#SBATCH -J train -W --parsable -Q -M all --deadline=now+3hours --begin=now+1hour\ntrue\n"
	file := write(t, filepath.Join(t.TempDir(), "train.sh"), script)
	s := rotatest.Session{Commands: groups, T: t}
	got := s.Run("convert", file)
	for _, want := range []string{"--wait is about the submission, not the job", "--parsable is about the submission",
		"--quiet is about", "--clusters is about"} {
		if !strings.Contains(got.Stderr, want) {
			t.Errorf("stderr lacks %q: %+v", want, got)
		}
	}
	for _, want := range []string{"begin             = \"now+1h\"", "deadline          = \"now+3h\""} {
		if got.Code != 0 || !strings.Contains(got.Stdout, want) {
			t.Errorf("lacks %q: %+v", want, got)
		}
	}
	var out struct {
		HCL      string
		Unmapped []struct{ Flag string }
	}
	got = s.Run("convert", file, "-o", "x")
	if got.Code != 0 || !strings.Contains(got.Stdout, "job \"train\"") {
		t.Errorf("arguments of the script: %+v", got)
	}
	got = s.Run("convert", "--test-only", "-o", "json", file)
	if err := json.Unmarshal([]byte(got.Stdout), &out); err != nil || !strings.Contains(out.HCL, "job \"train\"") ||
		len(out.Unmapped) != 5 || got.Stderr != "" {
		t.Errorf("as JSON: %+v, %v", got, err)
	}
	for _, c := range []struct {
		text string
		args []string
		want string
	}{
		{tidy, []string{"convert", "-"}, "is already a job file: see \"rota fmt\" and \"rota parse\""},
		{"#!/bin/sh\n#SBATCH -N x\n", []string{"convert", "-"}, "sbatch:2: "},
		{"", []string{"convert"}, "rota convert needs a job file or a script"},
		{"", []string{"convert", "/nowhere/x.sh"}, "/nowhere/x.sh: no such file or directory"},
	} {
		s.Stdin = c.text
		if got := s.Run(c.args...); got.Code != exit.Usage || got.Stdout != "" || !strings.Contains(got.Stderr, c.want) {
			t.Errorf("rota %q of %q: %+v", c.args, c.text, got)
		}
	}
}

// TestAConversionThatIsNotTheSameJob notices a job file that is written although it is of another job.
func TestAConversionThatIsNotTheSameJob(t *testing.T) {
	s := rotatest.Session{Commands: groups, T: t, Stdin: "#!/bin/sh\necho a\u0308\n"} // job files are in normal form C
	got := s.Run("convert", "-")
	if got.Code != exit.Failed || got.Stdout != "" || got.Stderr != "rota: convert sbatch: the generated job file "+
		"describes a "+
		"different job: some text is not in Unicode normal form C\n" {
		t.Errorf("%+v", got)
	}
}

// TestValuesThatAreConcealed notices a secret that rota parse or validate prints.
func TestValuesThatAreConcealed(t *testing.T) {
	text := "variable \"token\" {\n  type      = string\n  sensitive = true\n}\n\njob \"a\" {\n  task \"t\" {\n" +
		"    command = [\"x\", \"--token\", var.token]\n    env {\n      TOKEN = var.token\n      LANG  = \"C\"\n    " +
		"}\n  }\n}\n"
	file := write(t, filepath.Join(t.TempDir(), "a.hcl"), text)
	s := rotatest.Session{Commands: groups, T: t}
	for _, args := range [][]string{{"parse"}, {"parse", "-o", "yaml"}, {"validate", "-o", "json"}} {
		got := s.Run(append(args, file, "-var", "token=hunter2")...)
		if got.Code != 0 || strings.Contains(got.Stdout+got.Stderr, "hunter2") || !strings.Contains(got.Stdout, concealed) {
			t.Errorf("rota %q: %+v", args, got)
		}
	}
	if got := s.Run("parse", "--sensitive", file, "-var", "token=hunter2"); strings.Count(got.Stdout, "hunter2") != 2 {
		t.Errorf("--sensitive: %+v", got)
	}
	one := s.Run("parse", "--digest", file, "-var", "token=hunter2")
	other := s.Run("parse", "--digest", file, "-var", "token=hunter3")
	if one.Code != 0 || one.Stdout == other.Stdout || len(strings.Fields(one.Stdout)) != 1 {
		t.Errorf("--digest: %+v and %+v", one, other)
	}
	for args, want := range map[string]string{"parse": "rota parse needs one job file",
		"parse a b": "rota parse needs one job file",
		"validate":  "no job file given: rota validate FILE.hcl... [OPTIONS]", "parse -o csv x": "unknown format -o csv",
		"validate -o yaml x": "unknown format -o yaml", "parse /nowhere/a.hcl": "/nowhere/a.hcl: no such file or directory"} {
		if got := s.Run(strings.Fields(args)...); got.Code != exit.Usage || got.Stdout != "" ||
			!strings.Contains(got.Stderr, want) {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
}

// TestConcealingWhatIsNotThere notices a path that ends the command.
func TestConcealingWhatIsNotThere(t *testing.T) {
	value := map[string]any{"a": []any{map[string]any{"b": "x"}, "y"}, "c": "z"}
	for _, path := range []string{"a[0].c", "a[2]", "a[x]", "a[-1]", "c.d", "d.e", "", "a[0].b.c"} {
		conceal(value, splitPath(path))
	}
	if b, _ := json.Marshal(value); string(b) != `{"a":[{"b":"x"},"y"],"c":"z"}` {
		t.Errorf("got %s", b)
	}
	conceal(value, splitPath("a[0].b"))
	conceal(value, splitPath("a[1]"))
	if b, _ := json.Marshal(value); string(b) != `{"a":[{"b":"(sensitive)"},"(sensitive)"],"c":"z"}` {
		t.Errorf("got %s", b)
	}
}

// TestWordsAreExplained notices a word that is explained as another, and one that is unknown in silence.
func TestWordsAreExplained(t *testing.T) {
	s := rotatest.Session{Commands: groups, T: t}
	if got := s.Run("explain", "PD", "time_limit"); got.Code != 0 || !strings.Contains(got.Stdout,
		"PD (state): pending") ||
		!strings.Contains(got.Stdout, "time_limit") {
		t.Errorf("%+v", got)
	}
	var entries struct{ Items []struct{ Name string } }
	got := s.Run("explain", "PD", "-o", "json")
	if err := json.Unmarshal([]byte(got.Stdout), &entries); err != nil || len(entries.Items) == 0 {
		t.Errorf("as JSON: %+v, %v", got, err)
	}
	got = s.Run("explain", "PD", "time_limmit")
	if got.Code != exit.NotFound || got.Stdout != "" ||
		!strings.HasPrefix(got.Stderr, "rota: \"time_limmit\" is not a known code, state, reason, attribute or "+
			"block\n  hint: did you mean ") {
		t.Errorf("%+v", got)
	}
	if got := s.Run("explain", "xyzzyxyzzy"); got.Code != exit.NotFound || strings.Contains(got.Stderr, "hint") {
		t.Errorf("%+v", got)
	}
	if got := s.Run("explain"); got.Code != exit.Usage || !strings.Contains(got.Stderr,
		"no word given: try rota explain") {
		t.Errorf("%+v", got)
	}
	all := func() []*command.Command { return append(Commands(), manual.Commands(Commands())...) }
	for line, want := range map[string]string{"explain JS-11": "JS-112", "explain time_l": "time_limit",
		"init --template ": jobfile.Templates()[0].Name} {
		got := rotatest.Session{Commands: all, T: t}.Run(append([]string{"complete", "bash", "--"}, strings.Split(line,
			" ")...)...)
		words := strings.Fields(got.Stdout)
		if !slices.Contains(words, want) || len(slices.Compact(slices.Sorted(slices.Values(words)))) != len(words) {
			t.Errorf("%q: %+v", line, got)
		}
	}
}
