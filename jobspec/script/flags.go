package script

import (
	"fmt"
	"slices"
	"strings"
)

// Spec is one flag of batch scripts, with Slurm's spelling.
type Spec struct {
	Name  string   // --name
	Also  []string // other whole names
	Short byte     // -n; 0: none
	Takes Takes
	Arg   string // what the value is called in help
	Usage string
	Env   string // the variable that says the same, "" for none

	kind    Kind   // "" honoured, Warning left out, Refused
	instead string // why, or what to do instead
	read    func(a *asked, s setting)
}

func (s *Spec) names() []string { return append([]string{s.Name}, s.Also...) }

// Honoured reports whether the flag says something about the job. What it says else is told by a problem.
func (s *Spec) Honoured() bool { return s.kind == "" }

// Refused reports whether the flag is refused, and not only left out.
func (s *Spec) Refused() bool { return s.kind == Refused }

// Instead says why a flag that is not honoured is not, or what to do instead.
func (s *Spec) Instead() string { return s.instead }

func (s *Spec) example() string {
	return fmt.Sprintf("write --%s=%s", s.Name, strings.ToUpper(strings.ReplaceAll(s.Arg, " ", "_")))
}

// Flags returns all flags, those that are honoured first, each group in the order in which documentation shows it.
func Flags() []Spec { return slices.Clone(table) }

// table is filled in by init, because its functions lead back to it.
var table []Spec

func init() { table = slices.Concat(whatFlags(), shapeFlags(), ignoredFlags(), refusedFlags()) }

// whatFlags say what the job is, when and where it runs, and where its output goes.
func whatFlags() []Spec {
	return []Spec{
		{Name: "job-name", Also: []string{"name"}, Short: 'J', Takes: Value, Arg: "name", Env: "SBATCH_JOB_NAME", Usage: "call the job `NAME`", read: text1(func(a *asked) *string { return &a.name })},
		{Name: "partition", Also: []string{"queue"}, Short: 'p', Takes: Value, Arg: "queue", Env: "SBATCH_PARTITION", Usage: "submit to `QUEUE`", read: (*asked).partition},
		{Name: "account", Short: 'A', Takes: Value, Arg: "account", Env: "SBATCH_ACCOUNT", Usage: "charge `ACCOUNT`", read: text1(func(a *asked) *string { return &a.job.Account })},
		{Name: "qos", Also: []string{"class"}, Short: 'q', Takes: Value, Arg: "class", Env: "SBATCH_QOS", Usage: "`CLASS` te or be", read: (*asked).qos},
		{Name: "priority", Takes: Value, Arg: "n", Usage: "`N` from 0 to 100 among the account's jobs", read: (*asked).priority},
		{Name: "time", Short: 't', Takes: Value, Arg: "time", Env: "SBATCH_TIMELIMIT", Usage: "limit each attempt to `TIME`: 90 (minutes), 1:30:00, 2-0, 30m", read: (*asked).time},
		{Name: "begin", Short: 'b', Takes: Value, Arg: "time", Usage: "do not start before `TIME`: now+1hour, 16:00, 2026-03-01T08:00", read: (*asked).begin},
		{Name: "deadline", Takes: Value, Arg: "time", Usage: "give up when it cannot have ended by `TIME`", read: (*asked).deadline},
		{Name: "hold", Short: 'H', Usage: "hold the job until it is released", read: func(a *asked, _ setting) { a.job.Hold = true }},
		{Name: "dependency", Also: []string{"after"}, Short: 'd', Takes: Value, Arg: "jobs", Usage: "wait for `JOBS`: afterok:1:2,afterany:3, singleton", read: (*asked).dependency},
		{Name: "kill-on-invalid-dep", Takes: Value, Arg: "yes|no", Usage: "`YES|NO`: cancel (yes) or hold a job whose dependency can never be met", read: (*asked).invalidDependency},
		{Name: "array", Short: 'a', Takes: Value, Arg: "indices", Env: "SBATCH_ARRAY_INX", Usage: "one element for each of `INDICES`: 0-99:2%8", read: (*asked).array},
		{Name: "chdir", Also: []string{"workdir"}, Short: 'D', Takes: Value, Arg: "dir", Usage: "run in `DIR`", read: (*asked).chdir},
		{Name: "output", Short: 'o', Takes: Value, Arg: "pattern", Env: "SBATCH_OUTPUT", Usage: "write the output to `FILE`: %x-%j.out", read: text1(func(a *asked) *string { return &a.stdout })},
		{Name: "error", Short: 'e', Takes: Value, Arg: "pattern", Env: "SBATCH_ERROR", Usage: "write standard error to `FILE` of its own", read: text1(func(a *asked) *string { return &a.stderr })},
		{Name: "input", Short: 'i', Takes: Value, Arg: "file", Env: "SBATCH_INPUT", Usage: "only `/dev/null`", read: (*asked).input},
		{Name: "open-mode", Takes: Value, Arg: "append|truncate", Env: "SBATCH_OPEN_MODE", Usage: "`MODE` append or truncate, at the start of an attempt", read: (*asked).openMode},
		{Name: "export", Takes: Value, Arg: "variables", Env: "SBATCH_EXPORT", Usage: "`VARIABLES` to copy: ALL (default), NONE, or names and NAME=VALUE with commas", read: (*asked).export},
		{Name: "constraint", Short: 'C', Takes: Value, Arg: "features", Env: "SBATCH_CONSTRAINT", Usage: "only on nodes with `FEATURES`: a&b", read: (*asked).constraint},
		{Name: "nodelist", Short: 'w', Takes: Value, Arg: "nodes", Usage: "only on `NODES`: gpu[01-04]", read: (*asked).nodelist},
		{Name: "exclude", Short: 'x', Takes: Value, Arg: "nodes", Usage: "not on `NODES`", read: (*asked).exclude},
		{Name: "exclusive", Takes: Perhaps, Arg: "user", Env: "SBATCH_EXCLUSIVE", Usage: "no job of anybody else on its nodes", read: (*asked).exclusive},
		{Name: "requeue", Takes: Perhaps, Arg: "expedite", Env: "SBATCH_REQUEUE", Usage: "start again after a preemption or the loss of a node (so it is)", read: func(a *asked, _ setting) { a.noRequeue = setting{} }},
		{Name: "no-requeue", Env: "SBATCH_NO_REQUEUE", Usage: "never run the script a second time", read: func(a *asked, s setting) { a.noRequeue = s }},
		{Name: "signal", Takes: Value, Arg: "signal", Env: "SBATCH_SIGNAL", Usage: "stop it with `SIG[@SECONDS]` and wait so long", read: (*asked).signal},
		{Name: "comment", Takes: Value, Arg: "text", Usage: "describe the job with `TEXT`", read: text1(func(a *asked) *string { return &a.job.Description })},
		{Name: "wrap", Takes: Value, Arg: "command", Usage: "run `COMMAND` instead of a script", read: (*asked).wrap},
		{Name: "wait", Short: 'W', Env: "SBATCH_WAIT", Usage: "wait for the job's end and return its code", read: func(a *asked, _ setting) { a.result.Wait = true }},
		{Name: "parsable", Usage: "print the id alone", read: func(a *asked, _ setting) { a.result.Parsable = true }},
		{Name: "test-only", Also: []string{"dry-run"}, Usage: "check it, also with the cluster, without submitting", read: func(a *asked, _ setting) { a.result.TestOnly = true }},
		{Name: "container-image", Takes: Value, Arg: "dir", Usage: "run in the root file system at `DIR`", read: (*asked).image},
		{Name: "container-mounts", Takes: Value, Arg: "mounts", Usage: "`MOUNTS` SOURCE:TARGET[:ro] with commas", read: (*asked).mounts},
		{Name: "container-workdir", Takes: Value, Arg: "dir", Usage: "run in `DIR` of the image", read: (*asked).chdir},
	}
}

// shapeFlags say how many workers and processes there are, and what they hold.
func shapeFlags() []Spec {
	return []Spec{
		{Name: "nodes", Short: 'N', Takes: Value, Arg: "n", Usage: "`N` nodes", read: (*asked).nodes},
		{Name: "ntasks", Short: 'n', Takes: Value, Arg: "n", Usage: "`N` tasks in all", read: count(func(a *asked) *counted { return &a.ntasks })},
		{Name: "ntasks-per-node", Also: []string{"tasks-per-node"}, Takes: Value, Arg: "n", Usage: "`N` tasks on each node", read: count(func(a *asked) *counted { return &a.perNode })},
		{Name: "ntasks-per-gpu", Takes: Value, Arg: "n", Usage: "`N` tasks for each GPU", read: count(func(a *asked) *counted { return &a.perGPU })},
		{Name: "cpus-per-task", Short: 'c', Takes: Value, Arg: "n", Usage: "`N` cores for each task", read: count(func(a *asked) *counted { return &a.cpus })},
		{Name: "cpus-per-gpu", Takes: Value, Arg: "n", Env: "SBATCH_CPUS_PER_GPU", Usage: "`N` cores for each GPU", read: count(func(a *asked) *counted { return &a.cpusPerGPU })},
		{Name: "mincpus", Takes: Value, Arg: "n", Usage: "at least `N` cores on each node", read: count(func(a *asked) *counted { return &a.minCPUs })},
		{Name: "mem", Takes: Value, Arg: "size", Env: "SBATCH_MEM_PER_NODE", Usage: "`SIZE` of memory on each node; MiB without a unit", read: size(func(a *asked) *sized { return &a.mem })},
		{Name: "mem-per-cpu", Takes: Value, Arg: "size", Env: "SBATCH_MEM_PER_CPU", Usage: "`SIZE` of memory for each core", read: size(func(a *asked) *sized { return &a.memPerCPU })},
		{Name: "mem-per-gpu", Takes: Value, Arg: "size", Env: "SBATCH_MEM_PER_GPU", Usage: "`SIZE` of memory for each GPU", read: size(func(a *asked) *sized { return &a.memPerGPU })},
		{Name: "gpus", Short: 'G', Takes: Value, Arg: "n", Env: "SBATCH_GPUS", Usage: "`[MODEL:]N` GPUs in all", read: gpus(func(a *asked) *counted { return &a.gpus })},
		{Name: "gpus-per-node", Takes: Value, Arg: "n", Env: "SBATCH_GPUS_PER_NODE", Usage: "`[MODEL:]N` GPUs on each node", read: gpus(func(a *asked) *counted { return &a.gpusPerNode })},
		{Name: "gpus-per-task", Takes: Value, Arg: "n", Env: "SBATCH_GPUS_PER_TASK", Usage: "`[MODEL:]N` GPUs for each task", read: gpus(func(a *asked) *counted { return &a.gpusPerTask })},
		{Name: "gpu-bind", Takes: Value, Arg: "none", Env: "SBATCH_GPU_BIND", Usage: "`none`: every task sees all GPUs, also with --gpus-per-task", read: (*asked).gpuBind},
		{Name: "gres", Takes: Value, Arg: "gpu", Env: "SBATCH_GRES", Usage: "`gpu[:MODEL]:N` on each node", read: (*asked).gres},
		{Name: "kill-on-bad-exit", Short: 'K', Takes: Perhaps, Arg: "0|1", Usage: "1 (default): a task that fails ends the job; 0: the others go on", read: (*asked).killOnBadExit},
	}
}

const (
	whole  = "cores and GPUs are placed by the node: whole cores, near the GPUs"
	nobody = "Rota sends no mail: rota wait ID && mail ..., or rota events -f"
)

// other is a flag that is known and not honoured, with what becomes of it.
func other(kind Kind, short byte, takes Takes, instead string, names []string) Spec {
	return Spec{Name: names[0], Also: names[1:], Short: short, Takes: takes, Arg: "value", kind: kind, instead: instead}
}

func ignored(short byte, takes Takes, instead string, names ...string) Spec {
	return other(Warning, short, takes, instead, names)
}

func refused(short byte, takes Takes, instead string, names ...string) Spec {
	return other(Refused, short, takes, instead, names)
}

// env adds the variable that says the same as a flag.
func env(name string, s Spec) Spec {
	s.Env = name
	return s
}

// ignoredFlags are left out with a warning.
func ignoredFlags() []Spec {
	return []Spec{
		ignored(0, Value, nobody, "mail-type"),
		ignored(0, Value, nobody, "mail-user"),
		ignored(0, Value, "the programs find each other by the variables that the job is given", "mpi"),
		env("SBATCH_HINT", ignored(0, Value, whole, "hint")),
		ignored(0, Value, "frequencies are left to the system", "cpu-freq"),
		env("SBATCH_GPU_FREQ", ignored(0, Value, "frequencies are left to the system", "gpu-freq")),
		ignored('B', Value, whole, "extra-node-info"),
		ignored(0, Value, whole, "sockets-per-node"),
		ignored(0, Value, whole, "cores-per-socket"),
		env("SBATCH_THREADS_PER_CORE", ignored(0, Value, whole, "threads-per-core")),
		ignored(0, Value, whole, "ntasks-per-core"),
		ignored(0, Value, whole, "ntasks-per-socket"),
		ignored(0, Value, whole, "gpus-per-socket"),
		env("SBATCH_MEM_BIND", ignored(0, Value, whole, "mem-bind")),
		ignored(0, Value, whole, "cpu-bind"),
		env("SBATCH_GRES_FLAGS", ignored(0, Value, whole, "gres-flags")),
		env("SBATCH_DISTRIBUTION", ignored('m', Value, "tasks are numbered through, node by node", "distribution")),
		env("SBATCH_CORE_SPEC", ignored('S', Value, "the node keeps what it needs for itself", "core-spec")),
		env("SBATCH_THREAD_SPEC", ignored(0, Value, "the node keeps what it needs for itself", "thread-spec")),
		ignored(0, Nothing, "the fewest nodes are taken anyway", "contiguous"),
		env("SBATCH_SPREAD_JOB", ignored(0, Nothing, "the fewest nodes are taken", "spread-job")),
		env("SBATCH_USE_MIN_NODES", ignored(0, Nothing, "so it is anyway", "use-min-nodes")),
		env("SBATCH_WAIT4SWITCH", ignored(0, Value, "nodes are chosen without a look at switches", "switches")),
		env("SBATCH_WAIT_ALL_NODES", ignored(0, Value, "all workers start together anyway", "wait-all-nodes")),
		env("SBATCH_DELAY_BOOT", ignored(0, Value, "nodes are not booted for jobs", "delay-boot")),
		env("SBATCH_NETWORK", ignored(0, Value, "tasks use the host's network", "network")),
		ignored(0, Value, "nodes are chosen by what else the job asks for", "prefer"),
		ignored(0, Value, "/tmp is in memory, and half as large as the job's memory", "tmp"),
		env("SBATCH_NO_KILL", ignored('k', Perhaps, "a job that loses a node is started again as a whole", "no-kill")),
		ignored('s', Nothing, "cores and GPUs belong to one job at a time", "oversubscribe", "share"),
		env("SBATCH_OVERCOMMIT", ignored('O', Nothing, "every task gets the cores that it asks for", "overcommit")),
		ignored(0, Perhaps, "the order within an account is set with --priority", "nice"),
		env("SBATCH_PROFILE", ignored(0, Value, "what a job uses is always recorded", "profile")),
		env("SBATCH_ACCTG_FREQ", ignored(0, Value, "what a job uses is always recorded", "acctg-freq")),
		env("SBATCH_WCKEY", ignored(0, Value, "there are no keys beside accounts", "wckey")),
		env("SBATCH_GET_USER_ENV", ignored(0, Perhaps, "the login's files are not read: do it in the script", "get-user-env")),
		ignored(0, Perhaps, "limits are set in a job file, with ulimit { }", "propagate"),
		env("SBATCH_IGNORE_PBS", ignored(0, Nothing, "they are comments anyway", "ignore-pbs")),
		env("SBATCH_POWER", ignored(0, Value, "power is left to the system", "power")),
		ignored('l', Nothing, "rota logs shows from which worker a line comes", "label"),
		ignored(0, Nothing, "a script has no steps that share", "overlap"),
		ignored('u', Nothing, "output is not held back", "unbuffered"),
		ignored('v', Nothing, "there is no more to print", "verbose"),
		ignored('Q', Nothing, "warnings are printed all the same", "quiet"),
		ignored(0, Nothing, "the image's owner is not mapped", "container-remap-root"),
		ignored(0, Nothing, "so it is anyway", "no-container-remap-root"),
		ignored(0, Nothing, "the image is writable below /tmp and in what is mounted", "container-writable"),
		ignored(0, Nothing, "so it is anyway", "container-readonly"),
		ignored(0, Nothing, "so it is anyway", "no-container-mount-home"),
		ignored(0, Nothing, "so it is anyway", "no-container-entrypoint"),
	}
}

// refusedFlags would change the job, so leaving them out is no way.
func refusedFlags() []Spec {
	return []Spec{
		refused(0, Value, "a job gets its whole time limit: ask for the time that you need with --time", "time-min"),
		refused('F', Value, "name the nodes with -w", "nodefile"),
		env("SBATCH_RESERVATION", refused(0, Value, "there are no reservations that a user can name: leave it out", "reservation")),
		refused('L', Value, "licences are not counted: leave it out", "licenses"),
		env("SBATCH_CLUSTERS", refused('M', Value, "say where the controllers are, with --addr or ROTA_ADDR", "clusters", "cluster")),
		refused(0, Nothing, "nodes are not booted for jobs: leave it out", "reboot"),
		refused(0, Value, "a batch job runs as the one who submits it", "uid"),
		refused(0, Value, "a batch job runs as the one who submits it", "gid"),
		refused(0, Value, "write the variables into the script, or name them with --export", "export-file"),
		refused(0, Value, "there is no burst buffer", "bb"),
		refused(0, Value, "there is no burst buffer", "bbf"),
		env("SBATCH_CONTAINER", refused(0, Value, "unpack the bundle's root file system and give its directory with --container-image", "container")),
		refused(0, Value, "give the directory of a root file system with --container-image", "container-id"),
		refused(0, Value, "every job has a container of its own: leave it out", "container-name"),
		refused(0, Value, "nothing of a container is kept: write to a shared path", "container-save"),
		refused(0, Nothing, "name your home directory in --container-mounts", "container-mount-home"),
		refused(0, Nothing, "write the whole command", "container-entrypoint"),
		refused(0, Value, "set the variables in the script", "container-env"),
		refused(0, Nothing, "a batch job has no terminal: use rota run", "pty"),
		refused(0, Value, "a script is a job of its own, and nothing is started in another one", "jobid"),
		env("SBATCH_TRES_PER_TASK", refused(0, Value, "use --gpus-per-task and --cpus-per-task", "tres-per-task")),
		env("SBATCH_TRES_BIND", refused(0, Value, "leave it out", "tres-bind")),
		refused(0, Value, "Rota has no cloud of its own: leave it out", "extra"),
		refused(0, Value, "write a job file with gang_scope = \"job\" for groups that start together", "het-group"),
		refused(0, Value, "write a job file with one task for each program", "multi-prog"),
	}
}

// find returns the flag of a name.
func find(name string) *Spec {
	for i := range table {
		if table[i].Name == name {
			return &table[i]
		}
	}
	return nil
}
