package container

import "golang.org/x/sys/unix"

// SignalNumber returns the number of a signal such as SIGUSR1. The names in job files are checked
// when jobs are submitted: an unknown name comes from a later version, and SIGTERM is sent instead.
func SignalNumber(name string) int {
	if n := unix.SignalNum(name); n != 0 {
		return int(n)
	}
	return int(unix.SIGTERM)
}
