package noded

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rota-hpc/rota/controld/api/pki"
)

// TestANodesDirectoryOfOthers plays the attack on a data directory that was made or copied with a
// wide mode. An account reads other users' scripts and output there, or adds its own container for
// root to start.
func TestANodesDirectoryOfOthers(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	bundle := filepath.Join("containers", "1.1.0")
	newDir := func(t *testing.T) string {
		dir := filepath.Join(t.TempDir(), "d")
		var errs []error
		for path, mode := range map[string]os.FileMode{"": 0o700, "logs": 0o700, "containers": 0o711, "root": 0o755,
			bundle + "/run": 0o755, bundle + "/tasks/0": 0o755, bundle + "/shm": 0o755, bundle + "/tmp": 0o755,
			bundle + "/log": 0o755} {
			errs = append(errs, os.MkdirAll(filepath.Join(dir, path), 0o700), os.Chmod(filepath.Join(dir, path), mode))
		}
		for path, mode := range map[string]os.FileMode{"journal": 0o600, bundle + "/config.json": 0o600,
			bundle + "/run/script": 0o500, bundle + "/tasks/0/config.json": 0o600, bundle + "/log/stdout": 0o640} {
			errs = append(errs, os.WriteFile(filepath.Join(dir, path), nil, mode))
		}
		if os.Geteuid() == 0 {
			errs = append(errs, os.Lchown(filepath.Join(dir, bundle, "run/script"), 65534, 65534))
		}
		errs = append(errs, os.Chmod(filepath.Join(dir, bundle, "shm"), 0o777|os.ModeSticky),
			os.Chmod(filepath.Join(dir, bundle, "tmp"), 0o777|os.ModeSticky))
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for name, change := range map[string]func(dir string) error{
		"as it should be": func(string) error { return nil },
		"a new one":       os.RemoveAll,
		"others enter it": func(dir string) error { return os.Chmod(dir, 0o711) },
		"others read it":  func(dir string) error { return os.Chmod(dir, 0o755) },
		"its group reads the journal": func(dir string) error {
			return os.Chmod(filepath.Join(dir, "journal"), 0o640)
		},
		"others list the logs": func(dir string) error { return os.Chmod(filepath.Join(dir, "logs"), 0o705) },
		"logs on another disk": func(dir string) error {
			return errors.Join(os.Rename(filepath.Join(dir, "logs"), dir+"-logs"), os.Symlink(dir+"-logs", dir+"/logs"))
		},
		"a container waits for its start": func(dir string) error {
			pipe := filepath.Join(dir, bundle, "exec.fifo") // runc's, on which the start is said
			return errors.Join(syscall.Mkfifo(pipe, 0o600), os.Chmod(pipe, 0o622))
		},
		"keys are checked when they are read": func(dir string) error { return os.Mkdir(pki.Dir(dir), 0o777) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := newDir(t)
			if err := change(dir); err != nil {
				t.Fatal(err)
			}
			if err := checkDataDir(dir, quiet); err != nil {
				t.Error(err)
			}
			for _, path := range []string{dir, filepath.Join(dir, "journal"), filepath.Join(dir, "logs")} {
				if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
					t.Errorf("%s has mode %v", path, info.Mode())
				}
			}
			for path, mode := range map[string]os.FileMode{"root": 0o755, bundle + "/run": 0o755, "containers": 0o711} {
				if info, err := os.Stat(filepath.Join(dir, path)); err == nil && info.Mode().Perm() != mode {
					t.Errorf("%s, which containers show, has mode %v", path, info.Mode())
				}
			}
		})
	}
	chmod := func(path string, mode os.FileMode) func(string) error {
		return func(dir string) error { return os.Chmod(filepath.Join(dir, path), mode) }
	}
	chown := func(path string) func(string) error {
		return func(dir string) error { return os.Lchown(filepath.Join(dir, path), 65534, 65534) }
	}
	for name, test := range map[string]struct {
		change func(dir string) error
		says   string
	}{
		"others write it":                 {chmod("", 0o777), "chmod go-w"},
		"its group writes the journal":    {chmod("journal", 0o660), "chmod go-w"},
		"others make containers":          {chmod("containers", 0o733), "chmod go-w"},
		"others change the containers' /": {chmod("root", 0o777), "chmod go-w"},
		"others write what runs as root":  {chmod(bundle+"/config.json", 0o606), "chmod go-w"},
		"others write a task's":           {chmod(bundle+"/tasks/0/config.json", 0o606), "chmod go-w"},
		"a container of another account":  {chown(bundle), "chown -R"},
		"what runs is of another account": {chown(bundle + "/config.json"), "chown -R"},
		"a journal of another account":    {chown("journal"), "chown -R"},
		"a directory of another account":  {chown(""), "chown -R"},
		"the containers' / is of another": {chown("root"), "chown -R"},
		"another account's logs by a link": {func(dir string) error {
			return errors.Join(os.Rename(dir+"/logs", dir+"-logs"), os.Symlink(dir+"-logs", dir+"/logs"),
				os.Chown(dir+"-logs", 65534, 65534))
		}, "chown -R"},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Geteuid() != 0 {
				t.Skip("needs root")
			}
			dir := newDir(t)
			if err := test.change(dir); err != nil {
				t.Fatal(err)
			}
			if err := checkDataDir(dir, quiet); err == nil || !strings.Contains(err.Error(), test.says) ||
				!strings.Contains(err.Error(), "--data-dir") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestAWarningOfAnOpenDirectory notices a directory that is closed in silence: its operator must
// know that others could read it.
func TestAWarningOfAnOpenDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for _, want := range []int{1, 1} { // the second time it is closed already
		if err := checkDataDir(dir, slog.New(slog.NewTextHandler(&said, nil))); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(said.String(), "level=WARN"); n != want || !strings.Contains(said.String(), "mode=0755") {
			t.Errorf("%d warnings: %s", n, &said)
		}
	}
	if err := checkDataDir(filepath.Join("/proc", "none"), slog.New(slog.DiscardHandler)); err == nil ||
		!strings.Contains(err.Error(), "/proc/none cannot be written") {
		t.Errorf("got %v", err)
	}
}
