package container

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// MountShm mounts a directory in memory, of the given size in bytes, for the tasks of the worker in
// dir. Its content counts as memory of the task that wrote it.
func MountShm(dir string, size int64) error {
	if err := UnmountShm(dir); err != nil { // left by a shim that was killed while it created the same worker
		return err
	}
	options := fmt.Sprintf("mode=1777,size=%d", max(size, 1<<20))
	if err := unix.Mount("tmpfs", ShmDir(dir), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC,
		options); err != nil {
		return fmt.Errorf("mount /dev/shm of the tasks: %w", err)
	}
	return nil
}

// UnmountShm undoes MountShm, if that was done. A process that still uses the mount keeps it until
// it ends.
func UnmountShm(dir string) error {
	err := unix.Unmount(ShmDir(dir), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err == nil || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EPERM) {
		return nil // it is not mounted, or without root never was
	}
	return fmt.Errorf("unmount /dev/shm of the tasks: %w", err)
}
