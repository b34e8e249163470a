package noded

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/noded/datafile"
)

// TestAMarkThatCannotBeWritten notices a daemon that goes on without its mark.
func TestAMarkThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	for what, err := range map[string]error{"format": writeFormat(filepath.Join(dir, "version")),
		"check": checkFormat(dir), "whole": datafile.Write(filepath.Join(dir, "x"), "y")} {
		if err == nil || !strings.Contains(err.Error(), "mark the data directory") {
			t.Errorf("%s: %v", what, err)
		}
	}
	path := filepath.Join(t.TempDir(), "x")
	writeFile(t, path+".tmp", "what a daemon that was killed left, and longer")
	if err := datafile.Write(path, "y"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	b, _ := os.ReadFile(path)
	if err != nil || string(b) != "y" || info.Mode() != 0o600 {
		t.Errorf("it holds %q, %v, mode %v", b, err, info.Mode())
	}
}
