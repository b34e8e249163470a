package model

// WorkerReport is how far one worker has come.
type WorkerReport struct {
	Job      JobID       `json:"job"`
	Attempt  int         `json:"attempt"`
	Worker   int         `json:"worker"`
	State    WorkerState `json:"state"`
	ExitCode int         `json:"exit_code,omitempty"`
	Signal   int         `json:"signal,omitempty"`
	OOM      bool        `json:"oom,omitempty"`
	Lease    bool        `json:"lease,omitempty"` // stopped by its shim because the lease ran out
	Began    bool        `json:"began,omitempty"` // of a failed one: its command may have begun, so that this is no failure to launch
	Message  string      `json:"message,omitempty"`

	// A report with a Policy says that its log policy has found Message in the output, and nothing else.
	Policy string `json:"policy,omitempty"`
	Final  bool   `json:"final,omitempty"` // of a failure to launch: trying again cannot help
	Why    string `json:"why,omitempty"`   // which task ended the worker, if it was no main one

	// Rate is how fast the attempt makes progress, in steps in 1,000 s; 0: nothing is said about it. See [RateAfterMS].
	Rate int64 `json:"rate,omitempty"`
}

// Rank orders worker states; both final ones are last.
func Rank(w WorkerState) int {
	switch w {
	case WorkerAssigned:
		return 0
	case WorkerCreated:
		return 1
	case WorkerRunning:
		return 2
	case WorkerExited, WorkerFailed:
		return 3
	}
	return -1
}
