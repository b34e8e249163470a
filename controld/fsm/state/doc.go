// Package state is what a replica holds: jobs, nodes, reservations, usage and idempotency keys, and
// the indexes that follow from them.
//
// Values are replaced and never changed, so that a [View] can be read without locks, by any number
// of readers, for any time. [State.Check] reports invariants that do not hold; an [Auditor] does so
// after each command in time that goes by the size of the change.
package state
