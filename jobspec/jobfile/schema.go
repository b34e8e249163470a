package jobfile

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hclfile"
)

// The tables below are the language: what may stand where, where it goes, what its default is, and what is known but refused.
// docs/jobfile.md is generated from them.

// file is what a whole job file is stored in.
type file struct {
	job *jobspec.Job
}

var fileSchema = &hclfile.Block{
	Blocks: []hclfile.Nested{{
		Name: "job", Label: "its name", Required: true, Body: jobSchema,
		Enter: func(parent any, label string) (any, string) {
			f := parent.(*file)
			f.job.Name = label
			return f.job, ""
		},
	}},
}

var jobSchema = &hclfile.Block{
	Attrs: []hclfile.Attr{
		field("class", func(j *jobspec.Job) *string { return (*string)(&j.Class) }).
			With("the queue's", "`te` (trial and error: short, goes first) or `be` (best effort)"),
		field("queue", func(j *jobspec.Job) *string { return &j.Queue }).With("the cluster's", "queue to submit to"),
		field("account", func(j *jobspec.Job) *string { return &j.Account }).With("the user's", "account that is charged"),
		field("priority", func(j *jobspec.Job) **int { return &j.Priority }).With("50", "0 to 100, within one class"),
		field("time_limit", func(j *jobspec.Job) *jobspec.Seconds { return &j.TimeLimit }).AtLeastOne().
			With("the queue's", "how long one attempt may run"),
		field("hold", func(j *jobspec.Job) *bool { return &j.Hold }).With("false", "do not start before `rota release`"),
		field("workdir", func(j *jobspec.Job) *string { return &j.Workdir }).With("the submit directory", "absolute path where the tasks start"),
		field("export", func(j *jobspec.Job) *[]string { return &j.Export }).
			With("none", "names of variables to copy from the submit side; `*` and `?` stand for parts of a name"),
		field("description", func(j *jobspec.Job) *string { return &j.Description }).With("", "free text, at most 4 KiB"),
		field("tags", func(j *jobspec.Job) *[]string { return &j.Tags }).With("none", "at most 32 names"),
		hclfile.Later("time_min", "leave it out: a job runs up to its time_limit"),
		hclfile.Later("begin", "submit with hold = true and release the job when it may start"),
		hclfile.Later("deadline", "leave it out and watch the job with rota queue"),
		hclfile.Later("gang_scope", "leave it out: a job has one group"),
		hclfile.Later("on_dependency_failure", "wait in a script: rota wait ID && rota submit next.hcl"),
		hclfile.Later("nodes", "leave it out: any node with room is taken"),
		hclfile.Later("exclude_nodes", "ask an operator to drain the node"),
		hclfile.Later("features", "leave it out: any node with room is taken"),
		hclfile.Later("count", "write group \"main\" { count = ... } around the task"),
	},
	Blocks: []hclfile.Nested{
		{Name: "group", Label: "its name", Many: true, Body: groupSchema, Doc: "workers that start together", Enter: enterGroup},
		{Name: "task", Label: "its name", Many: true, Body: taskSchema, Doc: "the program, when one worker is enough", Enter: enterJobTask},
		{Name: "restart", Body: restartSchema, Doc: "retries after the program failed", Enter: enterRestart},
		{Name: "checkpoint", Body: checkpointSchema, Doc: "says that the program saves its progress", Enter: enterCheckpoint},
		{Name: "preemption", Body: preemptionSchema, Doc: "how the program is stopped when its room is needed", Enter: enterPreemption},
		{
			Name: "meta", Body: freeBlock(func(j *jobspec.Job) *map[string]string { return &j.Meta }), Doc: "names and values of your own, at most 4 KiB",
			Enter: func(parent any, _ string) (any, string) { return parent, "meta" },
		},
		hclfile.LaterBlock("array", "submit one job for each element, with -var"),
		hclfile.LaterBlock("dependency", "wait in a script: rota wait ID && rota submit next.hcl"),
		hclfile.LaterBlock("constraint", "leave it out: any node with room is taken"),
		hclfile.LaterBlock("affinity", "leave it out: any node with room is taken"),
		hclfile.LaterBlock("hang", "set a time_limit"),
		hclfile.LaterBlock("idle", "set a time_limit"),
		hclfile.LaterBlock("log_policy", "end the program with an exit code of its own, and use restart"),
		hclfile.LaterBlock("notify", "wait in a script: rota wait ID"),
	},
}

func enterGroup(parent any, label string) (any, string) {
	j := parent.(*jobspec.Job)
	j.Groups = append(j.Groups, jobspec.Group{Name: label})
	return &j.Groups[len(j.Groups)-1], fmt.Sprintf("groups[%d]", len(j.Groups)-1)
}

// enterJobTask makes the group that a task directly in the job stands for.
func enterJobTask(parent any, label string) (any, string) {
	group, path := enterGroup(parent, jobspec.DefaultGroup)
	task, inner := enterTask(group, label)
	return task, path + "." + inner
}

func enterTask(parent any, label string) (any, string) {
	g := parent.(*jobspec.Group)
	g.Tasks = append(g.Tasks, jobspec.Task{Name: label})
	return &g.Tasks[len(g.Tasks)-1], fmt.Sprintf("tasks[%d]", len(g.Tasks)-1)
}

func enterRestart(parent any, _ string) (any, string) {
	j := parent.(*jobspec.Job)
	j.Restart = &jobspec.Restart{}
	return j.Restart, "restart"
}

func enterCheckpoint(parent any, _ string) (any, string) {
	j := parent.(*jobspec.Job)
	j.Checkpoint = &jobspec.Checkpoint{}
	return j.Checkpoint, "checkpoint"
}

func enterPreemption(parent any, _ string) (any, string) {
	j := parent.(*jobspec.Job)
	j.Preemption = &jobspec.Preemption{}
	return j.Preemption, "preemption"
}

var restartSchema = &hclfile.Block{
	Attrs: []hclfile.Attr{
		field("attempts", func(r *jobspec.Restart) *int { return &r.Attempts }).With("0", "retries within `window`, at most 100"),
		field("delay", func(r *jobspec.Restart) *jobspec.Seconds { return &r.Delay }).AtLeastOne().With("30s", "wait before the first retry"),
		field("backoff", func(r *jobspec.Restart) *string { return &r.Backoff }).With("exponential", "`exponential` doubles the wait each time, `constant` does not"),
		field("max_delay", func(r *jobspec.Restart) *jobspec.Seconds { return &r.MaxDelay }).AtLeastOne().With("10m", "longest wait"),
		field("window", func(r *jobspec.Restart) *jobspec.Seconds { return &r.Window }).AtLeastOne().With("24h", "time within which attempts are counted"),
		field("exclude_node", func(r *jobspec.Restart) **bool { return &r.ExcludeNode }).With("true", "retry on other nodes than the one that failed"),
		field("retry_on_exit", func(r *jobspec.Restart) *[]int { return &r.RetryOnExit }).With("all", "exit codes that are retried"),
		field("no_retry_on_exit", func(r *jobspec.Restart) *[]int { return &r.NoRetryOnExit }).With("none", "exit codes that are not"),
	},
}

var checkpointSchema = &hclfile.Block{
	Attrs: []hclfile.Attr{
		field("path", func(c *jobspec.Checkpoint) *string { return &c.Path }).With("", "where the program saves; for people"),
		field("interval", func(c *jobspec.Checkpoint) *jobspec.Seconds { return &c.Interval }).AtLeastOne().With("", "how often it saves"),
		field("exit_code", func(c *jobspec.Checkpoint) *int { return &c.ExitCode }).AtLeastOne().
			With("85", "1 to 127: the exit code that says \"saved, requeue me\""),
		hclfile.Later("signal", "save at intervals of your own, and at the preemption signal"),
		hclfile.Later("criu", "let the program save its own state"),
	},
}

var preemptionSchema = &hclfile.Block{
	Attrs: []hclfile.Attr{
		field("signal", func(p *jobspec.Preemption) *string { return &p.Signal }).
			With("SIGTERM; SIGUSR1 with launch type slurm", "sent to ask the program to save and end"),
		field("grace_period", func(p *jobspec.Preemption) *jobspec.Seconds { return &p.GracePeriod }).AtLeastOne().
			With("30s", "time between the signal and the kill"),
		hclfile.Later("mode", "leave it out: a stopped job is requeued, and a checkpoint block says that it goes on where it was"),
		hclfile.Later("max", "leave it out"),
		hclfile.Later("min_runtime", "leave it out"),
		hclfile.Later("resume", "leave it out: a stopped job is requeued"),
	},
}

var groupSchema = &hclfile.Block{
	Attrs: []hclfile.Attr{
		field("count", func(g *jobspec.Group) *int { return &g.Count }).AtLeastOne().With("1", "number of workers, at most 4096"),
		field("gang", func(g *jobspec.Group) **bool { return &g.Gang }).With("true", "start all workers in one decision, or none"),
		field("max_workers_per_node", func(g *jobspec.Group) *int { return &g.MaxWorkersPerNode }).AtLeastOne().
			With("1", "how many workers may share a node"),
		hclfile.Later("depends_on", "submit one job for each group"),
		hclfile.Later("time_limit", "set time_limit in the job"),
		hclfile.Later("exclusive", "ask for all cores and GPUs of a node"),
		hclfile.Later("success", "leave it out: a group has succeeded when all workers have"),
		hclfile.Later("on_worker_failure", "leave it out: when a worker fails, all are stopped"),
		hclfile.Later("class", "set class in the job"),
		hclfile.Later("priority", "set priority in the job"),
		hclfile.Later("queue", "set queue in the job"),
	},
	Blocks: []hclfile.Nested{
		{Name: "task", Label: "its name", Many: true, Body: taskSchema, Doc: "the program that every worker runs", Enter: enterTask},
		{
			Name: "meta", Body: freeBlock(func(g *jobspec.Group) *map[string]string { return &g.Meta }), Doc: "names and values of your own, at most 4 KiB",
			Enter: func(parent any, _ string) (any, string) { return parent, "meta" },
		},
		hclfile.LaterBlock("elastic", "set a fixed count"),
		hclfile.LaterBlock("topology", "leave it out: the fewest nodes are taken"),
		hclfile.LaterBlock("constraint", "leave it out: any node with room is taken"),
		hclfile.LaterBlock("affinity", "leave it out: any node with room is taken"),
		hclfile.LaterBlock("network", "leave it out: tasks use the host's network"),
		hclfile.LaterBlock("restart", "write restart in the job"),
	},
}

// field is an attribute that is stored in a field.
func field[T, F any](name string, into func(*T) *F) hclfile.Attr { return hclfile.Field(name, into) }

// freeBlock is the content of a block whose attributes have any name.
func freeBlock[T any](into func(*T) *map[string]string) *hclfile.Block {
	return &hclfile.Block{Free: func(target any) *map[string]string { return into(target.(*T)) }}
}

var taskSchema = &hclfile.Block{
	Attrs: []hclfile.Attr{
		field("image", func(t *jobspec.Task) *string { return &t.Image }).
			With("the host's root, read-only", "absolute path of a directory with a root file system"),
		field("command", func(t *jobspec.Task) *[]string { return &t.Command }).With("", "program and arguments; no shell comes between"),
		hclfile.Text("script", "string", setScript).As("script").
			With("", "text that is run by its `#!` line, else by `/bin/bash -euo pipefail`; at most 1 MiB"),
		hclfile.Text("script_file", "path", readScript).As("script").
			With("", "file below the job file's directory with such a text; nothing in it is interpolated"),
		field("user", func(t *jobspec.Task) *string { return &t.User }).With("the submitter", "must be the submitter in this version"),
		field("leader", func(t *jobspec.Task) **bool { return &t.Leader }).With("true for the first task", "the worker ends when this task ends"),
		field("kill_signal", func(t *jobspec.Task) *string { return &t.KillSignal }).With("SIGTERM", "sent at the time limit and at `rota cancel`"),
		field("kill_timeout", func(t *jobspec.Task) *jobspec.Seconds { return &t.KillTimeout }).AtLeastOne().With("30s", "time between that signal and the kill"),
		hclfile.Later("entrypoint", "write the whole command"),
		hclfile.Later("writable", "leave it out: write below /tmp or a shared path"),
	},
	Blocks: []hclfile.Nested{
		{Name: "resources", Body: resourcesSchema, Doc: "what each worker holds", Enter: enterResources},
		{Name: "launch", Body: launchSchema, Doc: "how many processes a worker starts", Enter: enterLaunch},
		{
			Name: "env", Body: freeBlock(func(t *jobspec.Task) *map[string]string { return &t.Env }), Doc: "variables for the program",
			Enter: func(parent any, _ string) (any, string) { return parent, "env" },
		},
		{Name: "mount", Many: true, Body: mountSchema, Doc: "a directory made visible in the container", Enter: enterMount},
		{Name: "log", Body: logSchema, Doc: "where output goes", Enter: enterLog},
		{Name: "progress", Body: progressSchema, Doc: "what the program reports in $ROTA_PROGRESS_FILE", Enter: enterProgress},
		hclfile.LaterBlock("lifecycle", "start helpers from the script"),
		hclfile.LaterBlock("secret", "read it from a file that only you can read"),
		hclfile.LaterBlock("constraint", "leave it out: any node with room is taken"),
	},
}

func enterResources(parent any, _ string) (any, string) {
	return &parent.(*jobspec.Task).Resources, "resources"
}

func enterLaunch(parent any, _ string) (any, string) {
	t := parent.(*jobspec.Task)
	t.Launch = &jobspec.Launch{}
	return t.Launch, "launch"
}

func enterMount(parent any, _ string) (any, string) {
	t := parent.(*jobspec.Task)
	t.Mounts = append(t.Mounts, jobspec.Mount{})
	return &t.Mounts[len(t.Mounts)-1], fmt.Sprintf("mounts[%d]", len(t.Mounts)-1)
}

func enterLog(parent any, _ string) (any, string) {
	t := parent.(*jobspec.Task)
	t.Log = &jobspec.Log{}
	return t.Log, "log"
}

func enterProgress(parent any, _ string) (any, string) {
	t := parent.(*jobspec.Task)
	t.Progress = &jobspec.Progress{}
	return t.Progress, "progress"
}

func setScript(t *jobspec.Task, text string, _ hclfile.Source) error {
	switch {
	case t.Script != "":
		return errors.New("the task has script and script_file; keep one of them")
	case text == "":
		return errors.New("there is nothing in it to run")
	}
	t.Script = text
	return nil
}

func readScript(t *jobspec.Task, name string, from hclfile.Source) error {
	text, err := from.ReadFile(name)
	if err != nil {
		return err
	}
	return setScript(t, string(text), from)
}

var resourcesSchema = &hclfile.Block{
	Attrs: []hclfile.Attr{
		field("cores", func(r *jobspec.Resources) *int { return &r.Cores }).AtLeastOne().With("1", "whole cores"),
		field("memory", func(r *jobspec.Resources) *jobspec.Bytes { return &r.Memory }).AtLeastOne().With("4GiB for each core", "limit; beyond it the kernel kills"),
		field("gpus", func(r *jobspec.Resources) *int { return &r.GPUs }).With("0", "whole GPUs, on one node"),
		field("shm", func(r *jobspec.Resources) *jobspec.Bytes { return &r.Shm }).AtLeastOne().With("half of memory", "size of /dev/shm; counts as memory"),
		field("tmp", func(r *jobspec.Resources) *jobspec.Bytes { return &r.Tmp }).AtLeastOne().With("half of memory", "size of /tmp; counts as memory"),
		hclfile.Later("swap", "leave it out: jobs do not swap"),
		hclfile.Later("rdma", "leave it out: tasks use the host's network"),
		hclfile.Later("licenses", "leave it out"),
	},
	Blocks: []hclfile.Nested{
		{
			Name: "gpu", Excludes: "gpus", Body: gpuSchema, Doc: "another spelling of gpus",
			Enter: func(parent any, _ string) (any, string) {
				r := parent.(*jobspec.Resources)
				r.GPUs = max(r.GPUs, 1)
				return r, ""
			},
		},
	},
}

var gpuSchema = &hclfile.Block{
	Attrs: []hclfile.Attr{
		field("count", func(r *jobspec.Resources) *int { return &r.GPUs }).AtLeastOne().As("gpus").With("1", "whole GPUs"),
		hclfile.Text("vendor", "string", setVendor).With("nvidia", "only `nvidia`"),
		hclfile.Later("model", "leave it out: any GPU is taken"),
		hclfile.Later("min_memory", "leave it out: any GPU is taken"),
		hclfile.Later("min_compute", "leave it out: any GPU is taken"),
		hclfile.Later("driver", "leave it out: any GPU is taken"),
		hclfile.Later("nvlink", "leave it out: any GPU is taken"),
		hclfile.Later("share", "ask for whole GPUs"),
		hclfile.Later("max_memory", "ask for whole GPUs"),
		hclfile.Later("mig", "ask for whole GPUs"),
		hclfile.Later("mps", "ask for whole GPUs"),
		hclfile.Later("compute_mode", "ask for whole GPUs"),
	},
}

func setVendor(_ *jobspec.Resources, vendor string, _ hclfile.Source) error {
	if vendor != "nvidia" {
		return fmt.Errorf("%q is not known; write nvidia", vendor)
	}
	return nil
}

var launchSchema = &hclfile.Block{
	Attrs: []hclfile.Attr{
		field("type", func(l *jobspec.Launch) *string { return &l.Type }).
			With("single", "`single`, `per_gpu` (a process per GPU), `slurm` (as srun) or `torchrun`"),
		hclfile.Text("nproc", "int or \"gpu\"", setNproc).With("1", "processes on each worker; `\"gpu\"`: one per GPU"),
		field("max_restarts", func(l *jobspec.Launch) *int { return &l.MaxRestarts }).With("0", "torchrun's own restarts"),
		field("port", func(l *jobspec.Launch) *int { return &l.Port }).With("from the node's range", "MASTER_PORT, 1024 to 65535"),
		field("rdzv", func(l *jobspec.Launch) *string { return &l.Rdzv }).With("static", "torchrun's rendezvous, `static` or `c10d`"),
	},
}

func setNproc(l *jobspec.Launch, text string, _ hclfile.Source) error {
	if text == "gpu" {
		l.NprocGPU = true
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return fmt.Errorf("%q is neither a number of processes nor \"gpu\"", text)
	}
	l.Nproc = n
	return nil
}

var mountSchema = &hclfile.Block{
	Attrs: []hclfile.Attr{
		field("source", func(m *jobspec.Mount) *string { return &m.Source }).With("", "absolute path on the node that you can reach, below a shared path also when links are resolved"),
		field("target", func(m *jobspec.Mount) *string { return &m.Target }).Must().With("", "absolute path in the container, not inside a shared path or another mount"),
		field("type", func(m *jobspec.Mount) *string { return &m.Type }).With("bind", "`bind` or `tmpfs`"),
		field("read_only", func(m *jobspec.Mount) *bool { return &m.ReadOnly }).With("false", "refuse writes"),
		hclfile.Later("options", "only read_only is supported"),
	},
}

var logSchema = &hclfile.Block{
	Attrs: []hclfile.Attr{
		field("stdout", func(l *jobspec.Log) *string { return &l.Stdout }).
			With("kept by the node", "path with %j (job), %x (name), %u (user), %n (worker), %N (host), %r (restarts), %t (task)"),
		field("stderr", func(l *jobspec.Log) *string { return &l.Stderr }).With("with stdout", "the same for stderr; join must be false or left out"),
		field("join", func(l *jobspec.Log) **bool { return &l.Join }).With("true without stderr", "write both to one place"),
		field("mode", func(l *jobspec.Log) *string { return &l.Mode }).With("append", "`append` or `truncate`, at the start of an attempt"),
		field("max_size", func(l *jobspec.Log) *jobspec.Bytes { return &l.MaxSize }).AtLeastOne().With("1GiB", "size at which the log is rotated"),
		field("keep", func(l *jobspec.Log) **int { return &l.Keep }).With("3", "rotated logs that are kept"),
	},
}

var progressSchema = &hclfile.Block{
	Attrs: []hclfile.Attr{
		field("metric", func(p *jobspec.Progress) *string { return &p.Metric }).With("", "name of the metric to watch"),
		field("goal", func(p *jobspec.Progress) *string { return &p.Goal }).With("", "`min` or `max`"),
		field("total", func(p *jobspec.Progress) *int64 { return &p.Total }).AtLeastOne().With("", "number of steps in all"),
		hclfile.Later("file", "write to the file that $ROTA_PROGRESS_FILE names"),
		hclfile.Later("pattern", "write to the file that $ROTA_PROGRESS_FILE names"),
	},
}

// sections are the blocks in the order of the documentation, with where each stands.
func sections() []section {
	return []section{
		{"job", jobSchema}, {"group", groupSchema}, {"task", taskSchema}, {"resources", resourcesSchema}, {"gpu", gpuSchema},
		{"launch", launchSchema}, {"mount", mountSchema}, {"log", logSchema}, {"progress", progressSchema}, {"restart", restartSchema},
		{"checkpoint", checkpointSchema}, {"preemption", preemptionSchema},
	}
}

type section struct {
	name  string
	block *hclfile.Block
}

// refused lists what is known in a block and not supported yet.
func (s section) refused() []string {
	var names []string
	for _, a := range s.block.Attrs {
		if a.Refused != "" {
			names = append(names, a.Name)
		}
	}
	for _, b := range s.block.Blocks {
		if b.Refused != "" {
			names = append(names, b.Name)
		}
	}
	return slices.Clip(names)
}
