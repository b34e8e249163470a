package powertest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// write makes a file, and syncs it and its directory if told so.
func write(path, text string, sync, name bool) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(text); err != nil {
		return err
	}
	if sync {
		if err := f.Sync(); err != nil {
			return err
		}
	}
	if name {
		err = syncDir(filepath.Dir(path))
	}
	return errors.Join(err, f.Close())
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// TestWhatWasNotSyncedIsLost has one file for each thing that a program may have left out.
func TestWhatWasNotSyncedIsLost(t *testing.T) {
	dir, acknowledged := Cut(t, 1, func(dir string, acknowledge func(string)) error {
		below := filepath.Join(dir, "below.tmp")
		err := errors.Join(
			write(filepath.Join(dir, "whole"), "one", true, true),
			write(filepath.Join(dir, "half"), "one", true, true),
			write(filepath.Join(dir, "half"), "two", false, false),
			write(filepath.Join(dir, "empty"), "one", false, true),
			write(filepath.Join(dir, "old"), "old", true, true),
			write(filepath.Join(dir, "new"), "new", true, false),
			os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "old")),
			os.Mkdir(below, 0o700), write(filepath.Join(below, "file"), "one", true, true),
		)
		if err == nil {
			err = errors.Join(os.Rename(below, filepath.Join(dir, "below")),
				write(filepath.Join(dir, "none"), "one", true, false))
		}
		if err != nil {
			return err
		}
		acknowledge("now")
		return nil
	})
	if len(acknowledged) != 1 || acknowledged[0] != "now" {
		t.Errorf("acknowledged: %q", acknowledged)
	}
	for name, want := range map[string]string{"whole": "one", "half": "one", "empty": "", "old": "old"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
	for _, name := range []string{"new", "none", "below", "below.tmp"} {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is there, although its directory was not synced after it was named so: %v", name, err)
		}
	}
}

// TestDirectoriesAreKept renames a directory with a file in it and syncs all that there is.
func TestDirectoriesAreKept(t *testing.T) {
	dir, _ := Cut(t, 1, func(dir string, acknowledge func(string)) error {
		below := filepath.Join(dir, "below.tmp")
		err := errors.Join(os.Mkdir(below, 0o700), write(filepath.Join(below, "file"), "one", true, true),
			os.Rename(below, filepath.Join(dir, "below")), syncDir(dir))
		if err != nil {
			return err
		}
		acknowledge("now")
		return nil
	})
	if got, err := os.ReadFile(filepath.Join(dir, "below", "file")); err != nil || string(got) != "one" {
		t.Errorf("%q, %v", got, err)
	}
}
