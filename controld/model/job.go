// Package model has the plain types that all parts of Rota share, with the rules that follow from
// one value alone. They are jobs and attempts, nodes, reservations, the replicated configuration,
// accounts, reasons and events. It knows neither the state machine (controld/fsm) nor the
// scheduler, so that the command and the node daemon import it without either. Values that are in
// the state never change: the state machine replaces them.
package model

import (
	"cmp"
	"encoding/json"

	"github.com/rota-hpc/rota/jobspec"
)

// JobID numbers jobs from 1 in log order. It is never reused.
type JobID int64

// JobState is where a job is. The letters are Slurm's.
type JobState string

// Hold says by which right a pending job is kept from starting.
type Hold string

// Identity is the user that submitted a job, as the submit host knows it.
type Identity struct {
	UID  uint32   `json:"uid"`
	GID  uint32   `json:"gid"`
	GIDs []uint32 `json:"gids,omitempty"` // supplementary
	User string   `json:"user"`
	Home string   `json:"home,omitempty"`
}

// OptionalUID is the uid of a user, or none, in as little room as a uid takes: there are many jobs.
type OptionalUID uint32 // the uid and one: the greatest number is no user's

// SomeUID is a uid.
func SomeUID(uid uint32) OptionalUID { return OptionalUID(uid + 1) }

// UID returns the uid, nil for none.
func (o OptionalUID) UID() *uint32 {
	if o == 0 {
		return nil
	}
	return new(uint32(o) - 1)
}

// MarshalJSON writes the uid, null for none.
func (o OptionalUID) MarshalJSON() ([]byte, error) { return json.Marshal(o.UID()) }

// UnmarshalJSON reads what MarshalJSON writes.
func (o *OptionalUID) UnmarshalJSON(b []byte) error {
	var uid *uint32
	if err := json.Unmarshal(b, &uid); err != nil {
		return err
	}
	if *o = 0; uid != nil {
		*o = SomeUID(*uid)
	}
	return nil
}

// Counters count what happened to a job, each with its own limit.
type Counters struct {
	TE             int32 `json:"te,omitempty"` // preemptions by cause
	Reclaim        int32 `json:"reclaim,omitempty"`
	Order          int32 `json:"order,omitempty"`
	LaunchFailures int32 `json:"launch_failures,omitempty"`
	NodeLosses     int32 `json:"node_losses,omitempty"`
	UserFailures   int32 `json:"user_failures,omitempty"`
	Requeues       int32 `json:"requeues,omitempty"` // times that the job itself asked to be started again
	Resizes        int32 `json:"resizes,omitempty"`
	Migrations     int32 `json:"migrations,omitempty"`
	// those for a job that came before it count above too
	Suspensions int32 `json:"suspensions,omitempty"`
}

// Ledger is what a job has been charged, in milliseconds of one GPU and of one core held. While it
// is suspended it holds neither: for how long the GPUs that it asks for did without it is apart.
type Ledger struct {
	GPUMS       int64 `json:"gpu_ms"`
	CoreMS      int64 `json:"core_ms"`
	SuspendedMS int64 `json:"suspended_gpu_ms,omitempty"` // milliseconds of one GPU
}

// Job is one job in the state. A *Job never changes once it is stored: Apply replaces it.
type Job struct {
	ID       JobID         `json:"id"`
	Owner    Identity      `json:"owner"`
	Account  string        `json:"account"`
	Queue    string        `json:"queue"`
	Class    jobspec.Class `json:"class"`
	Priority int32         `json:"priority"`
	// SpecBytes is how many bytes its specification counts for, see [MeasureSpec]; 0 of a child.
	SpecBytes int32           `json:"spec_bytes,omitempty"`
	Limit     jobspec.Seconds `json:"limit"` // per attempt
	Spec      *jobspec.Job    `json:"spec"`
	Workers   int             `json:"workers"` // of the gang; of an elastic job see [Job.Size]
	Request   Request         `json:"request"` // of each worker

	State    JobState `json:"state"`
	Hold     Hold     `json:"hold,omitempty"`
	Reason   Reason   `json:"reason,omitzero"` // what is known for good; why it waits now is computed by sched
	Eligible Instant  `json:"eligible"`        // not started before (submission, or back-off after a failure)

	Submitted Stamp     `json:"submitted"`
	Started   Stamp     `json:"started"` // of the first attempt
	Ended     Stamp     `json:"ended"`
	Attempts  []Attempt `json:"attempts,omitempty"` // oldest first; at most MaxAttemptsKept, the live one last
	Attempt   int       `json:"attempt"`            // number of the last attempt, 0 if none
	Exclude   []string  `json:"exclude,omitempty"`  // nodes to avoid after failures there
	// starts that went past it while it was the blocked head; 0 again once it starts
	Bypassed int32 `json:"bypassed,omitempty"`
	// CancelledBy is the user that asked for the cancellation, also of a live job that has not
	// ended yet. For an array it is about elements that had not begun, perhaps about some of them
	// only. None: none has asked.
	CancelledBy OptionalUID `json:"cancelled_by,omitzero"`

	ExitCode int      `json:"exit_code,omitempty"`
	Signal   int      `json:"signal,omitempty"`
	Counters Counters `json:"counters"`
	Ledger   Ledger   `json:"ledger"`
	Seq      int64    `json:"seq,omitempty"` // number in the history once final

	// the parent job it is a child of: an array, or a job whose groups run one by one
	Parent     JobID `json:"parent,omitempty"`
	TaskNumber int   `json:"task,omitempty"` // its number there, from 1; its id is Parent + Member
	// of a parent job that runs nothing itself but through its children
	Children *Children `json:"children,omitempty"`
	// of a gang of several groups, in the order of its workers; nil: one group
	Parts []Part `json:"parts,omitempty"`
	// dependencies that are not met yet; while there are any it does not start
	Dependencies []OpenDependency `json:"dependencies,omitempty"`
	Deadline     Instant          `json:"deadline,omitempty"` // 0: none
	// in place of the comment of its specification, which a family shares; nil: it has not been changed
	Comment *string `json:"comment,omitempty"`

	// Displaced are the instants of the last day at which an attempt of it ended for another job's
	// sake, oldest first.
	Displaced []Instant `json:"displaced,omitempty"`
	// OwnRoomFirst says that the job goes before all of its class until it starts. It was displaced
	// for a job that no longer wanted the room, or it is moving.
	OwnRoomFirst bool `json:"own_room_first,omitempty"`
	// Pruned: it is an array task, and its cancellation was asked for because others are better. Its array is
	// complete without it.
	Pruned bool `json:"pruned,omitempty"`
	// Bounded says which limits of the configuration count it: derived, so not in the snapshot.
	Bounded Bounded `json:"-"`
	// PerCore is for how many millionths of a GPU a core counts if it has no GPUs, as [Job.Worth]
	// says; 0: for a whole one.
	PerCore int32 `json:"per_core,omitempty"`

	// Failures are the ends of attempts that failed by the user's own code within the restart window,
	// oldest first.
	Failures []Instant `json:"failures,omitempty"`

	Modified uint64   `json:"-"` // index of the last change; not in the snapshot
	Texts    *Texts   `json:"-"` // what was taken out of Spec; nil: nothing was
	placing  *placing // what its spec says of where it may run; nil: nothing
}

// Job states. PD, CF, R, S and CG are live; the rest are final.
const (
	Pending     JobState = "PD"
	Configuring JobState = "CF" // assigned; containers are being made
	Running     JobState = "R"
	Suspended   JobState = "S"  // it has paused and keeps its memory, without cores and GPUs
	Completing  JobState = "CG" // asked to stop, or some workers have ended and the others are being stopped
	Completed   JobState = "CD"
	Failed      JobState = "F"
	TimedOut    JobState = "TO"
	OutOfMemory JobState = "OOM"
	Cancelled   JobState = "CA"
	NodeFailed  JobState = "NF"
	BootFailed  JobState = "BF" // could not be launched
	Preempted   JobState = "PR" // had to leave for another job, and must not be started again
	PastDue     JobState = "DL" // its deadline passed, or could not be met any more
)

// States that are only shown.
const (
	// of a job in state [Completing] that saves its state within its grace period: see [Job.Saving]
	Checkpointing JobState = "CK"
)

// Bounded says which limits count a job, so that most jobs need not be asked about.
type Bounded uint8

// Which limits count a job.
const (
	Unbounded      Bounded = iota
	BoundedByOwner         // of its account, or of its user in all queues
	BoundedInQueue         // of its queue, or of its user in the queue; perhaps also of the others
)

// Holds.
const (
	NotHeld     Hold = ""
	HeldByUser  Hold = "user"
	HeldByAdmin Hold = "admin"
	HeldRequeue Hold = "requeue" // exited with 85 unasked too often
	HeldLaunch  Hold = "launch"  // failed to launch too often
	HeldNever   Hold = "never"   // what it depends on can never come, and it is not to be cancelled for that
)

// Steps lists the states that may follow each state, itself left out.
var Steps = map[JobState][]JobState{
	"":      {Pending},
	Pending: {Configuring, Cancelled, PastDue},
	Configuring: {Running, Completing, Pending, Completed, Failed, TimedOut, OutOfMemory, Cancelled, Preempted, NodeFailed,
		BootFailed},
	Running: {Suspended, Completing, Pending, Completed, Failed, TimedOut, OutOfMemory, Cancelled, Preempted,
		NodeFailed},
	Suspended:  {Running, Completing, Pending, Completed, Failed, TimedOut, OutOfMemory, Cancelled, Preempted, NodeFailed},
	Completing: {Pending, Completed, Failed, TimedOut, OutOfMemory, Cancelled, Preempted, NodeFailed, BootFailed},
}

// ParentSteps is steps for parent jobs. They run nothing themselves, so all that can be said of
// them is that they have begun.
var ParentSteps = map[JobState][]JobState{
	"":      {Pending},
	Pending: {Running, Completed, Failed, Cancelled, PastDue},
	Running: {Completed, Failed, Cancelled, PastDue},
}

// Weight is the share of a job in MaxJobs. A parent job counts with all its children, made or not;
// the children themselves count 0.
func (j *Job) Weight() int {
	switch {
	case j.Children != nil:
		return 1 + j.Children.Size
	case j.Parent != 0:
		return 0
	}
	return 1
}

// Final reports whether a job in state s has ended for good.
func (s JobState) Final() bool {
	switch s {
	case Pending, Configuring, Running, Suspended, Completing, Checkpointing:
		return false
	}
	return true
}

// ShownComment returns the comment of a job: the last that it was given, "" for none.
func (j *Job) ShownComment() string {
	if text := cmp.Or(j.Comment, j.Spec.Comment); text != nil {
		return *text
	}
	return ""
}

// Live returns the job's attempt in progress, or nil.
func (j *Job) Live() *Attempt {
	if n := len(j.Attempts); n > 0 && j.Attempts[n-1].Ended.At == 0 {
		return &j.Attempts[n-1]
	}
	return nil
}
