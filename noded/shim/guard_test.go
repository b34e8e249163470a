package shim

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

var myself = container.User{UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}

// TestASwappedMountIsNoticed notices a swap of a mount's source that is not seen: a user changes
// the directory that was checked into another one, or into a link, before root mounts it. The
// container is played by this process, so that what is mounted at a path is the path itself.
func TestASwappedMountIsNoticed(t *testing.T) {
	for name, swap := range map[string]func(source, elsewhere string) error{
		"not at all": func(string, string) error { return nil },
		"a new directory": func(source, _ string) error {
			return errors.Join(os.Rename(source, source+".old"), os.Mkdir(source, 0o755))
		},
		"a link": func(source, elsewhere string) error {
			return errors.Join(os.Remove(source), os.Symlink(elsewhere, source))
		},
		"it is gone": func(source, _ string) error { return os.Remove(source) },
	} {
		dir := t.TempDir()
		kept, source, elsewhere := filepath.Join(dir, "kept"), filepath.Join(dir, "source"), filepath.Join(dir, "other")
		must(t, errors.Join(os.Mkdir(kept, 0o755), os.Mkdir(source, 0o755), os.Mkdir(elsewhere, 0o755)))
		before := descriptors(t)
		g, err := openGuards([]container.Guard{
			{Source: source, Target: source}, {Source: kept, Target: kept}, {Source: source}, // the last is only listed
		}, myself)
		must(t, err)
		must(t, swap(source, elsewhere))
		err = g.verify(os.Getpid())
		switch {
		case name == "not at all" && err != nil:
			t.Errorf("%s: %v", name, err)
		case name == "it is gone" && (err == nil || !strings.Contains(err.Error(), "open "+source)):
			t.Errorf("%s: %v", name, err)
		case strings.HasPrefix(name, "a ") && (err == nil || err.Error() !=
			source+" changed while it was being mounted at "+source):
			t.Errorf("%s: %v", name, err)
		}
		for _, fd := range g.fds {
			if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
				t.Errorf("the container would inherit %d: %x, %v", fd, flags, err)
			}
		}
		g.close()
		if now := descriptors(t); now > before {
			t.Errorf("%s: %d descriptors, before %d", name, now, before)
		}
	}
}

// TestTargetsAreFoundInTheContainersRoot notices a target that is looked up outside: links of the
// container lead within it.
func TestTargetsAreFoundInTheContainersRoot(t *testing.T) {
	root := t.TempDir()
	must(t, errors.Join(os.Mkdir(root+"/real", 0o755), os.Symlink("/real", root+"/link"),
		os.Symlink("../../../real", root+"/up")))
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	source, err := unix.Open(root+"/real", unix.O_PATH|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(source)
	for _, target := range []string{"/real", "/link", "/up", "/../real"} {
		if err := checkSame(fd, container.Guard{Source: "s", Target: target}, source); err != nil {
			t.Errorf("%s: %v", target, err)
		}
	}
	if err := checkSame(fd, container.Guard{Source: "s", Target: "/"}, source); err == nil {
		t.Error("the root is the source")
	}
}

// TestSourcesAreBelowTheirDirectories notices a source that leads out of the shared paths by a
// link, or into a directory whose name only begins like a shared one.
func TestSourcesAreBelowTheirDirectories(t *testing.T) {
	dir := t.TempDir()
	shared, link := filepath.Join(dir, "shared"), filepath.Join(dir, "alias")
	must(t, errors.Join(os.MkdirAll(shared+"/in", 0o755), os.MkdirAll(shared+"2/in", 0o755),
		os.Symlink(shared, link), os.Symlink(shared+"2", shared+"/out"), os.Symlink("in", shared+"/near")))
	before := descriptors(t)
	for source, want := range map[string]bool{
		shared: true, shared + "/in": true, shared + "/near": true, link + "/in": true,
		shared + "2": false, shared + "2/in": false, shared + "/out": false, shared + "/out/in": false, dir: false,
	} {
		for _, below := range [][]string{{"/nowhere", shared}, {link}, {shared + "/"}} {
			g, err := openGuards([]container.Guard{{Source: source, Target: "/m", Below: below}}, myself)
			if (err == nil) != want || err != nil && !strings.Contains(err.Error(), "which is not below") {
				t.Errorf("%s below %v: %v", source, below, err)
			}
			if err == nil {
				g.close()
			}
		}
	}
	// the second one is refused: the first is not kept open
	_, err := openGuards([]container.Guard{{Source: shared}, {Source: dir + "/none"}}, myself)
	if !container.IsFinal(err) || !strings.Contains(err.Error(), "none cannot be used with the rights of the job's user") {
		t.Errorf("a missing source: %v", err)
	}
	if now := descriptors(t); now > before {
		t.Errorf("%d descriptors, before %d", now, before)
	}
	if g, err := openGuards([]container.Guard{{Source: dir, Target: "/m"}}, myself); err != nil {
		t.Errorf("without directories any source is allowed: %v", err)
	} else {
		g.close()
	}
}

// TestSourcesAreOpenedWithTheUsersRights notices a source that only root reaches, and an image
// whose entries the user may not list.
func TestSourcesAreOpenedWithTheUsersRights(t *testing.T) {
	dir := reachable(t)
	locked, closed := filepath.Join(dir, "locked", "in"), filepath.Join(dir, "closed")
	must(t, errors.Join(os.MkdirAll(locked, 0o755), os.Chmod(filepath.Dir(locked), 0o700), os.Mkdir(closed, 0o711)))
	for _, c := range []struct {
		guard container.Guard
		want  bool
	}{
		{container.Guard{Source: locked, Target: "/m"}, false}, {container.Guard{Source: locked}, false},
		{container.Guard{Source: closed}, false}, {container.Guard{Source: closed, Target: "/m"}, true},
		{container.Guard{Source: dir}, true},
	} {
		g, err := openGuards([]container.Guard{c.guard}, other)
		if (err == nil) != c.want || err != nil && !(errors.Is(err, os.ErrPermission) && container.IsFinal(err)) {
			t.Errorf("%+v: %v", c.guard, err)
		}
		if err == nil {
			g.close()
		}
	}
}
