package container

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestImagesThatUsersChange notices an image that is taken for CRIU although its user can change which
// mounts root restores.
func TestImagesThatUsersChange(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make an image of root")
	}
	give := func(path string) error { return os.Lchown(path, 23456, 23456) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for what, spoil := range map[string]func(above, image string) error{
		"":                           func(_, _ string) error { return nil },
		"the user's image":           func(_, image string) error { return give(image) },
		"a writable image":           func(_, image string) error { return os.Chmod(image, 0o777) },
		"a group's image":            func(_, image string) error { return os.Chmod(image, 0o775) },
		"the user's usr":             func(_, image string) error { return give(filepath.Join(image, "usr")) },
		"a link of the user":         func(_, image string) error { return give(filepath.Join(image, "data")) },
		"the user's mount point":     func(_, image string) error { return give(filepath.Join(image, "usr/in")) },
		"the user's directory above": func(above, _ string) error { return give(above) },
		"sticky, but the user's":     func(above, _ string) error { return os.Chmod(above, 0o757) },
	} {
		above := filepath.Join(t.TempDir(), "above")
		image := filepath.Join(above, "image")
		must(os.MkdirAll(filepath.Join(image, "usr/in"), 0o755))
		must(os.Symlink("usr", filepath.Join(image, "data")))
		must(spoil(above, image))
		targets := []string{"/data/x", "/usr/in/deep", "/nowhere"}
		root := Root{Binds: []Bind{{Source: filepath.Join(image, "usr"), Target: "/usr"}}}
		err := CheckImageOfRoot(image, root, targets)
		refused := IsFinal(err) && strings.Contains(err.Error(), "only root can change")
		if what == "" && err != nil || what != "" && !refused {
			t.Errorf("%q: %v", what, err)
		}
		link := filepath.Join(t.TempDir(), "link")
		must(os.Symlink(image, link))
		if err := CheckImageOfRoot(link, root, targets); !IsFinal(err) || !strings.Contains(err.Error(), "is a link") {
			t.Errorf("%q through a link: %v", what, err)
		}
	}
}
