package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// shellStory is a shell in which a person works, and what its jobs print there.
type shellStory struct {
	name   string
	before string // the commands of the shell before
	submit string // the command line
	input  string // its standard input
	prints string // a line of the job's output
	says   string // a part of what the command says
	code   int
}

// TestEnvironmentsOfShells submits from shells with an environment of their own: a virtual environment
// made by Python, and modules of whichever of environment-modules and Lmod the machine has.
func TestEnvironmentsOfShells(t *testing.T) {
	w := newDevWorld(t)
	if err := os.Chmod(w.from, 0o777|os.ModeSticky); err != nil { // jobs run as nobody, and write their output here
		t.Fatal(err)
	}
	const script = "#!/bin/bash\n#SBATCH --mem=64M\n"
	for name, text := range map[string]struct {
		text string
		mode os.FileMode
	}{
		"tools/labtool":   {"#!/bin/sh\necho labtool runs, data at $LAB_DATA\n", 0o755},
		"modules/lab/1":   {"#%Module1.0\nprepend-path PATH " + w.from + "/tools\nsetenv LAB_DATA " + w.from + "\n", 0o644},
		"modules/extra/2": {"#%Module1.0\nsetenv EXTRA_VERSION 2\n", 0o644},
		"bashrc":          {"from_init() { echo init is read; }\n", 0o644},
		"loads.sh":        {script + "module load extra/2 && echo extra $EXTRA_VERSION; labtool; mine\n", 0o755},
		"plain.sh":        {script + "from_init; echo $WORK\n", 0o755},
		"names.sh":        {script + "echo ${LAB_TOKEN:-no token} $LAB_RATE\n", 0o755},
	} {
		path := filepath.Join(w.from, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text.text), text.mode); err != nil {
			t.Fatal(err)
		}
	}
	file := func(export, lines string) string {
		return "job \"x\" {\n" + export + "  task \"t\" {\n    " + lines + "\n    resources {\n      memory = \"64MiB\"\n" +
			"    }\n  }\n}\n"
	}
	const prefix = `"-c", "import sys; print(sys.prefix)"`
	stories := []shellStory{
		{"BASH_ENV and a path", "export BASH_ENV=$PWD/bashrc WORK=$PWD/tools AWS_CA_BUNDLE=/etc/passwd RATE=1 API_TOKEN=x",
			"rota submit --follow plain.sh", "", "init is read\n" + w.from + "/tools\n", "", 0},
		{"left-out variables that the script names", "export LAB_TOKEN=x LAB_RATE=1 OTHER_RATE=1",
			"rota submit --follow names.sh", "", "no token", "leaves out LAB_RATE: the usual variables", 0},
	}
	if w.canMakeVenv() {
		const activate = ". v/bin/activate"
		stories = append(stories,
			shellStory{"run in a virtual environment", activate,
				`rota run --mem 64M -- python -c 'import sys; print(sys.prefix)'`, "", w.from + "/v",
				"the job gets PATH, VIRTUAL_ENV", 0},
			shellStory{"a job file in a virtual environment", activate, "rota submit --follow -",
				file("", `command = ["python", `+prefix+`]`), w.from + "/v",
				"because of the virtual environment " + w.from + "/v;", 0},
			shellStory{"export = []", activate, "rota submit --follow -", file("  export = []\n", `command = ["only-in-v"]`),
				"only-in-v: command not found in PATH (/run/rota/bin:/usr/local/sbin:", `export = ["PATH"]`, 127},
			shellStory{"run --export=NONE", activate, "rota run --mem 64M --export=NONE -- only-in-v", "", "",
				"; your shell's PATH is not copied: export = ", 127})
	}
	if init := modulesInit(); init != "" {
		load := fmt.Sprintf(". %s; module use $PWD/modules; module load lab/1; mine() { echo mine is called; }; "+
			"export -f mine", init)
		stories = append(stories,
			shellStory{"a script that loads a module", load, "rota submit --follow loads.sh", "", "extra 2", "", 0},
			shellStory{"a script that runs a module's program", load, "rota submit --follow loads.sh", "",
				"labtool runs, data at " + w.from, "", 0},
			shellStory{"a script that calls a function", load, "rota submit --follow loads.sh", "", "mine is called", "", 0},
			shellStory{"run with a module loaded", load, "rota run --mem 64M -- labtool", "", "labtool runs",
				"the modules lab/1", 0},
			shellStory{"a job file that loads a module", load, "rota submit --follow -",
				file("", `script = "module load extra/2; echo extra $EXTRA_VERSION"`), "extra 2", "the modules lab/1", 0})
	} else {
		t.Log("neither environment-modules nor Lmod is installed: module load is not tested")
	}
	w.tell(stories)
}

// canMakeVenv makes a virtual environment in v with a program of its own, and says whether it could.
func (w *devWorld) canMakeVenv() bool {
	w.t.Helper()
	if out, err := exec.CommandContext(w.ctx, "/usr/bin/python3", "-m", "venv", "--without-pip",
		filepath.Join(w.from, "v")).CombinedOutput(); err != nil {
		w.t.Logf("/usr/bin/python3 -m venv: %v %s: virtual environments are not tested", err, out)
		return false
	}
	if err := os.WriteFile(filepath.Join(w.from, "v/bin/only-in-v"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		w.t.Fatal(err)
	}
	return true
}

// modulesInit returns the file that defines the command module for bash, "" if there is none.
func modulesInit() string {
	for _, path := range []string{"/usr/share/modules/init/bash", "/usr/share/lmod/lmod/init/bash"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

// tell has a shell of one cluster tell all stories, and checks each.
func (w *devWorld) tell(stories []shellStory) {
	w.t.Helper()
	var all strings.Builder
	for i, s := range stories {
		input := filepath.Join(w.from, fmt.Sprintf("input%d", i))
		if err := os.WriteFile(input, []byte(s.input), 0o644); err != nil {
			w.t.Fatal(err)
		}
		fmt.Fprintf(&all, "( ( %s\n%s ) <%s >out%d 2>said%d\necho $? >code%d ) &\n", s.before, s.submit, input, i, i, i)
	}
	if out, errs, code := w.dev("--cores", "32", "--", "bash", "-c", all.String()+"wait"); code != 0 {
		w.t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	for i, s := range stories {
		text := func(kind string) string {
			b, err := os.ReadFile(filepath.Join(w.from, fmt.Sprintf("%s%d", kind, i)))
			if err != nil {
				w.t.Fatal(err)
			}
			return string(b)
		}
		out, said := text("out"), text("said")
		if text("code") != fmt.Sprintf("%d\n", s.code) || !strings.Contains(out+said, s.prints) ||
			!strings.Contains(out+said, s.says) ||
			strings.Contains(said, "OTHER_RATE") || strings.Contains(said, "AWS_CA_BUNDLE") {
			w.t.Errorf("%s: exit %s, prints %q, says %q", s.name, text("code"), out, said)
		}
	}
}
