package userfiles

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/shim/shimtest"
)

// TestASwappedMountSourceIsNoticed does what an attacker does: between check and mount it swaps its
// directory for a link to one that it may not read. It notices the planted bug "the swap of a
// mount's source is not noticed", for swaps to another directory, another file system and another
// directory of the same number.
func TestASwappedMountSourceIsNoticed(t *testing.T) {
	base := t.TempDir()
	mine, secret := filepath.Join(base, "mine"), filepath.Join(base, "secret")
	check(t, os.Mkdir(mine, 0o755))
	check(t, os.Mkdir(secret, 0o700))
	// this process stands for the container: it sees at the target what is there after the swap
	g, err := OpenGuards([]container.Guard{{Source: mine}, {Source: mine, Target: mine}}, self())
	check(t, err)
	defer g.Close()
	check(t, g.Verify(os.Getpid()))
	check(t, os.Rename(mine, mine+"-away"))
	check(t, os.Symlink(secret, mine))
	if err := g.Verify(os.Getpid()); err == nil || !strings.Contains(err.Error(),
		mine+" changed while it was being mounted") {
		t.Errorf("a link to a directory of root's: %v", err)
	}
	check(t, os.Remove(mine))
	if err := g.Verify(os.Getpid()); err == nil || !strings.Contains(err.Error(), "open "+mine+" in the container") {
		t.Errorf("a target that is missing: %v", err)
	}
	check(t, os.Rename(mine+"-away", mine))
	check(t, g.Verify(os.Getpid()))
	if err := g.Verify(1 << 23); err == nil || !strings.Contains(err.Error(), "open the container's root") {
		t.Errorf("a container that is gone: %v", err)
	}
	if os.Geteuid() == 0 { // the root of another file system has another number, and may have the same
		check(t, unix.Mount("tmpfs", mine, "tmpfs", 0, "size=64k"))
		defer func() { check(t, unix.Unmount(mine, 0)) }()
		if err := g.Verify(os.Getpid()); err == nil || !strings.Contains(err.Error(), "changed") {
			t.Errorf("another file system: %v", err)
		}
	}
}

// TestTwoFileSystemsHaveEqualNumbers notices a comparison that leaves out the device: the roots of
// two file systems in memory have the same inode number.
func TestTwoFileSystemsHaveEqualNumbers(t *testing.T) {
	needsRoot(t)
	base := t.TempDir()
	for _, name := range []string{"a", "b"} {
		check(t, os.Mkdir(filepath.Join(base, name), 0o755))
		check(t, unix.Mount("tmpfs", filepath.Join(base, name), "tmpfs", 0, "size=64k"))
		defer func() { check(t, unix.Unmount(filepath.Join(base, name), 0)) }()
	}
	var a, b unix.Stat_t
	check(t, unix.Stat(base+"/a", &a))
	check(t, unix.Stat(base+"/b", &b))
	if a.Ino != b.Ino {
		t.Skip("they do not on this kernel")
	}
	g, err := OpenGuards([]container.Guard{{Source: base + "/a", Target: base + "/b"}}, self())
	check(t, err)
	defer g.Close()
	if err := g.Verify(os.Getpid()); err == nil || !strings.Contains(err.Error(), "changed") {
		t.Errorf("got %v", err)
	}
}

// TestALinkInTheContainerDoesNotLeadOut notices RESOLVE_IN_ROOT that is dropped: an absolute link in
// a container would be followed on the host.
func TestALinkInTheContainerDoesNotLeadOut(t *testing.T) {
	host := t.TempDir()
	root := filepath.Join(host, "root")
	source := filepath.Join(host, "data")
	check(t, os.Mkdir(source, 0o755))
	check(t, os.MkdirAll(root+"/to", 0o755))
	check(t, os.Symlink(source, root+"/link"))
	check(t, os.Symlink("/to", root+"/inside"))
	fd, err := unix.Open(root, unix.O_PATH|unix.O_CLOEXEC, 0)
	check(t, err)
	defer func() { _ = unix.Close(fd) }()
	want, err := unix.Open(source, unix.O_PATH|unix.O_CLOEXEC, 0)
	check(t, err)
	defer func() { _ = unix.Close(want) }()
	for target, says := range map[string]string{"/link": "no such file", "/../data": "no such file",
		"/inside": "changed while"} {
		err := checkSame(fd, container.Guard{Source: source, Target: target}, want)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", target, err)
		}
	}
}

// TestGuardsAreOpenedAsTheUser notices sources that are opened as root, ones outside of the shared
// directories, and descriptors that a container could inherit or that are left open.
func TestGuardsAreOpenedAsTheUser(t *testing.T) {
	needsRoot(t)
	base := openTempDir(t)
	for path, mode := range map[string]os.FileMode{"shared/open": 0o755, "shared/closed/in": 0o755, "shared/noread": 0o711,
		"shared2": 0o755, "else": 0o755} {
		check(t, os.MkdirAll(filepath.Join(base, path), 0o755))
		check(t, os.Chmod(filepath.Join(base, path), mode))
	}
	check(t, os.Chmod(base+"/shared/closed", 0o700))
	check(t, os.WriteFile(base+"/shared/file", nil, 0o644))
	check(t, os.Symlink(base+"/shared2", base+"/shared/out"))
	check(t, os.Symlink(base+"/shared", base+"/alias"))
	below := []string{base + "/none", base + "/alias/"}
	for _, c := range []struct {
		guard container.Guard
		says  string
		final bool
	}{
		{container.Guard{Source: base + "/shared/open", Target: "/x", Below: below}, "", false},
		{container.Guard{Source: base + "/shared", Target: "/x", Below: below}, "", false},
		{container.Guard{Source: base + "/alias/file", Target: "/x", Below: below}, "", false},
		{container.Guard{Source: base + "/shared/noread", Target: "/x"}, "", false}, // only its entries' names are hidden
		{container.Guard{Source: base + "/else", Target: "/x"}, "", false},
		{container.Guard{Source: base + "/shared/closed/in", Target: "/x"}, "permission denied", true},
		{container.Guard{Source: base + "/shared/noread"}, "permission denied", true}, // an image: its entries are read
		{container.Guard{Source: base + "/shared/file"}, "not a directory", true},
		{container.Guard{Source: base + "/shared/out", Target: "/x", Below: below}, "leads to " + base +
			"/shared2, which is not below a shared path (" + base + "/none, " + base + "/alias/)", false},
		{container.Guard{Source: base + "/shared2", Target: "/x", Below: below}, "not below a shared path", false},
	} {
		before := shimtest.OpenFiles(t)
		g, err := OpenGuards([]container.Guard{{Source: base, Target: "/y"}, c.guard}, testUser)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) ||
			container.IsFinal(err) != c.final {
			t.Errorf("%+v: %v", c.guard, err)
		}
		if err == nil {
			for _, fd := range g.fds {
				if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
					t.Errorf("%+v: a container inherits descriptor %d", c.guard, fd)
				}
			}
			g.Close()
		}
		if after := shimtest.OpenFiles(t); after != before {
			t.Errorf("%+v: %d files are open, %d before", c.guard, after, before)
		}
	}
}

func TestNoGuardsNeedNoRights(t *testing.T) {
	g, err := OpenGuards(nil, testUser)
	check(t, err)
	check(t, g.Verify(1<<23))
	g.Close()
}
