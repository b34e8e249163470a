package container

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestShmOfTheTasksIsBounded notices a /dev/shm without a size, or in which a program changes its
// user or makes a device.
func TestShmOfTheTasksIsBounded(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := t.TempDir()
	if err := os.Mkdir(ShmDir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = UnmountShm(dir) }()
	for size, want := range map[int64]uint64{0: 1 << 20, 3 << 20: 3 << 20} {
		if err := MountShm(dir, size); err != nil {
			t.Skipf("no tmpfs can be mounted here: %v", err)
		}
		var fs unix.Statfs_t
		if err := unix.Statfs(ShmDir(dir), &fs); err != nil {
			t.Fatal(err)
		}
		const flags = unix.ST_NOSUID | unix.ST_NODEV | unix.ST_NOEXEC
		if got := fs.Blocks * uint64(fs.Bsize); got != want || fs.Flags&flags != flags {
			t.Errorf("%d bytes asked for: %d bytes, flags %x", size, got, fs.Flags)
		}
		if info, err := os.Stat(ShmDir(dir)); err != nil || info.Mode() != os.ModeDir|os.ModeSticky|0o777 {
			t.Errorf("%v, %v", info, err)
		}
	}
	if err := errors.Join(UnmountShm(dir), UnmountShm(dir), os.Remove(ShmDir(dir))); err != nil {
		t.Errorf("it was mounted twice: %v", err)
	}
}

// TestNoMountOfOthersIsUndone notices a link that makes root unmount what it has not mounted.
func TestNoMountOfOthersIsUndone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := t.TempDir()
	victim := dir + "/victim"
	if err := errors.Join(os.Mkdir(victim, 0o755), os.Symlink(victim, ShmDir(dir))); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", victim, "tmpfs", 0, "size=4k"); err != nil {
		t.Skipf("no tmpfs can be mounted here: %v", err)
	}
	if err := UnmountShm(dir); err != nil {
		t.Error(err)
	}
	if err := unix.Unmount(victim, 0); err != nil {
		t.Errorf("it was unmounted: %v", err)
	}
}
