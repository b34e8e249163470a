package script

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/jobspec/script/shell"
)

// shells returns the installed shells of those that run scripts.
func shells(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, name := range []string{"bash", "dash", "zsh", "ksh"} {
		if path, err := exec.LookPath(name); err == nil {
			found = append(found, path)
		}
	}
	if len(found) == 0 {
		t.Skip("needs bash, dash, zsh or ksh, and none is installed")
	}
	return found
}

// TestFrontLinesInShells runs the lines that are put in front of scripts.
func TestFrontLinesInShells(t *testing.T) {
	for _, shell := range shells(t) {
		for _, c := range []struct {
			src, env, want string
			args           []string
			code           int
		}{
			{"#!/bin/sh\necho \"$#:$1:$2:$3\"\n", "", "3:it's:a b:$HOME\n", []string{"it's", "a b", "$HOME"}, 0},
		} {
			opts := Options{Name: "x.sh", Args: c.args, Clock: clock()}
			cmd := exec.Command(shell, "-c", task(Read([]byte(c.src), opts).Job).Script)
			cmd.Env = append(os.Environ(), c.env)
			out, _ := cmd.Output() // the code is checked below
			if got := cmd.ProcessState.ExitCode(); string(out) != c.want || got != c.code {
				t.Errorf("%s, %q with %s: got %q and code %d, want %q and %d", shell, c.src, c.env, out, got, c.want, c.code)
			}
		}
	}
}

// TestScriptsStayScripts lets bash check the syntax of every script that was changed.
func TestScriptsStayScripts(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash, which is not installed")
	}
	files, _ := filepath.Glob("testdata/scripts/*.sh") // TestScripts counts them
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r := Read(src, Options{Name: filepath.Base(file), Dir: "/home/ada", Clock: clock(), Args: []string{"a'b"}})
		if r.Job == nil || !shell.IsShell(strings.TrimPrefix(strings.SplitN(string(src), "\n", 2)[0], "#!")) {
			continue
		}
		cmd := exec.Command(bash, "-n")
		cmd.Stdin = strings.NewReader(task(r.Job).Script)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s\n%s", file, err, out, task(r.Job).Script)
		}
	}
}
