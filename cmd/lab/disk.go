package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// diskName is what /proc/mounts shows as the device of a daemon's disk.
const diskName = "rota-lab"

// filler is the file that takes what is left of a disk.
const filler = "filler"

func (d *Daemon) mountDisk(size string) error {
	if err := unix.Mount(diskName, d.Data, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		return fmt.Errorf("mount the disk of %s: %w", d.Name, err)
	}
	return nil
}

// unmountDisk lets go of the disk once nothing uses it.
func (d *Daemon) unmountDisk() error {
	if err := unix.Unmount(d.Data, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("unmount the disk of %s: %w", d.Name, err)
	}
	return nil
}

// Fill leaves no room on the daemon's disk. Only with Options.Disks.
func (d *Daemon) Fill() error {
	f, err := os.Create(filepath.Join(d.Data, filler))
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for len(block) > 0 {
		if _, err = f.Write(block); errors.Is(err, syscall.ENOSPC) {
			block, err = block[:len(block)/16], nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Free undoes Fill.
func (d *Daemon) Free() error {
	if err := os.Remove(filepath.Join(d.Data, filler)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// ReadOnly makes the disk of a daemon that is down read-only. Only with Options.Disks.
func (d *Daemon) ReadOnly() error {
	return unix.Mount(diskName, d.Data, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, "")
}

// Writable undoes ReadOnly.
func (d *Daemon) Writable() error { return unix.Mount(diskName, d.Data, "tmpfs", unix.MS_REMOUNT, "") }

// EmptyDisk takes the log from the disk of a control daemon that is down, as a new disk that only
// has its certificate. Records in the memory of its machine stay.
func (d *Daemon) EmptyDisk() error {
	return errors.Join(os.RemoveAll(filepath.Join(d.Data, "raft")), d.removeHistory())
}

// removeHistory removes the history of finished jobs, which its log makes again.
func (d *Daemon) removeHistory() error {
	files, err := filepath.Glob(filepath.Join(d.Data, "history.db*"))
	for _, f := range files {
		err = errors.Join(err, os.Remove(f))
	}
	return err
}

// KeepDisk copies the log of a control daemon that is down, and OldDisk puts the last copy back.
func (d *Daemon) KeepDisk() error {
	return errors.Join(os.RemoveAll(d.keptDisk()), os.CopyFS(d.keptDisk(), os.DirFS(filepath.Join(d.Data, "raft"))))
}

// OldDisk undoes what was written to the log since KeepDisk.
func (d *Daemon) OldDisk() error {
	raft := filepath.Join(d.Data, "raft")
	if err := errors.Join(os.RemoveAll(raft), os.CopyFS(raft, os.DirFS(d.keptDisk()))); err != nil {
		return err
	}
	return filepath.WalkDir(raft, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return os.Chmod(path, 0o600)
	})
}

func (d *Daemon) keptDisk() string { return d.Data + ".kept" }

// Boot loses what a control daemon that is down keeps in the memory of its machine.
func (d *Daemon) Boot() error {
	err := os.Remove(filepath.Join(filepath.Dir(d.Socket), d.Name+".promises"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
