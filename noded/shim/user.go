package shim

import (
	"os"
	"runtime"

	"github.com/rota-hpc/rota/noded/container"
)

// actAs gives this thread alone the rights of u in the file system and then runs jobs. The thread is never used for anything else:
// the goroutine does not unlock it.
func actAs(u container.User, jobs <-chan func(), ready chan<- error) {
	runtime.LockOSThread()
	if os.Geteuid() == 0 {
		if err := u.TakeRights(); err != nil {
			ready <- err
			return
		}
	}
	ready <- nil
	for job := range jobs {
		job()
	}
}
