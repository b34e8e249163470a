package model

// Verb is what ControlJobs does.
type Verb string

// ControlResult is what became of one id of a ControlJobs.
type ControlResult struct {
	ID  JobID
	Err error // nil, ErrNoJob, ErrNotOwner or ErrWrongState
}

// Verbs.
const (
	VerbCancel  Verb = "cancel"
	VerbHold    Verb = "hold"
	VerbRelease Verb = "release"
	VerbRequeue Verb = "requeue"
)
