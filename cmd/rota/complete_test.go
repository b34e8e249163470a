package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// busy is a controller with some jobs and nodes for completions to find.
func busy(t *testing.T) *rotatest.Answers {
	t.Helper()
	four := 4
	a := rotatest.NewAnswers(t)
	a.On("GET /v1/jobs", rotatest.StreamOf([]api.Job{
		{ID: 12, Name: "sweep", User: "ada", Account: "nlp", Queue: "gpu", Code: model.Pending,
			Array: api.ArrayPlace{Size: 10, Indices: "5-9"}},
		{ID: 13, Name: "sweep", User: "ada", Account: "nlp", Queue: "gpu", Code: model.Running,
			Array: api.ArrayPlace{Job: 12, Index: &four}},
		{ID: 14, Name: "bad $(touch x)", User: "bob", Account: "vision", Queue: "cpu", Code: model.Running},
	}))
	a.Give("GET /v1/nodes", rotatest.List("NodeList", api.Node{Name: "gpu01", State: "idle"},
		api.Node{Name: "gpu02", State: "drained"}))
	a.Give("GET /v1/config", cluster.Config{Queues: map[string]cluster.Queue{"gpu": {}, "cpu": {}}})
	a.Give("GET /v1/shares", rotatest.List("ShareList", api.Share{Account: "nlp"}, api.Share{Account: "vision"}))
	return a
}

func TestComplete(t *testing.T) {
	s := rotatest.Session{Commands: commands, T: t, Addr: busy(t).URL}
	for _, c := range []struct{ line, want string }{
		{"qu", "queue"},
		{"node ", "confirm-dead discard drain kept resume"},
		{"node drain ", "gpu01 gpu02"},
		{"node drain gpu01 gpu", "gpu01 gpu02"},
		{"array ", "prune"},
		{"array prune 12", "12_4 12"},
		{"cancel ", "14 12_4 12"},
		{"cancel 12,1", "12,14 12,12_4 12,12"},
		{"status 14 12_", "12_4"},
		{"queue --st", "--start --states"},
		{"queue --states R,P", "R,PD R,PR"},
		{"queue -t R,P", "R,PD R,PR"},
		{"queue --states=C", "--states=CK --states=CG --states=CF --states=CD --states=CA"},
		{"queue -o j", "json"},
		{"queue -o t", "table template="},
		{"status -o ", "table json"},
		{"queue --columns id,re", "id,reason"},
		{"nodes --sort c", "cpus"},
		{"queue -p ", "cpu gpu"},
		{"submit x.hcl --account ", "nlp vision"},
		{"queue --name s", "sweep"},
		{"queue -u ", "ada bob"},
		{"submit ", ":files"},
		{"submit --class ", "te be"},
		{"init --template p", "pipeline"},
		{"explain JS-112", "JS-112"},
		{"explain Prio", "Priority"},
		{"completion ", "bash zsh fish"},
		{"help ca", "cancel"},
		{"run ", ":programs"},
		{"run -G 1 -- python ", ":files"},
		{"events --node gpu02", "gpu02"},
		{"events --type subm", "submitted"},
		{"--addr http://x.invalid qu", "queue"},
		{"--co", "--color"},
		{"no-such-command ", ""},
	} {
		got := s.Run(append([]string{"complete", "bash", "--"}, strings.Split(c.line, " ")...)...)
		words := strings.Fields(got.Stdout)
		want := strings.Fields(c.want)
		if strings.Contains(c.line, "states=") { // bash takes the word apart
			for i := range want {
				want[i] = strings.TrimPrefix(want[i], "--states=")
			}
		}
		slices.Sort(words)
		slices.Sort(want)
		if got.Code != 0 || got.Stderr != "" || !slices.Equal(words, want) {
			t.Errorf("%q: %q, want %q (%+v)", c.line, words, want, got)
		}
	}
	if got := s.Run("complete", "fish", "--", "cancel", "14"); got.Stdout != "14\tR bad $(touch x)\n" {
		t.Errorf("%+v", got)
	}
}

// Every command and every flag is offered.
func TestCompleteOffersEverything(t *testing.T) {
	s := rotatest.Session{Commands: commands, T: t, Addr: "unix:/nowhere"}
	all := strings.Fields(s.Run("complete", "bash", "--", "").Stdout)
	for _, c := range commands() {
		if c.Hidden {
			continue
		}
		if !slices.Contains(all, c.Name) {
			t.Errorf("%s is not offered", c.Name)
		}
		offered := strings.Fields(s.Run("complete", "bash", "--", c.Name, "-").Stdout)
		for _, f := range c.Flags {
			if command.Visible(f) && !slices.ContainsFunc(f.Names(),
				func(name string) bool { return slices.Contains(offered, command.Dashed(name)) }) {
				t.Errorf("%s: %s is not offered", c.Name, f.Names())
			}
		}
		if c.ArgsUsage != "" && c.ArgsUsage != "[OPTIONS]" && c.Arguments == nil {
			t.Errorf("%s takes %s, and nothing is offered for that", c.Name, c.ArgsUsage)
		}
	}
}

// Without a cluster nothing is said, and what needs none is offered all the same.
func TestCompleteWithoutCluster(t *testing.T) {
	s := rotatest.Session{Commands: commands, T: t, Addr: "unix:/nowhere/rota.sock"}
	for line, want := range map[string]string{"cancel ": "", "node drain ": "", "node dr": "drain\n"} {
		if got := s.Run(append([]string{"complete", "bash", "--"}, strings.Split(line, " ")...)...); got.Stdout != want ||
			got.Stderr != "" || got.Code != 0 {
			t.Errorf("%q: %+v", line, got)
		}
	}
}

// shellTest runs lines in a shell that has rota's completion, and a program rota that is this test.
func shellTest(t *testing.T, shell, script string) string {
	t.Helper()
	path, err := exec.LookPath(shell)
	if err != nil {
		t.Skipf("needs %s, which is not installed", shell)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "rota")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "train.hcl"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, "-c", script)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + dir, "TERM=dumb", "ROTA_ADDR=" + busy(t).URL,
		rotatest.AsRota + "=1", "GOCOVERDIR=" + os.Getenv("GOCOVERDIR")}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", shell, err, out)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "x")); len(left) > 0 {
		t.Errorf("%s ran what a job is called", shell)
	}
	return string(out)
}

// TestMain runs the tests, or rota itself for the shells.
func TestMain(m *testing.M) {
	if os.Getenv(rotatest.AsRota) != "" {
		main()
	}
	rotatest.Main(m, commands)
}

var completed = []struct{ line, want string }{
	{"node dr", "drain"},
	{"cancel 12", "12_4 12"},
	{"cancel 14", "14"},
	{"submit tr", "train.hcl"},
	{"queue --states R,P", "R,PD R,PR"},
	{"queue --output=js", "json"},
	{"node resume gpu02", "gpu02"},
}

func TestBashCompletion(t *testing.T) {
	for _, c := range completed {
		script := `eval "$(rota completion bash)"
COMP_WORDS=(` + bashWords("rota "+c.line) + `)
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_rota rota "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\n' "${COMPREPLY[@]}"`
		got := strings.Fields(shellTest(t, "bash", script))
		want := strings.Fields(c.want)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", c.line, got, want)
		}
	}
}

// bashWords takes a line apart as readline does.
func bashWords(line string) string { return strings.ReplaceAll(line, "=", " = ") }

func TestFishCompletion(t *testing.T) {
	for _, c := range completed {
		out := shellTest(t, "fish", "rota completion fish | source; complete -C 'rota "+c.line+"'")
		for _, want := range strings.Fields(c.want) {
			if !slices.ContainsFunc(strings.Split(out, "\n"), func(line string) bool {
				word, _, _ := strings.Cut(line, "\t")
				return word == want || word == "--output="+want
			}) {
				t.Errorf("%q: %s is missing in %q", c.line, want, out)
			}
		}
	}
}

// zsh completes only at a prompt, so its own functions are replaced by ones that print what they
// are given.
func TestZshCompletion(t *testing.T) {
	for _, c := range completed {
		words := strings.Fields("rota " + c.line)
		script := `compdef() { : }
_describe() { local name=$2; print -l -- "${(@P)name%%:*}" }
_files() { print -l -- "${words[CURRENT]}"*(N) }
eval "$(rota completion zsh)"
words=(` + strings.Join(words, " ") + `)
CURRENT=${#words}
_rota`
		out := strings.Fields(shellTest(t, "zsh", script))
		for _, want := range strings.Fields(c.want) {
			if !slices.Contains(out, want) && !slices.Contains(out, "--output="+want) {
				t.Errorf("%q: %s is missing in %q", c.line, want, out)
			}
		}
	}
}
