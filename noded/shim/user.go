package shim

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

// actAs gives this thread alone the rights of u in the file system and then runs jobs. The thread is never used for anything else:
// the goroutine does not unlock it.
func actAs(u container.User, jobs <-chan func(), ready chan<- error) {
	runtime.LockOSThread()
	if os.Geteuid() == 0 {
		if err := takeOn(u); err != nil {
			ready <- err
			return
		}
	}
	ready <- nil
	for job := range jobs {
		job()
	}
}

// takeOn uses raw system calls, because Go's own change every thread. Capabilities over files go with the user id.
func takeOn(u container.User) error {
	gids := append([]uint32{u.GID}, u.GIDs...)
	if _, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(gids)), uintptr(unsafe.Pointer(&gids[0])), 0); e != 0 {
		return fmt.Errorf("take on the user's groups: %w", e)
	}
	if err := takeOnID(unix.SYS_SETFSGID, u.GID); err != nil {
		return err
	}
	return takeOnID(unix.SYS_SETFSUID, u.UID)
}

// takeOnID sets a file system id. The call reports no errors, so a second one reads the value back.
func takeOnID(call uintptr, id uint32) error {
	_, _, _ = unix.RawSyscall(call, uintptr(id), 0, 0)
	if now, _, _ := unix.RawSyscall(call, ^uintptr(0), 0, 0); uint32(now) != id {
		return fmt.Errorf("take on the user's id %d in the file system: it stayed %d", id, now)
	}
	return nil
}
