package command

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// SignalName returns the whole name of a signal that is written as USR1, SIGUSR1 or 10. It returns
// another text as it is, in capitals.
func SignalName(text string) string {
	if n, err := strconv.Atoi(text); err == nil {
		if name := unix.SignalName(unix.Signal(n)); name != "" {
			return name
		}
		return text
	}
	return "SIG" + strings.TrimPrefix(strings.ToUpper(text), "SIG")
}
