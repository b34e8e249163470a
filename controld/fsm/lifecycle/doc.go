// Package lifecycle decides what the end of a worker or of an attempt means for its job: the cause,
// the signal and the grace of a stop, and whether and when the job tries again.
package lifecycle
