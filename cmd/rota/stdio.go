package main

import (
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// piped returns standard input where something else than a terminal may have been put: a file, a pipe or a socket. Else it is nil.
func (w *world) piped() *os.File {
	f, ok := w.stdin.(*os.File)
	if !ok {
		return nil
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 && !info.Mode().IsRegular() {
		return nil
	}
	return f
}

// warnOfInput says that what waits in standard input reaches no job, and reports whether there is any.
func (w *world) warnOfInput() bool {
	f := w.piped()
	if f == nil {
		return false
	}
	waiting, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCINQ) // of a file, what follows where it stands
	if err != nil || waiting <= 0 {
		return false
	}
	fmt.Fprintln(w.stderr, "rota: warning: what is piped in here does not reach the command, whose standard input is empty: write it to a file that the nodes share")
	return true
}

// unread reports whether nobody can read any more what is written to standard output or standard error.
func (w *world) unread() bool {
	return slices.ContainsFunc([]io.Writer{w.stdout, w.stderr}, func(out io.Writer) (gone bool) {
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
