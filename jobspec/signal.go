package jobspec

import "slices"

// Signals are the names of the signals that can ask a program to stop or to save.
var Signals = [...]string{"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGCONT",
	"SIGWINCH", "SIGKILL"}

// signalNumbers are Linux's numbers of [Signals].
var signalNumbers = [len(Signals)]int{15, 2, 1, 3, 10, 12, 14, 18, 28, 9}

// SignalNumber returns the number of one of [Signals]; of another name that of SIGTERM.
func SignalNumber(name string) int {
	return signalNumbers[max(0, slices.Index(Signals[:], name))]
}
