// Package lifecycle decides what the end of a worker or of an attempt means for its job. It has the
// causes, signals and graces of stops, and decides whether and when the job tries again.
package lifecycle
