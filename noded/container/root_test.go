package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// imageOf makes an image with directories, links and files.
func imageOf(t *testing.T) (base, image string) {
	t.Helper()
	base = t.TempDir()
	image = filepath.Join(base, "image")
	err := errors.Join(os.MkdirAll(image+"/usr/lib/there", 0o755), os.MkdirAll(image+"/dev", 0o755),
		os.MkdirAll(image+"/tmp", 0o755), os.MkdirAll(image+"/proc", 0o755), os.Mkdir(base+"/victim", 0o755),
		os.Symlink("usr/lib", image+"/lib"), os.Symlink(base+"/victim", image+"/m"),
		os.Symlink("home/other", image+"/r"), os.WriteFile(image+"/file", nil, 0o644))
	if err != nil {
		t.Fatal(err)
	}
	return base, image
}

// TestTheRootOfAnImage notices a device or a /tmp that comes from an image, and a root in which
// users of the machine may write.
func TestTheRootOfAnImage(t *testing.T) {
	base, image := imageOf(t)
	for range 2 { // it may be called again
		root, err := PrepareImageRoot(base+"/root", image, []string{"/data/in", "/usr/lib/there", "/usrlocal"})
		if err != nil {
			t.Fatal(err)
		}
		if want := []Bind{{image + "/usr", "/usr"}}; !slices.Equal(root.Binds, want) || root.Path != base+"/root" {
			t.Errorf("root %+v", root)
		}
	}
	links := map[string]string{"lib": "usr/lib", "m": base + "/victim", "var/run": "/run", "var/tmp": "/tmp"}
	for path, want := range links {
		if to, err := os.Readlink(filepath.Join(base, "root", path)); err != nil || to != want {
			t.Errorf("%s leads to %q, %v", path, to, err)
		}
	}
	for path, mode := range map[string]os.FileMode{"": 0o755, "tmp": 0o777 | os.ModeSticky, "dev": 0o755, "data/in": 0o755,
		"usrlocal": 0o755} {
		info, err := os.Stat(filepath.Join(base, "root", path))
		if err != nil || info.Mode()&^os.ModeDir != mode {
			t.Errorf("%q: %v, %v", path, info, err)
		}
	}
	if _, err := os.Lstat(base + "/root/file"); err == nil {
		t.Error("a plain file is taken over")
	}
}

// TestLinksOfAnImageLeadNowhere notices links in an image that lead root out of the directory that
// it makes for it.
func TestLinksOfAnImageLeadNowhere(t *testing.T) {
	base, image := imageOf(t)
	for _, target := range []string{"/m/made", "/r/made", "/m", "/lib/made"} {
		_, err := PrepareImageRoot(base+"/root", image, []string{target})
		if err == nil || !strings.Contains(err.Error(), "symbolic link") {
			t.Errorf("target %s: %v", target, err)
		}
	}
	if left, _ := os.ReadDir(base + "/victim"); len(left) != 0 {
		t.Errorf("root made %v where a link led", left)
	}
	if _, err := PrepareImageRoot(base+"/root", image, []string{"/usr/none"}); err == nil ||
		!strings.Contains(err.Error(), "does not exist in "+image+"/usr") {
		t.Errorf("a target that the image lacks: %v", err)
	}
	for path, final := range map[string]bool{base + "/none": true, base + "/none/deep": false, base + "/victim": true} {
		if _, err := PrepareImageRoot(base+"/root", path, nil); err == nil || IsFinal(err) != final {
			t.Errorf("image %s: %v, final %v", path, err, IsFinal(err))
		}
	}
}

// TestAnImageOfManyEntries: an image whose top has very many entries is refused before all are read,
// because each would become a mount.
func TestAnImageOfManyEntries(t *testing.T) {
	image := t.TempDir()
	for i := range maxImageEntries {
		if err := os.Mkdir(filepath.Join(image, fmt.Sprint("d", i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := PrepareImageRoot(filepath.Join(t.TempDir(), "root"), image, nil); err != nil {
		t.Errorf("%d entries: %v", maxImageEntries, err)
	}
	if err := os.Mkdir(filepath.Join(image, "usr"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := PrepareImageRoot(filepath.Join(t.TempDir(), "root"), image, nil)
	if err == nil || !IsFinal(err) || !strings.Contains(err.Error(), "more than 256 entries") {
		t.Errorf("one more: %v", err)
	}
}

// TestServicesThatStartLater: a container shows the services of the machine that run when it is made,
// also those that were not there when the node daemon started.
func TestServicesThatStartLater(t *testing.T) {
	before := hostServices
	defer func() { hostServices = before }()
	later := filepath.Join(t.TempDir(), "resolve")
	hostServices = []string{later}
	if got := HostServices(); len(got) != 0 {
		t.Errorf("before it runs: %v", got)
	}
	if err := os.Mkdir(later, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := HostServices(); len(got) != 1 || got[0].Source != later || got[0].Target != later {
		t.Errorf("when it runs: %v", got)
	}
}
