package submit

import (
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/cmd/rota/command"
)

// warnOfInput warns if standard input has data, which no job gets. It reports whether it does.
func warnOfInput(env *command.Env) bool {
	f := env.PipedInput()
	if f == nil {
		return false
	}
	waiting, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCINQ) // for a file, the bytes after the current offset
	if err != nil || waiting <= 0 {
		return false
	}
	env.Notef("warning: standard input is not passed to the command: write the data to a file on " +
		"a shared path")
	return true
}

// unread reports whether the reader of standard output or standard error has closed it.
func unread(env *command.Env) bool {
	return slices.ContainsFunc([]io.Writer{env.Stdout, env.Stderr}, func(out io.Writer) (gone bool) {
		f, ok := out.(*os.File)
		if !ok {
			return false
		}
		c, err := f.SyscallConn()
		if err == nil {
			err = c.Control(func(fd uintptr) {
				state := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
				_, failed := unix.Poll(state, 0)
				gone = failed == nil && state[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
			})
		}
		return err == nil && gone
	})
}
