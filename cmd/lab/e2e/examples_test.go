package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// writtenCommand matches a command line by which the README or an example says that it is run.
var writtenCommand = regexp.MustCompile(`(?m)^(?:# +)?(bin/rota submit --follow examples/\S+\.hcl)(?:\s|$)`)

// TestExamplesAsWritten runs every example as the README and the examples say, where `rota dev` runs on
// one machine: as root and as an ordinary user. They find the cluster by its directory, as commands in other
// terminals do.
func TestExamplesAsWritten(t *testing.T) {
	w := newDevWorld(t)
	w.dir = filepath.Join(w.from, ".rota") // the default
	files, err := filepath.Glob("../../../examples/*.hcl")
	if err != nil || len(files) < 7 {
		t.Fatalf("%v: %v", files, err)
	}
	if err := os.Mkdir(filepath.Join(w.from, "examples"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(w.from, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(bin, "rota"), filepath.Join(w.from, "bin/rota")); err != nil {
		t.Fatal(err)
	}
	trainer, err := os.ReadFile(filepath.Join(bin, "trainer")) // a copy, since jobs have a /tmp of their own
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.from, "bin/trainer"), trainer, 0o755); err != nil {
		t.Fatal(err)
	}
	var commands []string
	texts := []string{"../../../README.md"}
	for _, f := range files {
		commands = append(commands, "bin/rota submit --follow examples/"+filepath.Base(f))
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(w.from, "examples", filepath.Base(f)), text, 0o644); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, f)
	}
	for _, f := range texts {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range writtenCommand.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(commands, m[1]) {
				t.Errorf("%s: no such example: %s", f, m[1])
			}
		}
	}
	users := map[string]string{"root": "", "daemon": "setpriv --reuid=1 --regid=1 --clear-groups "}
	script := "unset ROTA_ADDR\n"
	for user, as := range users {
		for i, command := range commands {
			script += fmt.Sprintf("( %s%s >%s.%d 2>&1; echo exit $? >>%s.%d ) &\n", as, command, user, i, user, i)
		}
	}
	if out, errs, code := w.dev("--sim-gpus", "4", "--cores", "32", "--", "bash", "-c",
		script+"wait; ls .rota/shared >checkpoints; rm -r .rota/shared/*"); code != 0 {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	made, err := os.ReadFile(filepath.Join(w.from, "checkpoints"))
	if n := strings.Count(string(made), "\n"); err != nil || n != 6 { // three examples save, and two users ran each
		t.Errorf("%v: %d directories with checkpoints:\n%s", err, n, made)
	}
	for user := range users {
		for i, command := range commands {
			b, err := os.ReadFile(filepath.Join(w.from, fmt.Sprintf("%s.%d", user, i)))
			if text := string(b); err != nil || !strings.HasSuffix(text, "exit 0\n") || strings.Contains(text, "warning") {
				t.Errorf("%s as %s: %v\n%s", command, user, err, text)
			}
		}
	}
}
