package noded

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/noded/datafile"
	"github.com/rota-hpc/rota/noded/reconcile"
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

// TestDelaysOfRepeatedSteps notices a daemon that asks controllers in a tight loop, or hardly ever.
func TestDelaysOfRepeatedSteps(t *testing.T) {
	w := &worker{}
	for _, want := range []int{100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000} {
		w.delayRepeat(reconcile.Create, errFault)
		if w.delay.Milliseconds() != int64(want) {
			t.Errorf("%d tries: %v", w.Tries, w.delay)
		}
	}
	if w.Tries != 9 {
		t.Errorf("%d tries", w.Tries)
	}
	w.delayRepeat(reconcile.Create, nil)
	if w.Tries != 0 || w.delay != 0 || w.lastKind != reconcile.Create || !w.notBefore.IsZero() {
		t.Errorf("after a success: %+v", w)
	}
	w.delayRepeat(reconcile.Kill, nil) // it has no effect yet
	if w.Tries != 1 || w.notBefore.IsZero() {
		t.Errorf("after a kill: %+v", w)
	}
}
