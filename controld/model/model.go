package model

import (
	"github.com/rota-hpc/rota/jobspec"
)

// Instant is a point on the log's clock, in milliseconds: the last Instant in the log plus monotonic time since the present
// leader took over. It never goes back and never depends on a wall clock. All deadlines are Instants.
type Instant int64

// UnixMS is wall-clock time in milliseconds since 1970. It is for display only; nothing is decided by it.
type UnixMS int64

// Stamp is when the leader proposed a command, on both clocks.
type Stamp struct {
	At   Instant `json:"at"`
	Wall UnixMS  `json:"wall"`
}

// JobID numbers jobs from 1 in log order. It is never reused.
type JobID int64

// JobState is where a job is. The letters are Slurm's.
type JobState string

// Final reports whether a job in state s has ended for good.
func (s JobState) Final() bool {
	switch s {
	case Pending, Configuring, Running, Completing:
		return false
	}
	return true
}

// Cause says why an attempt ended or is being stopped.
type Cause string

// Hold says who keeps a pending job from starting.
type Hold string

// Identity is who submitted a job, as the submit host knows them.
type Identity struct {
	UID  uint32   `json:"uid"`
	GID  uint32   `json:"gid"`
	GIDs []uint32 `json:"gids,omitempty"` // supplementary
	User string   `json:"user"`
	Home string   `json:"home,omitempty"`
}

// Vector is an amount of every divisible resource of one node.
type Vector struct {
	Cores  int64         `json:"cores"`
	Memory jobspec.Bytes `json:"memory"`
	GPUs   int64         `json:"gpus"` // in thousandths of a GPU
}

// Request is what every worker of a job needs on its node: Active while it runs, Resident even while it is suspended.
type Request struct {
	Active    Vector `json:"active"`
	Resident  Vector `json:"resident"`
	Exclusive bool   `json:"exclusive,omitempty"` // workers of other gangs, and of other parts of this one, stay off the node
}

// Place is one worker's place: a node and the GPUs on it, by index into [Node.GPUs].
type Place struct {
	Node string `json:"node"`
	GPUs []int  `json:"gpus,omitempty"`
	Port int    `json:"port,omitempty"` // of a worker of a gang of several groups, from its node's range
}

// WorkerState is how far one worker of an attempt has come.
type WorkerState string

// Final reports whether the worker holds nothing on its node any more.
func (s WorkerState) Final() bool { return s == WorkerExited || s == WorkerFailed }

// Worker is one instance of a group on one node.
type Worker struct {
	Index int `json:"index"`
	Place
	State    WorkerState `json:"state"`
	Started  Instant     `json:"started,omitempty"` // its command began; 0: never
	Ended    Instant     `json:"ended,omitempty"`   // it became final and gave its room back
	ExitCode int         `json:"exit_code,omitempty"`
	Signal   int         `json:"signal,omitempty"`
	OOM      bool        `json:"oom,omitempty"`
	Lease    bool        `json:"lease,omitempty"`   // stopped by its shim because the lease ran out
	Message  string      `json:"message,omitempty"` // why it could not be launched

	LaunchFinal bool   `json:"launch_final,omitempty"` // it could not be launched, and trying again cannot help
	Why         string `json:"why,omitempty"`          // which of its tasks ended it, if it was no main one
	Whole       Vector `json:"whole,omitzero"`         // all that its node had when it was assigned, if it has the node for itself
}

// Stop is a stop in progress. A stronger one may replace its cause; the clock is never restarted (invariant A1).
type Stop struct {
	Cause  Cause   `json:"cause"`
	At     Instant `json:"at"`
	KillAt Instant `json:"kill_at"` // the node kills what is left at this instant
	Signal string  `json:"signal"`
	By     string  `json:"by,omitempty"`
	Reason string  `json:"reason,omitempty"` // in the words of whoever asked
	For    JobID   `json:"for,omitempty"`    // the job that was to get the room

	Resize *Resize `json:"resize,omitempty"` // how the next attempt of an elastic job will begin; nil: it goes back to the queue
}

// Attempt is one execution of a job. Its number grows by one each time; whatever carries an older number is dropped.
type Attempt struct {
	N          int       `json:"n"`
	Assigned   Stamp     `json:"assigned"`
	Started    Stamp     `json:"started"` // zero until every worker runs
	Ended      Stamp     `json:"ended"`
	Workers    []Worker  `json:"workers"`
	MasterPort int       `json:"master_port,omitempty"` // on the first worker's node
	Released   bool      `json:"released,omitempty"`    // every worker is created: commands may start
	Stop       *Stop     `json:"stop,omitempty"`
	Findings   []Finding `json:"findings,omitempty"` // of log policies, in order
	Cause      Cause     `json:"cause,omitempty"`
	ExitCode   int       `json:"exit_code,omitempty"`
	Signal     int       `json:"signal,omitempty"`
	Rate       int64     `json:"rate,omitempty"`  // steps in 1,000 s, measured once; 0: not known
	Rated      Instant   `json:"rated,omitempty"` // when that was
}

// Counters count what happened to a job, each with its own limit.
type Counters struct {
	TE             int `json:"te,omitempty"` // preemptions by cause
	Reclaim        int `json:"reclaim,omitempty"`
	Order          int `json:"order,omitempty"`
	LaunchFailures int `json:"launch_failures,omitempty"`
	NodeLosses     int `json:"node_losses,omitempty"`
	UserFailures   int `json:"user_failures,omitempty"`
	Requeues       int `json:"requeues,omitempty"` // exits with the checkpoint code nobody had asked for
	Resizes        int `json:"resizes,omitempty"`
	Migrations     int `json:"migrations,omitempty"`
}

// Ledger is what a job has been charged, in milliseconds of one GPU and of one core held.
type Ledger struct {
	GPUMS  int64 `json:"gpu_ms"`
	CoreMS int64 `json:"core_ms"`
}

// Job is one job in the state. A *Job never changes once it is stored: Apply replaces it.
type Job struct {
	ID       JobID           `json:"id"`
	Owner    Identity        `json:"owner"`
	Account  string          `json:"account"`
	Queue    string          `json:"queue"`
	Class    jobspec.Class   `json:"class"`
	Priority int             `json:"priority"`
	Limit    jobspec.Seconds `json:"limit"` // per attempt
	Spec     *jobspec.Job    `json:"spec"`
	Workers  int             `json:"workers"` // of the gang; of an elastic job see [Job.Size]
	Request  Request         `json:"request"` // of each worker

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
	Bypassed  int       `json:"bypassed,omitempty"` // starts that went past it while it was the blocked head; 0 again once it starts
	ExitCode  int       `json:"exit_code,omitempty"`
	Signal    int       `json:"signal,omitempty"`
	Counters  Counters  `json:"counters"`
	Ledger    Ledger    `json:"ledger"`
	Seq       int64     `json:"seq,omitempty"` // number in the history once final

	Parent       JobID            `json:"parent,omitempty"`   // the parent job it is a child of: an array, or a job whose groups run one by one
	TaskNumber   int              `json:"member,omitempty"`   // its number there, from 1; its id is Parent + Member
	Children     *Children        `json:"family,omitempty"`   // of a parent job that runs nothing itself but through its children
	Parts        []Part           `json:"parts,omitempty"`    // of a gang of several groups, in the order of its workers; nil: one group
	Dependencies []OpenDependency `json:"needs,omitempty"`    // dependencies that are not met yet; while there are any it does not start
	Deadline     Instant          `json:"deadline,omitempty"` // 0: none

	// Displaced are the instants of the last day at which an attempt of it ended for another job's sake, oldest first.
	Displaced []Instant `json:"displaced,omitempty"`
	// First says that it was displaced for a job that did not want the room any more, or is moving: it goes before all of its class until it starts.
	OwnRoomFirst bool `json:"first,omitempty"`
	// PerCore is for how many millionths of a GPU a core counts if it has no GPUs, as [Job.Worth] says; 0: for a whole one.
	PerCore int32 `json:"per_core,omitempty"`

	// Failures are the ends of attempts that failed by the user's own code within the restart window, oldest first.
	Failures []Instant `json:"failures,omitempty"`

	Modified uint64   `json:"-"` // index of the last change; not in the snapshot
	Texts    *Texts   `json:"-"` // what was taken out of Spec; nil: nothing was
	placing  *placing // what its spec says of where it may run; nil: nothing
}

// Children is what a parent job knows of its children. Their ids follow its own: child n has id ID + n. Members of an array are made when they
// start, those of a job with several groups when it is submitted.
type Children struct {
	Size         int    `json:"size"`
	Waiting      Ranges `json:"waiting,omitempty"`    // children not made yet
	Dropped      Ranges `json:"dropped,omitempty"`    // cancelled before they were made
	Ready        Ranges `json:"ready,omitempty"`      // with aftercorr: those of Waiting whose counterpart has completed
	HeldUser     Ranges `json:"held_user,omitempty"`  // of Waiting: held by their owner one by one
	HeldAdmin    Ranges `json:"held_admin,omitempty"` // by an operator
	Live         int    `json:"live"`                 // made and not ended
	Completed    int    `json:"completed,omitempty"`  // ended well
	Failed       int    `json:"failed,omitempty"`     // ended in any other way but cancelled
	Cancelled    int    `json:"cancelled,omitempty"`  // made and cancelled
	Unsuccessful Ranges `json:"ill,omitempty"`        // those counted by Failed and Cancelled: they may have left the state

	// Fate is the state in which the parent job will end once its last child has, when that was decided for the whole of it.
	Fate JobState `json:"fate,omitempty"`
}

// Part is one group's share of a gang of several groups.
type Part struct {
	Group   int     `json:"group"` // index in Spec.Groups
	Workers int     `json:"workers"`
	PerNode int     `json:"per_node"`
	Request Request `json:"request"`
}

// OpenDependency is a dependency that is not met yet: all jobs of it, or any one, must have come to what Type says.
type OpenDependency struct {
	Type  string          `json:"type"` // after, afterok, afterany, afternotok, aftercorr or singleton
	Jobs  []JobID         `json:"jobs,omitempty"`
	Any   bool            `json:"any,omitempty"`
	Delay jobspec.Seconds `json:"delay,omitempty"`
}

// MaxAttemptsKept bounds Job.Attempts; older ones are dropped from the front and live on in the counters.
const MaxAttemptsKept = 32

// Live returns the job's attempt in progress, or nil.
func (j *Job) Live() *Attempt {
	if n := len(j.Attempts); n > 0 && j.Attempts[n-1].Ended.At == 0 {
		return &j.Attempts[n-1]
	}
	return nil
}

// GPU is one device of a node's inventory.
type GPU struct {
	UUID    string        `json:"uuid"`
	Model   string        `json:"model"`
	Memory  jobspec.Bytes `json:"memory"`
	Minor   int           `json:"minor"` // of /dev/nvidiaN; -1 for a simulated one
	Healthy bool          `json:"healthy"`
	Problem string        `json:"problem,omitempty"`
}

// NodeState is whether a node may get work.
type NodeState string

// Node is one machine.
type Node struct {
	Name       string            `json:"name"`
	Addr       string            `json:"addr"` // host:port of its own listener, for logs
	BootID     string            `json:"boot_id"`
	Version    string            `json:"version"`
	Cores      int64             `json:"cores"`
	Memory     jobspec.Bytes     `json:"memory"`
	GPUs       []GPU             `json:"gpus,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	SharedPath []string          `json:"shared_paths,omitempty"`
	PortMin    int               `json:"port_min"` // MASTER_PORT range, inclusive
	PortMax    int               `json:"port_max"`
	State      NodeState         `json:"state"`
	Reason     string            `json:"reason,omitempty"`
	Since      Stamp             `json:"since"`             // of State
	Drained    bool              `json:"drained,omitempty"` // returns from being down as drained, not up
}

// Claim is room on one node kept for a job. It may be more than is free now: what is freed there goes to the job first.
type Claim struct {
	Node      string `json:"node"`
	Resources Vector `json:"room"`
}

// Reservation keeps room for one waiting job, in the log, until the job starts, ends, or Until passes (invariant A5).
type Reservation struct {
	Job    JobID   `json:"job"`
	Claims []Claim `json:"claims"`
	At     Instant `json:"at"`
	Until  Instant `json:"until"`

	// Firm says that the room is being, or was, taken from others for this job alone. No reservation made earlier goes before it, but for
	// other firm ones.
	ForPreemptor bool `json:"firm,omitempty"`
	// Owed says that the job's account deserves the room. No reservation of one that does not, made earlier, goes before it.
	Guaranteed bool `json:"owed,omitempty"`
}

// ReasonCode is the word that squeue users know, such as Resources or Priority.
type ReasonCode string

// Reason says in one code and a few numbers why something did not happen. Its text is made where it is shown.
type Reason struct {
	Code  ReasonCode `json:"code,omitempty"`
	Need  Vector     `json:"need,omitzero"`  // of one worker
	Have  Vector     `json:"have,omitzero"`  // on the node that comes nearest
	Want  int        `json:"want,omitempty"` // workers
	Fit   int        `json:"fit,omitempty"`  // workers that would fit now
	Node  string     `json:"node,omitempty"`
	For   JobID      `json:"for,omitempty"` // the job it waits behind
	Until Instant    `json:"until,omitempty"`
	Text  string     `json:"text,omitempty"` // a message from outside, such as a launch error
}

// Config is the replicated configuration.
type Config struct {
	ClusterName string           `json:"cluster_name"`
	Version     int              `json:"version"` // cluster version: which command kinds may be used
	Queues      map[string]Queue `json:"queues"`
	Policy      Policy           `json:"policy"`
	LeaseMS     int64            `json:"lease_ms"`        // how long a worker may run without word from a leader
	MarginMS    int64            `json:"lease_margin_ms"` // added before a lost attempt is replaced
	NodeDownMS  int64            `json:"node_down_ms"`    // silence after which a node is down

	Accounts map[string]Account `json:"accounts,omitempty"`
	Capacity *Quota             `json:"capacity,omitempty"` // of the cluster as it should be; nil: that of all nodes that have registered
}

// Queue is a set of defaults and limits that jobs are submitted to.
type Queue struct {
	DefaultClass jobspec.Class   `json:"default_class"`
	DefaultTime  jobspec.Seconds `json:"default_time"`
	MaxTime      jobspec.Seconds `json:"max_time"` // 0: none
	TEMaxTime    jobspec.Seconds `json:"te_max_time"`
	TEMaxGPUs    int             `json:"te_max_gpus"`
	MaxGrace     jobspec.Seconds `json:"max_grace"`
}

// Policy is what sched needs to know besides the state.
type Policy struct {
	Name           string `json:"name,omitempty"`       // which of the policies that sched knows; "": the default one
	MinRunMS       int64  `json:"min_run_ms,omitempty"` // of the baselines that displace jobs: how long one runs first
	ReserveAfterMS int64  `json:"reserve_after_ms"`     // a blocked head older than this gets its room reserved
	MaxBypass      int    `json:"max_bypass"`           // starts past a blocked head before it is reserved for in any case
	ReserveHoldMS  int64  `json:"reserve_hold_ms"`      // how long a reservation lasts
	MaxLaunchFails int    `json:"max_launch_fails"`
	MaxRequeues    int    `json:"max_requeues"`
	MaxNodeLosses  int    `json:"max_node_losses"`

	// Of fair sharing.
	HalfLifeMS     int64 `json:"half_life_ms,omitempty"`    // after which usage counts half; 0: no decay within the week that is known
	UsageInfluence int   `json:"usage_influence,omitempty"` // how much past usage counts in dividing what nobody deserves, in thousandths; 0: not at all

	// Of policies that displace jobs. What is 0 is as the policy has it.
	GraceWeight   int64  `json:"grace_weight,omitempty"`    // thousandths: how much a long grace weighs against size; negative: nothing
	MaxPreempts   int    `json:"max_preempts,omitempty"`    // how often one job may be displaced: fitgpp in its life, rota in a day; negative: any number
	PreemptCapped bool   `json:"preempt_capped,omitempty"`  // fitgpp: its victims drawn at random obey the limit too
	Placement     string `json:"placement,omitempty"`       // fitgpp: first, best, worst or random fit
	Seed          uint64 `json:"seed,omitempty"`            // of what is drawn at random
	MinRuntimeMS  int64  `json:"min_runtime_ms,omitempty"`  // rota: a job that has run for less is displaced only if nothing else helps
	MinTurnMS     int64  `json:"min_turn_ms,omitempty"`     // rota: how long a job runs before one that has had less may take its turn; negative: for ever
	TEAccountGPUs int64  `json:"te_account_gpus,omitempty"` // rota: GPUs that trial-and-error jobs of one account may hold at once
	TEBorrowPM    int64  `json:"te_borrow_pm,omitempty"`    // rota: thousandths of what an account deserves that it lends to trial-and-error jobs of others; negative: nothing
	HeadroomPM    int64  `json:"headroom_pm,omitempty"`     // rota: thousandths of the GPUs that are kept free for them at most; negative: none

	// Of policies that give elastic jobs more and fewer workers. What is 0 is as the job, or the policy, has it.
	GrowAfterMS int64 `json:"grow_after_ms,omitempty"` // how long room is free before a job grows into it
	CooldownMS  int64 `json:"cooldown_ms,omitempty"`   // how long a job keeps its size unless others need its room
	GrowGainPM  int64 `json:"grow_gain_pm,omitempty"`  // elastic: thousandths by which more workers must make a job faster to stay
	Rigid       bool  `json:"rigid,omitempty"`         // rota: elastic jobs have their least workers and no more
}

// NewPolicy is the scheduling policy of a new cluster.
const NewPolicy = "rota"

// InitialConfig returns the configuration that the log of every cluster starts from: the defaults with [NewPolicy].
func InitialConfig() Config {
	c := DefaultConfig()
	c.Policy.Name = NewPolicy
	return c
}

// DefaultConfig returns what holds where a configuration file says nothing. It names no policy: such a file leaves the
// cluster's policy as it is.
func DefaultConfig() Config {
	return Config{
		ClusterName: "rota",
		Version:     1,
		Queues: map[string]Queue{"default": {
			DefaultClass: jobspec.BE, DefaultTime: 24 * 3600, TEMaxTime: 2 * 3600, TEMaxGPUs: 16, MaxGrace: 20 * 60,
		}},
		Policy: Policy{
			ReserveAfterMS: 10 * 60 * 1000, MaxBypass: 64, ReserveHoldMS: 60 * 60 * 1000,
			MaxLaunchFails: 3, MaxRequeues: 16, MaxNodeLosses: 10,
		},
		LeaseMS: 10 * 60 * 1000, MarginMS: 30 * 1000, NodeDownMS: 15 * 1000,
	}
}

// Job states. PD, CF, R and CG are live; the rest are final.
const (
	Pending     JobState = "PD"
	Configuring JobState = "CF" // assigned; containers are being made
	Running     JobState = "R"
	Completing  JobState = "CG" // asked to stop, or some workers have ended and the others are being stopped
	Completed   JobState = "CD"
	Failed      JobState = "F"
	TimedOut    JobState = "TO"
	OutOfMemory JobState = "OOM"
	Cancelled   JobState = "CA"
	NodeFailed  JobState = "NF"
	BootFailed  JobState = "BF" // could not be launched
	PastDue     JobState = "DL" // its deadline passed, or could not be met any more
)

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

// Holds.
const (
	NotHeld     Hold = ""
	HeldByUser  Hold = "user"
	HeldByAdmin Hold = "admin"
	HeldRequeue Hold = "requeue" // exited with 85 unasked too often
	HeldLaunch  Hold = "launch"  // failed to launch too often
	HeldNever   Hold = "never"   // what it depends on can never come, and it is not to be cancelled for that
)

// Node states.
const (
	NodeUp      NodeState = "up"
	NodeDown    NodeState = "down"    // not heard of; what ran there may still run until its lease ends
	NodeDrained NodeState = "drained" // gets nothing new
)

// Reason codes.
const (
	ReasonNone          ReasonCode = ""
	ReasonPriority      ReasonCode = "Priority"
	ReasonResources     ReasonCode = "Resources"
	ReasonReservation   ReasonCode = "Reservation"
	ReasonBackoff       ReasonCode = "Backoff"
	ReasonHeldUser      ReasonCode = "JobHeldUser"
	ReasonHeldAdmin     ReasonCode = "JobHeldAdmin"
	ReasonMaxRequeue    ReasonCode = "JobHoldMaxRequeue"
	ReasonLaunchFailure ReasonCode = "JobLaunchFailure"
	ReasonNodeDown      ReasonCode = "NodeDown"
	ReasonNotAvail      ReasonCode = "ReqNodeNotAvail"
	ReasonFragmentation ReasonCode = "Fragmentation"
	ReasonGang          ReasonCode = "GangIncomplete"
	ReasonNonZeroExit   ReasonCode = "NonZeroExitCode"
	ReasonOOM           ReasonCode = "OutOfMemory"
	ReasonTimeLimit     ReasonCode = "TimeLimit"
	ReasonBadConstraint ReasonCode = "BadConstraints"
	ReasonNotScheduled  ReasonCode = "None" // not considered yet
	ReasonDependency    ReasonCode = "Dependency"
	ReasonNeverMet      ReasonCode = "DependencyNeverSatisfied"
	ReasonBegin         ReasonCode = "BeginTime"
	ReasonArrayLimit    ReasonCode = "JobArrayTaskLimit"
	ReasonDeadline      ReasonCode = "DeadLine"
	ReasonMembers       ReasonCode = "Members"      // a parent job waits for its children
	ReasonPreempting    ReasonCode = "Preempting"   // others leave for it
	ReasonPreempted     ReasonCode = "Preempted"    // it has left for another
	ReasonNoVictim      ReasonCode = "NoVictim"     // nobody may be asked to leave for it
	ReasonTELimit       ReasonCode = "TELimit"      // its account has as many trial-and-error jobs as it may
	ReasonLimit         ReasonCode = "AccountLimit" // its account, or its user in it, may not hold more at once
)

// Worker states, in order.
const (
	WorkerAssigned WorkerState = "assigned"
	WorkerCreated  WorkerState = "created" // its container exists; its command waits for the gang
	WorkerRunning  WorkerState = "running"
	WorkerExited   WorkerState = "exited"
	WorkerFailed   WorkerState = "failed" // could not be launched, or its shim was lost
)
