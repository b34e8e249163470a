package sched_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/sched/schedtest"
)

var update = flag.Bool("update", false,
	"write what the scenarios say now into testdata; read the difference before committing it")

// TestScenarios plays every script in testdata. A script is blocks of commands, each followed by
// ---- and what the commands said; an empty line ends a block and # begins a comment. The commands
// are documented where world.run dispatches them.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 25 {
		t.Fatalf("found %d scenarios, error %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got, err := play(string(text))
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if got == string(text) {
				return
			}
			if !*update {
				t.Fatalf("%s says something else (-update accepts it):\n%s", file, difference(string(text), got))
			}
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// play runs a script and returns it with what it says now.
func play(script string) (string, error) {
	w := schedtest.NewWorld()
	var b strings.Builder
	expected := false // inside what an earlier run said
	for n, line := range strings.Split(strings.TrimRight(script, "\n"), "\n") {
		switch {
		case line == "":
			expected = false
		case expected:
			continue
		case line == "----":
			expected = true
			b.WriteString("----\n" + w.Out.String())
			w.Out.Reset()
			continue
		case !strings.HasPrefix(line, "#"):
			if err := w.Run(line); err != nil {
				return "", fmt.Errorf("line %d, %s: %w", n+1, line, err)
			}
		}
		b.WriteString(line + "\n")
	}
	if w.Out.Len() > 0 {
		return "", fmt.Errorf("the script ends without ---- although there is something to say: %s", w.Out.String())
	}
	return b.String(), nil
}

// difference shows the first line that differs, with the rest of both.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	i := 0
	for i < len(w) && i < len(g) && w[i] == g[i] {
		i++
	}
	return fmt.Sprintf("line %d\n--- wanted\n%s\n--- got\n%s", i+1, strings.Join(w[i:], "\n"), strings.Join(g[i:], "\n"))
}
