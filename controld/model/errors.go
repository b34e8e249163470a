package model

import (
	"errors"
	"fmt"

	"github.com/rota-hpc/rota/jobspec"
)

// LimitError says which limit a request exceeds.
type LimitError struct {
	What  string // what is limited, such as "time_limit of a te job in queue default"
	Asked int64
	Max   int64
	Unit  string
}

// Error implements error.
func (e *LimitError) Error() string {
	unit := e.Unit
	if unit == "s" {
		return fmt.Sprintf("%s is %s, at most %s allowed", e.What, jobspec.Seconds(e.Asked), jobspec.Seconds(e.Max))
	}
	if unit != "" {
		unit = " " + unit
	}
	return fmt.Sprintf("%s is %d%s, at most %d%s allowed", e.What, e.Asked, unit, e.Max, unit)
}

// JobError says which job of a submission was refused and why.
type JobError struct {
	Index int // in the submission
	Name  string
	Err   error
}

// Error implements error.
func (e *JobError) Error() string { return fmt.Sprintf("job %q: %v", e.Name, e.Err) }

// Unwrap returns the cause.
func (e *JobError) Unwrap() error { return e.Err }

// SpecError says what in a job's specification cannot be run.
type SpecError struct{ Text string }

// Error implements error.
func (e *SpecError) Error() string { return e.Text }

// FitError says that a job's gang does not fit where the plan put it.
type FitError struct {
	Job    JobID
	Reason Reason
}

// Error implements error.
func (e *FitError) Error() string {
	return fmt.Sprintf("job %d does not fit on node %s: %s", e.Job, e.Reason.Node, e.Reason.Code)
}

// InventoryError says why a node's inventory was refused.
type InventoryError struct{ Node, Text string }

// Error implements error.
func (e *InventoryError) Error() string {
	return fmt.Sprintf("inventory of node %s: %s", e.Node, e.Text)
}

// Unwrap makes it an ErrBadInventory.
func (e *InventoryError) Unwrap() error { return ErrBadInventory }

// Limit returns an error that names a limit which was passed, and nil below it.
func Limit(what string, asked, most int64, unit string) error {
	if asked <= most {
		return nil
	}
	return &LimitError{What: what, Asked: asked, Max: most, Unit: unit}
}

// SecondsLimit is [Limit] for durations in seconds.
func SecondsLimit(what string, asked, most jobspec.Seconds) error {
	return Limit(what, int64(asked), int64(most), "s")
}

// Refusals. A refused command changes nothing, on every replica alike.
var (
	ErrNoJob           = errors.New("no such job")
	ErrNotOwner        = errors.New("only the job's owner or an operator may do this")
	ErrHeldByAdmin     = errors.New("an operator or a coordinator holds the job, and only they can release it")
	ErrWrongState      = errors.New("the job's state does not allow this")
	ErrNoQueue         = errors.New("no such queue")
	ErrKeyReused       = errors.New("this idempotency key came with another request before")
	ErrNoNode          = errors.New("no such node")
	ErrOtherBoot       = errors.New("the node has been booted anew since")
	ErrOtherMachine    = errors.New("another machine has this name and may still run its jobs")
	ErrRunsOnce        = errors.New("the job says that it is never started again (--no-requeue, or requeue = false)")
	ErrOldAttempt      = errors.New("the attempt is over")
	ErrStopping        = errors.New("the attempt is being stopped already")
	ErrCannotSuspend   = errors.New("the job cannot be suspended")
	ErrSwitching       = errors.New("the attempt is being suspended or resumed already")
	ErrCannotPack      = errors.New("the jobs cannot share a GPU")
	ErrNoProfile       = errors.New("nothing is known of how the job uses its GPU")
	ErrTriedBefore     = errors.New("the jobs have shared a GPU before, and it was not worth it")
	ErrNotSuspended    = errors.New("the attempt is not suspended")
	ErrNotWanted       = errors.New("no job waits for the room any more")
	ErrConfigChanged   = errors.New("another version of the configuration is in force by now")
	ErrNoConfigVersion = errors.New("this version of the configuration is not remembered")
	ErrPaused          = errors.New("an operator has paused this part of scheduling, or has it only recorded")
	ErrBadSwitch       = errors.New("there is no such switch of the scheduler, or its reason is too long")
	ErrStillPaused     = errors.New("all scheduling is paused, not this part alone: resume all")
	ErrNotEligible     = errors.New("the job is held or in back-off")
	ErrWrongPlaces     = errors.New("the places do not match what the job asks for")
	ErrPort            = errors.New("the port is in use or outside the node's range")
	ErrAwaitsNode      = errors.New("the job waits for its lost node, which is not confirmed dead")
	ErrNodeNotDown     = errors.New("the node is not down")
	ErrLeaseRunning    = errors.New("a lost node's lease is still running")
	ErrBadClaim        = errors.New("a claim is on an unknown node or more than it has")
	ErrBadVerb         = errors.New("unknown verb")
	ErrBadCause        = errors.New("an attempt cannot be stopped or ended for this cause")
	ErrBadReport       = errors.New("the report cannot be true")
	ErrBadClass        = errors.New("unknown progress class")
	ErrBadInventory    = errors.New("the node's inventory is not valid")
	ErrBadConfig       = errors.New("the configuration is not valid")
	ErrBadAction       = errors.New("an action has exactly one field set")
	ErrBadNodeState    = errors.New("unknown node state")
	ErrNoReservation   = errors.New("the job has no reservation")
	ErrNoTask          = errors.New("the job has no such member")
	ErrMaxParallel     = errors.New("as many members of the array live as max_parallel allows")
	ErrNotPastDue      = errors.New("the job can still end by its deadline, or has none")
	ErrOldIndex        = errors.New("the entry has been applied before")
)

// ErrSnapshot is what every error about the contents of a snapshot wraps.
var ErrSnapshot = errors.New("the snapshot cannot be used")
