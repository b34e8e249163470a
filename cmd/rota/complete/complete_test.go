package complete_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/complete"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// commands are small commands, and the one that the shells call.
func commands() []*command.Command {
	all := []*command.Command{
		{Name: "send", Usage: "send a file", Arguments: complete.Files, Flags: command.WithCommon(
			command.Text("state,states", "only `STATES`"), command.Text("queue,p", "to `QUEUE`"), command.Text("account", ""),
			command.Text("user", ""), command.Text("kind", ""), command.Text("free", ""), command.Switch("s", "short only"),
			&cli.BoolFlag{Name: "secret", Hidden: true}),
			Values: map[string]command.Source{"kind": complete.Words("apple", "pear")}},
		{Name: "stop", Usage: "stop jobs", Arguments: complete.Jobs(model.Running, model.Pending),
			Flags: command.CommonFlags()},
		{Name: "past", Arguments: complete.AllJobs, Flags: command.CommonFlags()},
		{Name: "node", Arguments: complete.Subcommand(complete.Words("drain", "resume"), complete.Nodes),
			Flags: command.CommonFlags()},
		{Name: "name", Arguments: complete.JobNames, Flags: command.CommonFlags()},
		{Name: "run", Arguments: complete.Programs, EndsFlags: command.AtFirstArgument, Flags: command.CommonFlags()},
		{Name: "none"},
		{Name: "internal", Hidden: true},
	}
	return append(all, &command.Command{Name: "complete", Hidden: true, Flags: command.CommonFlags(),
		Action: func(env *command.Env, c *cli.Context) error { return complete.Print(env, c, all) }})
}

// busyCluster has jobs, nodes, queues and accounts.
func busyCluster(t *testing.T) *rotatest.Answers {
	t.Helper()
	four := 4
	a := rotatest.NewAnswers(t)
	a.On("GET /v1/jobs", rotatest.StreamOf([]api.Job{
		{ID: 12, Name: "sweep", User: "ada", Code: model.Pending, Array: api.ArrayPlace{Size: 10, Indices: "5-9"}},
		{ID: 13, Name: "sweep", User: "ada", Code: model.Running, Array: api.ArrayPlace{Job: 12, Index: &four}},
		{ID: 14, Name: "it's $(touch x)\x1b", User: "bob", Code: model.Running},
		{ID: 21, Name: "nightly", User: "bob", Code: model.Running, Group: &api.GroupPlace{Job: 20, Name: "train"}},
	}))
	a.Give("GET /v1/nodes", rotatest.List("NodeList", api.Node{Name: "gpu01", State: "idle"},
		api.Node{Name: "gpu02", State: "drained"}))
	a.Give("GET /v1/config", cluster.Config{Queues: map[string]cluster.Queue{"gpu": {}, "cpu": {}}})
	a.Give("GET /v1/shares", rotatest.List("ShareList", api.Share{Account: "nlp"}, api.Share{Account: "vision"}))
	return a
}

// TestWordsOfALine notices a word that does not fit its place, or that is missing.
func TestWordsOfALine(t *testing.T) {
	a := busyCluster(t)
	for line, want := range map[string]string{
		"s":                     "send stop",
		"":                      "send stop past node name run none",
		"int":                   "",
		"nosuch ":               "",
		"send ":                 ":files",
		"send a.txt b":          ":files",
		"send --":               "--account --addr --color --free --kind --output --queue --state --token --user --utc",
		"send -":                "--account --addr --color --free --kind --output --queue --state --token --user --utc -s",
		"send --k":              "--kind",
		"send --kind ":          "apple pear",
		"send --kind p":         "pear",
		"send --kind=p":         "--kind=pear",
		"send --kind apple,p":   "apple,pear",
		"send --free ":          "",
		"send --free=":          "",
		"send --queue ":         "cpu gpu",
		"send -p g":             "gpu",
		"send --account n":      "nlp",
		"send --user ":          "ada bob",
		"send --output=j":       "--output=json",
		"send --color a":        "auto always",
		"send --state PD,R":     "PD,R",
		"stop ":                 "20.train|R nightly;14|R it's $(touch x)?;12_4|R sweep;12|PD sweep",
		"stop 12":               "12_4|R sweep;12|PD sweep",
		"past 14 2":             "20.train|R nightly",
		"node ":                 "drain resume",
		"node drain gpu":        "gpu01|idle;gpu02|drained",
		"node drain gpu01,gpu0": "gpu01,gpu01|idle;gpu01,gpu02|drained",
		"name ":                 "nightly sweep", // the shell would expand the third
		"run ":                  ":programs",
		"run py":                ":programs",
		"run python --k":        ":files",
		"none ":                 "",
		"none x":                "",
		"send --nosuch x":       "",
		"--addr unix:/x send ":  ":files",
		"--col":                 "--color",
	} {
		for _, shell := range []string{"fish", "zsh", "bash"} {
			s := rotatest.Session{T: t, Commands: commands, Addr: a.URL}
			typed := strings.Split(line, " ")
			if shell == "bash" && strings.Contains(line, "=") { // bash splits there
				before, after, _ := strings.Cut(typed[len(typed)-1], "=")
				typed = append(typed[:len(typed)-1], before, "=")
				if after != "" {
					typed = append(typed, after)
				}
			}
			got := s.Run(append([]string{"complete", shell, "--"}, typed...)...)
			var words []string
			for line := range strings.Lines(strings.ReplaceAll(got.Stdout, "\t", "|")) {
				words = append(words, strings.TrimSuffix(line, "\n"))
			}
			var expected []string
			for _, w := range strings.FieldsFunc(want, func(r rune) bool {
				return r == ';' || r == ' ' && !strings.Contains(want, "|")
			}) {
				if shell == "bash" { // without descriptions, and without the flag before the value
					w, _, _ = strings.Cut(w, "|")
					w = w[strings.LastIndexByte(w, '=')+1:]
				}
				expected = append(expected, w)
			}
			if shell != "bash" && !strings.Contains(want, "|") { // with descriptions that are of no interest here
				for i, w := range words {
					words[i], _, _ = strings.Cut(w, "|")
				}
			}
			if !slices.Equal(words, expected) || got.Code != 0 || got.Stderr != "" {
				t.Errorf("%s %q: %q, want %q (%+v)", shell, line, words, expected, got)
			}
		}
	}
}

// TestNoClusterNoWords notices a message after Tab, and a user that waits for it.
func TestNoClusterNoWords(t *testing.T) {
	s := rotatest.Session{T: t, Commands: commands, Addr: "unix:/nowhere",
		ClientOptions: api.Options{Unreachable: time.Nanosecond}}
	refusing := rotatest.NewAnswers(t)
	for _, line := range []string{"stop ", "past ", "node drain ", "send --queue ", "send --account ", "send --user ",
		"name "} {
		for _, addr := range []string{"unix:/nowhere", refusing.URL} {
			s.Addr = addr
			got := s.Run(append([]string{"complete", "zsh", "--"}, strings.Split(line, " ")...)...)
			if got.Code != 0 || got.Stdout != "" || got.Stderr != "" {
				t.Errorf("%q at %s: %+v", line, addr, got)
			}
		}
	}
	for _, args := range [][]string{{"complete"}, {"complete", "bash"}} {
		if got := s.Run(args...); got.Code != 0 || got.Stdout != "" || got.Stderr != "" {
			t.Errorf("%q: %+v", args, got)
		}
	}
}

// TestTheNewestJobsAreOffered notices a list that fills the screen with the oldest.
func TestTheNewestJobsAreOffered(t *testing.T) {
	a := rotatest.NewAnswers(t)
	var jobs []api.Job
	for i := range 150 {
		jobs = append(jobs, api.Job{ID: model.JobID(i + 1), Code: model.Running})
	}
	a.On("GET /v1/jobs", rotatest.StreamOf(jobs))
	s := rotatest.Session{T: t, Commands: commands, Addr: a.URL}
	words := strings.Fields(s.Run("complete", "bash", "--", "stop", "").Stdout)
	if len(words) != 100 || words[0] != "150" || words[99] != "51" {
		t.Errorf("%d words: %v", len(words), words[:min(3, len(words))])
	}
	if what := a.Requests()[0].What; !strings.Contains(what, "state=R") || !strings.Contains(what, "state=PD") {
		t.Errorf("asked %s", what)
	}
	s.Run("complete", "bash", "--", "past", "")
	if what := a.Requests()[1].What; !strings.Contains(what, "all=true") {
		t.Errorf("asked %s", what)
	}
	if !slices.ContainsFunc(strings.Fields(s.Run("complete", "bash", "--", "send", "--state", "").Stdout),
		func(w string) bool { return w == "PD" }) {
		t.Error("states are not offered")
	}
}
