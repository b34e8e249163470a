package noded

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setThreadGroups sets the supplementary groups of the calling thread alone. The library function changes every thread.
func setThreadGroups(gids []uint32) error {
	var first unsafe.Pointer
	if len(gids) > 0 {
		first = unsafe.Pointer(&gids[0])
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(gids)), uintptr(first), 0)
	runtime.KeepAlive(gids)
	if errno != 0 {
		return errno
	}
	return nil
}
