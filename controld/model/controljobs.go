package model

// Verb is what ControlJobs does.
type Verb string

// ControlResult is what became of one id of a ControlJobs.
type ControlResult struct {
	ID  JobID
	Err error // nil, ErrNoJob, ErrNotOwner or ErrWrongState
}

const VerbCancel Verb = "cancel"

const VerbHold Verb = "hold"

const VerbRelease Verb = "release"

const VerbRequeue Verb = "requeue"
