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

// examplesWorld is a machine where `rota dev` runs in its default directory, with some files of
// examples and the programs that they run.
func examplesWorld(t *testing.T, files ...string) *devWorld {
	t.Helper()
	w := newDevWorld(t)
	w.dir = filepath.Join(w.from, ".rota")
	copied := func(from, to string, mode os.FileMode) {
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o755)
		}
		if err == nil {
			err = os.WriteFile(to, b, mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range files {
		copied(filepath.Join("../../..", f), filepath.Join(w.from, f), 0o644)
	}
	// a copy, since jobs have a /tmp of their own
	copied(filepath.Join(bin, "trainer"), filepath.Join(w.from, "bin/trainer"), 0o755)
	if err := os.Symlink(filepath.Join(bin, "rota"), filepath.Join(w.from, "bin/rota")); err != nil {
		t.Fatal(err)
	}
	return w
}

// asBothUsers runs commands at the same time, as root and as an ordinary user, without an address
// of the cluster. It returns how many directories with checkpoints there are at the end. Each
// command must end well.
func (w *devWorld) asBothUsers(t *testing.T, commands []string) int {
	t.Helper()
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
	for user := range users {
		for i, command := range commands {
			b, err := os.ReadFile(filepath.Join(w.from, fmt.Sprintf("%s.%d", user, i)))
			if text := string(b); err != nil || !strings.HasSuffix(text, "exit 0\n") || strings.Contains(text, "warning") {
				t.Errorf("%s as %s: %v\n%s", command, user, err, text)
			}
		}
	}
	made, err := os.ReadFile(filepath.Join(w.from, "checkpoints"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(made), "\n")
}

// TestExamplesAsWritten runs every example as the README and the examples say, where `rota dev`
// runs on one machine: as root and as an ordinary user. They find the cluster by its directory, as
// commands in other terminals do. The example with PyTorch has a test of its own.
func TestExamplesAsWritten(t *testing.T) {
	files, err := filepath.Glob("../../../examples/*.hcl")
	if err != nil || len(files) < 7 {
		t.Fatalf("%v: %v", files, err)
	}
	const torch = "bin/rota submit --follow examples/torch/train.hcl"
	var commands, names []string
	for _, f := range files {
		names = append(names, "examples/"+filepath.Base(f))
		commands = append(commands, "bin/rota submit --follow examples/"+filepath.Base(f))
	}
	for _, f := range append(files, "../../../README.md", "../../../examples/torch/train.hcl") {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range writtenCommand.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(commands, m[1]) && m[1] != torch {
				t.Errorf("%s: no such example: %s", f, m[1])
			}
		}
	}
	w := examplesWorld(t, names...)
	if n := w.asBothUsers(t, commands); n != 6 { // three examples save, and two users ran each
		t.Errorf("%d directories with checkpoints", n)
	}
}

// TestTorchExampleAsWritten is the same for the training with PyTorch, where Python has that.
func TestTorchExampleAsWritten(t *testing.T) {
	needsTorch(t)
	w := examplesWorld(t, "examples/torch/train.hcl", "examples/torch/train.py")
	if n := w.asBothUsers(t, []string{"bin/rota submit --follow examples/torch/train.hcl"}); n != 2 {
		t.Errorf("%d directories with checkpoints", n)
	}
	for _, user := range []string{"root", "daemon"} {
		b, err := os.ReadFile(filepath.Join(w.from, user+".0"))
		if text := string(b); err != nil || !strings.Contains(text, "step 400 loss ") {
			t.Errorf("%s: %v: no last step:\n%s", user, err, text)
		}
	}
}
