package manual_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/manual"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec/jobfile"
)

// own are commands to describe.
func own() []*command.Command {
	return append(command.InCategory("Fruit", []*command.Command{
		{Name: "peel", Aliases: []string{"p"}, Usage: "peel a fruit", ArgsUsage: "FRUIT [OPTIONS]",
			Description: "Peels it.\n.dots and 'quotes' begin lines, and back\\slashes stand in them.",
			Flags: command.WithCommon(command.Text("knife,k", "use `KNIFE`"), &cli.IntFlag{Name: "times",
				Usage: "peel `N` times",
				Value: 3}, command.Switch("thin", "thinly"), &cli.BoolFlag{Name: "unlisted-flag", Hidden: true,
				Usage: "not for users"})},
		{Name: "eat", Usage: "eat it"},
	}), command.InCategory("Other", []*command.Command{{Name: "unlisted-command", Hidden: true,
		Usage: "for programs"}})...)
}

func commands() []*command.Command { return append(own(), manual.Commands(own())...) }

func session(t *testing.T) rotatest.Session {
	return rotatest.Session{T: t, Commands: commands, Addr: "unix:/nowhere"}
}

// TestHelp notices a command or an option without help, and help for what is not for users.
func TestHelp(t *testing.T) {
	for _, args := range []string{"", "help", "--help", "-h", "h"} {
		got := session(t).Run(strings.Fields(args)...)
		begin := "rota: submit and watch jobs on a deep-learning GPU cluster\n\nUsage: rota COMMAND [OPTIONS] " +
			"[ARGUMENTS]\n\n" +
			"Fruit:\n  peel        peel a fruit\n  eat         eat it\n\nOther:\n  completion  "
		if got.Code != 0 || got.Stderr != "" || !strings.HasPrefix(got.Stdout, begin) ||
			!strings.Contains(got.Stdout, "\nExit codes: 0 ok, 1 failed, ") || strings.Contains(got.Stdout, "unlisted-command") {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
	want := "rota peel: peel a fruit\n\nUsage: rota peel FRUIT [OPTIONS]\n\nPeels it.\n.dots and 'quotes' begin " +
		"lines, and " +
		"back\\slashes stand in them.\n\nOptions:\n" +
		"  --knife, -k KNIFE                      use KNIFE\n" +
		"  --times N                              peel N times (default 3)\n" +
		"  --thin                                 thinly\n" +
		"  --addr ADDR                            "
	for _, args := range []string{"help peel", "peel --help", "peel x -h", "--help peel", "help p"} {
		if got := session(t).Run(strings.Fields(args)...); got.Code != 0 || !strings.HasPrefix(got.Stdout, want) ||
			strings.Contains(got.Stdout, "unlisted-flag") {
			t.Errorf("rota %s: %+v\nwant\n%s", args, got, want)
		}
	}
	if got := session(t).Run("help", "eat"); got.Stdout != "rota eat: eat it\n\nUsage: rota eat\n" {
		t.Errorf("%+v", got)
	}
	for args, want := range map[string]string{"help pel": "rota: unknown command \"pel\"\n  hint: did you mean " +
		"\"rota peel\"?\n",
		"help peel eat": "rota: rota help describes one command: rota help [COMMAND]\n",
		"version 2":     "rota: unexpected argument for rota version: \"2\"; see \"rota help version\"\n",
		"completion":    "rota: name a shell: rota completion bash, zsh or fish\n", "completion tcsh": "rota: name a shell: ",
		"completion bash zsh": "rota: name a shell: ", "man": "rota: no directory given: rota man DIR\n",
		"man a b": "rota: no directory given: rota man DIR\n", "version -o yaml": "rota: unknown format -o yaml: must " +
			"be one of table, json\n",
	} {
		if got := session(t).Run(strings.Fields(args)...); got.Code != exit.Usage || got.Stdout != "" ||
			!strings.HasPrefix(got.Stderr, want) {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
}

// TestVersions notices a version that scripts cannot read.
func TestVersions(t *testing.T) {
	for _, args := range []string{"version", "--version", "-v"} {
		if got := session(t).Run(args); got.Code != 0 || got.Stdout != "rota "+api.Build()+"\n" {
			t.Errorf("rota %s: %+v", args, got)
		}
	}
	var v map[string]string
	got := session(t).Run("version", "-o", "json")
	if err := json.Unmarshal([]byte(got.Stdout), &v); err != nil || v["version"] != api.Build() ||
		v["go"] != runtime.Version() {
		t.Errorf("as JSON: %+v, %v", got, err)
	}
}

// TestPagesOfTheManual notices a page that is missing, and text that roff takes for a command.
func TestPagesOfTheManual(t *testing.T) {
	dir := t.TempDir()
	if got := session(t).Run("man", dir); got.Code != 0 || got.Stdout != "" {
		t.Fatalf("%+v", got)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"rota-completion.1", "rota-eat.1", "rota-help.1", "rota-jobfile.5", "rota-peel.1",
		"rota-version.1",
		"rota.1"}; !slices.Equal(names, want) {
		t.Errorf("pages %v", names)
	}
	page := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for name, parts := range map[string][]string{
		"rota-peel.1": {".TH ROTA\\-PEEL 1 ", ".SH NAME\nrota\\-peel \\- peel a fruit\n", "Peels it.\n\\&.dots and 'quotes'",
			"back\\eslashes", "Also available as rota p.", ".TP\n\\fB\\-\\-knife, \\-k\\fR \\fIKNIFE\\fR\nUse KNIFE.\n",
			"Peel N times (default 3).", ".BR rota (1),\n.BR rota\\-jobfile (5)\n"},
		"rota-eat.1": {".SH SYNOPSIS\n.B rota eat\n.SH SEE ALSO\n"},
		"rota.1": {".SH FRUIT\n.TP\n\\fBrota peel\\fR\npeel a fruit\n", "\\fBROTA_ADDR\\fR", "\\fBROTA_TOKEN\\fR",
			"\\fB5\\fR\nNo controller or no leader is reachable.", ".BR rota\\-peel (1),\n"},
		"rota-jobfile.5": {".SS job\n", ".SS task\n", "Required."},
	} {
		for _, want := range parts {
			if !strings.Contains(page(name), want) {
				t.Errorf("%s lacks %q:\n%s", name, want, page(name)[:min(1500, len(page(name)))])
			}
		}
	}
	for _, name := range names {
		if text := page(name); strings.Contains(text, "unlisted-flag") || strings.Contains(text, "unlisted-command") {
			t.Errorf("%s is about what is not for users", name)
		}
		for line := range strings.Lines(page(name)) { // a request that was meant is one of these
			if strings.HasPrefix(line, ".") && !slices.Contains([]string{".TH", ".SH", ".SS", ".TP", ".B", ".BR", ".PP", ".nf",
				".fi", ".\\\""}, strings.Fields(line)[0]) {
				t.Errorf("%s: %q is a request of roff", name, line)
			}
		}
	}
	for _, a := range jobfile.Attributes() {
		if !strings.Contains(page("rota-jobfile.5"), strings.ReplaceAll(a.Name, "-", "\\-")) {
			t.Errorf("the page about job files lacks %s", a.Name)
		}
	}
	if got := session(t).Run("man", filepath.Join(dir, "none")); got.Code != exit.Failed ||
		!strings.Contains(got.Stderr, "no such file") {
		t.Errorf("a directory that is not there: %+v", got)
	}
	packaged := manual.Packaged(commands())
	for _, name := range names {
		if packaged["man/"+name] != page(name) {
			t.Errorf("%s is packaged with another text", name)
		}
	}
}

// TestCompletionScripts notices a shell whose script is another one's.
func TestCompletionScripts(t *testing.T) {
	packaged := manual.Packaged(commands())
	for shell, c := range map[string][2]string{"bash": {"rota.bash", "complete -F _rota rota"}, "zsh": {"_rota",
		"#compdef rota"},
		"fish": {"rota.fish", "complete -c rota"}} {
		got := session(t).Run("completion", shell)
		if got.Code != 0 || !strings.Contains(got.Stdout, c[1]) || packaged["completions/"+c[0]] != got.Stdout ||
			!strings.Contains(got.Stdout, "complete "+shell+" -- ") {
			t.Errorf("%s: %+v", shell, got)
		}
	}
	if got := session(t).Run("complete", "bash", "--", "completion", ""); got.Stdout != "bash\nzsh\nfish\n" {
		t.Errorf("%+v", got)
	}
}
