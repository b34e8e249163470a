package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestProfile(t *testing.T) {
	dir := t.TempDir()
	stop, err := startProfile(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.pprof"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Size() == 0 {
		t.Errorf("the profile is empty: %v", err)
	}
	if _, err := startProfile(filepath.Join(dir, "missing")); err == nil {
		t.Error("a directory that is not there was taken")
	}
	if stop, err := startProfile(""); err != nil || stop() != nil {
		t.Errorf("without a directory: %v", err)
	}
}
