// Package fsm is Rota's replicated state machine: what each command of the log does to the jobs,
// nodes and reservations of a cluster.
//
// A [Machine] carries commands out on a [state.State]. It is pure: [Machine.Apply] depends only on
// the state and the entry, so every replica that applies the same log holds the same state. Time
// comes in with the entry's stamp.
//
// This package has the commands and the actions of a plan, one file each. Package attempts changes
// attempts of jobs, and package jobs stores jobs with what follows for others.
//
// A parent job is an array job, or a job whose groups run one by one. It runs nothing itself: its
// children, array tasks or group jobs, do.
package fsm
