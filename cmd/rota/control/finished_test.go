package control

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// finishedWith runs the command with arguments.
func finishedWith(t *testing.T, args ...string) error {
	t.Helper()
	set := flag.NewFlagSet("finished", flag.ContinueOnError)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return sayFinished(nil, cli.NewContext(nil, set, nil))
}

// TestAJobSaysThatItIsFinished notices a line that is not added, and a mistake that is not said.
func TestAJobSaysThatItIsFinished(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress")
	t.Setenv(progressFileEnv, "")
	if err := finishedWith(t); err == nil || !strings.Contains(err.Error(), "works only in jobs") {
		t.Errorf("outside of a job: %v", err)
	}
	t.Setenv(progressFileEnv, path)
	if err := finishedWith(t); err == nil || !strings.Contains(err.Error(), "progress file") {
		t.Errorf("without the file: %v", err)
	}
	if err := os.WriteFile(path, []byte("{\"step\":3}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := finishedWith(t, "7"); err == nil || !strings.Contains(err.Error(), "no arguments") {
		t.Errorf("with an argument: %v", err)
	}
	if err := finishedWith(t); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "{\"step\":3}\n{\"finished\":true}\n" {
		t.Errorf("the file has %q, %v", text, err)
	}
}
