// Package jobspec has the types of a job as its user describes it, with defaults and limits.
//
// It is pure: no files, clocks or network. Package jobfile reads HCL, package rules has the rules,
// and controld/fsm runs jobs. The JSON form of [Job] is canonical: it is what the API accepts, what
// the log keeps, and what `rota validate -o json` prints.
package jobspec

import (
	"cmp"
	"path"
	"slices"
)

// Seconds is a duration in whole seconds, the unit of every duration in Rota's JSON.
type Seconds int64

// Bytes is a size in bytes. In job files sizes carry a unit and every unit is binary
// (docs/jobfile.md).
type Bytes int64

// Binary sizes.
const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
	TiB Bytes = 1 << 40
)

// Class is a job's scheduling class: trial-and-error jobs go first and may preempt best-effort
// jobs.
type Class string

// The two classes (FitGpp, section 2).
const (
	TE Class = "te" // trial and error: short, starts at once
	BE Class = "be" // best effort: long, may be preempted
)

// Job is one job as its author wrote it, with every expression evaluated. Zero values mean "not
// written" until [Job.Default] has filled them in.
type Job struct {
	Name      string  `json:"name"`
	Class     Class   `json:"class,omitempty"`
	Queue     string  `json:"queue,omitempty"`
	Account   string  `json:"account,omitempty"`
	Priority  *int    `json:"priority,omitempty"`   // 0 to 100, default 50
	TimeLimit Seconds `json:"time_limit,omitempty"` // per attempt; 0: the queue's default
	// texts that few jobs have, nil: none; the comment is short and shown in lists, and can be changed
	// later
	Description *string           `json:"description,omitempty"`
	Comment     *string           `json:"comment,omitempty"`
	Tags        []string          `json:"tags,omitempty"`
	Meta        map[string]string `json:"meta,omitempty"`
	// exit code by which a job without checkpoint requests a requeue; 0: none
	RequeueExit int16             `json:"requeue_exit_code,omitempty"`
	Hold        bool              `json:"hold,omitempty"`
	OnNodeLost  NodeLoss          `json:"on_node_lost,omitempty"`
	Umask       Umask             `json:"umask,omitempty"`      // of the submitter, filled in by the client
	Export      []string          `json:"export,omitempty"`     // globs of submit-side variable names
	ExportEnv   map[string]string `json:"export_env,omitempty"` // values that Export matched on the submit host
	Workdir     string            `json:"workdir,omitempty"`    // absolute; the client fills in the submit directory
	SubmitDir   string            `json:"submit_dir,omitempty"`
	SubmitHost  string            `json:"submit_host,omitempty"`
	Restart     *Restart          `json:"restart,omitempty"`
	Checkpoint  *Checkpoint       `json:"checkpoint,omitempty"`
	Preemption  *Preemption       `json:"preemption,omitempty"`
	Groups      []Group           `json:"groups"`

	Begin string `json:"begin,omitempty"` // RFC 3339: not started before
	// RFC 3339: the job is cancelled if it cannot end by then
	Deadline string `json:"deadline,omitempty"`
	// group (default) or job: all groups start together
	GangScope           string       `json:"gang_scope,omitempty"`
	OnDependencyFailure string       `json:"on_dependency_failure,omitempty"` // cancel (default) or hold
	Dependencies        []Dependency `json:"dependencies,omitempty"`          // all must be met
	Array               *Array       `json:"array,omitempty"`
	LogPolicies         []LogPolicy  `json:"log_policies,omitempty"`
	Constraints         []Constraint `json:"constraints,omitempty"` // all must hold on every node
	Affinities          []Affinity   `json:"affinities,omitempty"`
	Nodes               []string     `json:"nodes,omitempty"` // the job runs only on these; hostlists such as gpu[01-04]
	ExcludeNodes        []string     `json:"exclude_nodes,omitempty"`
	Features            []string     `json:"features,omitempty"` // node labels that must be set, by key
	// licences by name; each attempt holds them, and in an array each element
	Licenses map[string]int `json:"licenses,omitempty"`
}

// Values of [Job.GangScope].
const (
	ScopeGroup = "group"
	ScopeJob   = "job"
)

// Dependency makes a job wait for others. Jobs are named by id (123, or 123_4 for an array's
// element) or by name, which means the owner's newest job of that name.
type Dependency struct {
	Type  string   `json:"type"` // after, afterok, afterany, afternotok, aftercorr or singleton
	Jobs  []string `json:"jobs,omitempty"`
	Delay Seconds  `json:"delay,omitempty"` // wait time after the condition is met
	Match string   `json:"match,omitempty"` // all (default) or any
}

// Array turns one job into many elements that differ in an index or in parameters. Exactly one of
// Indices, Matrix and Rows is set.
type Array struct {
	Indices string `json:"indices,omitempty"` // 0-99:2,200: ascending and distinct once expanded
	// all combinations, the last axis fastest; indices count them from 0
	Matrix      []Axis     `json:"matrix,omitempty"`
	Columns     []string   `json:"columns,omitempty"` // names of the columns in Rows, from the file's first line
	Rows        [][]string `json:"rows,omitempty"`    // one element each; indices count them from 0
	MaxParallel int        `json:"max_parallel,omitempty"`
	// after more failed elements than this, the elements that have not started are cancelled; nil
	// or -1: never
	MaxFailures *int       `json:"max_failures,omitempty"`
	Order       string     `json:"order,omitempty"` // index (default) or random
	Stop        *ArrayStop `json:"stop,omitempty"`
}

// Axis is a parameter of a matrix, with its values.
type Axis struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// ArrayStop keeps the best elements, and cancels the others once all have reported the metric at a
// step (Gandiva's early feedback for multi-jobs).
type ArrayStop struct {
	Metric string `json:"metric"`
	Goal   string `json:"goal,omitempty"` // min (default) or max
	AtStep int64  `json:"at_step"`
	Keep   string `json:"keep"` // "top 25%" or "top 4"
}

// LogPolicy reacts to a line of output.
type LogPolicy struct {
	Name    string `json:"name"`
	Pattern string `json:"pattern"`          // RE2
	Action  string `json:"action"`           // exclude_node, fail, restart or event
	Stream  string `json:"stream,omitempty"` // both (default), stdout or stderr
}

// Constraint is a condition on a node. Attribute is one of node.name, node.cores, node.memory,
// node.gpus, node.gpu.model, node.gpu.memory, node.boot_id and node.label.KEY.
type Constraint struct {
	Attribute string   `json:"attribute"`
	Operator  string   `json:"operator,omitempty"` // = (default) != < <= > >= regexp version in not_in glob is_set
	Value     string   `json:"value,omitempty"`
	Values    []string `json:"values,omitempty"` // of in and not_in
}

// Affinity prefers nodes on which a condition holds; with a negative weight it avoids them.
type Affinity struct {
	Constraint
	Weight int `json:"weight"` // -100 to 100
}

// Restart limits retries after failures of the user's code. Preemptions, launch failures and node
// losses have their own counters.
type Restart struct {
	Attempts      int     `json:"attempts"`
	Delay         Seconds `json:"delay,omitempty"`     // default 30
	Backoff       string  `json:"backoff,omitempty"`   // exponential (default) or constant
	MaxDelay      Seconds `json:"max_delay,omitempty"` // default 600
	Window        Seconds `json:"window,omitempty"`    // default 86400: attempts are counted within this time
	ExcludeNode   *bool   `json:"exclude_node,omitempty"`
	RetryOnExit   []int   `json:"retry_on_exit,omitempty"`
	NoRetryOnExit []int   `json:"no_retry_on_exit,omitempty"`
}

// Checkpoint says that the job saves its own progress. If a job with a checkpoint exits with
// ExitCode, it is requeued.
type Checkpoint struct {
	Path     string  `json:"path,omitempty"` // with NodeLocal: below [CheckpointDir]; "": that directory
	Interval Seconds `json:"interval,omitempty"`
	ExitCode int     `json:"exit_code,omitempty"` // default 85
	// NodeLocal: each worker saves to a folder on its node's disk. The folder is copied to the node
	// on which the worker with this number runs next.
	NodeLocal bool `json:"node_local,omitempty"`
	// Criu: where possible, CRIU saves the container instead of the program saving itself. The
	// image is copied as a folder is.
	Criu bool `json:"criu,omitempty"`
	// time before the time limit or deadline at which the job gets its preemption signal; 0: no
	// signal
	BeforeLimit Seconds `json:"before_limit,omitempty"`
}

// RequeueCode returns the exit code by which the job requests a requeue, or 0.
func (j *Job) RequeueCode() int {
	switch {
	case j.RunsOnce():
		return 0
	case j.Checkpoint != nil:
		return j.Checkpoint.SavedCode()
	}
	return int(j.RequeueExit)
}

// CheckpointDir is the path of a worker's folder in its container, with [Checkpoint.NodeLocal].
const CheckpointDir = "/run/rota/checkpoint"

// File returns the program's save path as the program sees it; "" if the job names none.
func (c *Checkpoint) File() string {
	if c.NodeLocal {
		return path.Join(CheckpointDir, c.Path)
	}
	return c.Path
}

// SavedCode returns the exit code that means: the program has saved its state. c may be nil.
func (c *Checkpoint) SavedCode() int {
	if c == nil || c.ExitCode == 0 {
		return DefaultCheckpointExitCode
	}
	return c.ExitCode
}

// OnNode reports whether workers have folders on their nodes, which are copied to their next nodes.
func (c *Checkpoint) OnNode() bool { return c != nil && (c.NodeLocal || c.Criu) }

// CriuLabel is the label of nodes that save containers by CRIU. Its value is CRIU's version.
const CriuLabel = "criu"

// Preemption says how the job is stopped when another job needs its capacity.
type Preemption struct {
	Signal      string  `json:"signal,omitempty"`       // default SIGTERM, SIGUSR1 with launch "slurm"
	GracePeriod Seconds `json:"grace_period,omitempty"` // default 30
	Mode        string  `json:"mode,omitempty"`         // "": the job is stopped; [PreemptSuspend]
	// default true; false: a started job never starts again, except after a request to requeue it
	Requeue *bool `json:"requeue,omitempty"`
	// meaning of exit code 0 after a request to stop: [ExitSaved], [ExitDone]; "": [ExitSaved] with
	// a checkpoint block, otherwise [ExitDone]
	ExitZero string `json:"exit_zero,omitempty"`
	// processes that get the signal if the program is a shell script; "": the shell and its
	// children
	SignalTo string `json:"signal_to,omitempty"`
}

// Values of [Preemption.ExitZero].
const (
	ExitSaved = "requeue"  // the program has saved its state, and continues later unless it reported that it is finished
	ExitDone  = "complete" // the program is done
)

// SavesBeforeZero reports whether a program that exits with 0 after a request to stop has only
// saved its state.
func (j *Job) SavesBeforeZero() bool {
	if j.RunsOnce() {
		return false
	}
	if p := j.Preemption; p != nil && p.ExitZero != "" {
		return p.ExitZero == ExitSaved
	}
	return j.Checkpoint != nil
}

// Values of [Preemption.SignalTo].
const (
	SignalScript   = "script"   // only the shell that runs the script
	SignalPrograms = "programs" // the shell's children; the shell itself only when the job must stop
)

// PreemptSuspend is the mode of a job that can pause at a mini-batch boundary. It returns its GPUs,
// keeps its memory, and later continues from there.
const PreemptSuspend = "suspend"

// RunsOnce reports whether a preempted job that has started must not start again.
func (j *Job) RunsOnce() bool {
	return j.Preemption != nil && j.Preemption.Requeue != nil && !*j.Preemption.Requeue
}

// Group is a set of equal workers. With Gang, the workers are placed together.
type Group struct {
	Name              string            `json:"name"`
	Count             int               `json:"count,omitempty"` // workers, default 1; 0 in an elastic group
	Gang              *bool             `json:"gang,omitempty"`  // default true
	MaxWorkersPerNode int               `json:"max_workers_per_node,omitempty"`
	Meta              map[string]string `json:"meta,omitempty"`
	Tasks             []Task            `json:"tasks"`

	// other groups: name, or name:ok (default), :any, :failed, :started
	DependsOn []string `json:"depends_on,omitempty"`
	TimeLimit Seconds  `json:"time_limit,omitempty"` // default the job's
	Exclusive bool     `json:"exclusive,omitempty"`  // whole nodes
	// all (default), leader or any: the tasks whose success is the group's success
	Success         string       `json:"success,omitempty"`
	OnWorkerFailure string       `json:"on_worker_failure,omitempty"`
	Restart         *Restart     `json:"restart,omitempty"` // default the job's
	Constraints     []Constraint `json:"constraints,omitempty"`
	Affinities      []Affinity   `json:"affinities,omitempty"`
	Elastic         *Elastic     `json:"elastic,omitempty"` // nil: the number of workers is Count
}

// Task is a program that every worker of its group runs.
type Task struct {
	Name string `json:"name"`
	// "" runs on the host's root, read-only; else a directory with a rootfs
	Image       string            `json:"image,omitempty"`
	Command     []string          `json:"command,omitempty"`
	Script      string            `json:"script,omitempty"` // text, from script or script_file
	User        string            `json:"user,omitempty"`
	Leader      *bool             `json:"leader,omitempty"`
	KillSignal  string            `json:"kill_signal,omitempty"`  // default SIGTERM
	KillTimeout Seconds           `json:"kill_timeout,omitempty"` // default 30
	Env         map[string]string `json:"env,omitempty"`
	Mounts      []Mount           `json:"mounts,omitempty"`
	Log         *Log              `json:"log,omitempty"`
	Progress    *Progress         `json:"progress,omitempty"`
	Launch      *Launch           `json:"launch,omitempty"`
	Resources   Resources         `json:"resources"`

	// Template says that the task's texts hold references such as ${array.index}, which the launch
	// fills in. In such texts, $${array.index} stands for the text itself. Without Template every text
	// is literal.
	Template  bool       `json:"template,omitempty"`
	Lifecycle *Lifecycle `json:"lifecycle,omitempty"` // nil: a main task
	Secrets   []Secret   `json:"secrets,omitempty"`
	Ulimits   *Ulimits   `json:"ulimits,omitempty"`
	Terminal  *Terminal  `json:"terminal,omitempty"` // nil: output goes to its log, and there is no input
}

// Terminal runs the task's process at a terminal, to which its owner attaches. Its output goes to
// no log.
type Terminal struct {
	Rows    int `json:"rows,omitempty"`    // default 24, until a terminal is attached
	Columns int `json:"columns,omitempty"` // default 80, until a terminal is attached
	// HangUp is how long the owner may stay detached before the process is hung up. 0: no limit.
	HangUp Seconds `json:"hang_up,omitempty"`
}

// Lifecycle says when a task runs that is not a main task. A sidecar runs as long as the main
// tasks, and is then stopped. Every other task must succeed; a prestart task must do so before the
// main tasks start.
type Lifecycle struct {
	Hook    string `json:"hook"` // prestart, poststart or poststop
	Sidecar bool   `json:"sidecar,omitempty"`
}

// Secret is a text that never enters the log: the node reads it as the job's user when it launches
// the task.
type Secret struct {
	Name   string `json:"name"`
	Source string `json:"source"`         // absolute path on the node, readable by the user
	Env    string `json:"env,omitempty"`  // variable to set
	File   string `json:"file,omitempty"` // path in the container; default /run/rota/secrets/NAME when Env is not set
}

// Ulimits are resource limits of a task's processes. 0 keeps the limit of the system.
type Ulimits struct {
	Memlock Bytes `json:"memlock,omitempty"` // -1: unlimited
	Nofile  int64 `json:"nofile,omitempty"`
	Stack   Bytes `json:"stack,omitempty"` // -1: unlimited
	Core    Bytes `json:"core,omitempty"`  // -1: unlimited
}

// Mount makes a path visible in the task's container.
type Mount struct {
	Source   string   `json:"source,omitempty"`
	Target   string   `json:"target"`
	Type     string   `json:"type,omitempty"` // bind (default) or tmpfs
	ReadOnly bool     `json:"read_only,omitempty"`
	Options  []string `json:"options,omitempty"`
}

// Log says where output goes. Without paths the node daemon keeps it and `rota logs` reads it.
type Log struct {
	Stdout  string `json:"stdout,omitempty"` // path pattern as Slurm's: %j %x %u %n %N %r %t %A %a %%
	Stderr  string `json:"stderr,omitempty"`
	Join    *bool  `json:"join,omitempty"`     // default true
	Mode    string `json:"mode,omitempty"`     // append (default) or truncate
	MaxSize Bytes  `json:"max_size,omitempty"` // default 1 GiB
	Keep    *int   `json:"keep,omitempty"`     // rotated files kept, default 3
}

// Progress says how the job's progress is read.
type Progress struct {
	File    string `json:"file,omitempty"`
	Pattern string `json:"pattern,omitempty"`
	Metric  string `json:"metric,omitempty"`
	Goal    string `json:"goal,omitempty"` // min or max: the better direction of the metric
	Total   int64  `json:"total,omitempty"`
}

// Launch sets the number of processes of a worker, and their environment.
type Launch struct {
	Type        string `json:"type"`            // one of [LaunchTypes]
	Nproc       int    `json:"nproc,omitempty"` // processes a worker; 0 with NprocGPU: one per GPU
	NprocGPU    bool   `json:"nproc_gpu,omitempty"`
	MaxRestarts int    `json:"max_restarts,omitempty"`
	Port        int    `json:"port,omitempty"` // 0: from the node's range
	Rdzv        string `json:"rdzv,omitempty"` // static (default) or c10d: how the processes find each other
}

// LaunchTypes are the values of [Launch.Type].
var LaunchTypes = []string{"single", "per_gpu", "slurm", "torchrun", LaunchSteps}

// MetaAllocation is a key in a job's meta for a job without a program of its own. Its value is the
// command, such as srun, for whose steps the job holds its nodes.
const MetaAllocation = "slurm-allocation"

// AllocationOfSrun is the value of [MetaAllocation] for a job that ends together with its only
// step.
const AllocationOfSrun = "srun"

// LaunchSteps is the type of a program that runs once, on the first worker of its group, and starts
// steps on all workers by srun. The other workers do not run the program. Nproc is the default
// number of a step's tasks on each worker. Later groups that start with the first group run no
// program: their workers hold resources for steps of the first group's program.
const LaunchSteps = "steps"

// RunsSteps reports whether the group's program runs once and starts steps.
func (g *Group) RunsSteps() bool {
	return slices.ContainsFunc(g.Tasks, func(t Task) bool { return t.Launch != nil && t.Launch.Type == LaunchSteps })
}

// RunsStepsOfFirst reports whether a group runs only steps that the program of the first group
// starts.
func (j *Job) RunsStepsOfFirst(group int) bool {
	return group > 0 && j.GangScope == ScopeJob && j.Groups[group].RunsSteps()
}

// Decides returns whose success is the group's success: all (default), leader or any. A program
// that starts steps decides for its whole group.
func (g *Group) Decides() string {
	if g.RunsSteps() {
		return "leader"
	}
	return cmp.Or(g.Success, "all")
}

// Resources are the resources of one task on each worker.
type Resources struct {
	Cores  int   `json:"cores,omitempty"`  // whole cores, default 1
	Memory Bytes `json:"memory,omitempty"` // default 4 GiB times Cores
	GPUs   int   `json:"gpus,omitempty"`
	Shm    Bytes `json:"shm,omitempty"` // default half of Memory
	Tmp    Bytes `json:"tmp,omitempty"` // default half of Memory; its content counts as Memory

	GPU  *GPU   `json:"gpu,omitempty"`  // requirements on the GPUs; their number is GPUs
	RDMA string `json:"rdma,omitempty"` // none (default) or all: the node's InfiniBand devices in the container
}

// GPU is the requirements on suitable GPUs.
type GPU struct {
	Vendor    string `json:"vendor,omitempty"`     // nvidia, which is also the default
	Model     string `json:"model,omitempty"`      // glob, case-insensitive
	MinMemory Bytes  `json:"min_memory,omitempty"` // of each

	// Share is the required part of one GPU's time and memory, in thousandths; 0 means whole GPUs.
	Share int `json:"share,omitempty"`
	// MaxMemory is the most memory of the GPU that a job with a share uses. With [PartOfMemory] it
	// is the share of the GPU's memory; simulated jobs leave it out.
	MaxMemory Bytes `json:"max_memory,omitempty"`
}

// PartOfMemory in [GPU.MaxMemory] means the same part of the GPU's memory as of its time.
const PartOfMemory Bytes = -1

// WholeGPU is one GPU in the unit of shares: thousandths.
const WholeGPU = 1000

// MemoryOn returns how much memory of a GPU a task with a share may use, given the GPU's total
// memory. It is 0 (no limit) for whole GPUs and for jobs that declare no memory.
func (g *GPU) MemoryOn(all Bytes) Bytes {
	switch {
	case g == nil || g.Share == 0:
		return 0
	case g.MaxMemory == PartOfMemory:
		return all * Bytes(g.Share) / WholeGPU
	}
	return g.MaxMemory
}

// LeastMemory returns the least memory of a suitable GPU: the declared memory must not exceed the
// task's share of it. It is rounded up; 0 means any GPU. If the shares of jobs fit into a GPU,
// their declared memory therefore fits too.
func (g *GPU) LeastMemory() Bytes {
	if g == nil || g.Share <= 0 || g.MaxMemory <= 0 {
		return 0
	}
	share := Bytes(g.Share)
	return min(MaxSize, (min(g.MaxMemory, MaxSize)*WholeGPU+share-1)/share)
}
