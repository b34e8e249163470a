package container

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFinalAt(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		path string
		err  error
		want bool
	}{
		{filepath.Join(dir, "image"), fs.ErrNotExist, true},
		{filepath.Join(dir, "lost", "image"), unix.ENOENT, false},
		{filepath.Join(dir, "lost", "image"), unix.EACCES, true},
		{dir, unix.ENOTDIR, true},
		{dir, unix.ESTALE, false},
		{dir, unix.EIO, false},
	} {
		err := FinalAt(c.path, fmt.Errorf("%s: %w", c.path, c.err))
		if c.path == dir && onNetwork(c.path) {
			t.Skipf("%s is on a network file system", dir)
		}
		if IsFinal(err) != c.want || IsFinal(fmt.Errorf("wrapped: %w", err)) != c.want {
			t.Errorf("%v is final: %v", err, !c.want)
		}
	}
}

// TestRefusalsOfNetworks: a server that refuses one machine, or all for a while, does not end a job for
// good. What is missing there is missing everywhere.
func TestRefusalsOfNetworks(t *testing.T) {
	for err, final := range map[error]bool{unix.EACCES: false, unix.EPERM: false, unix.ESTALE: false, unix.ENOENT: true} {
		if got := IsFinal(finalAt("/tmp/home", err, true)); got != final {
			t.Errorf("%v on a network is final: %t", err, got)
		}
	}
	for _, path := range []string{"/proc/self", "/proc/no/such/path"} {
		if onNetwork(path) {
			t.Errorf("%s is taken for a network file system", path)
		}
	}
	if !onNetwork("\x00") {
		t.Error("a path that cannot be asked for counts as local")
	}
}
