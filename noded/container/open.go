package container

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// OpenAs opens a file with the rights of a user (nil: of this process). So a log path cannot reveal
// a file that the user may not read.
func OpenAs(path string, user *User) (*os.File, error) {
	if user == nil {
		return os.Open(path)
	}
	return AsUser(*user, func() (*os.File, error) {
		return onlyRegular(os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0))
	})
}

// OpenBeneath opens a file below a directory with the rights of a user. No link leads out of the
// directory.
func OpenBeneath(dir, path string, user User) (*os.File, error) {
	return AsUser(user, func() (*os.File, error) {
		root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: dir, Err: err}
		}
		defer func() { _ = unix.Close(root) }() // it was opened only for the lookup
		how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
		fd, err := unix.Openat2(root, path, &how)
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
		return onlyRegular(os.NewFile(uintptr(fd), path), nil)
	})
}

// onlyRegular closes a file that is not a regular one, and returns an error.
func onlyRegular(f *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	if err := CheckRegular(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s cannot be read: %w", f.Name(), err)
	}
	return f, nil
}

// AsUser calls f on a thread of its own that has the rights of a user in the file system. Only root
// can take the rights of others; any other process calls f with its own.
func AsUser[T any](user User, f func() (T, error)) (result T, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine, so that no other gets its rights
		if os.Geteuid() == 0 {
			err = user.TakeRights()
		}
		if err == nil {
			result, err = f()
		}
	}()
	<-done
	return result, err
}
