package script

import (
	"fmt"
	"slices"
	"strings"
)

// Spec describes a flag of batch scripts, under Slurm's name.
type Spec struct {
	Name  string   // --name
	Also  []string // other long names
	Short byte     // -n; 0 for none
	Takes Takes    // whether the flag takes a value
	Arg   string   // name of the value in the help
	Usage string   // effect of the flag, with the value in backquotes
	Env   string   // the variable with the same effect, or ""

	kind    Kind   // "": honoured; Warning: left out with a warning; Refused
	instead string // reason, or what to use instead
	read    func(a *request, s setting)
}

func (s *Spec) names() []string { return append([]string{s.Name}, s.Also...) }

// Honoured reports whether the flag changes the job. Every other flag causes a problem.
func (s *Spec) Honoured() bool { return s.kind == "" }

// Refused reports whether a script with the flag is refused. The remaining flags are left out with
// a warning.
func (s *Spec) Refused() bool { return s.kind == Refused }

func (s *Spec) example() string {
	return fmt.Sprintf("write --%s=%s", s.Name, strings.ToUpper(strings.ReplaceAll(s.Arg, " ", "_")))
}

// Flags returns all flags in the order of the documentation. Honoured flags come first.
func Flags() []Spec { return slices.Clone(table) }

// init fills table, because the table's functions refer to it.
var table []Spec

func init() { table = slices.Concat(jobFlags(), shapeFlags(), ignoredFlags(), refusedFlags()) }

// specs makes flags that differ only in their names, which blanks separate. A name is written
// NAME[,OTHER][/LETTER][=VARIABLE].
func specs(kind Kind, takes Takes, instead, names string) []Spec {
	var list []Spec
	for name := range strings.FieldsSeq(names) {
		name, variable, _ := strings.Cut(name, "=")
		name, letter, _ := strings.Cut(name, "/")
		all := strings.Split(name, ",")
		s := Spec{Name: all[0], Also: all[1:], Takes: takes, Arg: "value", Env: variable, kind: kind, instead: instead}
		if letter != "" {
			s.Short = letter[0]
		}
		list = append(list, s)
	}
	return list
}

// honoured makes a flag that changes the job. arg names its value: "" for no value, in brackets if
// the value is optional.
func honoured(name, arg, usage string, read func(*request, setting)) Spec {
	takes := Value
	if arg == "" {
		takes = Nothing
	} else if arg[0] == '[' {
		takes, arg = Perhaps, strings.Trim(arg, "[]")
	}
	s := specs("", takes, "", name)[0]
	s.Arg, s.Usage, s.read = arg, usage, read
	return s
}

// jobFlags concern the job, when and where it runs, and its output.
func jobFlags() []Spec {
	return []Spec{
		honoured("job-name,name/J=SBATCH_JOB_NAME", "name", "call the job `NAME`",
			textFlag(func(a *request) *string { return &a.name })),
		honoured("partition,queue/p=SBATCH_PARTITION", "queue", "submit to `QUEUE`", (*request).partition),
		honoured("account/A=SBATCH_ACCOUNT", "account", "charge `ACCOUNT`",
			textFlag(func(a *request) *string { return &a.job.Account })),
		honoured("qos,class/q=SBATCH_QOS", "class", "`CLASS` be, or te for trial and error; normal means be", (*request).qos),
		honoured("priority", "n", "`N` from 0 to 100 among the account's jobs", (*request).priority),
		honoured("nice", "[n]", "lower the priority among the account's jobs by `N` (100) from the usual 50",
			(*request).nice),
		honoured("wckey=SBATCH_WCKEY", "key", "store `KEY` as wckey in the job's meta", (*request).wckey),
		honoured("mail-type", "events", "store `EVENTS` in the job's meta: no mail is sent yet", (*request).mail),
		honoured("mail-user", "address", "store `ADDRESS` in the job's meta: no mail is sent yet", (*request).mail),
		honoured("time/t=SBATCH_TIMELIMIT", "time", "limit each attempt to `TIME`: 90 (minutes), 1:30:00, 2-0, 30m",
			(*request).time),
		honoured("begin/b", "time", "do not start before `TIME`: now+1hour, 16:00, 2026-03-01T08:00", (*request).begin),
		honoured("deadline", "time", "give up if the job can no longer end by `TIME`", (*request).deadline),
		honoured("hold/H", "", "hold the job until it is released", func(a *request, _ setting) { a.job.Hold = true }),
		honoured("dependency,after/d", "jobs", "wait for `JOBS`: afterok:1:2,afterany:3, singleton", (*request).dependency),
		honoured("kill-on-invalid-dep", "yes|no",
			"`YES|NO`: cancel (yes) or hold a job whose dependency can never be met", (*request).invalidDependency),
		honoured("array/a=SBATCH_ARRAY_INX", "indices", "one task for each of `INDICES`: 0-99:2%8", (*request).array),
		honoured("chdir,workdir/D", "dir", "run in `DIR`", (*request).chdir),
		honoured("output/o=SBATCH_OUTPUT", "pattern", "write the output to `FILE`: %x-%j.out",
			textFlag(func(a *request) *string { return &a.stdout })),
		honoured("error/e=SBATCH_ERROR", "pattern", "write standard error to a separate `FILE`",
			textFlag(func(a *request) *string { return &a.stderr })),
		honoured("input/i=SBATCH_INPUT", "file", "only `/dev/null`", (*request).input),
		honoured("open-mode=SBATCH_OPEN_MODE", "append|truncate",
			"`MODE` append or truncate, at the start of an attempt", (*request).openMode),
		honoured("export=SBATCH_EXPORT", "variables",
			"`VARIABLES` to copy: ALL (default), NONE, or names and NAME=VALUE with commas", (*request).export),
		honoured("constraint/C=SBATCH_CONSTRAINT", "features", "only on nodes with `FEATURES`: a&b, a|b, a&(b|c)",
			(*request).constraint),
		honoured("licenses/L", "licences", "hold `LICENCES` while it runs: matlab:2,ansys", (*request).licenses),
		honoured("nodelist/w", "nodes", "only on `NODES`: gpu[01-04]", (*request).nodelist),
		honoured("exclude/x", "nodes", "not on `NODES`", (*request).exclude),
		honoured("exclusive=SBATCH_EXCLUSIVE", "[user]", "whole nodes: all their cores and memory", (*request).exclusive),
		honoured("requeue=SBATCH_REQUEUE", "[expedite]",
			"start again after a preemption, the loss of a node or exit code 85 (default)",
			func(a *request, _ setting) { a.noRequeue = setting{} }),
		honoured("no-requeue=SBATCH_NO_REQUEUE", "", "never run the script a second time",
			func(a *request, s setting) { a.noRequeue = s }),
		honoured("signal=SBATCH_SIGNAL", "signal", "send `[B:]SIG[@SECONDS]` so long before the time limit (60), and at a "+
			"preemption", (*request).signal),
		honoured("comment", "text", "show `TEXT` with the job",
			textFlag(func(a *request) *string {
				a.job.Comment = new(string)
				return a.job.Comment
			})),
		honoured("wrap", "command", "run `COMMAND` instead of a script", (*request).wrap),
		honoured("wait/W=SBATCH_WAIT", "", "wait for the job's end and return its code",
			func(a *request, _ setting) { a.result.Wait = true }),
		honoured("parsable", "", "print the id alone", func(a *request, _ setting) { a.result.Parsable = true }),
		honoured("quiet/Q", "", "print neither the id nor warnings", func(a *request, _ setting) { a.result.Quiet = true }),
		honoured("clusters,cluster/M=SBATCH_CLUSTERS", "names", "`NAMES` of clusters, which must include this cluster, or "+
			"all",
			textFlag(func(a *request) *string { return &a.result.Clusters })),
		honoured("test-only,dry-run", "", "check the job, and whether the cluster would accept it, without submitting",
			func(a *request, _ setting) { a.result.TestOnly = true }),
		honoured("container-image", "dir", "run in the root file system at `DIR`", (*request).image),
		honoured("container-mounts", "mounts", "`MOUNTS` SOURCE:TARGET[:ro] with commas", (*request).mounts),
		honoured("container-workdir", "dir", "run in `DIR` of the image", (*request).chdir),
	}
}

// shapeFlags set the numbers of workers and processes, and their resources.
func shapeFlags() []Spec {
	return []Spec{
		honoured("nodes/N", "n", "`N` nodes", (*request).nodes),
		honoured("ntasks/n", "n", "`N` tasks in all", numberFlag(func(a *request) *counted { return &a.ntasks })),
		honoured("ntasks-per-node,tasks-per-node", "n", "`N` tasks on each node",
			numberFlag(func(a *request) *counted { return &a.perNode })),
		honoured("ntasks-per-gpu", "n", "`N` tasks for each GPU", numberFlag(func(a *request) *counted { return &a.perGPU })),
		honoured("cpus-per-task/c", "n", "`N` cores for each task", numberFlag(func(a *request) *counted { return &a.cpus })),
		honoured("cpus-per-gpu=SBATCH_CPUS_PER_GPU", "n", "`N` cores for each GPU",
			numberFlag(func(a *request) *counted { return &a.cpusPerGPU })),
		honoured("mincpus", "n", "at least `N` cores on each node",
			numberFlag(func(a *request) *counted { return &a.minCPUs })),
		honoured("mem=SBATCH_MEM_PER_NODE", "size",
			"`SIZE` of memory on each node, in MiB without a unit; 0: all memory, as with --exclusive",
			sizeFlag(func(a *request) *counted { return &a.mem })),
		honoured("mem-per-cpu=SBATCH_MEM_PER_CPU", "size", "`SIZE` of memory for each core",
			sizeFlag(func(a *request) *counted { return &a.memPerCPU })),
		honoured("mem-per-gpu=SBATCH_MEM_PER_GPU", "size", "`SIZE` of memory for each GPU",
			sizeFlag(func(a *request) *counted { return &a.memPerGPU })),
		honoured("gpus/G=SBATCH_GPUS", "n", "`[MODEL:]N` GPUs in all",
			gpusFlag(func(a *request) *counted { return &a.gpus })),
		honoured("gpus-per-node=SBATCH_GPUS_PER_NODE", "n", "`[MODEL:]N` GPUs on each node",
			gpusFlag(func(a *request) *counted { return &a.gpusPerNode })),
		honoured("gpus-per-task=SBATCH_GPUS_PER_TASK", "n", "`[MODEL:]N` GPUs for each task",
			gpusFlag(func(a *request) *counted { return &a.gpusPerTask })),
		honoured("gpu-bind=SBATCH_GPU_BIND", "none",
			"`none`: every task sees all GPUs, also with --gpus-per-task", (*request).gpuBind),
		honoured("gres=SBATCH_GRES", "gpu", "`gpu[:MODEL]:N` on each node", (*request).gres),
		honoured("kill-on-bad-exit/K", "[0|1]",
			"1: a task that fails ends its step; 0 (default): the others go on", (*request).killOnBadExit),
		honoured("distribution/m=SBATCH_DISTRIBUTION", "block|cyclic",
			"number the tasks of a step node by node (`BLOCK`, default) or in turn (CYCLIC)", (*request).distribute),
		honoured("overlap", "", "steps may share cores and GPUs with other steps", func(*request, setting) {}),
	}
}

// ignoredFlags are left out with a warning.
func ignoredFlags() []Spec {
	const (
		placed    = "the node chooses whole cores near the GPUs"
		frequency = "the system sets frequencies"
		reserved  = "the node reserves what it needs for itself"
		recorded  = "what a job uses is always recorded: see rota eff"
		always    = "Rota always does this"
	)
	return slices.Concat(
		specs(Warning, Value, "the programs find each other by the variables that the job is given", "mpi"),
		specs(Warning, Value, placed, "hint=SBATCH_HINT"),
		specs(Warning, Value, frequency, "cpu-freq gpu-freq=SBATCH_GPU_FREQ"),
		specs(Warning, Value, placed, `extra-node-info/B sockets-per-node cores-per-socket
			threads-per-core=SBATCH_THREADS_PER_CORE ntasks-per-core ntasks-per-socket gpus-per-socket
			mem-bind=SBATCH_MEM_BIND cpu-bind gres-flags=SBATCH_GRES_FLAGS`),
		specs(Warning, Value, reserved, "core-spec/S=SBATCH_CORE_SPEC thread-spec=SBATCH_THREAD_SPEC"),
		specs(Warning, Nothing, "a job always gets the fewest nodes", "contiguous"),
		specs(Warning, Nothing, "a job gets the fewest nodes", "spread-job=SBATCH_SPREAD_JOB"),
		specs(Warning, Nothing, always, "use-min-nodes=SBATCH_USE_MIN_NODES"),
		specs(Warning, Value, "nodes are chosen without regard to switches", "switches=SBATCH_WAIT4SWITCH"),
		specs(Warning, Value, "all workers always start together", "wait-all-nodes=SBATCH_WAIT_ALL_NODES"),
		specs(Warning, Value, "nodes are not booted for jobs", "delay-boot=SBATCH_DELAY_BOOT"),
		specs(Warning, Value, "tasks use the host's network", "network=SBATCH_NETWORK"),
		specs(Warning, Value, "nodes are chosen by the other flags of the job", "prefer"),
		specs(Warning, Value, "/tmp is in memory, and half as large as the job's memory", "tmp"),
		specs(Warning, Perhaps, "a job that loses a node is started again as a whole", "no-kill/k=SBATCH_NO_KILL"),
		specs(Warning, Nothing, "cores and GPUs belong to one job at a time", "oversubscribe,share/s"),
		specs(Warning, Nothing, "every task gets the cores that it asks for", "overcommit/O=SBATCH_OVERCOMMIT"),
		specs(Warning, Value, recorded, "profile=SBATCH_PROFILE acctg-freq=SBATCH_ACCTG_FREQ"),
		specs(Warning, Perhaps, "login files are not read: read them in the script", "get-user-env=SBATCH_GET_USER_ENV"),
		specs(Warning, Perhaps, "limits are set in a job file, with ulimit { }", "propagate"),
		specs(Warning, Nothing, "directives of PBS are always comments", "ignore-pbs=SBATCH_IGNORE_PBS"),
		specs(Warning, Value, "the system controls power", "power=SBATCH_POWER"),
		specs(Warning, Nothing, "rota logs shows from which worker a line comes", "label/l"),
		specs(Warning, Nothing, "output is not buffered", "unbuffered/u"),
		specs(Warning, Nothing, "there are no further messages", "verbose/v"),
		specs(Warning, Nothing, "the image's owner is not mapped", "container-remap-root"),
		specs(Warning, Nothing, always, "no-container-remap-root"),
		specs(Warning, Nothing, "the image is writable below /tmp and in what is mounted", "container-writable"),
		specs(Warning, Nothing, always, "container-readonly no-container-mount-home no-container-entrypoint"),
	)
}

// refusedFlags would change what the job does, so a script with such a flag is refused.
func refusedFlags() []Spec {
	return slices.Concat(
		specs(Refused, Value, "a job gets its whole time limit: ask for the time that you need with --time", "time-min"),
		specs(Refused, Value, "name the nodes with -w", "nodefile/F"),
		specs(Refused, Value, "users cannot name a reservation: leave it out", "reservation=SBATCH_RESERVATION"),
		specs(Refused, Nothing, "nodes are not booted for jobs: leave it out", "reboot"),
		specs(Refused, Value, "a batch job runs as the user that submits it", "uid gid"),
		specs(Refused, Value, "write the variables into the script, or name them with --export", "export-file"),
		specs(Refused, Value, "there is no burst buffer", "bb bbf"),
		specs(Refused, Value, "unpack the bundle's root file system and give its directory with --container-image",
			"container=SBATCH_CONTAINER"),
		specs(Refused, Value, "give the directory of a root file system with --container-image", "container-id"),
		specs(Refused, Value, "every job has a container of its own: leave it out", "container-name"),
		specs(Refused, Value, "nothing of a container is kept: write to a shared path", "container-save"),
		specs(Refused, Nothing, "name your home directory in --container-mounts", "container-mount-home"),
		specs(Refused, Nothing, "write the whole command", "container-entrypoint"),
		specs(Refused, Value, "set the variables in the script", "container-env"),
		specs(Refused, Nothing, "a batch job has no terminal: use rota run", "pty"),
		specs(Refused, Value, "a script is a job of its own: it cannot start a step in another job", "jobid"),
		specs(Refused, Value, "use --gpus-per-task and --cpus-per-task", "tres-per-task=SBATCH_TRES_PER_TASK"),
		specs(Refused, Value, "leave it out", "tres-bind=SBATCH_TRES_BIND"),
		specs(Refused, Value, "Rota has no cloud of its own: leave it out", "extra"),
		specs(Refused, Value, "it is for srun inside a job", "het-group"),
		specs(Refused, Value, "write a job file with one task for each program", "multi-prog"),
	)
}

// find returns the flag with this name, or nil.
func find(name string) *Spec {
	i := slices.IndexFunc(table, func(s Spec) bool { return slices.Contains(s.names(), name) })
	if i < 0 {
		return nil
	}
	return &table[i]
}
