package introspect

import "github.com/rota-hpc/rota/controld/model"

// Tunables are the numbers that steer how jobs share nodes.
type Tunables struct {
	// TurnsEvery, in ms: turns end at whole multiples of it. Reason: one entry of the log has the turns
	// of all nodes. Evidence: none measured; a turn of 60 s becomes 65 s at most.
	TurnsEvery model.Instant
	// AdmittedOfGroup, in jobs: for so many jobs that are alike a cycle looks for a node at most.
	// Reason: it bounds a cycle. Evidence: none needed; the next cycle goes on.
	AdmittedOfGroup int
	// WorthTrying, in thousandths of the rate in turns: from which expected gain on jobs are tried on one
	// GPU. Reason: expectation is an upper bound, and each trial that fails costs a suspension. Evidence:
	// in Gandiva's table 1 pairs below it lose.
	WorthTrying int64
	// SplitBelow, in thousandths of its rate alone: a job that runs more slowly beside others leaves them
	// for a GPU that comes free. Reason: below it the move is paid back within a turn or two. Evidence:
	// none measured.
	SplitBelow int64
}

// tunables are the values in use. They never change.
var tunables = Tunables{TurnsEvery: 5_000, AdmittedOfGroup: 64, WorthTrying: 1200, SplitBelow: 900}
