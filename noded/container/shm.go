package container

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// MountShm mounts, for the tasks of the worker in dir, a directory in memory of the given size in bytes. What lies in it counts as memory of
// whoever wrote it.
func MountShm(dir string, size int64) error {
	if err := UnmountShm(dir); err != nil { // of a shim that was killed while it made the same worker
		return err
	}
	options := fmt.Sprintf("mode=1777,size=%d", max(size, 1<<20))
	if err := unix.Mount("tmpfs", ShmDir(dir), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options); err != nil {
		return fmt.Errorf("mount /dev/shm of the tasks: %w", err)
	}
	return nil
}

// UnmountShm takes back what MountShm did, if it did. What still uses the mount keeps it until it ends.
func UnmountShm(dir string) error {
	err := unix.Unmount(ShmDir(dir), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err == nil || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EPERM) {
		return nil // nothing is mounted there, or without root nothing ever was
	}
	return fmt.Errorf("unmount /dev/shm of the tasks: %w", err)
}
