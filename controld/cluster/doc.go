// Package cluster is Rota's replicated state machine: what jobs, nodes and reservations there are, and how each command of the log
// changes them.
//
// It is pure. [State.Apply] depends on nothing but the state and the entry, so every replica that applies the same log holds the
// same state; time comes in with the entry's stamp. Values are replaced and never changed, so a [View] can be read without locks by
// anyone for as long as they like. [State.Check] says whether the invariants hold.
package cluster
