package shim

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/noded/container"
)

// serveAsUser gives this thread alone the rights of u in the file system and then runs jobs. The
// thread is never used again: the goroutine does not unlock it.
func serveAsUser(u container.User, jobs <-chan func(), ready chan<- error) {
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

// fileAccess opens and renames files with the rights of an account.
type fileAccess interface {
	open(path string, flags int) (*os.File, error)
	rename(from, to string) error
}

// rootAccess uses the shim's own rights.
type rootAccess struct{}

func (rootAccess) open(path string, flags int) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(path, flags, 0o640)
}

func (rootAccess) rename(from, to string) error { return os.Rename(from, to) }

// userAccess does everything on a thread that has the user's rights in the file system, so that no
// file is written where the user could not write.
type userAccess struct {
	do  chan func()
	err error // the rights could not be taken
}

func newUserAccess(u container.User) userAccess {
	jobs := make(chan func())
	ready := make(chan error)
	go serveAsUser(u, jobs, ready)
	err := <-ready
	return userAccess{jobs, err}
}

func (u userAccess) open(path string, flags int) (f *os.File, err error) {
	if u.err != nil {
		return nil, u.err
	}
	u.run(func() {
		if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
			f, err = os.OpenFile(path, flags|unix.O_NONBLOCK|unix.O_NOCTTY, 0o644)
		}
	})
	if err != nil {
		return nil, err
	}
	if err := container.CheckRegular(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

func (u userAccess) rename(from, to string) (err error) {
	u.run(func() { err = os.Rename(from, to) })
	return err
}

func (u userAccess) run(f func()) {
	done := make(chan struct{})
	u.do <- func() { f(); close(done) }
	<-done
}
