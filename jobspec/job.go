// Package jobspec says what a user asks for: the types of a job, their defaults, and the rules they must meet.
//
// It is pure: no files, clocks or network. HCL is read by jobspec/jobfile; what happens to a job afterwards is the business of
// controld/cluster. The JSON form of [Job] is canonical: it is what the API accepts, what the log keeps, and what `rota validate
// -o json` prints.
package jobspec

// Seconds is a duration in whole seconds, the unit of every duration in Rota's JSON.
type Seconds int64

// Bytes is a size in bytes. In job files sizes carry a unit and every unit is binary (docs/jobfile.md).
type Bytes int64

// Binary sizes.
const (
	KiB Bytes = 1 << 10
	MiB Bytes = 1 << 20
	GiB Bytes = 1 << 30
	TiB Bytes = 1 << 40
)

// Class says how a job is scheduled: trial-and-error jobs go first and may preempt best-effort ones.
type Class string

// The two classes (FitGpp, section 2).
const (
	TE Class = "te" // trial and error: short, starts at once
	BE Class = "be" // best effort: long, may be preempted
)

// Job is one job as its author wrote it, with every expression evaluated. Zero values mean "not written" until [Job.Default]
// has filled them in.
type Job struct {
	Name        string            `json:"name"`
	Class       Class             `json:"class,omitempty"`
	Queue       string            `json:"queue,omitempty"`
	Account     string            `json:"account,omitempty"`
	Priority    *int              `json:"priority,omitempty"`   // 0 to 100, default 50
	TimeLimit   Seconds           `json:"time_limit,omitempty"` // per attempt; 0: the queue's default
	Hold        bool              `json:"hold,omitempty"`
	Description string            `json:"description,omitempty"`
	Tags        []string          `json:"tags,omitempty"`
	Meta        map[string]string `json:"meta,omitempty"`
	Export      []string          `json:"export,omitempty"`     // globs of submit-side variable names
	ExportEnv   map[string]string `json:"export_env,omitempty"` // what Export matched on the submit host
	Workdir     string            `json:"workdir,omitempty"`    // absolute; the client fills in the submit directory
	SubmitDir   string            `json:"submit_dir,omitempty"`
	SubmitHost  string            `json:"submit_host,omitempty"`
	Restart     *Restart          `json:"restart,omitempty"`
	Checkpoint  *Checkpoint       `json:"checkpoint,omitempty"`
	Preemption  *Preemption       `json:"preemption,omitempty"`
	Groups      []Group           `json:"groups"`
}

// Restart limits retries after the user's own code failed. Preemption, launch failure and node loss are counted apart.
type Restart struct {
	Attempts      int     `json:"attempts"`
	Delay         Seconds `json:"delay,omitempty"`     // default 30
	Backoff       string  `json:"backoff,omitempty"`   // exponential (default) or constant
	MaxDelay      Seconds `json:"max_delay,omitempty"` // default 600
	Window        Seconds `json:"window,omitempty"`    // default 86400: attempts are counted within it
	ExcludeNode   *bool   `json:"exclude_node,omitempty"`
	RetryOnExit   []int   `json:"retry_on_exit,omitempty"`
	NoRetryOnExit []int   `json:"no_retry_on_exit,omitempty"`
}

// Checkpoint says that the job saves its own progress. A job with one that exits with ExitCode is requeued.
type Checkpoint struct {
	Path     string  `json:"path,omitempty"`
	Interval Seconds `json:"interval,omitempty"`
	ExitCode int     `json:"exit_code,omitempty"` // default 85
}

// Preemption says how the job wants to be stopped when its room is needed.
type Preemption struct {
	Signal      string  `json:"signal,omitempty"`       // default SIGTERM, SIGUSR1 with launch "slurm"
	GracePeriod Seconds `json:"grace_period,omitempty"` // default 30
}

// Group is a set of like workers, placed whole when Gang is set.
type Group struct {
	Name              string            `json:"name"`
	Count             int               `json:"count,omitempty"` // workers, default 1
	Gang              *bool             `json:"gang,omitempty"`  // default true
	MaxWorkersPerNode int               `json:"max_workers_per_node,omitempty"`
	Meta              map[string]string `json:"meta,omitempty"`
	Tasks             []Task            `json:"tasks"`
}

// Task is a program that every worker of its group runs.
type Task struct {
	Name        string            `json:"name"`
	Image       string            `json:"image,omitempty"` // "" runs on the host's root, read-only; else a directory with a rootfs
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
	Goal    string `json:"goal,omitempty"` // min or max
	Total   int64  `json:"total,omitempty"`
}

// Launch says how many processes a worker starts and with which environment.
type Launch struct {
	Type        string `json:"type"`            // single, per_gpu, slurm or torchrun
	Nproc       int    `json:"nproc,omitempty"` // processes a worker; 0 with NprocGPU: one per GPU
	NprocGPU    bool   `json:"nproc_gpu,omitempty"`
	MaxRestarts int    `json:"max_restarts,omitempty"`
	Port        int    `json:"port,omitempty"` // 0: from the node's range
	Rdzv        string `json:"rdzv,omitempty"` // static (default) or c10d
}

// Resources is what one worker's task holds.
type Resources struct {
	Cores  int   `json:"cores,omitempty"`  // whole cores, default 1
	Memory Bytes `json:"memory,omitempty"` // default 4 GiB times Cores
	GPUs   int   `json:"gpus,omitempty"`
	Shm    Bytes `json:"shm,omitempty"` // default half of Memory
	Tmp    Bytes `json:"tmp,omitempty"` // default half of Memory; what lies in it counts as Memory
}
