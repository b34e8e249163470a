package container

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestImagesOfOthers notices an image that another user could have written.
func TestImagesOfOthers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "image")
	write := func() {
		t.Helper()
		if err := os.Mkdir(PartOfImage(dir), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(PartOfImage(dir), "core.img"), []byte("core"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := FinishImage(dir, Criu{Version: "4.1.1"}); err != nil {
			t.Fatal(err)
		}
	}
	write()
	if s, err := ReadSaved(dir); err != nil || s.Bytes() != 4 || s.Criu != "4.1.1" || s.Kernel == "" {
		t.Errorf("%+v, %v", s, err)
	}
	for what, spoil := range map[string]func() error{
		"anyone may write":  func() error { return os.Chmod(dir, 0o707) },
		"a group may write": func() error { return os.Chmod(dir, 0o770) },
		"a link":            func() error { return os.Symlink(PartOfImage(dir), dir) },
		"a file":            func() error { return os.WriteFile(dir, nil, 0o600) },
	} {
		if strings.HasPrefix(what, "a link") || strings.HasPrefix(what, "a file") {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadSaved(dir); err == nil || !strings.Contains(err.Error(), "only user") {
			t.Errorf("%s: %v", what, err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		write()
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, 23456, 23456); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadSaved(dir); err == nil {
			t.Error("it is another user's")
		}
	}
}
