package model

// TrialKind says what was tried with an attempt so that GPUs are used better.
type TrialKind string

// Kinds of trials.
const (
	TrialPack    TrialKind = "pack"    // on one GPU with another job
	TrialMigrate TrialKind = "migrate" // on other nodes
)

// Trial is something that was tried with an attempt, and what that brought. A value is replaced and
// never changed.
type Trial struct {
	What TrialKind `json:"what"`
	With JobID     `json:"with,omitempty"` // the other job of [TrialPack]
	At   Instant   `json:"at"`
	// the new rate of all jobs concerned, in thousandths of their old rate: as the scheduler
	// expected it (0: unknown), and as the nodes measured it (0: not yet)
	Expected int64 `json:"expected,omitempty"`
	Measured int64 `json:"measured,omitempty"`
	Undone   bool  `json:"undone,omitempty"` // it brought nothing, and is not tried again
}

// LeastGain is the rate, in thousandths of the rate before, below which a trial is not repeated.
// Measured rates differ by about as much by themselves.
const LeastGain = 1020

// TrialMemory is for how long, in milliseconds, it is remembered that something has brought
// nothing.
const TrialMemory = 24 * 60 * 60 * 1000

// MaxTrials is how many trials of an attempt are remembered, the last ones.
const MaxTrials = 8
