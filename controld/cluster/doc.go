// Package cluster is Rota's replicated state machine: the jobs, nodes and reservations of a cluster, and how each command
// of the log changes them.
//
// It is pure. [State.Apply] depends only on the state and the entry, so every replica that applies the same log holds the
// same state; time comes in with the entry's stamp. Values are replaced and never changed, so a [View] can be read without
// locks, by any number of readers, for any time. [State.Check] reports invariants that do not hold.
//
// A parent job is an array job, or a job whose groups run one by one. It runs nothing itself: its children, array tasks or
// group jobs, do.
package cluster
