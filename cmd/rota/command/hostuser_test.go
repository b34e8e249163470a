package command_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rota-hpc/rota/cmd/rota/command"
)

// TestCanWrite shows where a user can make files.
func TestCanWrite(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "a", "b")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	set := func(outer, inner os.FileMode, uid, gid int) {
		t.Helper()
		err := errors.Join(os.Chmod(filepath.Dir(top), 0o755), os.Chmod(top, 0o755), os.Chmod(filepath.Dir(dir), outer),
			os.Chmod(dir, inner), os.Chown(dir, uid, gid))
		if err != nil {
			t.Skipf("needs root: %v", err)
		}
	}
	other := command.HostUser{UID: "65534", GIDs: []string{"65534", "7"}}
	for _, c := range []struct {
		outer, inner os.FileMode
		uid, gid     int
		want         bool
	}{
		{0o755, 0o757, 0, 0, true}, {0o755, 0o756, 0, 0, false}, {0o700, 0o777, 0, 0, false}, {0o711, 0o703, 0, 0, true},
		{0o755, 0o700, 65534, 0, true}, {0o755, 0o077, 65534, 0, false}, {0o755, 0o770, 0, 7, true},
		{0o755, 0o707, 0, 7, false},
	} {
		set(c.outer, c.inner, c.uid, c.gid)
		if got := other.CanWrite(dir); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
		if !(command.HostUser{UID: "0"}).CanWrite(dir) {
			t.Errorf("%+v: root cannot", c)
		}
	}
	if other.CanWrite(filepath.Join(dir, "none")) {
		t.Error("it can write where nothing is")
	}
}
