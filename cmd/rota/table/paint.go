package table

import (
	"strings"

	"github.com/rota-hpc/rota/controld/model"
)

// Paint is a colour of a terminal.
type Paint string

// Colours, by what they mean. Each is one of the eight that every terminal has, so that themes apply.
const (
	Plain   Paint = ""
	Good    Paint = "32" // green: it runs, or went well
	Moving  Paint = "36" // cyan: it is between two states
	Waiting Paint = "33" // yellow: it waits, or was stopped on purpose
	Bad     Paint = "31" // red: it failed
	Dim     Paint = "2"
)

// On returns a text in the colour.
func (p Paint) On(text string) string {
	if p == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(p) + "m" + text + "\x1b[0m"
}

// Of returns a text in the colour if the screen has colours.
func (s Screen) Of(p Paint, text string) string {
	if !s.Colour {
		return text
	}
	return p.On(text)
}

// Room returns how many columns remain to the right of a column, 0 for no limit.
func (s Screen) Room(column int) int {
	if s.Width == 0 {
		return 0
	}
	return max(1, s.Width-column)
}

// StateOf returns the colour for the state of a job, in letters or as a word, or of a node.
func StateOf(state string) Paint {
	switch model.JobState(state) {
	case model.Running, model.Completed:
		return Good
	case model.Configuring, model.Completing, model.Checkpointing:
		return Moving
	case model.Pending, model.Suspended, model.Cancelled, model.Preempted:
		return Waiting
	case model.Failed, model.TimedOut, model.OutOfMemory, model.NodeFailed, model.BootFailed, model.PastDue:
		return Bad
	}
	switch state {
	case "RUNNING", "COMPLETED", "idle", "mix", "alloc", "valid":
		return Good
	case "CONFIGURING", "COMPLETING", "CHECKPOINTING", "drng":
		return Moving
	case "PENDING", "SUSPENDED", "CANCELLED", "PREEMPTED", "drain", "expired":
		return Waiting
	case "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "down", "revoked":
		return Bad
	}
	return Plain
}

// ExitOf returns the colour for an exit code and a signal, as 0:9.
func ExitOf(code string) Paint {
	if code == "" || code == "-" || code == "0:0" || strings.HasPrefix(code, "0:0 ") {
		return Plain
	}
	return Bad
}

// CauseOf returns the colour for the cause of an attempt's end.
func CauseOf(cause string) Paint {
	switch model.Cause(cause) {
	case "", "-", model.CauseCompleted:
		return Plain
	case model.CauseFailed, model.CauseTimeout, model.CauseOOM, model.CauseNodeLost, model.CauseLaunch, model.CauseLease:
		return Bad
	}
	return Waiting
}
