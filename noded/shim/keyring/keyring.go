// Package keyring gives containers session keyrings of their own.
package keyring

import (
	"errors"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// Allowed reports whether a container can have a session keyring of its own. The filters of
// system calls that Docker and systemd-nspawn have for their containers refuse that, and a node daemon
// inside of one runs jobs without: the same filter keeps them from every keyring, as it is theirs too.
var Allowed = sync.OnceValue(func() bool {
	err := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends, and its keyring with it
		err <- Join()
	}()
	return !refused(<-err)
})

// Join gives this thread a session keyring of its own, and does with it what a container's
// first process does.
func Join() error {
	ring, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
	if err != nil {
		return err
	}
	_, err = unix.KeyctlString(unix.KEYCTL_DESCRIBE, ring)
	return err
}

// refused reports whether an error says that a system call is not for this process at all. With any
// other error, such as that of a quota, the container fails and says why.
func refused(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSYS)
}
