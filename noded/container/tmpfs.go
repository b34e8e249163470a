package container

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// progressSize is how large $ROTA_PROGRESS_FILE may be, in bytes: twice what makes the shim empty it.
// It is memory, which counts as the job's, so that no job can fill the machine's disk.
const progressSize = 128 << 20

// MountProgress gives the bundle in dir a directory in memory for $ROTA_PROGRESS_FILE, with an empty
// file of the user's. Without root the file stays on disk.
func MountProgress(dir string, u User) error {
	if os.Geteuid() != 0 {
		return nil
	}
	at := filepath.Dir(ProgressPath(dir))
	if err := mountTmpfs(at, "mode=755,nr_inodes=8", progressSize, unix.MS_NOEXEC); err != nil {
		return fmt.Errorf("mount the directory of the progress file: %w", err)
	}
	return writeFile(ProgressPath(dir), 0o644, &u, nil)
}

// keptProgress is how much of the end of a progress file stays, in bytes: as much as is ever read of it.
const keptProgress = 1 << 20

// EndProgress undoes MountProgress. The end of the file stays on disk at the same place, for the node
// daemon to read, and the file keeps its size.
func EndProgress(dir string) error {
	path := ProgressPath(dir)
	f, err := os.Open(path)
	if err != nil {
		return unmountTmpfs(filepath.Dir(path))
	}
	defer f.Close()
	var tail []byte
	info, err := f.Stat()
	if err == nil {
		from := max(0, info.Size()-keptProgress)
		tail = make([]byte, info.Size()-from)
		var n int
		if n, err = f.ReadAt(tail, from); errors.Is(err, io.EOF) {
			err = nil
		}
		tail = tail[:n]
		if err = errors.Join(err, unmountTmpfs(filepath.Dir(path))); err == nil {
			err = writeAt(path, tail, from)
		}
	}
	return err
}

// writeAt writes to a place of a file that exists.
func writeAt(path string, b []byte, from int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, from)
	return errors.Join(err, f.Close())
}

// unmountProgress undoes MountProgress for the bundles of a worker.
func unmountProgress(dir string) error {
	tasks, _ := filepath.Glob(filepath.Join(dir, taskDir, "*")) // the pattern is well formed
	var errs []error
	for _, d := range append(tasks, dir) {
		errs = append(errs, unmountTmpfs(filepath.Dir(ProgressPath(d))))
	}
	return errors.Join(errs...)
}

// MountShm mounts a directory in memory, of the given size in bytes, for the tasks of the worker in
// dir. Its content counts as memory of the task that wrote it.
func MountShm(dir string, size int64) error {
	if err := mountTmpfs(ShmDir(dir), "mode=1777", size, unix.MS_NOEXEC); err != nil {
		return fmt.Errorf("mount /dev/shm of the tasks: %w", err)
	}
	return nil
}

// UnmountShm undoes MountShm, if that was done.
func UnmountShm(dir string) error { return unmountTmpfs(ShmDir(dir)) }

// MountTmp mounts a directory in memory, of the given size in bytes, as /tmp of the worker in dir and
// its steps.
func MountTmp(dir string, size int64) error {
	if err := mountTmpfs(TmpDir(dir), "mode=1777", size, 0); err != nil {
		return fmt.Errorf("mount /tmp of the steps: %w", err)
	}
	return nil
}

// UnmountTmp undoes MountTmp, if that was done.
func UnmountTmp(dir string) error { return unmountTmpfs(TmpDir(dir)) }

// mountTmpfs mounts a directory in memory of so many bytes. It replaces the one of a shim that was
// killed while it created the same worker.
func mountTmpfs(at, options string, size int64, flags uintptr) error {
	if err := unmountTmpfs(at); err != nil {
		return err
	}
	return unix.Mount("tmpfs", at, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|flags,
		fmt.Sprintf("%s,size=%d", options, max(size, 1<<20)))
}

// unmountTmpfs undoes mountTmpfs, if that was done. A process that still uses the mount keeps it
// until it ends.
func unmountTmpfs(at string) error {
	err := unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err == nil || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EPERM) {
		return nil // it is not mounted, or without root never was
	}
	return fmt.Errorf("unmount %s: %w", at, err)
}
