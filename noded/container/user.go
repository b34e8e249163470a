package container

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TakeRights gives the calling thread alone the rights of u in the file system. The goroutine must
// be locked to the thread and end without unlocking it, because the thread never gets its own
// rights back. System calls are raw, because Go's own change every thread. Capabilities over files
// go with the user id.
func (u User) TakeRights() error {
	gids := append([]uint32{u.GID}, u.GIDs...)
	if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(gids)), uintptr(unsafe.Pointer(&gids[0])),
		0); e != 0 {
		return fmt.Errorf("set the groups of user %d: %w", u.UID, e)
	}
	if err := setFilesystemID(unix.SYS_SETFSGID, u.GID); err != nil {
		return err
	}
	return setFilesystemID(unix.SYS_SETFSUID, u.UID)
}

// setFilesystemID sets a file system id. The call reports no errors, so a second one reads the
// value back.
func setFilesystemID(call uintptr, id uint32) error {
	_, _, _ = unix.RawSyscall(call, uintptr(id), 0, 0)
	if now, _, _ := unix.RawSyscall(call, ^uintptr(0), 0, 0); uint32(now) != id {
		return fmt.Errorf("set the file system id %d: it is still %d", id, now)
	}
	return nil
}

// ErrNotRegular means that a path leads to no regular file.
var ErrNotRegular = errors.New("it is not a regular file")

// CheckRegular refuses a file that is not a regular one. It also refuses files of /proc: the kernel
// shows in them the process that opens them, which is root's.
func CheckRegular(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var fs unix.Statfs_t
	if !info.Mode().IsRegular() || unix.Fstatfs(int(f.Fd()), &fs) != nil || fs.Type == unix.PROC_SUPER_MAGIC {
		return ErrNotRegular
	}
	return nil
}
