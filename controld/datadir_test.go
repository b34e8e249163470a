package controld

import (
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-hpc/rota/controld/api/pki"
)

// TestDataDirectoriesOfOthers is an attack by another account on a directory that was made or
// copied with a wide mode. The account reads other users' scripts from the log, or puts a log of
// its own in its place.
func TestDataDirectoriesOfOthers(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	newDir := func(t *testing.T) string {
		dir := filepath.Join(t.TempDir(), "d")
		for _, d := range []string{dir, filepath.Join(dir, "raft"), pki.Dir(dir)} {
			if err := os.Mkdir(d, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "history.db"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	modes := func(t *testing.T, dir string) {
		t.Helper()
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
			if info, err := d.Info(); err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	for name, change := range map[string]func(dir string) error{
		"as it should be": func(string) error { return nil },
		"a new one":       os.RemoveAll,
		"others read it":  func(dir string) error { return os.Chmod(dir, 0o755) },
		"its group reads the history": func(dir string) error {
			return os.Chmod(filepath.Join(dir, "history.db"), 0o640)
		},
		"others list the log": func(dir string) error { return os.Chmod(filepath.Join(dir, "raft"), 0o705) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := newDir(t)
			if err := change(dir); err != nil {
				t.Fatal(err)
			}
			if err := checkDataDir(dir, quiet); err != nil {
				t.Error(err)
			}
			modes(t, dir)
		})
	}
	for name, test := range map[string]struct {
		change func(dir string) error
		says   string
	}{
		"others write it":          {func(dir string) error { return os.Chmod(dir, 0o777) }, "chmod -R go="},
		"its group writes the log": {func(dir string) error { return os.Chmod(filepath.Join(dir, "raft"), 0o770) }, "chmod"},
		"the history of another account": {func(dir string) error {
			return os.Lchown(filepath.Join(dir, "history.db"), 65534, 65534)
		}, "chown -R"},
		"a directory of another account": {func(dir string) error { return os.Lchown(dir, 65534, 65534) }, "chown -R"},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Geteuid() != 0 {
				t.Skip("needs root")
			}
			dir := newDir(t)
			if err := test.change(dir); err != nil {
				t.Fatal(err)
			}
			if err := checkDataDir(dir, quiet); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestModesOfARunningController: what a controller makes is for its own account alone, with any
// umask.
func TestModesOfARunningController(t *testing.T) {
	s := start(t, controller(t, "c1"))
	s.ready()
	if _, err := s.client(user(1000)).Submit(t.Context(), "", job("a")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".", "history.db", "history.db-wal", "raft", "peers.json", "format"} {
		info, err := os.Stat(filepath.Join(s.cfg.DataDir, name))
		if os.IsNotExist(err) && (name == "peers.json" || name == "history.db-wal") {
			continue
		}
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}
