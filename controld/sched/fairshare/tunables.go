package fairshare

import (
	"github.com/rota-hpc/rota/controld/model"
)

// Tunables are the numbers that steer reclaim. Each has a unit, a reason and its evidence.
type Tunables struct {
	// MaxReclaims, in jobs: room is sought for so many in one cycle; the others wait for the next.
	// Reason: bounds the time of a cycle. Evidence: a round number, chosen without measurement.
	MaxReclaims int
	// ReconsiderMS, in ms: a search that found nothing is made again after so long although nothing
	// has happened. Reason: usage and running times have grown. Evidence: a round number, chosen
	// without measurement.
	ReconsiderMS model.Instant
	// MinRuntimeMS, in ms: a job runs undisturbed for so long, if the policy block does not say. Under
	// policy rota a trial-and-error job may take the room of a job that has run for less, if nothing
	// else helps. Reason: most short jobs end by then. Evidence: cmd/lab/papers.md, "Fair share".
	MinRuntimeMS int64
	// MaxTaken, in jobs: so many leave for one at most. Reason: bounds the time of a cycle.
	// Evidence: a round number, chosen without measurement.
	MaxTaken int
	// GraceWeight, in seconds of lost work: what a second of grace costs. Reason: room that comes
	// late is worth less. Evidence: cmd/lab/papers.md, "The weight s of grace".
	GraceWeight int64
}

// tunables are the values in use. They never change.
var tunables = Tunables{
	MaxReclaims:  32,
	ReconsiderMS: 60_000,
	MinRuntimeMS: 10 * 60 * 1000,
	MaxTaken:     64,
	GraceWeight:  4,
}
