package model

// Finding is what a log policy found in the output of a worker: the first time in an attempt.
type Finding struct {
	Policy string `json:"policy"`
	Worker int    `json:"worker"`
	Line   string `json:"line"`
	At     Stamp  `json:"at"`
	Acts   bool   `json:"acts,omitempty"` // it decided what becomes of the attempt
}

// Bounds of what is kept of findings.
const (
	MaxFindings    = 64  // of one attempt
	MaxFindingText = 512 // bytes of the line
)

// Actions of log policies.
const (
	PolicyExclude = "exclude_node" // stop, and start again on other nodes
	PolicyFail    = "fail"         // stop, and do not try again
	PolicyRestart = "restart"      // stop, as after a failure of the job's own, and try again
)

// Text returns the finding in the words of a reason.
func (f *Finding) Text() string { return "log_policy " + f.Policy + ": " + f.Line }

// PolicyCause is why an attempt is stopped by an action, "" if it is not.
func PolicyCause(action string) Cause {
	switch action {
	case PolicyExclude:
		return CauseRequeue
	case PolicyFail, PolicyRestart:
		return CauseFailed
	}
	return ""
}
