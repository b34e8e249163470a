package model

import (
	"slices"

	"github.com/rota-hpc/rota/jobspec/convergence"
)

// Cause says why an attempt ended or is being stopped.
type Cause string

// Place is one worker's place: a node and the GPUs on it, by index into [Node.GPUs].
type Place struct {
	Node string `json:"node"`
	GPUs []int  `json:"gpus,omitempty"`
	Port int    `json:"port,omitempty"` // of a worker of a gang of several groups, from its node's range
}

// WorkerState is how far one worker of an attempt has come.
type WorkerState string

// Worker is one instance of a group on one node.
type Worker struct {
	Index int `json:"index"`
	Place
	State    WorkerState `json:"state"`
	Started  Instant     `json:"started,omitempty"` // its command began; 0: never
	Ended    Instant     `json:"ended,omitempty"`   // it became final and gave its room back
	ExitCode int         `json:"exit_code,omitempty"`
	Signal   int         `json:"signal,omitempty"`
	OOM      bool        `json:"oom,omitempty"`     // a process of it was killed for memory
	Lease    bool        `json:"lease,omitempty"`   // stopped by its shim because the lease ran out
	Message  string      `json:"message,omitempty"` // why it could not be launched
	// the last suspension or resumption that it has carried out, see [Switching]
	Switch      int   `json:"switch,omitempty"`
	SuspendedMS int64 `json:"suspended_ms,omitempty"` // for which it was suspended, the present time left out
	Had         []int `json:"had,omitempty"`          // of a suspended one: the GPUs that it has given back

	// of an attempt that is resized while it runs: see [Resizing]
	Joined  int  `json:"joined,omitempty"`  // by which resize it has joined, counted from 1; 0: it began with the attempt
	Leaving bool `json:"leaving,omitempty"` // it was asked to leave while the others go on

	LaunchFinal bool   `json:"launch_final,omitempty"` // it could not be launched, and trying again cannot help
	PortTaken   bool   `json:"port_taken,omitempty"`   // it could not be launched: something else has a port of its node
	Why         string `json:"why,omitempty"`          // what ended it, if that was not its main task
	// Of an exited one. Unbegun: its program was never executed. Own: it ended before it was asked to stop,
	// so that its exit is its program's own.
	Unbegun bool `json:"unbegun,omitempty"`
	Own     bool `json:"own,omitempty"`
	// Finished: its program has said that it is finished. Total: it has reported the last of its steps.
	Finished bool `json:"finished,omitempty"`
	Total    bool `json:"total,omitempty"`
	// all that its node had when it was assigned, if it has the node for itself
	Whole Vector `json:"whole,omitzero"`

	Usage *Usage `json:"usage,omitempty"` // until it ended; nil: nothing is known
}

// Stop is a stop in progress. A stronger one may replace its cause; the clock is never restarted
// (invariant A1).
type Stop struct {
	Cause  Cause   `json:"cause"`
	At     Instant `json:"at"`
	KillAt Instant `json:"kill_at"` // the node kills what is left at this instant
	Signal string  `json:"signal"`
	By     string  `json:"by,omitempty"`
	Reason string  `json:"reason,omitempty"` // in the words of the caller
	Own    bool    `json:"own,omitempty"`    // the job asked to be requeued by itself, as by its exit code
	For    JobID   `json:"for,omitempty"`    // the job that was to get the room
	// the user and the account of that job: the history has them when the job is forgotten
	ForUser    string `json:"for_user,omitempty"`
	ForAccount string `json:"for_account,omitempty"`

	// how the next attempt of an elastic job will begin; nil: it goes back to the queue
	Resize *Resize `json:"resize,omitempty"`
}

// Attempt is one execution of a job. Its number grows by one each time; whatever carries an older
// number is dropped.
type Attempt struct {
	N          int      `json:"n"`
	Assigned   Stamp    `json:"assigned"`
	Started    Stamp    `json:"started"` // zero until every worker runs
	Ended      Stamp    `json:"ended"`
	Workers    []Worker `json:"workers"`
	MasterPort int      `json:"master_port,omitempty"` // on the first worker's node
	Released   bool     `json:"released,omitempty"`    // every worker is created: commands may start
	Stop       *Stop    `json:"stop,omitempty"`

	// Waits says that its containers have no lease: they go on while their nodes are silent. No
	// other attempt begins until the nodes return or are confirmed dead. That is fixed when an
	// attempt begins, because a node that is silent hears of no change.
	Waits bool `json:"waits,omitempty"`

	Resizing *Resizing `json:"resizing,omitempty"` // nil: it was not resized while it ran
	Shrink   *Stop     `json:"shrink,omitempty"`   // of workers that leave while the others go on; nil: none do

	// Early is when it was told that its time limit comes, on the log's clock; 0: it was not. That is
	// done once.
	Early Instant `json:"early,omitempty"`

	Switch *Switching `json:"switch,omitempty"` // nil: it was never suspended
	// how it shares its GPU; nil: it never has
	Packing *Packing `json:"packing,omitempty"`
	Profile *Profile `json:"profile,omitempty"` // nil: not measured yet
	Trials  []Trial  `json:"trials,omitempty"`  // how it shared GPUs, in order, at most [MaxTrials]

	// how far its training has come, as its node says; "": that is not known
	Class      convergence.Class `json:"class,omitempty"`
	ClassSince Instant           `json:"class_since,omitempty"` // on its clock, see [Switching]

	Steps    []Step    `json:"steps,omitempty"`     // that have ended, in that order: at most [MaxSteps] of a job
	LastStep int       `json:"last_step,omitempty"` // the row of the last one, kept or not
	Findings []Finding `json:"findings,omitempty"`  // of log policies, in order
	Cause    Cause     `json:"cause,omitempty"`
	Rule     EndRule   `json:"rule,omitempty"` // by which it ended as it did
	ExitCode int       `json:"exit_code,omitempty"`
	Signal   int       `json:"signal,omitempty"`
	Rate     int64     `json:"rate,omitempty"`  // steps in 1,000 s, measured once; 0: not known
	Rated    Instant   `json:"rated,omitempty"` // when that was
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
	// of a failed one: its command may have begun, so that this is no failure to launch
	Began bool `json:"began,omitempty"`
	// of an exited one: its program was never executed
	Unbegun bool `json:"unbegun,omitempty"`
	// of an exited one: its program has said that it is finished, or has reported the last of its steps
	Finished bool `json:"finished,omitempty"`
	Total    bool `json:"total,omitempty"`
	// of an exited one: it ended before it was asked to stop
	Own     bool   `json:"own,omitempty"`
	Message string `json:"message,omitempty"`

	// A report with a Policy says that its log policy has found Message in the output, and nothing
	// else.
	Policy string `json:"policy,omitempty"`
	Final  bool   `json:"final,omitempty"` // of a failure to launch: trying again cannot help
	Why    string `json:"why,omitempty"`   // what ended the worker, if that was not its main task
	// of a failure to launch: the port of the worker at which something else listens on its node
	PortTaken int `json:"port_taken,omitempty"`

	// Joined is by which resize of the attempt the worker has joined, see [Resizing]; 0: by none
	Joined int `json:"joined,omitempty"`

	// Switch is the last suspension or resumption that the worker has carried out, see [Switching]; 0:
	// nothing is said about it.
	Switch int `json:"switch,omitempty"`
	// Means is by what the worker was paused, and TookMS is for how long it was under way.
	Means  string `json:"means,omitempty"`
	TookMS int64  `json:"took_ms,omitempty"`
	// Unpaused says why the worker goes on although it was to pause under Switch.
	Unpaused string `json:"unpaused,omitempty"`

	// Profile is said once, and Packed each time others come to share the GPU or leave it.
	Profile *Profile    `json:"profile,omitempty"`
	Packed  *PackedRate `json:"packed,omitempty"`

	// Rate is how fast the attempt makes progress, in steps in 1,000 s; 0: nothing is said about it.
	// See [RateAfterMS].
	Rate int64 `json:"rate,omitempty"`

	// Usage is what the worker has used; it is in the report of its end.
	Usage Usage `json:"usage,omitzero"`

	// Class is the progress class that the attempt has come to by its metric; "": nothing is said
	// about it. Worker 0 reports it, and only when it has changed.
	Class convergence.Class `json:"class,omitempty"`
}

// MaxAttemptsKept bounds Job.Attempts; older ones are dropped from the front and live on in the
// counters.
const MaxAttemptsKept = 32

// Causes (contracts: the closed list of the API).
const (
	CauseCompleted Cause = "completed"
	CauseFailed    Cause = "failed"
	CauseTimeout   Cause = "timeout"
	CauseOOM       Cause = "oom"
	CauseCancelled Cause = "cancelled"
	CauseTE        Cause = "te"
	CauseReclaim   Cause = "reclaim"
	CauseOrder     Cause = "order"
	CauseShrink    Cause = "shrink"
	CauseGrow      Cause = "grow"
	CauseDrain     Cause = "drain"
	CauseMigrate   Cause = "migrate"
	CauseNodeLost  Cause = "node-lost"
	CauseLaunch    Cause = "launch"
	CauseLease     Cause = "lease"
	CauseRequeue   Cause = "requeue" // asked for by its owner or an operator
)

// SignalOOM is the signal of a job or a step that ended because the kernel killed one of its
// processes for memory. As in Slurm it is 0:125, whatever the program's exit code.
const SignalOOM = 125

// Worker states, in order.
const (
	WorkerAssigned WorkerState = "assigned"
	WorkerCreated  WorkerState = "created" // its container exists; its command waits for the gang
	WorkerRunning  WorkerState = "running"
	WorkerExited   WorkerState = "exited"
	WorkerFailed   WorkerState = "failed" // could not be launched, or its shim was lost
)

// Succeeded reports whether a final worker did what it was meant to. One whose program was never
// executed, or of which a process was killed for memory, did not, whatever its exit code.
func (w *Worker) Succeeded() bool {
	return w.State == WorkerExited && !w.Unbegun && w.ExitCode == 0 && w.Signal == 0 && !w.OOM && !w.Lease
}

// Killed says what was killed for memory, of an attempt that ended because of that; "": it did not, or no node
// says.
func (a *Attempt) Killed() string {
	if a.Cause != CauseOOM {
		return ""
	}
	for i := range a.Workers {
		if w := &a.Workers[i]; w.OOM && w.Why != "" {
			return w.Why
		}
	}
	for i := range a.Steps { // of a job that srun has made for its step
		if s := &a.Steps[i]; s.OOM && s.Why != "" {
			return s.Why
		}
	}
	return ""
}

// Trouble returns why the rest of a gang must stop after a worker that is not ok.
func (w *Worker) Trouble() Cause {
	switch {
	case w.Lease:
		return CauseLease
	case w.State == WorkerFailed && w.Started == 0:
		return CauseLaunch
	case w.State == WorkerFailed: // its shim died, which the job cannot have caused: the fault is the node's
		return CauseNodeLost
	}
	return CauseFailed
}

// AnyFinal reports whether a worker has ended.
func (a *Attempt) AnyFinal() bool {
	return slices.ContainsFunc(a.Workers, func(w Worker) bool { return w.State.Final() })
}

// NodeCount returns on how many nodes the workers of an attempt are.
func (a *Attempt) NodeCount() int {
	n := 0
	for i := range a.Workers {
		if !slices.ContainsFunc(a.Workers[:i], func(w Worker) bool { return w.Node == a.Workers[i].Node }) {
			n++
		}
	}
	return n
}

// LeftBy returns when the last worker on the node of worker k left. It is 0 if some are still
// there, or if another k stands for the node.
func (a *Attempt) LeftBy(k int) Instant {
	var last Instant
	for i := range a.Workers {
		switch o := &a.Workers[i]; {
		case o.Node != a.Workers[k].Node:
		case i < k || o.Ended == 0:
			return 0
		default:
			last = max(last, o.Ended)
		}
	}
	return last
}

// Final reports whether the worker holds nothing on its node any more.
func (s WorkerState) Final() bool { return s == WorkerExited || s == WorkerFailed }

// Rank orders worker states; both final ones are last.
func Rank(w WorkerState) int {
	switch w {
	case WorkerAssigned:
		return 0
	case WorkerCreated:
		return 1
	case WorkerRunning:
		return 2
	case WorkerExited, WorkerFailed:
		return 3
	}
	return -1
}

// Shares reports whether an earlier worker of the same part is on the node of a worker.
func (j *Job) Shares(at []int, worker int) bool {
	part, number := j.PartOf(worker)
	for k := worker - number; k < worker; k++ {
		if other, _ := j.PartOf(k); other == part && at[k] == at[worker] {
			return true
		}
	}
	return false
}

// Ports returns those that a worker of an attempt holds on its node.
func (a *Attempt) Ports(worker int) []int {
	var ports []int
	if worker == 0 && a.MasterPort != 0 {
		ports = append(ports, a.MasterPort)
	}
	if p := a.Workers[worker].Port; p != 0 {
		ports = append(ports, p)
	}
	return ports
}
