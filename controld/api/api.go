// Package api is the contract between Rota's control daemon and all programs that talk to it. It
// has the JSON of every request and response, and a client. It holds no server and no OpenAPI
// library, so that the command starts fast.
package api

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Version is the apiVersion of every list.
const Version = "v1"

// Headers.
const (
	HeaderIndex          = "Rota-Index"      // index of the state that answered
	HeaderStale          = "Rota-Stale"      // seconds since a leader was last heard of; only without quorum
	HeaderCluster        = "Rota-Cluster"    // id of the cluster
	HeaderIdempotencyKey = "Idempotency-Key" // 1 to 64 visible ASCII characters
)

// SubmitRequest asks for one job. POST /v1/jobs takes one, or {"jobs":[…]}, all or none.
type SubmitRequest struct {
	Jobs []*jobspec.Job `json:"jobs"`
}

// SubmitResponse has the ids in the order of the request.
type SubmitResponse struct {
	IDs      []model.JobID `json:"ids"`
	Warnings []string      `json:"warnings,omitempty"` // what of the jobs has no effect in this cluster
	RunAs    string        `json:"run_as,omitempty"`   // user as which they run, if not the caller
}

// List is the form of every list.
type List[T any] struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Index      uint64 `json:"index"`
	Items      []T    `json:"items"`
	Next       string `json:"next,omitempty"` // value of page for the following page
	// only what has changed since the index that was asked after, what has ended included
	Delta bool `json:"delta,omitempty"`
	// parts that were asked for and are missing from the list, a sentence each
	Warnings []string `json:"warnings,omitempty"`
}

// FlagAllocation is among the flags of a job that only holds its nodes for the steps of salloc or srun.
const FlagAllocation = "allocation"

// Job is a job as users see it.
type Job struct {
	ID          model.JobID        `json:"id"`
	Name        string             `json:"name"`
	User        string             `json:"user"`
	UID         uint32             `json:"uid"`
	GID         uint32             `json:"gid,omitempty"`
	Account     string             `json:"account"`
	Queue       string             `json:"queue"`
	Class       jobspec.Class      `json:"class"`
	State       string             `json:"state"` // the long name, PENDING
	Code        model.JobState     `json:"code"`  // the letters, PD
	Flags       []string           `json:"flags"`
	Reason      Reason             `json:"reason"`
	Priority    int                `json:"priority"`
	Attempt     int                `json:"attempt"`
	Submitted   *Time              `json:"submitted"`
	Started     *Time              `json:"started"`
	Ended       *Time              `json:"ended"`
	Elapsed     jobspec.Seconds    `json:"elapsed"`
	TimeLimit   jobspec.Seconds    `json:"time_limit"`
	ExitCode    int                `json:"exit_code"`
	Signal      int                `json:"signal"`
	Workers     int                `json:"workers"`
	Nodes       []string           `json:"nodes"`
	GPUs        int                `json:"gpus"`
	Array       ArrayPlace         `json:"array"`
	Cores       int                `json:"cores"`  // of all workers, with all of nodes that it has for itself
	Memory      jobspec.Bytes      `json:"memory"` // as cores
	GPUSeconds  int64              `json:"gpu_seconds"`
	Attempts    []Attempt          `json:"attempts"`
	Preemptions Preemptions        `json:"preemptions"`
	Resizes     int                `json:"resizes"`
	Migrations  int                `json:"migrations"`
	Suspensions int                `json:"suspensions"`
	Steps       int64              `json:"steps"`
	SavedStep   int64              `json:"saved_step"`
	Metrics     map[string]float64 `json:"metrics,omitempty"` // the newest that the job has reported while it runs
	// what was bad of that report and is ignored, or that it is behind what an earlier attempt had saved
	ProgressProblem string `json:"progress_problem,omitempty"`
	// how far the training of a running job has come by its own metric: progressing, watching or
	// converged; without it that is not known
	ProgressClass string `json:"progress_class,omitempty"`
	Workdir       string `json:"workdir"`
	Comment       string `json:"comment,omitempty"`
	// uid of the user that asked for its cancellation; of an array job it was for tasks that had not begun,
	// perhaps for some only. Without it none has asked.
	CancelledBy *uint32 `json:"cancelled_by,omitempty"`
	// with ?spec=true, and of a single job. Like workdir, comment, metrics, rejected metrics,
	// parameters and findings, only the owner, coordinators and operators see it
	Spec *jobspec.Job `json:"spec,omitempty"`

	// how long its requested GPUs did without it while it was suspended, in GPU seconds; not part
	// of gpu_seconds or elapsed
	SuspendedGPUSeconds int64 `json:"suspended_gpu_s,omitempty"`

	Elastic      *Elastic     `json:"elastic,omitempty"` // of a job whose number of workers may change
	Group        *GroupPlace  `json:"group,omitempty"`
	Groups       []GroupState `json:"groups,omitempty"`
	Components   []Component  `json:"components,omitempty"`   // the groups that start together, if there are several
	Dependencies []Dependency `json:"dependencies,omitempty"` // not met yet
	Eligible     *Time        `json:"eligible,omitempty"`     // not started before, when that is in the future
	Deadline     *Time        `json:"deadline,omitempty"`

	// GPUs in all workers together, in thousandths, if they are no whole ones: GPUs rounds them up
	GPUThousandths int64 `json:"gpu_thousandths,omitempty"`
}

// Component is what all workers of a group ask for that starts together with others, as a component of a
// heterogeneous job does.
type Component struct {
	Workers int           `json:"workers"`
	Cores   int           `json:"cores"`
	Memory  jobspec.Bytes `json:"memory"`
	GPUs    int           `json:"gpus"`
}

// ArrayPlace says which task of which array a job is, or, of an array job, what became of its
// tasks. It is empty for any other job.
type ArrayPlace struct {
	Job    model.JobID       `json:"job,omitempty"`    // the array job
	Index  *int              `json:"index,omitempty"`  // of an array task
	Params map[string]string `json:"params,omitempty"` // of an array task

	Indices     string `json:"indices,omitempty"` // of an array job: the tasks that have not begun, such as 4-99%8
	Dropped     string `json:"dropped,omitempty"` // those that were cancelled before they began, such as 7,9
	Size        int    `json:"size,omitempty"`
	MaxParallel int    `json:"max_parallel,omitempty"`
	Live        int    `json:"live,omitempty"`
	Completed   int    `json:"completed,omitempty"`
	Failed      int    `json:"failed,omitempty"`
	Cancelled   int    `json:"cancelled,omitempty"`
}

// Elastic says with how many workers a job may run, those of its elastic group, and with how many
// it does.
type Elastic struct {
	Workers    int    `json:"workers"` // 0 while it waits
	Min        int    `json:"min"`
	Max        int    `json:"max"`
	MultipleOf int    `json:"multiple_of"`
	Text       string `json:"text,omitempty"` // why it has as many as it has
}

// GroupPlace says which group of which pipeline job a job is; that job's groups are in Job.Groups.
type GroupPlace struct {
	Job  model.JobID `json:"job"` // the pipeline job
	Name string      `json:"name"`
}

// GroupState is one group of a job with several.
type GroupState struct {
	Name    string         `json:"name"`
	ID      model.JobID    `json:"id,omitempty"` // of the job that runs it; none with gang_scope job
	Code    model.JobState `json:"code"`
	Workers int            `json:"workers"`
}

// Dependency is one that a job still waits for.
type Dependency struct {
	Type  string          `json:"type"`
	Jobs  []model.JobID   `json:"jobs,omitempty"`
	Match string          `json:"match,omitempty"`
	Delay jobspec.Seconds `json:"delay,omitempty"`
}

// Reason is why a job waits or ended as it did.
type Reason struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Attempt is one execution.
type Attempt struct {
	N        int         `json:"n"`
	Start    *Time       `json:"start"`
	End      *Time       `json:"end"`
	Nodes    []string    `json:"nodes"`
	ExitCode int         `json:"exit_code"`
	Signal   int         `json:"signal"`
	Cause    model.Cause `json:"cause"`
	Killed   string      `json:"killed,omitempty"` // of cause oom: which process was killed, and the limit
	// which rule decided how it ended, as own-exit or saved; none: it runs, or an earlier version ended it
	Rule     model.EndRule `json:"rule,omitempty"`
	Findings []Finding     `json:"findings,omitempty"` // of log policies, oldest first
	Workers  int           `json:"workers"`
	Rate     int64         `json:"rate,omitempty"` // of an elastic job: steps in 1,000 s, measured once

	SuspendedSeconds int64       `json:"suspended_s,omitempty"` // for which it was suspended by now
	Suspension       *Suspension `json:"suspension,omitempty"`  // of one that is suspended, or was told to pause
	// what was tried so that GPUs are used better, oldest first
	Trials []Trial `json:"trials,omitempty"`
	// what its workers have used that have ended; none: nothing is known
	Usage *Usage `json:"usage,omitempty"`

	// the steps that have ended, in that order: of one job, and of a list if it is asked for them
	Steps []Step `json:"steps,omitempty"`

	// of a job that had to leave: the job that gets the room, its user, and the instant at which
	// this job is killed
	For        model.JobID `json:"for,omitempty"`
	ForUser    string      `json:"for_user,omitempty"`
	ForAccount string      `json:"for_account,omitempty"`
	LeaveBy    *Time       `json:"leave_by,omitempty"`
	// what that has cost by now, in seconds of one GPU
	LostGPUSeconds int64 `json:"lost_gpu_s,omitempty"`
	Lost           *Lost `json:"lost,omitempty"`
}

// Step is a step of a job that has ended.
type Step struct {
	ID       int      `json:"id"` // as in 7.0
	Name     string   `json:"name"`
	Nodes    []string `json:"nodes"`
	Tasks    int      `json:"tasks"`
	Cores    int      `json:"cores"` // on all nodes
	GPUs     int      `json:"gpus"`
	Start    *Time    `json:"start"`
	End      *Time    `json:"end"`
	ExitCode int      `json:"exit_code"`
	Signal   int      `json:"signal"`
	OOM      bool     `json:"oom,omitempty"`
	Why      string   `json:"why,omitempty"` // what ended it, if that was not its program
	Usage    *Usage   `json:"usage,omitempty"`
}

// Usage is what the workers of an attempt have used, together: 0 is what they did not use or what is
// not known. Utilisation is that of one GPU, in the mean of them all.
type Usage struct {
	CPUSeconds    float64       `json:"cpu_s"`
	SystemSeconds float64       `json:"system_s"`    // the part of it that the system had; the rest is the user's
	PeakCores     float64       `json:"peak_cores"`  // sum of each worker's own peak
	PeakMemory    jobspec.Bytes `json:"peak_memory"` // of one worker, the largest
	Memory        jobspec.Bytes `json:"memory"`      // sum of each worker's own peak
	Workers       int           `json:"workers"`     // whose usage this is

	GPUUtil       int           `json:"gpu_util"` // percent
	PeakGPUUtil   int           `json:"peak_gpu_util"`
	GPUMemory     jobspec.Bytes `json:"gpu_memory"`
	PeakGPUMemory jobspec.Bytes `json:"peak_gpu_memory"` // sum of each worker's own peak

	Extern *ExternUsage `json:"extern,omitempty"` // the part of rota exec and rota shell; none: they used nothing
}

// ExternUsage is what processes have used that were started beside a job's tasks, which is a part
// of the whole. Usage of processes that they have left behind does not count.
type ExternUsage struct {
	CPUSeconds    float64       `json:"cpu_s"`
	SystemSeconds float64       `json:"system_s"`
	PeakMemory    jobspec.Bytes `json:"peak_memory"` // of one process that has ended, the largest
}

// Suspension says why an attempt pauses. It keeps its memory, and holds no cores and GPUs once all
// of its workers have paused.
type Suspension struct {
	Since *Time       `json:"since"` // null until all of its workers have paused
	Cause model.Cause `json:"cause"`
	For   model.JobID `json:"for,omitempty"` // the job that gets the room
}

// Trial is something that was tried with an attempt so that GPUs are used better. Gains are the
// rate of all jobs concerned in thousandths of what it was before.
type Trial struct {
	What         model.TrialKind `json:"what"`           // pack or migrate
	With         model.JobID     `json:"with,omitempty"` // the other job of pack
	ExpectedGain int64           `json:"expected_gain,omitempty"`
	MeasuredGain int64           `json:"measured_gain,omitempty"` // none: not measured yet
	Undone       bool            `json:"undone,omitempty"`        // it brought nothing
}

// Series is what a job has reported of one metric, as far as the leader has seen it since it leads.
type Series struct {
	Job     model.JobID `json:"job"`
	Metric  string      `json:"metric"`
	Goal    string      `json:"goal,omitempty"`  // min or max, as its progress block says
	Total   int64       `json:"total,omitempty"` // steps, as its progress block says
	Metrics []string    `json:"metrics"`         // those that have a series
	Points  []Point     `json:"points"`          // by step; long series are thinned
}

// Point is the value of a metric at a step.
type Point struct {
	Step  int64   `json:"step"`
	Value float64 `json:"value"`
}

// Lost says what makes up a loss, in seconds of one GPU. A job without GPUs counts by its GPU
// equivalents.
type Lost struct {
	GPUSeconds int64 `json:"gpu_s"`     // in all
	Work       int64 `json:"work_s"`    // done since the last checkpoint
	Grace      int64 `json:"grace_s"`   // held while it left
	Restart    int64 `json:"restart_s"` // held by the next attempt until its commands ran
}

// Finding is the first line of output in which a log policy found its pattern.
type Finding struct {
	Policy string `json:"policy"`
	Worker int    `json:"worker"`
	Line   string `json:"line"`
	At     *Time  `json:"at"`
}

// Preemptions counts stops for others, by cause.
type Preemptions struct {
	TE      int `json:"te"`
	Reclaim int `json:"reclaim"`
	Order   int `json:"order"`
}

// ControlRequest is the body of POST /v1/jobs/{id}/cancel, hold, release and requeue.
type ControlRequest struct {
	Reason string `json:"reason,omitempty"`
}

// UpdateRequest is the body of POST /v1/jobs/{id}/update. Members that are left out stay unchanged.
type UpdateRequest struct {
	TimeLimit *jobspec.Seconds `json:"time_limit,omitempty"` // of each attempt, the present one included
	AddTime   *jobspec.Seconds `json:"add_time,omitempty"`   // to the time limit; negative takes away
	Priority  *int             `json:"priority,omitempty"`
	Name      *string          `json:"name,omitempty"`
	Comment   *string          `json:"comment,omitempty"` // "" takes it away
}

// PruneRequest is the body of POST /v1/jobs/{id}/prune: the best tasks of an array by a metric go
// on, the others are cancelled.
type PruneRequest struct {
	Metric string `json:"metric"`
	Goal   string `json:"goal,omitempty"`    // min (default) or max
	Keep   string `json:"keep"`              // "top 25%" or "top 4"
	AtStep int64  `json:"at_step,omitempty"` // tasks that have not come so far are left alone
	DryRun bool   `json:"dry_run,omitempty"` // only say what would be done
}

// PruneResponse lists array tasks by their index.
type PruneResponse struct {
	Kept      []int `json:"kept"`
	Cancelled []int `json:"cancelled"`
	Silent    []int `json:"silent"` // running, but without that metric: left alone
}

// CancelRequest is the body of POST /v1/jobs/cancel: every live job that matches all of what is
// set. An empty filter is refused.
type CancelRequest struct {
	IDs     []model.JobID `json:"ids,omitempty"`
	Refs    []string      `json:"refs,omitempty"` // jobs by name as well: 123_[4-9], 123.train
	User    string        `json:"user,omitempty"`
	Account string        `json:"account,omitempty"`
	Name    string        `json:"name,omitempty"`
	States  []string      `json:"states,omitempty"`
	Reason  string        `json:"reason,omitempty"`
}

// SignalRequest is the body of POST /v1/jobs/{id}/signal: a signal to what runs of a job. The job is not
// asked to stop by it.
type SignalRequest struct {
	Signal string `json:"signal"` // SIGUSR1
	// which processes get it, if the program is a shell script: script or programs, as in
	// [jobspec.Preemption]; "": the shell and what it runs
	To string `json:"to,omitempty"`
}

// ControlResponse says what became of each job.
type ControlResponse struct {
	Items []ControlItem `json:"items"`
}

// ControlItem is one job's share of a ControlResponse; Error is nil when it was done.
type ControlItem struct {
	ID model.JobID `json:"id"`
	// of an array or pipeline job, by number from 1, when only they were meant
	Members string   `json:"members,omitempty"`
	Ref     string   `json:"ref,omitempty"` // what the caller of the command named
	Error   *Problem `json:"error,omitempty"`
}

// Why is the answer to "why does it wait": the nodes that are left after each obstacle, and one
// sentence.
type Why struct {
	ID     model.JobID  `json:"id"`
	Reason Reason       `json:"reason"`
	Funnel []FunnelStep `json:"funnel"`
	Advice string       `json:"advice,omitempty"`
	Ahead  int          `json:"ahead"` // jobs that go first
	// of a job that has ended an attempt: the rule that decided how the last one ended
	Ended *EndedBy `json:"ended,omitempty"`
	// of a job that waits: what operators have told the scheduler, and what a dry run recorded of it
	Steering     []SchedSetting `json:"steering,omitempty"`
	WouldPreempt []Displacement `json:"would_preempt,omitempty"`

	Quotas []Quota          `json:"quota,omitempty"`            // those that apply to it
	After  *AfterPreemption `json:"after_preemption,omitempty"` // of a job that waits for room
}

// EndedBy says by which rule an attempt ended as it did, as a name and in words.
type EndedBy struct {
	Attempt int           `json:"attempt"`
	Cause   model.Cause   `json:"cause"`
	Rule    model.EndRule `json:"rule"`
	Text    string        `json:"text"`
}

// QuotaSpecBytes is the resource of the quota of bytes that the specifications of a user's jobs have together.
const QuotaSpecBytes = "spec_bytes"

// Quota is what is configured for an account or for a user in it, and what they hold of it.
type Quota struct {
	Account  string   `json:"account"`
	User     string   `json:"user,omitempty"` // none: the account itself
	Kind     string   `json:"kind"`           // limit, deserved, te
	Resource string   `json:"resource"`       // cores, memory, gpus, a model of GPUs, or [QuotaSpecBytes]
	Used     int64    `json:"used"`           // cores, MiB, thousandths of a GPU, or bytes
	Most     int64    `json:"most"`
	Binds    bool     `json:"binds"` // with the job it would be exceeded
	Text     string   `json:"text"`
	Holders  []Holder `json:"holders"`
}

// Holder is what a user has of a quota. It has no name if the caller may not see it.
type Holder struct {
	User    string        `json:"user,omitempty"`
	Account string        `json:"account,omitempty"`
	Held    int64         `json:"held"` // as Quota.Used
	Jobs    []model.JobID `json:"jobs"` // the largest, as far as the caller may see them
}

// AfterPreemption says whether a job would fit if jobs of lower precedence left, and which rules
// spare them.
type AfterPreemption struct {
	By     model.Cause `json:"by"`     // the rule by which jobs could leave for it: te, reclaim, order
	Jobs   int         `json:"jobs"`   // that run with lower precedence
	Fits   bool        `json:"fits"`   // if all of them left
	Lawful bool        `json:"lawful"` // if those left that no rule spares
	Spared []Spared    `json:"spared"`
	Text   string      `json:"text"`
}

// Spared are jobs that a rule spares.
type Spared struct {
	Rule  string        `json:"rule"`
	Count int           `json:"count"`
	Jobs  []model.JobID `json:"jobs"` // some of them, as far as the caller may see them
}

// FunnelStep is one sieve that nodes pass through.
type FunnelStep struct {
	What  string `json:"what"`
	Nodes int    `json:"nodes"` // that passed
}

// PlanRequest asks whether a job would start now.
type PlanRequest struct {
	Job *jobspec.Job `json:"job"`
}

// PlanResponse is the answer: what would happen if the job were submitted now.
type PlanResponse struct {
	Starts bool `json:"starts"`           // now; of an array or a job with groups, some of it
	Begins int  `json:"begins,omitempty"` // how many array tasks or groups would start now, 1 for any other job
	// of its workers, in order, or those of the first array task; empty when it would wait
	Places []PlanNode   `json:"places"`
	Reason Reason       `json:"reason"` // why it would wait
	Ahead  int          `json:"ahead"`  // jobs that go first
	Funnel []FunnelStep `json:"funnel"` // the nodes that are left after each obstacle, when it would wait
	Advice string       `json:"advice,omitempty"`

	// the jobs that would be asked to leave for it if it had to wait, and in how many seconds. An
	// id is 0 if the caller may not see the job
	Displaces      []Displacement `json:"displaces,omitempty"`
	DisplacesAfter int64          `json:"displaces_after,omitempty"`
	// an operator has paused that, or has a dry run on
	Steering []SchedSetting   `json:"steering,omitempty"`
	Quotas   []Quota          `json:"quota,omitempty"`
	After    *AfterPreemption `json:"after_preemption,omitempty"`
}

// PlanNode is one worker's place.
type PlanNode struct {
	Node string `json:"node"`
	GPUs []int  `json:"gpus"`
}

// Node is a node as users see it.
type Node struct {
	Name        string            `json:"name"`
	State       string            `json:"state"` // idle, mix, alloc, down, drain, drng
	Reason      string            `json:"reason"`
	Cores       int64             `json:"cores"`
	CoresUsed   int64             `json:"cores_used"`
	Memory      jobspec.Bytes     `json:"memory"`
	MemoryUsed  jobspec.Bytes     `json:"memory_used"`
	GPUs        []NodeGPU         `json:"gpus"`
	GPUsUsed    int               `json:"gpus_used"`
	Labels      map[string]string `json:"labels"`
	Jobs        []model.JobID     `json:"jobs"`
	Version     string            `json:"version"`
	LastSeen    *Time             `json:"last_seen"` // as far as the leader knows
	SharedPaths []string          `json:"shared_paths"`

	// GPUs that its jobs ask for, suspended ones included, by its GPUs: in thousandths, and rounded up
	Load     int64 `json:"load"`
	Height   int   `json:"height"`
	Affinity int   `json:"affinity"` // GPUs of the widest job there, 0: none
	// jobs that are suspended there, and the memory that they keep
	Suspended []SuspendedJob `json:"suspended,omitempty"`
}

// SuspendedJob is a job that is suspended on a node.
type SuspendedJob struct {
	Job    model.JobID   `json:"job,omitempty"` // none if the caller may not see it
	Memory jobspec.Bytes `json:"memory"`
}

// NodeList is the nodes, and whether their height matters.
type NodeList struct {
	List[Node]
	// Shares says that a queue or an account lets its jobs share nodes, or that a job is suspended.
	Shares bool `json:"shares,omitempty"`
}

// NodeRequest is the body of POST /v1/nodes/{name}/drain and resume.
type NodeRequest struct {
	Reason string `json:"reason,omitempty"` // drain needs one
}

// ConfirmDeadRequest is the body of POST /v1/nodes/confirm-dead.
type ConfirmDeadRequest struct {
	Nodes  []string `json:"nodes"` // names of nodes that are down
	Reason string   `json:"reason,omitempty"`
	DryRun bool     `json:"dry_run,omitempty"` // say what would be done, and do nothing
}

// ConfirmedDead says of each node what its confirmation does, or would do.
type ConfirmedDead struct {
	Items []DeadNode `json:"items"`
}

// DeadNode is a node on which nothing runs any more, as an operator says.
type DeadNode struct {
	Name  string        `json:"name"`
	Since *Time         `json:"since"` // it is down
	Jobs  []model.JobID `json:"jobs"`  // whose workers there are lost, so that they start elsewhere or end
}

// NodeGPU is one GPU of a node.
type NodeGPU struct {
	UUID    string        `json:"uuid"`
	Model   string        `json:"model"`
	Memory  jobspec.Bytes `json:"memory"`
	Healthy bool          `json:"healthy"`
	Job     model.JobID   `json:"job,omitempty"`
	Jobs    []model.JobID `json:"jobs,omitempty"` // those that have parts of it, if there are several
}

// Event is something that happened in the state.
type Event struct {
	Index   uint64      `json:"index"`
	At      *Time       `json:"at"`
	Type    string      `json:"type"`
	Job     model.JobID `json:"job,omitempty"`
	Attempt int         `json:"attempt,omitempty"`
	Node    string      `json:"node,omitempty"`
	Cause   model.Cause `json:"cause,omitempty"`
	For     model.JobID `json:"for,omitempty"`
	Text    string      `json:"text,omitempty"`

	// of one that had to leave: whose job it was for, and what it has cost by then, in seconds of one
	// GPU
	ForUser        string `json:"for_user,omitempty"`
	ForAccount     string `json:"for_account,omitempty"`
	LostGPUSeconds int64  `json:"lost_gpu_s,omitempty"`

	// of types tried and measured, as in Trial
	What         model.TrialKind `json:"what,omitempty"`
	With         model.JobID     `json:"with,omitempty"`
	ExpectedGain int64           `json:"expected_gain,omitempty"`
	MeasuredGain int64           `json:"measured_gain,omitempty"`
	Undone       bool            `json:"undone,omitempty"`
}

// Share is one account's part of the cluster.
type Share struct {
	Account string `json:"account"`
	Jobs    int    `json:"jobs"`
	Running int    `json:"running"`
	GPUs    int    `json:"gpus"`
	Share   int64  `json:"share"` // thousandths of all GPUs held now

	Parent string `json:"parent,omitempty"` // "": at the top
	Fairness
	Users []UserShare `json:"users,omitempty"`

	Explanation *ShareExplanation `json:"explanation,omitempty"` // of the account that explain names

	// GPUs in thousandths, if they are no whole ones: GPUs rounds them up
	GPUThousandths int64 `json:"gpu_thousandths,omitempty"`
}

// ShareExplanation says how the share of an account comes about. Parts are as in Fairness.
type ShareExplanation struct {
	Steps    []ShareStep `json:"steps"`    // from the top of the tree down to the account
	Promised bool        `json:"promised"` // what it deserves is configured, for it or above it; else an equal part
	// seconds after which past usage counts half, 0: it does not age; and thousandths by which usage
	// moves spare capacity
	HalfLife  int64 `json:"half_life"`
	Influence int64 `json:"influence"`
	// what it may take back, and the accounts above their shares, by how much; and the reverse
	Reclaims int64     `json:"reclaims"`
	From     []ShareOf `json:"from,omitempty"`
	Over     int64     `json:"over"`
	By       []ShareOf `json:"by,omitempty"`
}

// ShareStep is one level of the tree of accounts.
type ShareStep struct {
	Account    string `json:"account"`
	Weight     int64  `json:"weight"`
	Weights    int64  `json:"weights"`    // of all its siblings that hold or ask for something, itself included
	Configured bool   `json:"configured"` // what it deserves is
	Deserved   int64  `json:"deserved"`
	Demand     int64  `json:"demand"` // what it holds and asks for, within its limits
	Fair       int64  `json:"fair"`
	Alloc      int64  `json:"alloc"`
}

// ShareOf is a part of the cluster with its account.
type ShareOf struct {
	Account string `json:"account"`
	Part    int64  `json:"part"`
}

// Priority is a waiting job with what decides its place in the order, the first that differs first.
type Priority struct {
	Position int           `json:"position"` // from 1; 0 of a job that cannot start now whatever is free
	ID       model.JobID   `json:"id"`
	Name     string        `json:"name"`
	Ref      string        `json:"ref"` // 123, 123_[0-9] for the tasks of an array
	User     string        `json:"user"`
	Account  string        `json:"account"`
	Class    jobspec.Class `json:"class"`

	OwnRoom bool `json:"own_room,omitempty"` // it left its room to a job that did not want it: first in its class
	// levels of the account tree at which its accounts hold what they are entitled to, a bit each from
	// the top down
	AccountsOver int   `json:"accounts_over"`
	UserOver     bool  `json:"user_over"` // its user does
	Priority     int   `json:"priority"`
	Level        int   `json:"level"`     // service level: the lower one first
	Service      int64 `json:"service_s"` // what it counts for, in seconds of one GPU
	Age          int64 `json:"age"`       // seconds for which it has waited since it could start
	Reserved     bool  `json:"reserved"`  // room is kept for it

	AccountShare Fairness `json:"account_share"`
	UserShare    Fairness `json:"user_share"`
	Reason       Reason   `json:"reason"` // why it waits
}

// UserShare is one user's part of what an account has.
type UserShare struct {
	User string `json:"user"`
	GPUs int    `json:"gpus"`
	Fairness

	// GPUs in thousandths, if they are no whole ones: GPUs rounds them up
	GPUThousandths int64 `json:"gpu_thousandths,omitempty"`
}

// Fairness compares what an account or user has with what it should have. Parts are thousandths of
// the cluster, by the resource of which they are the largest part.
type Fairness struct {
	Weight   int64 `json:"weight"`
	Deserved int64 `json:"deserved"` // whatever others ask for
	Fair     int64 `json:"fair"`     // what it should have now, given what others ask for
	Alloc    int64 `json:"alloc"`    // what it holds
	Borrowed int64 `json:"borrowed"` // of that, what it does not deserve
	Usage    int64 `json:"usage"`    // seconds for which it has held the whole cluster, those long ago counted less
	// usage in thousandths of what it would be had it held what it deserves while it had jobs; -1:
	// of nothing
	Ratio int64 `json:"ratio"`
}

// Cluster is the controllers and what they know.
type Cluster struct {
	Name        string       `json:"name"`
	Leader      string       `json:"leader"`
	Term        uint64       `json:"term"`
	Index       uint64       `json:"index"`
	Version     int          `json:"version"`
	Policy      string       `json:"policy"` // by which it schedules; its parameters are in the configuration
	Controllers []Controller `json:"controllers"`
	// how the present generation began; nil: it is that of a cluster that was never recovered or restored
	Generation *GenerationState `json:"generation,omitempty"`
	// nodes that have accepted another generation and refuse this one, as far as this controller was told
	RefusedBy []RefusingNode `json:"refused_by,omitempty"`
	// what operators have told the scheduler
	Steering []SchedSetting `json:"steering,omitempty"`
	// the change of the key of the gossip that is going on; nil: none is
	GossipKey *GossipKey `json:"gossip_key,omitempty"`
	// the nodes that keep jobs in an outage of the controllers; nil: there are none
	Witnesses *WitnessState `json:"witnesses,omitempty"`
	// the replacement of the authority that is going on; nil: none is
	Authority *AuthorityChange `json:"authority,omitempty"`
}

// WitnessState is the newest set of witnesses.
type WitnessState struct {
	Number uint64   `json:"number"` // how many sets were chosen up to this one
	Nodes  []string `json:"nodes"`
	InUse  int      `json:"in_use"` // sets that nodes with jobs may have
	// the nodes with which the leader is not in touch; while they are half of all, lost jobs wait
	OutOfTouch []string `json:"out_of_touch,omitempty"`
	ByLeader   bool     `json:"by_leader"` // the leader has answered, which alone knows OutOfTouch
}

// GenerationState is a generation of the cluster that rota-controld recover or restore began.
type GenerationState struct {
	Generation string   `json:"generation"` // NUMBER-ID
	Means      string   `json:"means"`      // recover or restore
	Controller string   `json:"controller"` // that became a cluster of one
	Raised     *Time    `json:"raised"`
	Settled    bool     `json:"settled"`               // a majority of the nodes follows it
	Accepted   int      `json:"accepted"`              // nodes that follow it
	Need       int      `json:"need"`                  // how many must
	Missing    []string `json:"missing,omitempty"`     // nodes that do not follow it yet
	Unknown    int      `json:"unknown,omitempty"`     // jobs that nodes know and the state does not
	Held       int      `json:"held,omitempty"`        // jobs whose later attempts nodes know
	OldJobsIn  int64    `json:"old_jobs_in,omitempty"` // seconds until jobs from before may start
}

// RefusingNode is a node that follows another generation than this controller has.
type RefusingNode struct {
	Node       string `json:"node"`
	Generation string `json:"generation"`
}

// Controller is one control daemon.
type Controller struct {
	Name   string `json:"name"`
	HTTP   string `json:"http"`
	Raft   string `json:"raft"`
	Leader bool   `json:"leader"`
	Voter  bool   `json:"voter"`
	State  string `json:"state"` // ControllerVoter and so on
}

// States of a controller in the cluster's log.
const (
	ControllerVoter   = "voter"
	ControllerLearner = "learner" // it gets the log, and no vote until it has all of it
	ControllerNoLog   = "no-log"  // its vote belongs to a log that it has lost
	ControllerNew     = "new"     // the log does not know it
)

// Check is the answer of /v1/check: the invariants that do not hold on the live state.
type Check struct {
	OK         bool     `json:"ok"`
	Index      uint64   `json:"index"`
	Violations []string `json:"violations"`
	Digest     string   `json:"digest"` // SHA-256 of the state: two controllers at one index have the same
}

// Problem is an error of the API (RFC 9457), with a stable Code.
type Problem struct {
	Type   string   `json:"type"`
	Title  string   `json:"title"`
	Status int      `json:"status"`
	Code   string   `json:"code"`
	Detail string   `json:"detail"`
	Hint   string   `json:"hint,omitempty"`
	Errors []string `json:"errors,omitempty"` // when there are several
}

// Error implements error.
func (p *Problem) Error() string { return p.Detail }

// The stable values of Problem.Code.
const (
	CodeInvalid      = "invalid"      // 400 malformed request
	CodeInvalidJob   = "invalid-job"  // 422 the job breaks a rule
	CodeImpossible   = "impossible"   // 422 no node could ever run it
	CodeUnsupported  = "unsupported"  // 422 a part of the language that is not honoured yet
	CodeNotFound     = "not-found"    // 404
	CodeDenied       = "denied"       // 403
	CodeUnauthorised = "unauthorised" // 401
	CodeKeyReused    = "key-reused"   // 409
	CodeWrongState   = "wrong-state"  // 409
	CodeTooLarge     = "too-large"    // 413
	CodeNoLeader     = "no-leader"    // 503
	CodeGeneration   = "generation"   // 421 the controller and the caller are of different generations of the cluster
	CodeUnsettled    = "unsettled"    // 503 a recovered or restored cluster whose nodes have not accepted that yet
	CodeInternal     = "internal"     // 500
	CodeUncertain    = "uncertain"    // 503 leadership changed while waiting: it may have been done or not
	CodeTimeout      = "timeout"      // 504
	CodeBusy         = "busy"         // 503 too many large requests at once: nothing was done
	CodeLimit        = "limit"        // 429 the user has as many as the cluster allows
)

// AuditEntry is one request that changed something or was refused, or several refusals alike.
type AuditEntry struct {
	At         *Time  `json:"at"`
	Controller string `json:"controller"` // that decided
	User       string `json:"user"`       // "" if the caller was not known
	UID        int64  `json:"uid"`        // -1 if it was not
	Token      string `json:"token,omitempty"`
	From       string `json:"from"`              // address, machine or socket
	Action     string `json:"action"`            // method and route
	Jobs       string `json:"jobs,omitempty"`    // ids, as ranges
	Account    string `json:"account,omitempty"` // that submitted jobs are charged to
	Object     string `json:"object,omitempty"`  // node, controller or token
	Status     int    `json:"status"`            // of HTTP
	Code       string `json:"code"`              // of the problem; "ok" for none
	Times      int    `json:"times"`             // how many requests alike it stands for
}

// AuditList has entries of the audit logs of all controllers, the last first.
type AuditList struct {
	List[AuditEntry]
	// Unreachable names the controllers whose entries are missing.
	Unreachable []string `json:"unreachable,omitempty"`
}
