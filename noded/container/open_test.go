package container

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOpenAs shows that a path opens what the user may read, and nothing of the daemon's own: the
// kernel shows some files only to the process itself.
func TestOpenAs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("taking on a user's rights needs root")
	}
	user := &User{UID: 23456, GID: 23457}
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	own, roots, link := filepath.Join(dir, "own"), filepath.Join(dir, "roots"), filepath.Join(dir, "link")
	for path, mode := range map[string]os.FileMode{own: 0o644, roots: 0o600} {
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/proc/self/maps", link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{own: true, roots: false, link: false, "/proc/self/status": false,
		"/dev/null": false} {
		f, err := OpenAs(path, user)
		if (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
		if err == nil {
			f.Close()
		}
	}
}
