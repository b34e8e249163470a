package container

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
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

// TestRefusalsOfDirectories: a directory of this machine that its user may not enter stays closed, and
// what refuses behind an entry that can be found may be on the network.
func TestRefusalsOfDirectories(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can take another user's rights")
	}
	base, err := os.MkdirTemp("/tmp", "rota-final-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	closed := filepath.Join(base, "closed")
	link := filepath.Join(base, "link")
	for _, err := range []error{os.Chmod(base, 0o755), os.MkdirAll(closed+"/in", 0o755), os.Chmod(closed, 0o700),
		os.Symlink(closed+"/in", link)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, final := range map[string]bool{closed + "/in": true, closed + "/in/below": true, closed + "/none": true,
		link: false} {
		_, err := AsUser(User{UID: 65534, GID: 65534}, func() (struct{}, error) {
			_, err := os.Stat(path)
			return struct{}{}, FinalAt(path, err)
		})
		if !errors.Is(err, fs.ErrPermission) || IsFinal(err) != final {
			t.Errorf("%s: %v is final: %t", path, err, IsFinal(err))
		}
	}
}
