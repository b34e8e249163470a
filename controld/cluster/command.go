package cluster

import "github.com/rota-hpc/rota/jobspec"

// Kind names a command and its version. A kind is never reused or re-interpreted: a new meaning is the next version.
type Kind string

// The commands of this version.
const (
	KindSubmitJobs   Kind = "submit-jobs/1"
	KindControlJobs  Kind = "control-jobs/1"
	KindRegisterNode Kind = "register-node/1"
	KindSetNodeState Kind = "set-node-state/1"
	KindCommitPlan   Kind = "commit-plan/1"
	KindNodeReport   Kind = "node-report/1"
	KindTrimHistory  Kind = "trim-history/1"
	KindSetConfig    Kind = "set-config/1"
)

// Command is one of the closed set of commands in this file.
type Command interface{ Kind() Kind }

// Entry is a command with the leader's stamp: one proposal.
type Entry struct {
	Stamp
	Command Command
}

// SubmitJobs adds pending jobs, all or none. With a Key it is idempotent for (Owner.UID, Key): the same Digest again returns the
// same ids, another Digest is refused with ErrKeyReused. Keys are kept 24 h or the last million. Its result is []JobID: the id of an
// array job or pipeline is followed by those of its tasks.
type SubmitJobs struct {
	Owner  Identity       `json:"owner"`
	Key    string         `json:"key,omitempty"`
	Digest string         `json:"digest,omitempty"` // of the request body
	Jobs   []*jobspec.Job `json:"jobs"`             // defaults filled in
	Facts  []Fact         `json:"facts,omitempty"`
	Admin  bool           `json:"admin,omitempty"` // an operator: may depend on any account's jobs
}

// Fact is what the history says of a job that another depends on and the state may no longer have.
type Fact struct {
	ID      JobID    `json:"id"`
	Code    int      `json:"code,omitempty"` // exit code
	Ended   JobState `json:"ended,omitempty"`
	UID     uint32   `json:"uid,omitempty"`     // of its owner
	Missing bool     `json:"missing,omitempty"` // the history has no such job either
}

// Verb is what ControlJobs does.
type Verb string

// Verbs.
const (
	VerbCancel  Verb = "cancel"
	VerbHold    Verb = "hold"
	VerbRelease Verb = "release"
	VerbRequeue Verb = "requeue"
)

// ControlJobs applies a verb to jobs, and to single members of records. Its result is []ControlResult, one for each target; one refusal
// does not stop the rest.
type ControlJobs struct {
	Verb    Verb     `json:"verb"`
	Targets []Target `json:"targets"`
	By      uint32   `json:"by"`    // uid of who asked
	Admin   bool     `json:"admin"` // an operator or root: may act on anyone's jobs
	Reason  string   `json:"reason,omitempty"`
	Signal  string   `json:"signal,omitempty"` // of cancel: in place of the one that the job says
}

// Target is a job, or some members of a record.
type Target struct {
	ID      JobID  `json:"id"`
	Members Ranges `json:"members,omitempty"` // by number, from 1; none: the job itself and with a record all its members
}

// ControlResult is what became of one id of a ControlJobs.
type ControlResult struct {
	ID  JobID
	Err error // nil, ErrNoJob, ErrNotOwner or ErrWrongState
}

// RegisterNode adds a node or renews its inventory. A boot id other than the last ends, as node-lost, every attempt that the
// old boot ran.
type RegisterNode struct {
	Node Node `json:"node"` // State, Reason and Since are ignored
}

// SetNodeState marks a node up, down or drained. If BootID is set it is refused when the node has registered anew since.
type SetNodeState struct {
	Node   string    `json:"node"`
	BootID string    `json:"boot_id,omitempty"`
	State  NodeState `json:"state"`
	Reason string    `json:"reason,omitempty"`
}

// CommitPlan carries out what a scheduling cycle decided. Each action is checked against the present state with the same Fits that
// decided; one that no longer holds is refused alone, a gang whole. Its result is []error, one for each action.
type CommitPlan struct {
	BasedOn uint64   `json:"based_on"` // index of the view
	Actions []Action `json:"actions"`
	Turns   bool     `json:"turns,omitempty"` // the cycle has looked whose turn it is among best-effort jobs
}

// Action is one decision: exactly one field is set.
type Action struct {
	Start     *StartJob    `json:"start,omitempty"`
	Stop      *StopJob     `json:"stop,omitempty"`
	End       *EndAttempt  `json:"end,omitempty"`
	Reserve   *Reservation `json:"reserve,omitempty"`
	Unreserve *JobID       `json:"unreserve,omitempty"`
	// GiveUp ends a waiting job that can no longer end by its deadline.
	GiveUp *JobID `json:"give_up,omitempty"`
	// Settle goes on with what follows from jobs that have ended, see View.Unsettled. Every entry does; this is for when there is no other.
	Settle bool `json:"settle,omitempty"`
	// Resize gives an elastic job another number of workers.
	Resize *ResizeJob `json:"resize,omitempty"`
}

// StartJob begins a new attempt of a pending job with a worker at each place, in order. An elastic job takes as many as it gets places for.
type StartJob struct {
	Job    JobID   `json:"job"`
	Member int     `json:"member,omitempty"` // the member to make, Job being its record
	Places []Place `json:"places"`
	Port   int     `json:"port"` // MASTER_PORT on the first place's node, free there
	// Past is the blocked head that this start goes past, 0 if none. Apply adds one to its Bypassed if it is still pending, once for
	// all starts of a plan together, so that a long queue is copied once a plan and not once a start.
	Past JobID `json:"past,omitempty"`

	cause Cause // why the attempt before was stopped to begin this one
}

// StopJob asks a live attempt to stop for a cause; the grace follows from the cause and the job (contracts: one table).
type StopJob struct {
	Job     JobID `json:"job"`
	Attempt int   `json:"attempt"`
	Cause   Cause `json:"cause"`

	// For is the waiting job that gets the room; 0: none. When it does not wait any more the stop is refused.
	For JobID `json:"for,omitempty"`

	// Inexact says that it is not proven that nobody else could have left at less cost. It changes nothing.
	Inexact bool `json:"inexact,omitempty"`
}

// EndAttempt ends an attempt without word from its nodes: they are lost and the lease has run out.
type EndAttempt struct {
	Job     JobID `json:"job"`
	Attempt int   `json:"attempt"`
	Cause   Cause `json:"cause"`
}

// NodeReport says what became of workers on one node. What belongs to an old attempt, or has been said before, changes nothing.
type NodeReport struct {
	Node    string         `json:"node"`
	BootID  string         `json:"boot_id"`
	Workers []WorkerReport `json:"workers"`
}

// WorkerReport is how far one worker has come.
type WorkerReport struct {
	Job      JobID       `json:"job"`
	Attempt  int         `json:"attempt"`
	Worker   int         `json:"worker"`
	State    WorkerState `json:"state"`
	ExitCode int         `json:"exit_code,omitempty"`
	Signal   int         `json:"signal,omitempty"`
	OOM      bool        `json:"oom,omitempty"`
	Lease    bool        `json:"lease,omitempty"` // stopped by its shim because the lease ran out
	Began    bool        `json:"began,omitempty"` // of a failed one: its command may have begun, so that this is no failure to launch
	Message  string      `json:"message,omitempty"`

	// A report with a Policy says that its log policy has found Message in the output, and nothing else.
	Policy string `json:"policy,omitempty"`
	Final  bool   `json:"final,omitempty"` // of a failure to launch: trying again cannot help
	Why    string `json:"why,omitempty"`   // which task ended the worker, if it was no main one

	// Rate is how fast the attempt makes progress, in steps in 1,000 s; 0: nothing is said about it. See [RateAfterMS].
	Rate int64 `json:"rate,omitempty"`
}

// TrimHistory drops finished jobs with Seq <= UpTo, which a majority has stored durably.
type TrimHistory struct {
	UpTo int64 `json:"up_to"`
}

// SetConfig replaces the replicated configuration.
type SetConfig struct {
	Config Config `json:"config"`
}

// Empty reports whether there is nothing in a plan to be carried out or noted.
func (c *CommitPlan) Empty() bool { return len(c.Actions) == 0 && !c.Turns }

// Kind implements Command.

// Kind implements Command.
func (SubmitJobs) Kind() Kind   { return KindSubmitJobs }
func (ControlJobs) Kind() Kind  { return KindControlJobs }
func (RegisterNode) Kind() Kind { return KindRegisterNode }
func (SetNodeState) Kind() Kind { return KindSetNodeState }
func (CommitPlan) Kind() Kind   { return KindCommitPlan }
func (NodeReport) Kind() Kind   { return KindNodeReport }
func (TrimHistory) Kind() Kind  { return KindTrimHistory }
func (SetConfig) Kind() Kind    { return KindSetConfig }
