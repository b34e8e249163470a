package container

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TakeRights gives the calling thread alone the rights of u in the file system. It never gets its own back: the goroutine has locked it, and
// ends without unlocking it. System calls are raw, because Go's own change every thread. Capabilities over files go with the user id.
func (u User) TakeRights() error {
	gids := append([]uint32{u.GID}, u.GIDs...)
	if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(gids)), uintptr(unsafe.Pointer(&gids[0])), 0); e != 0 {
		return fmt.Errorf("take on the groups of user %d: %w", u.UID, e)
	}
	if err := takeID(unix.SYS_SETFSGID, u.GID); err != nil {
		return err
	}
	return takeID(unix.SYS_SETFSUID, u.UID)
}

// takeID sets a file system id. The call reports no errors, so a second one reads the value back.
func takeID(call uintptr, id uint32) error {
	_, _, _ = unix.RawSyscall(call, uintptr(id), 0, 0)
	if now, _, _ := unix.RawSyscall(call, ^uintptr(0), 0, 0); uint32(now) != id {
		return fmt.Errorf("take on id %d in the file system: it stayed %d", id, now)
	}
	return nil
}
