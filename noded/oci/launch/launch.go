// Package launch is the plan that the first process of a container (cmd/rota-init) carries out:
// which ranks to start and how. It holds types only, so that rota-init stays small.
package launch

// Paths inside every container. Dir is a directory of the host, one for each container, owned by
// root.
const (
	Dir           = "/run/rota"
	InitFile      = Dir + "/init"
	PlanFile      = Dir + "/launch.json"
	ScriptFile    = Dir + "/script"
	NoticeFile    = Dir + "/notice.json"
	ProgressFile  = Dir + "/progress.jsonl"
	JobSocket     = Dir + "/job.sock"
	APISocket     = Dir + "/rota.sock" // takes requests for the controllers
	BinDir        = Dir + "/bin"       // commands for the job
	RotaFile      = BinDir + "/rota"
	ModulesDir    = Dir + "/python"
	SecretsDir    = Dir + "/secrets"
	CheckpointDir = Dir + "/checkpoint" // of jobs whose checkpoints are on their nodes
	GPUsDir       = Dir + "/gpus"       // where processes declare what they use of simulated GPUs
)

// DefaultPath is the PATH of a job that brings none of its own. [BinDir] is added where a node has it.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// ChannelEnv names the variable with the descriptor of the socket between rota-init and the shim.
// Without it, as when the runc command runs the bundle, rota-init handles only the signals it
// receives, and gives its result as an exit code.
const ChannelEnv = "ROTA_INIT_CHANNEL"

// FilesEnv names the variable with the descriptor of a socket. Over it rota-init sends the shim its
// ends of the pipes of ranks, a message of [Files] for each rank. Without it the ranks share what
// rota-init reads and writes.
const FilesEnv = "ROTA_INIT_FILES"

// TaskArgument is the argument of a rota-init that becomes a rank. The name of the variable with
// its own id follows, and then the program and its arguments.
const TaskArgument = "task"

// ExecEnv names the variable with the [Exec] of a rota-init that is started beside the first process, as
// "rota-init exec".
const ExecEnv = "ROTA_INIT_EXEC"

// BesideScore is the oom_score_adj of processes beside ranks that have the given one. The kernel's log tells it
// of a process that is killed for memory, and so whether that decides how the container ends.
func BesideScore(ranks int) int { return ranks + 1 }

// Files comes with the descriptors of a rank: its standard input, output and error, or its terminal
// alone.
type Files struct {
	Rank     int  `json:"rank"`
	Terminal bool `json:"terminal,omitempty"`
}

// Exec is what a process runs that a person starts in a running container. It has the variables of the
// first rank.
type Exec struct {
	Args []string `json:"args"` // none: a shell
	Env  []string `json:"env,omitempty"`
	Dir  string   `json:"dir,omitempty"` // "": that of the ranks
}

// Plan says what a worker runs.
type Plan struct {
	Env []string `json:"env"` // of every rank, NAME=VALUE
	Dir string   `json:"dir"` // working directory of every rank
	// Anywhere: the job does not name Dir. Where it cannot be entered, the ranks run in HOME, or else in
	// /tmp.
	Anywhere bool `json:"anywhere,omitempty"`
	// Home is HOME as the job was given it, "" if it sets its own. Where it cannot be entered, HOME is
	// /tmp.
	Home  string `json:"home,omitempty"`
	Ranks []Rank `json:"ranks"`
	// Hold, without ranks: it holds the room of a worker in which only steps run, and ends with exit code 0
	// by the first signal. The daemon sends that when the steps have ended.
	Hold bool `json:"hold,omitempty"`
	// PIDVariable names a variable with the id of the rank's own process, as the container counts; "": none
	PIDVariable string `json:"pid_variable,omitempty"`
	// Independent: a rank that fails does not stop the others.
	Independent bool     `json:"independent,omitempty"`
	KillTimeout int64    `json:"kill_timeout_ms"` // how long the other ranks may take to stop after one has failed
	Secrets     []Secret `json:"secrets,omitempty"`
}

// Secret is a variable of every rank whose value is in a file, so that it is not in the plan.
type Secret struct {
	Env  string `json:"env"`
	File string `json:"file"` // in the container
}

// Rank is one process of a worker. Its own variables come after the common ones and win.
type Rank struct {
	Name string   `json:"name"` // for messages
	Args []string `json:"args"`
	Env  []string `json:"env,omitempty"`

	Terminal *Terminal `json:"terminal,omitempty"` // that it has, with a socket for files; nil: pipes
}

// Terminal is the size of a terminal, in characters.
type Terminal struct {
	Rows    uint16 `json:"rows"`
	Columns uint16 `json:"columns"`
}

// Order is what the shim sends to rota-init, as a line of JSON.
type Order struct {
	Signal int `json:"signal,omitempty"`
	// which processes of a rank that is a shell get it, as [jobspec.Preemption.SignalTo] says; "": the
	// shell, and what it runs
	To string `json:"to,omitempty"`
	// Rank is which rank gets the signal; nil: all
	Rank *int `json:"rank,omitempty"`
	// Stop: the signal asks the worker to end. [Result.Asked] says whether that came before its end.
	Stop bool `json:"stop,omitempty"`
	// Detach: rota-init closes the socket, which CRIU could not save. From then on it takes signals
	// from the kernel, and gives its result as an exit code. The kernel ends it when the shim ends.
	Detach bool `json:"detach,omitempty"`
}

// Values of [Order.To].
const (
	ToScript   = "script"   // the shell alone
	ToPrograms = "programs" // what the shell runs; a rank that is no shell is a program itself
)

// Result is what rota-init sends back when every rank has ended, as a line of JSON. Signal is set,
// and Code meaningless, when the deciding rank died of it.
type Result struct {
	Code   int `json:"code"`
	Signal int `json:"signal,omitempty"`

	// Asked: the deciding rank still ran when an [Order.Stop] was passed on.
	Asked bool `json:"asked,omitempty"`

	Begun    bool `json:"begun,omitempty"`    // no result: the first rank is about to be executed
	Detached bool `json:"detached,omitempty"` // no result, but the answer to an order to detach

	// Rank: no result, but how one rank has ended. With a socket for files there is one of each.
	Rank *int `json:"rank,omitempty"`
}
