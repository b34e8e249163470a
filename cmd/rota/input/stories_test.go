package input_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/files"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/cmd/rota/submit"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

var groups = rotatest.Join(submit.Commands, files.Commands)

// takesJobs is a controller that takes every job.
func takesJobs(t *testing.T) *rotatest.Answers {
	t.Helper()
	a := rotatest.NewAnswers(t)
	a.Give("POST /v1/jobs", api.SubmitResponse{IDs: []model.JobID{17}})
	return a
}

// sent is the last job that was submitted.
func sent(t *testing.T, a *rotatest.Answers) *jobspec.Job {
	t.Helper()
	asked := a.Requests()
	var r api.SubmitRequest
	if len(asked) == 0 || json.Unmarshal([]byte(asked[len(asked)-1].Body), &r) != nil || len(r.Jobs) != 1 {
		t.Fatalf("sent %+v", asked)
	}
	return r.Jobs[0]
}

const script = "#!/bin/sh\n#SBATCH -J small\ntrue\n"

// TestExport notices a variable that a job gets without a request, and a requested one that it does
// not get. It also notices silence about a left-out variable that the script names, and a warning about
// any other.
func TestExport(t *testing.T) {
	environ := []string{"not a name=1", "PATH=/bin", "LAB=1", "HF_TOKEN=hf_secret", "WANDB_MODE=off\xff",
		"SLURM_JOB_ID=3", "PWD=/x", "MORE=1", "AWS_TOKEN=x"}
	secret := "--export leaves out HF_TOKEN: variables that may hold secrets are only copied if named"
	both := "--export leaves out LAB, MORE: the usual variables and paths are copied, others only if named"
	unusual := "--export leaves out LAB: the usual variables and paths are copied, others only if named"
	const names, mentions = script + "echo $LAB ${HF_TOKEN} $MORE\npython -c 'os.environ[\"WANDB_MODE\"]'\n", script
	for _, c := range []struct {
		flag, script string
		want         string
		says         []string
	}{
		{"--export=NONE", names, "map[]", nil},
		{"--export=NIL", names, "map[]", nil},
		{"--export=ALL", names, "map[PATH:/bin]", []string{secret, both, "leaves out WANDB_MODE: values must be UTF-8",
			"name the variables that the job needs, as in --export=ALL,HF_TOKEN", "as in --export=ALL,LAB,MORE"}},
		{"--export=ALL", mentions + "# LAB HF_TOKEN\nLAB=2; echo $LAB\n", "map[PATH:/bin]", nil},
		{"--export=ALL", mentions + "LAB=${LAB:-2}\n", "map[PATH:/bin]", []string{unusual}},
		{"--export=ALL,LAB", names, "map[LAB:1 PATH:/bin]", []string{secret, "UTF-8", "leaves out MORE:"}},
		{"--export=ALL,HF_TOKEN,LAB,MORE", names, "map[HF_TOKEN:hf_secret LAB:1 MORE:1 PATH:/bin]", []string{"UTF-8"}},
		{"--export=LAB", names, "map[LAB:1]", nil},
		{"--export=WANDB_MODE", mentions, "map[]", []string{"UTF-8"}},
		{"--export=NOSUCH", names, "map[]", nil},
		{"", names, "map[PATH:/bin]", []string{secret, both, "UTF-8"}}, // as sbatch does
		{"", mentions, "map[PATH:/bin]", nil},
	} {
		a := takesJobs(t)
		s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Stdin: c.script, Env: environ}
		args := []string{"submit", "-"}
		if c.flag != "" {
			args = append(args, c.flag)
		}
		got := s.Run(args...)
		if got.Code != 0 || got.Stdout != "Submitted batch job 17\n" {
			t.Errorf("%s: %+v", c.flag, got)
			continue
		}
		if text := fmt.Sprint(sent(t, a).ExportEnv); text != c.want {
			t.Errorf("%s: %s, want %s", c.flag, text, c.want)
		}
		for _, want := range c.says {
			if !strings.Contains(got.Stderr, want) {
				t.Errorf("%s: stderr lacks %q: %s", c.flag, want, got.Stderr)
			}
		}
		if strings.Contains(got.Stderr, "hf_secret") || (len(c.says) == 0) != (got.Stderr == "") {
			t.Errorf("%s says %s", c.flag, got.Stderr)
		}
	}
}

// TestExportOfValues notices a value that the job gets from the environment in place of the one that
// was given.
func TestExportOfValues(t *testing.T) {
	a := takesJobs(t)
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Stdin: script, Env: []string{"LR=env", "PATH=/bin"}}
	if got := s.Run("submit", "-", "--export=LR=0.1"); got.Code != 0 {
		t.Fatalf("%+v", got)
	}
	if job := sent(t, a); job.Groups[0].Tasks[0].Env["LR"] != "0.1" || len(job.ExportEnv) != 0 {
		t.Errorf("sent %+v of %+v", job.Groups[0].Tasks[0].Env, job.ExportEnv)
	}
}

// TestVariablesOfFlags shows which variables a job has because flags were given, as with sbatch.
func TestVariablesOfFlags(t *testing.T) {
	a := takesJobs(t)
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Stdin: script, Env: []string{"PATH=/bin"}}
	for args, want := range map[string]string{
		"":                      "map[]",
		"--gpus a100:4":         "map[SLURM_GPUS:a100:4]",
		"--gpus-per-node=2":     "map[SLURM_GPUS_PER_NODE:2]",
		"-n2 --gpus-per-task 1": "map[SLURM_GPUS_PER_TASK:1]",
		"--mem-per-cpu 2G -c2":  "map[SLURM_MEM_PER_CPU:2048]",
		"-d afterok:3 -m block": "map[SLURM_DISTRIBUTION:block SLURM_JOB_DEPENDENCY:afterok:3]",
		"--mem 4G --gres gpu:1": "map[SLURM_MEM_PER_NODE:4096]",
	} {
		got := s.Run(append([]string{"submit", "-", "--export=NONE"}, strings.Fields(args)...)...)
		if got.Code != 0 {
			t.Errorf("%s: %+v", args, got)
			continue
		}
		if text := fmt.Sprint(sent(t, a).ExportEnv); text != want {
			t.Errorf("%s: %s, want %s", args, text, want)
		}
	}
}

// TestAllVariablesOfTheScriptAreSaid notices a variable that the job's commands name, and that is left
// out without a word because there are many.
func TestAllVariablesOfTheScriptAreSaid(t *testing.T) {
	a := takesJobs(t)
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	command := "\"sh\", \"-c\", \"echo"
	var names []string
	for i := range 15 {
		names = append(names, fmt.Sprintf("LAB_%02d", i))
		command += " $" + names[i]
		s.Env = append(s.Env, names[i]+"=1", fmt.Sprintf("OTHER_%02d=1", i))
	}
	s.Stdin = "job \"x\" {\n  export = [\"*\"]\n  task \"t\" {\n    command = [" + command + "\"]\n  }\n}\n"
	got := s.Run("submit", "-")
	if all := strings.Join(names, ", "); got.Code != 0 || !strings.Contains(got.Stderr,
		"leaves out "+all+": the usual variables") ||
		!strings.Contains(got.Stderr, "name the variables that the job needs in export, as in "+all) ||
		strings.Contains(got.Stderr, "OTHER") {
		t.Errorf("%+v", got)
	}
}

// TestWhatIsAScript notices a script that is read as a job file, or a job file that is handed to a
// shell.
func TestWhatIsAScript(t *testing.T) {
	dir := t.TempDir()
	hcl := "job \"file\" {\n  task \"t\" {\n    command = [\"true\"]\n  }\n}\n"
	for name, c := range map[string]struct{ text, job, says string }{
		"a.hcl":     {hcl, "file", ""},
		"b.sh":      {"#!/bin/sh\ntrue\n", "b.sh", ""},
		"c":         {"#!/bin/sh\ntrue\n", "c", ""},
		"d.sbatch":  {"#!/bin/sh\n#SBATCH -J dee\ntrue\n", "dee", ""},
		"e":         {hcl, "file", ""},
		"f.hcl":     {"#!/bin/sh\n", "", "f.hcl:1:"},
		"g.slurm":   {"true\n", "", "does not begin with #!"},
		"h":         {"true\n#SBATCH -J x\n", "", "does not begin with #!"},
		"i":         {"\x00\x01", "", "i"},
		"j.json":    {"{", "", "j.json"},
		"k.hcl":     {"", "", "k.hcl"},
		"l.hcl":     {"job \"x\" {\n  task \"m\" {\n    comand = [\"true\"]\n  }\n}\n", "", "l.hcl:3:5"},
		"empty.sh":  {"", "", "the script is empty"},
		"m.hcl.bak": {hcl, "file", ""},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		a := takesJobs(t)
		s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
		got := s.Run("submit", path)
		if c.says != "" {
			if got.Code != exit.Usage || got.Stdout != "" || !strings.Contains(got.Stderr, c.says) || len(a.Requests()) > 0 {
				t.Errorf("%s: %+v, want %q", name, got, c.says)
			}
			continue
		}
		if got.Code != 0 || sent(t, a).Name != c.job {
			t.Errorf("%s: %+v", name, got)
		}
		if again := s.Run("submit", path, "--hold"); (again.Code == 0) != (got.Code == 0) {
			t.Errorf("%s with an option behind it: %+v", name, again)
		}
	}
}

// TestWhatFollowsAScript notices an argument of the script that rota takes for its own option.
func TestWhatFollowsAScript(t *testing.T) {
	a := takesJobs(t)
	path := filepath.Join(t.TempDir(), "train")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n./x \"$@\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	if got := s.Run("submit", "-J", "mine", path, "--hold", "-J", "its own"); got.Code != 0 {
		t.Fatalf("%+v", got)
	}
	if got := s.Run("submit", "/nowhere/x.sh", "--frobnicate"); got.Code != exit.Usage ||
		!strings.Contains(got.Stderr, "/nowhere/x.sh: no such file") { // its own option, if there were one
		t.Errorf("a script that is not there: %+v", got)
	}
	job := sent(t, a)
	if text := job.Groups[0].Tasks[0].Script; job.Name != "mine" || job.Hold ||
		!strings.Contains(text, "set -- '--hold' '-J' 'its own'\n") {
		t.Errorf("%s %v %s", job.Name, job.Hold, text)
	}
}

// TestVariablesOfAFile notices a value that is not the one of the command line.
func TestVariablesOfAFile(t *testing.T) {
	dir := t.TempDir()
	vars := filepath.Join(dir, "my.vars")
	if err := os.WriteFile(vars, []byte("n = 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := rotatest.JobFile(t, rotatest.SmallJob)
	for args, want := range map[string]string{"": "[sleep 1]", "-var n=2": "[sleep 2]", "-var-file " + vars: "[sleep 3]",
		"-var-file " + vars + " --var n=4": "[sleep 4]", "-var n=5 -var n=6": "[sleep 6]"} {
		a := takesJobs(t)
		got := rotatest.Session{Commands: groups, T: t, Addr: a.URL}.Run(append([]string{"submit", file},
			strings.Fields(args)...)...)
		if got.Code != 0 || fmt.Sprint(sent(t, a).Groups[0].Tasks[0].Command) != want {
			t.Errorf("%s: %+v, want %s", args, got, want)
		}
	}
}

// TestTheTwoMeaningsOfOutput notices a file of output that is taken for a format, or the other way
// round.
func TestTheTwoMeaningsOfOutput(t *testing.T) {
	a := takesJobs(t)
	file := rotatest.JobFile(t, rotatest.SmallJob)
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL}
	for output, want := range map[string]string{"%x-%j.out": "Submitted batch job 17\n", "jsn": "Submitted batch job 17\n",
		"table": "Submitted batch job 17\n", "json": `{"apiVersion":"v1","kind":"SubmitResponse","ids":[17]}`} {
		got := s.Run("submit", file, "-o", output)
		log := sent(t, a).Groups[0].Tasks[0].Log
		isFile := log != nil && log.Stdout == output
		if text := got.Stdout; got.Code != 0 || text != want && strings.Join(strings.Fields(text), "") != want ||
			isFile != (output == "%x-%j.out" || output == "jsn") {
			t.Errorf("-o %s: %+v, %+v", output, got, log)
		}
	}
	before := len(a.Requests())
	for output, want := range map[string]string{"yaml": "unknown format -o yaml: must be one of table, json",
		"name": "unknown format -o name", "template={{.id}}": "unknown format -o template={{.id}}", "": "--output is empty"} {
		if got := s.Run("submit", file, "-o", output); got.Code != exit.Usage || !strings.Contains(got.Stderr, want) {
			t.Errorf("-o %q: %+v", output, got)
		}
	}
	if n := len(a.Requests()) - before; n > 0 {
		t.Errorf("submitted %d times", n)
	}
}

// TestOneMistakeOneMessage notices a mistake of a file that is reported without its place, and as JSON
// without its code.
func TestOneMistakeOneMessage(t *testing.T) {
	a := takesJobs(t)
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Stdin: "job \"x\" {\n  nosuch = 1\n}\n"}
	got := s.Run("submit", "-")
	if got.Code != exit.Usage || !strings.HasPrefix(got.Stderr, "<stdin>:2:3: ") {
		t.Errorf("%+v", got)
	}
	var p struct {
		api.Problem
		Diagnostics []struct{ Code, Text string }
	}
	got = s.Run("submit", "-", "-o", "json")
	if err := json.Unmarshal([]byte(got.Stderr), &p); err != nil || p.Code != api.CodeInvalidJob ||
		p.Type != "urn:rota:problem:invalid-job" || len(p.Diagnostics) == 0 {
		t.Errorf("as JSON: %+v, %v", got, err)
	}
	if len(a.Requests()) > 0 {
		t.Error("it was sent all the same")
	}
}

// TestWarningsOfAFile notices a warning that is lost, said twice, or mixed with the answer.
func TestWarningsOfAFile(t *testing.T) {
	a := takesJobs(t)
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL,
		Stdin: "job \"x\" {\n  checkpoint {}\n\n  task \"t\" {\n    command = [\"true\"]\n  }\n}\n"}
	got := s.Run("submit", "-")
	if got.Code != 0 || got.Stdout != "Submitted batch job 17\n" || !strings.HasPrefix(got.Stderr,
		"<stdin>:2:3: warning: ") ||
		strings.Count(got.Stderr, "the checkpoint has no path") != 1 {
		t.Errorf("%+v", got)
	}
	var report struct {
		Files []struct {
			Diagnostics []struct{ Severity int }
		}
	}
	got = s.Run("submit", "-", "-o", "json")
	if err := json.Unmarshal([]byte(got.Stderr), &report); err != nil || got.Code != 0 || len(report.Files) != 1 ||
		len(report.Files[0].Diagnostics) != 1 ||
		strings.Join(strings.Fields(got.Stdout), "") != `{"apiVersion":"v1","kind":"SubmitResponse","ids":[17]}` {
		t.Errorf("as JSON: %+v, %v", got, err)
	}
	s.Stdin = "#!/bin/sh\n#SBATCH --mail-type=END\ntrue\n"
	var warned struct{ Warnings []struct{ Code string } }
	got = s.Run("submit", "-", "-o", "json")
	if err := json.Unmarshal([]byte(got.Stderr), &warned); err != nil || got.Code != 0 || len(warned.Warnings) != 1 {
		t.Errorf("of a script, as JSON: %+v, %v", got, err)
	}
}

// TestWhatToSubmitIsOneThing notices a file that is ignored beside another, and a command that waits
// for input at a terminal.
func TestWhatToSubmitIsOneThing(t *testing.T) {
	a := takesJobs(t)
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Stdin: rotatest.SmallJob}
	file := rotatest.JobFile(t, rotatest.SmallJob)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"submit", "--wrap", "ls", file}, "--wrap and a script exclude each other: got --wrap and "},
		{[]string{"submit", "--wrap", ""}, "--wrap needs a command"},
		{[]string{"submit"}, "rota submit needs a job file or a script, or - for standard input: rota submit "},
		{[]string{"submit", "-N1", ":", "-N2", file}, "a colon separates components of a script\n  hint: write a " +
			"group for each component into the job file"},
		{[]string{"submit", "/nowhere/a.hcl"}, "/nowhere/a.hcl: no such file or directory\n  hint: pass the path of a " +
			"job file"},
		{[]string{"submit", file, file}, "rota submit needs one job file, or - for standard input"},
		{[]string{"submit", "--wrap", "ls", "-var", "a=1"}, "-var is for job files only: scripts have no variables"},
		{[]string{"submit", file, "-var", "x"}, "-var x: write -var NAME=VALUE"},
	} {
		if got := s.Run(c.args...); got.Code != exit.Usage || got.Stdout != "" || !strings.Contains(got.Stderr, c.want) {
			t.Errorf("rota %q: %+v", c.args, got)
		}
	}
	if len(a.Requests()) > 0 {
		t.Errorf("sent %+v", a.Requests())
	}
	if got := s.Run("submit", "--wrap", "ls -l"); got.Code != 0 ||
		sent(t, a).Groups[0].Tasks[0].Script != "#!/bin/sh\nls -l\n" {
		t.Errorf("--wrap: %+v", got)
	}
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	s.File = in
	if got := s.Run("submit", "--name", "piped"); got.Code != 0 || sent(t, a).Name != "piped" {
		t.Errorf("from a file on standard input: %+v", got)
	}
}

// TestTimesByTheUsersClock notices a time of a script that is read in another zone than the user's.
func TestTimesByTheUsersClock(t *testing.T) {
	zone := time.FixedZone("east", 3*3600)
	a := takesJobs(t)
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Stdin: script,
		Now: func() time.Time { return time.Date(2026, 11, 21, 22, 0, 0, 0, zone) }}
	for text, want := range map[string]string{"2026-11-22T08:00:00": "2026-11-22T05:00:00Z",
		"23:00": "2026-11-21T20:00:00Z",
		"21:00": "2026-11-22T18:00:00Z", "now+1hour": "2026-11-21T20:00:00Z"} {
		if got := s.Run("submit", "-", "--begin", text); got.Code != 0 {
			t.Errorf("%s: %+v", text, got)
			continue
		}
		begin, err := time.Parse(time.RFC3339, sent(t, a).Begin)
		if err != nil || begin.UTC().Format(time.RFC3339) != want {
			t.Errorf("%s: %s, %v, want %s", text, begin, err, want)
		}
	}
}

// TestFlagsWithAnOptionalValue notices one whose value is taken for the script, or the other way round.
func TestFlagsWithAnOptionalValue(t *testing.T) {
	a := takesJobs(t)
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Stdin: script}
	for args, want := range map[string]string{"submit --exclusive -": "", "submit -K0 -": "", "submit -K -": "",
		"submit --exclusive=nonsense -": "--exclusive", "submit --exclusive -x gpu01 --mail-type -": "--mail-type"} {
		got := s.Run(strings.Fields(args)...)
		if got.Code == exit.OK && want != "" && !strings.Contains(got.Stderr, want) || strings.Contains(got.Stderr,
			"no option") {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
}

// TestUUIDs notices one that is given out twice, or that is not of version 4.
func TestUUIDs(t *testing.T) {
	a := takesJobs(t)
	s := rotatest.Session{Commands: groups, T: t, Addr: a.URL, Stdin: "job \"x\" {\n  task \"t\" {\n    command = " +
		"[\"true\"]\n" +
		"    env {\n      A = uuid()\n      B = uuid()\n    }\n  }\n}\n"}
	seen := map[string]bool{}
	for range 20 {
		if got := s.Run("submit", "-"); got.Code != 0 {
			t.Fatalf("%+v", got)
		}
		for _, id := range sent(t, a).Groups[0].Tasks[0].Env {
			if !uuid4.MatchString(id) || seen[id] {
				t.Errorf("%s, or it was there before", id)
			}
			seen[id] = true
		}
	}
}

var uuid4 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
