package submit

import (
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/rota-hpc/rota/cmd/rota/command"
)

// warnOfInput says that what waits in standard input reaches no job, and reports whether there is any.
func warnOfInput(env *command.Env) bool {
	f := env.PipedInput()
	if f == nil {
		return false
	}
	waiting, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCINQ) // of a file, what follows where it stands
	if err != nil || waiting <= 0 {
		return false
	}
	fmt.Fprintln(env.Stderr, "rota: warning: standard input is not passed to the command: write the data to a file on a shared path")
	return true
}

// unread reports whether nobody can read any more what is written to standard output or standard error.
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
