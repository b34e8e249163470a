package model

import (
	"slices"

	"github.com/rota-hpc/rota/jobspec/convergence"
	"github.com/rota-hpc/rota/jobspec/lossy"
)

// Cause says why an attempt ended or is being stopped.
type Cause string

// Place is the place of one worker: a node and GPUs on it, as indices into [Node.GPUs].
type Place struct {
	Node string `json:"node"`
	GPUs []int  `json:"gpus,omitempty"`
	Port int    `json:"port,omitempty"` // for a worker in a gang of several groups: a port of its node's range
}

// WorkerState is how far a worker of an attempt has come.
type WorkerState string

// Worker is one instance of a group on one node.
type Worker struct {
	Index int `json:"index"`
	Place
	State    WorkerState `json:"state"`
	Started  Instant     `json:"started,omitempty"` // time at which its command started; 0: never
	Ended    Instant     `json:"ended,omitempty"`   // time at which it became final and released its resources
	ExitCode int         `json:"exit_code,omitempty"`
	Signal   int         `json:"signal,omitempty"`
	OOM      bool        `json:"oom,omitempty"`     // one of its processes was killed for memory
	Lease    bool        `json:"lease,omitempty"`   // stopped by its shim because the lease ran out
	Message  string      `json:"message,omitempty"` // launch error
	// number of the last suspension or resumption that it carried out, see [Switching]
	Switch      int   `json:"switch,omitempty"`
	SuspendedMS int64 `json:"suspended_ms,omitempty"` // ms of earlier suspensions, without a current one
	Had         []int `json:"had,omitempty"`          // while it is suspended: the GPUs that it released

	// for an attempt that is resized while it runs: see [Resizing]
	Joined  int  `json:"joined,omitempty"`  // resize by which it joined, from 1; 0: it started with the attempt
	Leaving bool `json:"leaving,omitempty"` // it was told to leave while the others continue

	LaunchFinal bool   `json:"launch_final,omitempty"` // the launch failed, and a retry cannot help
	PortTaken   bool   `json:"port_taken,omitempty"`   // the launch failed because another program uses its port
	Why         string `json:"why,omitempty"`          // what ended it, unless its main task did
	// For an exited worker. Unbegun: its program never started. Own: it exited before it was told
	// to stop, so the exit is its program's own.
	Unbegun bool `json:"unbegun,omitempty"`
	Own     bool `json:"own,omitempty"`
	// Finished: its program has reported that it is finished. Total: it has reported the last step.
	Finished bool `json:"finished,omitempty"`
	Total    bool `json:"total,omitempty"`
	// everything that its node had at the assignment, if it has the node to itself
	Whole Vector `json:"whole,omitzero"`

	Usage *Usage `json:"usage,omitempty"` // usage until its end; nil: unknown
	// output that could not be written, exact after its end; nil: none
	OutputLost *lossy.Loss `json:"output_lost,omitempty"`
}

// Stop is a stop in progress. A stronger cause may replace the current one; the clock never
// restarts (invariant A1).
type Stop struct {
	Cause  Cause   `json:"cause"`
	At     Instant `json:"at"`
	KillAt Instant `json:"kill_at"` // the node kills all remaining processes at this time
	Signal string  `json:"signal"`
	By     string  `json:"by,omitempty"`
	Reason string  `json:"reason,omitempty"` // in the caller's words
	Own    bool    `json:"own,omitempty"`    // the job itself requested the requeue, for example by its exit code
	For    JobID   `json:"for,omitempty"`    // the job that was to get the resources
	// user and account of that job, because the history needs them after the job is forgotten
	ForUser    string `json:"for_user,omitempty"`
	ForAccount string `json:"for_account,omitempty"`

	// start of an elastic job's next attempt; nil: the job returns to the queue
	Resize *Resize `json:"resize,omitempty"`
}

// Attempt is one execution of a job. Its number grows by one each time; messages with an older
// number are dropped.
type Attempt struct {
	N          int      `json:"n"`
	Assigned   Stamp    `json:"assigned"`
	Started    Stamp    `json:"started"` // zero until every worker runs
	Ended      Stamp    `json:"ended"`
	Workers    []Worker `json:"workers"`
	MasterPort int      `json:"master_port,omitempty"` // port on the first worker's node
	Released   bool     `json:"released,omitempty"`    // every container exists, so commands may start
	Stop       *Stop    `json:"stop,omitempty"`

	// Waits means that its containers have no lease: they keep running while their nodes are
	// silent. No other attempt starts until the nodes return or are confirmed dead. Waits is fixed
	// at the start of an attempt, because a silent node does not learn of a change.
	Waits bool `json:"waits,omitempty"`

	Resizing *Resizing `json:"resizing,omitempty"` // nil: never resized while it ran
	Shrink   *Stop     `json:"shrink,omitempty"`   // stop of workers that leave while the others continue; nil: none

	// Early is when it was told that its time limit is near, on the log's clock; 0: not told. It is
	// told at most once.
	Early Instant `json:"early,omitempty"`

	Switch *Switching `json:"switch,omitempty"` // nil: never suspended
	// how it shares its GPU; nil: it never shared
	Packing *Packing `json:"packing,omitempty"`
	Profile *Profile `json:"profile,omitempty"` // nil: not measured yet
	Trials  []Trial  `json:"trials,omitempty"`  // how it has shared GPUs, in order, at most [MaxTrials]

	// training progress as reported by its node; "": unknown
	Class      convergence.Class `json:"class,omitempty"`
	ClassSince Instant           `json:"class_since,omitempty"` // on its clock, see [Switching]

	Steps    []Step    `json:"steps,omitempty"`     // ended steps, in the order of their ends: at most [MaxSteps] per job
	LastStep int       `json:"last_step,omitempty"` // row of the last step, kept or not
	Findings []Finding `json:"findings,omitempty"`  // of log policies, in order
	Cause    Cause     `json:"cause,omitempty"`
	Rule     EndRule   `json:"rule,omitempty"` // rule that decided how it ended
	ExitCode int       `json:"exit_code,omitempty"`
	Signal   int       `json:"signal,omitempty"`
	Rate     int64     `json:"rate,omitempty"`  // steps in 1,000 s, measured once; 0: unknown
	Rated    Instant   `json:"rated,omitempty"` // time of that measurement
}

// WorkerReport reports how far a worker has come.
type WorkerReport struct {
	Job      JobID       `json:"job"`
	Attempt  int         `json:"attempt"`
	Worker   int         `json:"worker"`
	State    WorkerState `json:"state"`
	ExitCode int         `json:"exit_code,omitempty"`
	Signal   int         `json:"signal,omitempty"`
	OOM      bool        `json:"oom,omitempty"`
	Lease    bool        `json:"lease,omitempty"` // stopped by its shim because the lease ran out
	// for a failed worker: its command may have started, so this is no launch failure
	Began bool `json:"began,omitempty"`
	// for an exited worker: its program never started
	Unbegun bool `json:"unbegun,omitempty"`
	// for an exited worker: its program has reported that it is finished, or the last of its steps
	Finished bool `json:"finished,omitempty"`
	Total    bool `json:"total,omitempty"`
	// for an exited worker: it exited before it was told to stop
	Own     bool   `json:"own,omitempty"`
	Message string `json:"message,omitempty"`

	// A report with a Policy only says that its log policy found Message in the output.
	Policy string `json:"policy,omitempty"`
	Final  bool   `json:"final,omitempty"` // for a launch failure: a retry cannot help
	Why    string `json:"why,omitempty"`   // what ended the worker, unless its main task did
	// for a launch failure: the worker's port, on which another program listens
	PortTaken int `json:"port_taken,omitempty"`

	// Joined is the number of the resize by which the worker joined, see [Resizing]; 0: none
	Joined int `json:"joined,omitempty"`

	// Switch is the number of the last suspension or resumption that the worker carried out, see
	// [Switching]; 0: not reported.
	Switch int `json:"switch,omitempty"`
	// Means is the method that paused the worker, and TookMS the time that this took.
	Means  string `json:"means,omitempty"`
	TookMS int64  `json:"took_ms,omitempty"`
	// Unpaused says why the worker continues although Switch told it to pause.
	Unpaused string `json:"unpaused,omitempty"`

	// Profile is reported once, and Packed each time others start or stop to share the GPU.
	Profile *Profile    `json:"profile,omitempty"`
	Packed  *PackedRate `json:"packed,omitempty"`

	// Rate is the attempt's progress in steps in 1,000 s; 0: not reported. See [RateAfterMS].
	Rate int64 `json:"rate,omitempty"`

	// Usage is the worker's usage, in the report of its end.
	Usage Usage `json:"usage,omitzero"`

	// OutputLost is the worker's output that could not be written by now; nil: not reported.
	OutputLost *lossy.Loss `json:"output_lost,omitempty"`

	// Class is the new progress class of the attempt by its metric; "": not reported. Worker 0
	// reports it, only when it changes.
	Class convergence.Class `json:"class,omitempty"`
}

// MaxAttemptsKept bounds Job.Attempts; the oldest are dropped and remain in the counters.
const MaxAttemptsKept = 32

// Causes: a closed list, which is part of the API.
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
	CauseRequeue   Cause = "requeue" // requested by the owner or an operator
)

// SignalOOM is the signal of a job or a step that ended because the kernel killed one of its
// processes for memory. As in Slurm it is 0:125, whatever the program's exit code.
const SignalOOM = 125

// Worker states, in order.
const (
	WorkerAssigned WorkerState = "assigned"
	WorkerCreated  WorkerState = "created" // its container exists; its command waits for the rest of the gang
	WorkerRunning  WorkerState = "running"
	WorkerExited   WorkerState = "exited"
	WorkerFailed   WorkerState = "failed" // the launch failed, or its shim was lost
)

// Succeeded reports whether a final worker succeeded. A worker whose program never started, or that
// lost a process to a lack of memory, did not succeed, whatever its exit code.
func (w *Worker) Succeeded() bool {
	return w.State == WorkerExited && !w.Unbegun && w.ExitCode == 0 && w.Signal == 0 && !w.OOM && !w.Lease
}

// Killed names the process killed for memory if the attempt ended for that reason, otherwise "".
func (a *Attempt) Killed() string {
	if a.Cause != CauseOOM {
		return ""
	}
	for i := range a.Workers {
		if w := &a.Workers[i]; w.OOM && w.Why != "" {
			return w.Why
		}
	}
	for i := range a.Steps { // a job that srun made for its step
		if s := &a.Steps[i]; s.OOM && s.Why != "" {
			return s.Why
		}
	}
	return ""
}

// Trouble returns why the rest of a gang must stop because of a worker, or "" if the worker is
// well.
func (w *Worker) Trouble() Cause {
	switch {
	case w.Lease:
		return CauseLease
	case w.State == WorkerFailed && w.Started == 0:
		return CauseLaunch
	case w.State == WorkerFailed: // its shim died; no job can cause that, so the node is at fault
		return CauseNodeLost
	}
	return CauseFailed
}

// AnyFinal reports whether a worker has ended.
func (a *Attempt) AnyFinal() bool {
	return slices.ContainsFunc(a.Workers, func(w Worker) bool { return w.State.Final() })
}

// NodeCount returns the number of nodes with workers of an attempt.
func (a *Attempt) NodeCount() int {
	n := 0
	for i := range a.Workers {
		if !slices.ContainsFunc(a.Workers[:i], func(w Worker) bool { return w.Node == a.Workers[i].Node }) {
			n++
		}
	}
	return n
}

// LeftBy returns when the last worker on the node of worker k left. It is 0 if some worker is still
// there, or if another k represents the node.
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

// Final reports whether the worker no longer holds anything on its node.
func (s WorkerState) Final() bool { return s == WorkerExited || s == WorkerFailed }

// Rank orders worker states; both final states come last.
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

// Shares reports whether an earlier worker of the same part is on the same node.
func (j *Job) Shares(at []int, worker int) bool {
	part, number := j.PartOf(worker)
	for k := worker - number; k < worker; k++ {
		if other, _ := j.PartOf(k); other == part && at[k] == at[worker] {
			return true
		}
	}
	return false
}

// Ports returns the ports that a worker of an attempt holds on its node.
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

// Whose success is a group's, and what a worker's failure means for the others.
const (
	SuccessAll       = "all"
	SuccessLeader    = "leader"
	SuccessAny       = "any"
	OnFailureRestart = "restart_group"
	OnFailureIgnore  = "ignore"
)
