package admin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/cmd/rota/rotatest"
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/model/cluster"
)

// versioned is a controller with version 4 of the configuration in force.
func versioned(t *testing.T) *rotatest.Answers {
	t.Helper()
	now := cluster.InitialConfig()
	old := cluster.InitialConfig()
	old.Policy.MaxBypass = 3
	a := rotatest.NewAnswers(t)
	a.Give("GET /v1/config/versions", api.List[api.ConfigVersion]{Items: []api.ConfigVersion{
		{Number: 4, By: "ann", Comment: "more", At: noon, Config: &now,
			Changes: []api.ConfigChange{{Path: "policy.max_bypass", Old: "3", New: "64"}}},
		{Number: 3, Config: &old},
	}})
	return a
}

// writeFile writes a configuration file and returns its path.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.hcl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestAConfigurationIsCompared notices an exit code that a script cannot go by.
func TestAConfigurationIsCompared(t *testing.T) {
	s := rotatest.Session{Commands: Commands, T: t, Addr: versioned(t).URL}
	for _, test := range []struct {
		text string
		code int
		want string
	}{
		{"policy \"rota\" {}\n", 0, ""},
		{"policy {\n  max_bypass = 64\n}\n", 0, ""},
		{"policy \"fifo\" {}\n", exit.Failed, "policy.name: \"rota\" -> \"fifo\"\n"},
		{"policy \"rota\" {\n  p = 2\n}\n", exit.Failed, "policy.p: (none) -> 2\n"},
		{"policy \"rota\" {\n  q = 2\n}\n", exit.Usage, ""},
		{"name = \"c1\"\n", exit.Usage, ""},
	} {
		if got := s.Run("config", "diff", writeFile(t, test.text)); got.Code != test.code || got.Stdout != test.want {
			t.Errorf("%s: %+v", test.text, got)
		}
	}
	got := s.Run("config", "diff", writeFile(t, "name = \"c1\"\nlimits {\n  max_requests = 5\n}\n"))
	if got.Code != exit.Failed || got.Stdout != "limits.max_requests: (none) -> 5\n" ||
		!strings.Contains(got.Stderr, "settings of a single controller") {
		t.Errorf("a file with settings of one controller: %+v", got)
	}
}

// TestWhatWasReadHasToBeInForce notices an apply that overwrites what another admin has applied.
func TestWhatWasReadHasToBeInForce(t *testing.T) {
	a := versioned(t)
	a.Give("POST /v1/config", api.ConfigVersion{Number: 5,
		Changes: []api.ConfigChange{{Path: "policy.p", New: "2"}}})
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	file := writeFile(t, "policy {\n  max_bypass = 2\n}\n")
	got := s.Run("config", "apply", file, "--comment", "less")
	asked := lastAsked[api.ConfigRequest](a)
	if got.Code != 0 || got.Stdout != "version 5 is in force\n  policy.p: (none) -> 2\n" || asked.IfVersion != 4 ||
		asked.Comment != "less" || asked.Config.Policy.Name != "rota" || asked.Config.Policy.MaxBypass != 2 {
		t.Errorf("%+v asked %+v", got, asked)
	}
	a.Give("POST /v1/config", api.ConfigVersion{Number: 5, Warnings: []string{"pack has no effect"}})
	if got := s.Run("config", "apply", file, "--if-version", "3"); got.Stderr != "rota: warning: pack has no effect\n" {
		t.Errorf("the warning of the answer: %+v", got)
	}
	if got := s.Run("config", "apply", file, "--if-version", "3"); got.Code != 0 ||
		lastAsked[api.ConfigRequest](a).IfVersion != 3 {
		t.Errorf("with --if-version: %+v", got)
	}
	before := len(a.Requests())
	if got := s.Run("config", "apply", writeFile(t, "policy \"rota\" {}\n")); got.Code != 0 ||
		got.Stderr != "rota: nothing to change: version 4 has the same settings\n" || len(a.Requests()) != before+1 {
		t.Errorf("nothing to change: %+v", got)
	}
	a.Refuse("POST /v1/config", api.Problem{Status: 409, Code: api.CodeWrongState, Detail: "version 5 is in force, not 4"})
	if got := s.Run("config", "apply", file); got.Code != exit.Failed || got.Stdout != "" {
		t.Errorf("refused: %+v", got)
	}
}

// TestVersionsAreListedAndRestored notices a version that is shown with the changes of another.
func TestVersionsAreListedAndRestored(t *testing.T) {
	a := versioned(t)
	a.Give("POST /v1/config/rollback", api.ConfigVersion{Number: 5})
	s := rotatest.Session{Commands: Commands, T: t, Addr: a.URL}
	last := "version 4  2026-11-21T12:00:00Z  by ann  more\n  policy.max_bypass: 3 -> 64\n"
	if got := s.Run("config", "history", "--utc"); got.Code != 0 || got.Stdout != last+"version 3\n" {
		t.Errorf("%+v", got)
	}
	if got := s.Run("config", "history", "1", "--utc"); got.Code != 0 || got.Stdout != last {
		t.Errorf("%+v", got)
	}
	want := api.RollbackRequest{Version: 3, Comment: "back to version 3", IfVersion: 4}
	if got := s.Run("config", "rollback", "3"); got.Code != 0 || got.Stdout != "version 5 is in force\n" ||
		lastAsked[api.RollbackRequest](a) != want {
		t.Errorf("%+v", got)
	}
	for _, line := range []string{"", "history x", "history 0", "rollback x", "rollback", "diff", "apply", "frob x",
		"apply x --if-version 0", "history --comment x"} {
		if got := s.Run(append([]string{"config"}, strings.Fields(line)...)...); got.Code != exit.Usage {
			t.Errorf("rota config %s: %+v", line, got)
		}
	}
}
