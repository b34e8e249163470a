// Package api is the contract between Rota's control daemon and all programs that talk to it. It
// has the JSON of every request and response, and a client. It contains neither the server nor an
// OpenAPI library, so that the command starts fast.
package api

import (
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Version is the apiVersion of all lists.
const Version = "v1"

// Headers.
const (
	HeaderIndex          = "Rota-Index"      // index of the state that answered
	HeaderStale          = "Rota-Stale"      // seconds since a leader was last heard of; only without quorum
	HeaderCluster        = "Rota-Cluster"    // id of the cluster
	HeaderIdempotencyKey = "Idempotency-Key" // 1 to 64 visible ASCII characters
)

// SubmitRequest is a job to submit. POST /v1/jobs takes one request, or {"jobs":[…]} to submit all
// or none.
type SubmitRequest struct {
	Jobs []*jobspec.Job `json:"jobs"`
}

// SubmitResponse has the ids in the order of the request.
type SubmitResponse struct {
	IDs      []model.JobID `json:"ids"`
	Warnings []string      `json:"warnings,omitempty"` // settings of the jobs that have no effect in this cluster
	RunAs    string        `json:"run_as,omitempty"`   // user that the jobs run as, if not the caller
}

// List is the form of every list.
type List[T any] struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Index      uint64 `json:"index"`
	Items      []T    `json:"items"`
	Next       string `json:"next,omitempty"` // value of page for the following page
	// the list has only items that changed or ended since the requested index
	Delta bool `json:"delta,omitempty"`
	// requested parts that are missing from the list, one sentence each
	Warnings []string `json:"warnings,omitempty"`
}

// FlagAllocation is the flag of a job that only holds its nodes for the steps of salloc or srun.
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
	Cores       int                `json:"cores"`  // of all workers; a worker with its own nodes counts all cores of them
	Memory      jobspec.Bytes      `json:"memory"` // counted as cores are
	GPUSeconds  int64              `json:"gpu_seconds"`
	Attempts    []Attempt          `json:"attempts"`
	Preemptions Preemptions        `json:"preemptions"`
	Resizes     int                `json:"resizes"`
	Migrations  int                `json:"migrations"`
	Suspensions int                `json:"suspensions"`
	Steps       int64              `json:"steps"`
	SavedStep   int64              `json:"saved_step"`
	Metrics     map[string]float64 `json:"metrics,omitempty"` // newest values reported by the running job
	// a mistake in that report, which is ignored; or that the job is behind what an earlier attempt
	// had saved
	ProgressProblem string `json:"progress_problem,omitempty"`
	// progress of a running job's training by its own metric: progressing, watching or converged;
	// missing if unknown
	ProgressClass string `json:"progress_class,omitempty"`
	Workdir       string `json:"workdir"`
	Comment       string `json:"comment,omitempty"`
	// uid of the user that requested its cancellation; for an array job it concerns tasks that had
	// not started, perhaps only some. Missing if no user did.
	CancelledBy *uint32 `json:"cancelled_by,omitempty"`
	// with ?spec=true, and of a single job. The spec, workdir, comment, metrics, rejected metrics,
	// parameters and findings are visible to the owner, coordinators and operators only
	Spec *jobspec.Job `json:"spec,omitempty"`

	// GPU seconds that its requested GPUs were lacking while it was suspended; not part of
	// gpu_seconds or elapsed
	SuspendedGPUSeconds int64 `json:"suspended_gpu_s,omitempty"`

	Elastic      *Elastic     `json:"elastic,omitempty"` // of an elastic job
	Group        *GroupPlace  `json:"group,omitempty"`
	Groups       []GroupState `json:"groups,omitempty"`
	Components   []Component  `json:"components,omitempty"`   // the groups that start together, if the job has several
	Dependencies []Dependency `json:"dependencies,omitempty"` // dependencies that are not met yet
	Eligible     *Time        `json:"eligible,omitempty"`     // earliest start, if that is in the future
	Deadline     *Time        `json:"deadline,omitempty"`

	// With ?start=true, of a waiting job: when it is expected to start; missing if unknown. The
	// latest start holds if no job arrives that goes first. Basis says on what that rests.
	StartEarliest *Time  `json:"start_earliest,omitempty"`
	StartLatest   *Time  `json:"start_latest,omitempty"`
	Basis         string `json:"basis,omitempty"`

	// thousandths of a GPU over all workers, if that is no whole number; GPUs is rounded up
	GPUThousandths int64 `json:"gpu_thousandths,omitempty"`
}

// Component is the resources of one group that starts together with others, such as a component of
// a heterogeneous job.
type Component struct {
	Workers int           `json:"workers"`
	Cores   int           `json:"cores"`
	Memory  jobspec.Bytes `json:"memory"`
	GPUs    int           `json:"gpus"`
}

// ArrayPlace is the array of a job and its number there. An array job has the fates of its tasks instead.
// It is empty for any other job.
type ArrayPlace struct {
	Job    model.JobID       `json:"job,omitempty"`    // the array job
	Index  *int              `json:"index,omitempty"`  // of an array task
	Params map[string]string `json:"params,omitempty"` // of an array task

	Indices     string `json:"indices,omitempty"` // of an array job: the tasks that have not started, such as 4-99%8
	Dropped     string `json:"dropped,omitempty"` // tasks that were cancelled before they started, such as 7,9
	Size        int    `json:"size,omitempty"`
	MaxParallel int    `json:"max_parallel,omitempty"`
	Live        int    `json:"live,omitempty"`
	Completed   int    `json:"completed,omitempty"`
	Failed      int    `json:"failed,omitempty"`
	Cancelled   int    `json:"cancelled,omitempty"`
}

// Elastic is the allowed numbers of workers in a job's elastic group, and the current number.
type Elastic struct {
	Workers    int    `json:"workers"` // 0 while it waits
	Min        int    `json:"min"`
	Max        int    `json:"max"`
	MultipleOf int    `json:"multiple_of"`
	Text       string `json:"text,omitempty"` // reason for the current number
}

// GroupPlace says which group of which pipeline job a job is; Job.Groups lists the groups of the
// pipeline job.
type GroupPlace struct {
	Job  model.JobID `json:"job"` // the pipeline job
	Name string      `json:"name"`
}

// GroupState is one group of a pipeline job.
type GroupState struct {
	Name    string         `json:"name"`
	ID      model.JobID    `json:"id,omitempty"` // id of the job that runs the group; missing with gang_scope job
	Code    model.JobState `json:"code"`
	Workers int            `json:"workers"`
}

// Dependency is an unmet dependency of a job.
type Dependency struct {
	Type  string          `json:"type"`
	Jobs  []model.JobID   `json:"jobs,omitempty"`
	Match string          `json:"match,omitempty"`
	Delay jobspec.Seconds `json:"delay,omitempty"`
}

// Reason says why a job waits, or why it ended in its state.
type Reason struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Attempt is one execution of a job.
type Attempt struct {
	N        int         `json:"n"`
	Start    *Time       `json:"start"`
	End      *Time       `json:"end"`
	Nodes    []string    `json:"nodes"`
	ExitCode int         `json:"exit_code"`
	Signal   int         `json:"signal"`
	Cause    model.Cause `json:"cause"`
	Killed   string      `json:"killed,omitempty"` // for cause oom: the killed process and the limit
	// rule that decided how the attempt ended, such as own-exit or saved; missing while it runs
	Rule     model.EndRule `json:"rule,omitempty"`
	Findings []Finding     `json:"findings,omitempty"` // findings of log policies, oldest first
	Workers  int           `json:"workers"`
	Rate     int64         `json:"rate,omitempty"` // for an elastic job: steps in 1,000 s, measured once

	SuspendedSeconds int64       `json:"suspended_s,omitempty"` // seconds for which it has been suspended
	Suspension       *Suspension `json:"suspension,omitempty"`  // of an attempt that is suspended or was told to pause
	// trials to use GPUs better with this attempt, oldest first
	Trials []Trial `json:"trials,omitempty"`
	// usage of its ended workers; missing if unknown
	Usage *Usage `json:"usage,omitempty"`

	// bytes of output of its workers and steps that could not be written, as on a full disk. While it
	// runs, the number is at least half of the exact one.
	OutputLost int64 `json:"output_lost,omitempty"`
	// workers whose output is lost, in order
	OutputLostBy []OutputLoss `json:"output_lost_by,omitempty"`

	// ended steps in the order of their ends; included for a single job, and in lists on request
	Steps []Step `json:"steps,omitempty"`

	// for a job that must stop: the job that gets the resources, its user, and the time at which
	// this job is killed
	For        model.JobID `json:"for,omitempty"`
	ForUser    string      `json:"for_user,omitempty"`
	ForAccount string      `json:"for_account,omitempty"`
	LeaveBy    *Time       `json:"leave_by,omitempty"`
	// cost of that so far, in seconds of one GPU
	LostGPUSeconds int64 `json:"lost_gpu_s,omitempty"`
	Lost           *Lost `json:"lost,omitempty"`
}

// OutputLoss is the lost output of one worker.
type OutputLoss struct {
	Worker int    `json:"worker"`
	Node   string `json:"node"`
	Bytes  int64  `json:"bytes"`
	Error  string `json:"error"` // such as "no space left on device"
}

// Step is an ended step of a job.
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
	Why      string   `json:"why,omitempty"` // the reason of its end, unless its program ended by itself
	Usage    *Usage   `json:"usage,omitempty"`

	OutputLost  int64  `json:"output_lost,omitempty"`       // bytes that srun could not write
	OutputError string `json:"output_lost_error,omitempty"` // why, such as "no space left on device"
}

// Usage is the usage of all workers of an attempt together; 0 means unused or unknown. Utilisation
// is the mean over all GPUs.
type Usage struct {
	CPUSeconds    float64       `json:"cpu_s"`
	SystemSeconds float64       `json:"system_s"`    // the part spent in the kernel; the rest is user time
	PeakCores     float64       `json:"peak_cores"`  // sum of each worker's own peak
	PeakMemory    jobspec.Bytes `json:"peak_memory"` // of the worker with the largest peak
	Memory        jobspec.Bytes `json:"memory"`      // sum of each worker's own peak
	Workers       int           `json:"workers"`     // number of workers that the usage covers

	GPUUtil       int           `json:"gpu_util"` // percent
	PeakGPUUtil   int           `json:"peak_gpu_util"`
	GPUMemory     jobspec.Bytes `json:"gpu_memory"`
	PeakGPUMemory jobspec.Bytes `json:"peak_gpu_memory"` // sum of each worker's own peak

	Extern *ExternUsage `json:"extern,omitempty"` // the part used by rota exec and rota shell; missing if nothing
}

// ExternUsage is the part of the usage by processes that were started beside a job's tasks. Usage
// of processes that these left behind does not count.
type ExternUsage struct {
	CPUSeconds    float64       `json:"cpu_s"`
	SystemSeconds float64       `json:"system_s"`
	PeakMemory    jobspec.Bytes `json:"peak_memory"` // largest peak of a single ended process
}

// Suspension says why an attempt pauses. The attempt keeps its memory, and releases cores and GPUs
// once all of its workers have paused.
type Suspension struct {
	Since *Time       `json:"since"` // null until all of its workers have paused
	Cause model.Cause `json:"cause"`
	For   model.JobID `json:"for,omitempty"` // the job that gets the resources
}

// Trial is a change tried with an attempt in order to use GPUs better. Gains are the rate of all
// affected jobs, in thousandths of the rate before.
type Trial struct {
	What         model.TrialKind `json:"what"`           // pack or migrate
	With         model.JobID     `json:"with,omitempty"` // the other job of pack
	ExpectedGain int64           `json:"expected_gain,omitempty"`
	MeasuredGain int64           `json:"measured_gain,omitempty"` // missing: not measured yet
	Undone       bool            `json:"undone,omitempty"`        // undone, because it brought nothing
}

// Series is the reported values of one metric of a job, as far as the current leader has seen them.
type Series struct {
	Job     model.JobID `json:"job"`
	Metric  string      `json:"metric"`
	Goal    string      `json:"goal,omitempty"`  // min or max, from the job's progress block
	Total   int64       `json:"total,omitempty"` // steps in all, from the job's progress block
	Metrics []string    `json:"metrics"`         // names of the metrics that have a series
	Points  []Point     `json:"points"`          // by step; long series are thinned
}

// Point is the value of a metric at a step.
type Point struct {
	Step  int64   `json:"step"`
	Value float64 `json:"value"`
}

// Lost is the parts of a loss, in seconds of one GPU. A job without GPUs counts by its GPU
// equivalents.
type Lost struct {
	GPUSeconds int64 `json:"gpu_s"`     // sum
	Work       int64 `json:"work_s"`    // work done since the last checkpoint
	Grace      int64 `json:"grace_s"`   // held during the grace period
	Restart    int64 `json:"restart_s"` // held by the next attempt until its commands ran
}

// Finding is the first line of output that matched the pattern of a log policy.
type Finding struct {
	Policy string `json:"policy"`
	Worker int    `json:"worker"`
	Line   string `json:"line"`
	At     *Time  `json:"at"`
}

// Preemptions counts preemptions by cause.
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
	TimeLimit *jobspec.Seconds `json:"time_limit,omitempty"` // new limit of each attempt, including the current one
	AddTime   *jobspec.Seconds `json:"add_time,omitempty"`   // added to the time limit; a negative value shortens it
	Priority  *int             `json:"priority,omitempty"`
	Name      *string          `json:"name,omitempty"`
	Comment   *string          `json:"comment,omitempty"` // "" removes the comment
}

// PruneRequest is the body of POST /v1/jobs/{id}/prune: keep the best tasks of an array by a
// metric, and cancel the others.
type PruneRequest struct {
	Metric string `json:"metric"`
	Goal   string `json:"goal,omitempty"`    // min (default) or max
	Keep   string `json:"keep"`              // "top 25%" or "top 4"
	AtStep int64  `json:"at_step,omitempty"` // tasks that have not reached this step are left alone
	DryRun bool   `json:"dry_run,omitempty"` // only report what would be done
}

// PruneResponse lists array tasks by their index.
type PruneResponse struct {
	Kept      []int `json:"kept"`
	Cancelled []int `json:"cancelled"`
	Silent    []int `json:"silent"` // running, but without this metric: left alone
}

// CancelRequest is the body of POST /v1/jobs/cancel: cancel every unfinished job that matches all
// set fields. An empty filter is refused.
type CancelRequest struct {
	IDs     []model.JobID `json:"ids,omitempty"`
	Refs    []string      `json:"refs,omitempty"` // by id or by name: 123_[4-9], 123.train
	User    string        `json:"user,omitempty"`
	Account string        `json:"account,omitempty"`
	Name    string        `json:"name,omitempty"`
	States  []string      `json:"states,omitempty"`
	Reason  string        `json:"reason,omitempty"`
}

// SignalRequest is the body of POST /v1/jobs/{id}/signal: send a signal to the job's processes. The
// signal does not count as a request to stop.
type SignalRequest struct {
	Signal string `json:"signal"` // SIGUSR1
	// processes that get the signal if the program is a shell script: script or programs, as in
	// [jobspec.Preemption]; "": the shell and its children
	To string `json:"to,omitempty"`
}

// ControlResponse is the result for each job.
type ControlResponse struct {
	Items []ControlItem `json:"items"`
}

// ControlItem is the result for one job; Error is nil on success.
type ControlItem struct {
	ID model.JobID `json:"id"`
	// for an array or pipeline job, the numbers from 1 of the selected members
	Members string   `json:"members,omitempty"`
	Ref     string   `json:"ref,omitempty"` // the name that the caller of the command used
	Error   *Problem `json:"error,omitempty"`
}

// Why answers why a job waits: the nodes left after each obstacle, and one sentence.
type Why struct {
	ID     model.JobID  `json:"id"`
	Reason Reason       `json:"reason"`
	Funnel []FunnelStep `json:"funnel"`
	Advice string       `json:"advice,omitempty"`
	Ahead  int          `json:"ahead"` // number of jobs that go first
	// for a job with an ended attempt: the rule that decided how the last attempt ended
	Ended *EndedBy `json:"ended,omitempty"`
	// for a waiting job: operators' settings of the scheduler, and what a dry run recorded for it
	Steering     []SchedSetting `json:"steering,omitempty"`
	WouldPreempt []Displacement `json:"would_preempt,omitempty"`

	Quotas []Quota          `json:"quota,omitempty"`            // quotas that apply to it
	After  *AfterPreemption `json:"after_preemption,omitempty"` // for a job that waits for resources
}

// EndedBy is the rule by which an attempt ended, as a name and as a sentence.
type EndedBy struct {
	Attempt int           `json:"attempt"`
	Cause   model.Cause   `json:"cause"`
	Rule    model.EndRule `json:"rule"`
	Text    string        `json:"text"`
}

// QuotaSpecBytes is the resource name of the quota for the total size of a user's job
// specifications.
const QuotaSpecBytes = "spec_bytes"

// Quota is a configured quota of an account or of a user in it, and the amount held.
type Quota struct {
	Account  string   `json:"account"`
	User     string   `json:"user,omitempty"` // missing: the quota of the account itself
	Kind     string   `json:"kind"`           // limit, deserved, te
	Resource string   `json:"resource"`       // cores, memory, gpus, a model of GPUs, or [QuotaSpecBytes]
	Used     int64    `json:"used"`           // amount held, in cores, MiB, thousandths of a GPU, or bytes
	Most     int64    `json:"most"`
	Binds    bool     `json:"binds"` // the job would exceed it
	Text     string   `json:"text"`
	Holders  []Holder `json:"holders"`
}

// Holder is a user's holdings under a quota. Its name is missing if the caller may not see it.
type Holder struct {
	User    string        `json:"user,omitempty"`
	Account string        `json:"account,omitempty"`
	Held    int64         `json:"held"` // unit as in Quota.Used
	Jobs    []model.JobID `json:"jobs"` // the largest jobs, as far as the caller may see them
}

// AfterPreemption says whether a job would fit if jobs of lower precedence were preempted, and
// which rules spare jobs.
type AfterPreemption struct {
	By     model.Cause `json:"by"`     // rule by which jobs could be preempted for it: te, reclaim, order
	Jobs   int         `json:"jobs"`   // running jobs of lower precedence
	Fits   bool        `json:"fits"`   // the job would fit if all of them were preempted
	Lawful bool        `json:"lawful"` // the job would fit if all of them that no rule spares were preempted
	Spared []Spared    `json:"spared"`
	Text   string      `json:"text"`
}

// Spared is the jobs that one rule spares.
type Spared struct {
	Rule  string        `json:"rule"`
	Count int           `json:"count"`
	Jobs  []model.JobID `json:"jobs"` // some of them, as far as the caller may see them
}

// FunnelStep is one filter of the nodes.
type FunnelStep struct {
	What  string `json:"what"`
	Nodes int    `json:"nodes"` // nodes that pass it
}

// PlanRequest asks whether a job would start now.
type PlanRequest struct {
	Job *jobspec.Job `json:"job"`
}

// PlanResponse says what would happen if the job were submitted now.
type PlanResponse struct {
	Starts bool `json:"starts"`           // it would start now; for an array or a job with groups: a part of it
	Begins int  `json:"begins,omitempty"` // number of array tasks or groups that would start now; 1 for any other job
	// of its workers in order, or of the first array task's; empty if it would wait
	Places []PlanNode   `json:"places"`
	Reason Reason       `json:"reason"` // why it would wait
	Ahead  int          `json:"ahead"`  // number of jobs that go first
	Funnel []FunnelStep `json:"funnel"` // nodes left after each obstacle, if it would wait
	Advice string       `json:"advice,omitempty"`
	// when it is expected to start, as of a job in the queue
	StartEarliest *Time  `json:"start_earliest,omitempty"`
	StartLatest   *Time  `json:"start_latest,omitempty"`
	Basis         string `json:"basis,omitempty"`

	// the jobs that would be preempted for it, and after how many seconds. An id is 0 if the caller
	// may not see the job
	Displaces      []Displacement `json:"displaces,omitempty"`
	DisplacesAfter int64          `json:"displaces_after,omitempty"`
	// an operator has paused preemption or started a dry run
	Steering []SchedSetting   `json:"steering,omitempty"`
	Quotas   []Quota          `json:"quota,omitempty"`
	After    *AfterPreemption `json:"after_preemption,omitempty"`
}

// PlanNode is the place of one worker.
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
	LastSeen    *Time             `json:"last_seen"` // to the leader's knowledge
	SharedPaths []string          `json:"shared_paths"`

	// requested GPUs of its jobs, including suspended ones, divided by the node's GPUs, in
	// thousandths, rounded up
	Load     int64 `json:"load"`
	Height   int   `json:"height"`
	Affinity int   `json:"affinity"` // GPUs of the widest job on the node; 0: no job
	// jobs suspended on the node, and the memory that they keep
	Suspended []SuspendedJob `json:"suspended,omitempty"`
}

// SuspendedJob is a job that is suspended on a node.
type SuspendedJob struct {
	Job    model.JobID   `json:"job,omitempty"` // missing if the caller may not see it
	Memory jobspec.Bytes `json:"memory"`
}

// NodeList is the list of nodes, and whether their height matters.
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
	DryRun bool     `json:"dry_run,omitempty"` // only report what would be done
}

// ConfirmedDead lists, for each node, the effect of its confirmation.
type ConfirmedDead struct {
	Items []DeadNode `json:"items"`
}

// DeadNode is a node that an operator confirms to be dead: nothing runs there any more.
type DeadNode struct {
	Name  string        `json:"name"`
	Since *Time         `json:"since"` // down since
	Jobs  []model.JobID `json:"jobs"`  // jobs whose workers there count as lost, so that the jobs start elsewhere or end
}

// NodeGPU is one GPU of a node.
type NodeGPU struct {
	UUID    string        `json:"uuid"`
	Model   string        `json:"model"`
	Memory  jobspec.Bytes `json:"memory"`
	Healthy bool          `json:"healthy"`
	Job     model.JobID   `json:"job,omitempty"`
	Jobs    []model.JobID `json:"jobs,omitempty"` // jobs that share it, if there are several
}

// Event is a change of the state.
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

	// for a job that must stop: the owner of the job that gets the resources, and the cost so far
	// in seconds of one GPU
	ForUser        string `json:"for_user,omitempty"`
	ForAccount     string `json:"for_account,omitempty"`
	LostGPUSeconds int64  `json:"lost_gpu_s,omitempty"`

	// for the types tried and measured, as in Trial
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

	Explanation *ShareExplanation `json:"explanation,omitempty"` // of the account that the request names in explain

	// thousandths of a GPU if that is no whole number; GPUs is rounded up
	GPUThousandths int64 `json:"gpu_thousandths,omitempty"`
}

// ShareExplanation explains how the share of an account is calculated. Parts are as in Fairness.
type ShareExplanation struct {
	Steps    []ShareStep `json:"steps"`    // from the top of the tree down to the account
	Promised bool        `json:"promised"` // by a configured quota, its own or one above it; else an equal part
	// half-life of past usage in seconds (0: no ageing), and thousandths by which usage moves spare
	// capacity
	HalfLife  int64 `json:"half_life"`
	Influence int64 `json:"influence"`
	// the amount it can reclaim, and the accounts above their shares with their excess; and the
	// reverse
	Reclaims int64     `json:"reclaims"`
	From     []ShareOf `json:"from,omitempty"`
	Over     int64     `json:"over"`
	By       []ShareOf `json:"by,omitempty"`
}

// ShareStep is one level of the tree of accounts.
type ShareStep struct {
	Account    string `json:"account"`
	Weight     int64  `json:"weight"`
	Weights    int64  `json:"weights"`    // sum of the weights of all siblings with holdings or demand, including itself
	Configured bool   `json:"configured"` // the deserved part is configured
	Deserved   int64  `json:"deserved"`
	Demand     int64  `json:"demand"` // holdings and demand, within its limits
	Fair       int64  `json:"fair"`
	Alloc      int64  `json:"alloc"`
}

// ShareOf is a part of the cluster that belongs to an account.
type ShareOf struct {
	Account string `json:"account"`
	Part    int64  `json:"part"`
}

// Priority is a waiting job with its sort keys, in order of their weight.
type Priority struct {
	Position int           `json:"position"` // from 1; 0 for a job that cannot start now even with free resources
	ID       model.JobID   `json:"id"`
	Name     string        `json:"name"`
	Ref      string        `json:"ref"` // 123, 123_[0-9] for the tasks of an array
	User     string        `json:"user"`
	Account  string        `json:"account"`
	Class    jobspec.Class `json:"class"`

	OwnRoom bool `json:"own_room,omitempty"` // its room went to a job that no longer wanted it: first in its class
	// levels of the account tree at which its accounts hold their full entitlement, one bit each
	// from the top
	AccountsOver int   `json:"accounts_over"`
	UserOver     bool  `json:"user_over"` // its user holds its full entitlement
	Priority     int   `json:"priority"`
	Level        int   `json:"level"`     // service level: lower levels go first
	Service      int64 `json:"service_s"` // service that counts, in seconds of one GPU
	Age          int64 `json:"age"`       // seconds since the job could have started
	Reserved     bool  `json:"reserved"`  // resources are reserved for it

	AccountShare Fairness `json:"account_share"`
	UserShare    Fairness `json:"user_share"`
	Reason       Reason   `json:"reason"` // why it waits
}

// UserShare is one user's part of an account.
type UserShare struct {
	User string `json:"user"`
	GPUs int    `json:"gpus"`
	Fairness

	// GPUs in thousandths, if they are no whole ones: GPUs rounds them up
	GPUThousandths int64 `json:"gpu_thousandths,omitempty"`
}

// Fairness compares the holdings of an account or user with its entitlement. Parts are thousandths
// of the cluster, of the resource with the largest part.
type Fairness struct {
	Weight   int64 `json:"weight"`
	Deserved int64 `json:"deserved"` // the entitlement, independent of demand
	Fair     int64 `json:"fair"`     // the entitlement now, given the demand of others
	Alloc    int64 `json:"alloc"`    // current holdings
	Borrowed int64 `json:"borrowed"` // the part of alloc beyond deserved
	Usage    int64 `json:"usage"`    // seconds of holding the whole cluster, with decay
	// usage in thousandths of the usage at the deserved part while it had jobs; -1: no deserved
	// part
	Ratio int64 `json:"ratio"`
}

// Cluster is the controllers and their knowledge of the cluster.
type Cluster struct {
	Name        string       `json:"name"`
	Leader      string       `json:"leader"`
	Term        uint64       `json:"term"`
	Index       uint64       `json:"index"`
	Version     int          `json:"version"`
	Policy      string       `json:"policy"` // scheduling policy; the configuration has its parameters
	Controllers []Controller `json:"controllers"`
	// start of the present generation; nil: the cluster was never recovered or restored
	Generation *GenerationState `json:"generation,omitempty"`
	// nodes that follow another generation and refuse this one, to this controller's knowledge
	RefusedBy []RefusingNode `json:"refused_by,omitempty"`
	// operators' settings of the scheduler
	Steering []SchedSetting `json:"steering,omitempty"`
	// the change of the gossip key in progress; nil: none
	GossipKey *GossipKey `json:"gossip_key,omitempty"`
	// the nodes that keep jobs running in an outage of the controllers; nil: none
	Witnesses *WitnessState `json:"witnesses,omitempty"`
	// the replacement of the authority in progress; nil: none
	Authority *AuthorityChange `json:"authority,omitempty"`
}

// WitnessState is the newest set of witnesses.
type WitnessState struct {
	Number uint64   `json:"number"` // number of the newest set
	Nodes  []string `json:"nodes"`
	InUse  int      `json:"in_use"` // number of sets that nodes with jobs may have
	// nodes without contact to the leader; lost jobs wait while these are half of the set or more
	OutOfTouch []string `json:"out_of_touch,omitempty"`
	ByLeader   bool     `json:"by_leader"` // the answer came from the leader; only the leader knows OutOfTouch
}

// GenerationState is a generation of the cluster, which rota-controld recover or restore started.
type GenerationState struct {
	Generation string   `json:"generation"` // NUMBER-ID
	Means      string   `json:"means"`      // recover or restore
	Controller string   `json:"controller"` // the controller that became a cluster of one
	Raised     *Time    `json:"raised"`
	Settled    bool     `json:"settled"`               // a majority of the nodes follows it
	Accepted   int      `json:"accepted"`              // nodes that follow it
	Need       int      `json:"need"`                  // required number of nodes
	Missing    []string `json:"missing,omitempty"`     // nodes that do not follow it yet
	Unknown    int      `json:"unknown,omitempty"`     // jobs that nodes know and the state does not
	Held       int      `json:"held,omitempty"`        // jobs of which nodes know later attempts than the state
	OldJobsIn  int64    `json:"old_jobs_in,omitempty"` // seconds until earlier jobs may start
}

// RefusingNode is a node that follows another generation than this controller.
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
	ControllerLearner = "learner" // it receives the log, and gets a vote once it has all of it
	ControllerNoLog   = "no-log"  // its vote belongs to a lost log
	ControllerNew     = "new"     // the log does not know it
)

// Check is the answer of /v1/check: the violated invariants of the live state.
type Check struct {
	OK         bool     `json:"ok"`
	Index      uint64   `json:"index"`
	Violations []string `json:"violations"`
	Digest     string   `json:"digest"` // SHA-256 of the state: equal on all controllers at the same index
}

// Problem is an error of the API (RFC 9457), with a stable Code.
type Problem struct {
	Type   string   `json:"type"`
	Title  string   `json:"title"`
	Status int      `json:"status"`
	Code   string   `json:"code"`
	Detail string   `json:"detail"`
	Hint   string   `json:"hint,omitempty"`
	Errors []string `json:"errors,omitempty"` // if there are several errors
}

// Error implements error.
func (p *Problem) Error() string { return p.Detail }

// Stable values of Problem.Code.
const (
	CodeInvalid      = "invalid"      // 400 malformed request
	CodeInvalidJob   = "invalid-job"  // 422 the job breaks a rule
	CodeImpossible   = "impossible"   // 422 no node could ever run it
	CodeUnsupported  = "unsupported"  // 422 a part of the language that is not supported yet
	CodeNotFound     = "not-found"    // 404
	CodeDenied       = "denied"       // 403
	CodeUnauthorised = "unauthorised" // 401
	CodeKeyReused    = "key-reused"   // 409
	CodeWrongState   = "wrong-state"  // 409
	CodeTooLarge     = "too-large"    // 413
	CodeNoLeader     = "no-leader"    // 503
	CodeGeneration   = "generation"   // 421 the controller and the caller follow different generations of the cluster
	CodeUnsettled    = "unsettled"    // 503 recovered or restored, and not yet accepted by the nodes
	CodeInternal     = "internal"     // 500
	CodeUncertain    = "uncertain"    // 503 leadership changed during the request: it may have taken effect or not
	CodeTimeout      = "timeout"      // 504
	CodeBusy         = "busy"         // 503 too many large requests at once: nothing was done
	CodeLimit        = "limit"        // 429 the user has reached a limit of the cluster
)

// AuditEntry is a request that changed something or was refused, or a group of equal refusals.
type AuditEntry struct {
	At         *Time  `json:"at"`
	Controller string `json:"controller"` // controller that decided
	User       string `json:"user"`       // "" if the caller was unknown
	UID        int64  `json:"uid"`        // -1 if the caller was unknown
	Token      string `json:"token,omitempty"`
	From       string `json:"from"`              // address, machine or socket
	Action     string `json:"action"`            // method and route
	Jobs       string `json:"jobs,omitempty"`    // ids, as ranges
	Account    string `json:"account,omitempty"` // account charged for submitted jobs
	Object     string `json:"object,omitempty"`  // node, controller or token
	Status     int    `json:"status"`            // HTTP status
	Code       string `json:"code"`              // code of the problem; "ok" on success
	Times      int    `json:"times"`             // number of equal requests in the entry
}

// AuditList is entries of all controllers' audit logs, newest first.
type AuditList struct {
	List[AuditEntry]
	// Unreachable names the controllers whose entries are missing.
	Unreachable []string `json:"unreachable,omitempty"`
}
