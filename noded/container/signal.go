package container

import "golang.org/x/sys/unix"

// SignalNumber reads a name such as SIGUSR1. Job files are checked when they are submitted, so that another name means a job from
// a later version: it is asked to end in the usual way.
func SignalNumber(name string) int {
	if n := unix.SignalNum(name); n != 0 {
		return int(n)
	}
	return int(unix.SIGTERM)
}
