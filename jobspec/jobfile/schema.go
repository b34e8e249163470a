package jobfile

import (
	"errors"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hclfile"
)

// The tables of this package define the language: attributes and blocks, their fields, defaults and
// documentation, and refused names. docs/jobfile.md and `rota explain` are made from them.

// file is the target of a whole job file.
type file struct {
	job *jobspec.Job // nil: the file has no job block
}

var fileSchema = &hclfile.Block{
	Blocks: []hclfile.Nested{{
		Name: "job", Label: "its name", Required: true, Body: jobSchema,
		Enter: func(parent any, label string) (any, string) {
			f := parent.(*file)
			f.job = &jobspec.Job{Name: label}
			return f.job, ""
		},
		Written: func(parent any) []hclfile.Written {
			j := parent.(*file).job
			return []hclfile.Written{{Label: j.Name, Target: j}}
		},
	}},
}

var jobSchema = hclfile.For[jobspec.Job](&hclfile.Block{
	Elsewhere: map[string]string{
		"type":        "leave it out: every job runs to its end",
		"datacenters": "leave it out, or name nodes with nodes or constraint",
		"region":      "leave it out", "namespace": "leave it out, or write account = ...", "partition": "write queue = ...",
		"qos":  "write class = ...",
		"time": "write time_limit = ...", "walltime": "write time_limit = ...",
	},
	Attrs: []hclfile.Attr{
		hclfile.Named("class").
			With("the queue's", "`te` (trial and error: short, goes first) or `be` (best effort)"),
		hclfile.Named("queue").With("the cluster's", "queue to submit to"),
		hclfile.Named("account").With("the user's group", "account that is charged"),
		hclfile.Named("priority").With("50", "0 to 100, within one class"),
		hclfile.Named("time_limit").AtLeastOne().
			With("the queue's", "how long one attempt may run"),
		hclfile.Named("requeue_exit_code").AtLeastOne().
			With("none", "1 to 127: the exit code with which a program without a checkpoint block asks to be started again"),
		hclfile.Named("begin").
			With("at once", "earliest start: a time in RFC 3339, such as `2026-03-01T08:00:00Z`, or `now+2h`"),
		hclfile.Named("deadline").
			With("none", "time by which the job must have ended, written like begin. A job that can no longer meet it is "+
				"given up, and a running job is stopped when it comes"),
		hclfile.Named("hold").With("false", "do not start before `rota release`"),
		hclfile.Named("gang_scope").
			With("group", "whether the workers of each `group`, or all groups of the `job`, start together"),
		hclfile.Named("on_dependency_failure").
			With("cancel", "whether to `cancel` or `hold` the job, or group, when its dependency can never be satisfied"),
		hclfile.WrittenAs(hclfile.Text("on_node_lost", "string", func(
			j *jobspec.Job, text string, _ hclfile.Source,
		) (err error) {
			if j.OnNodeLost, err = jobspec.ParseNodeLoss(text); err == nil && j.OnNodeLost == 0 {
				err = errors.New("on_node_lost is empty: write \"requeue\" or \"wait\"")
			}
			return err
		}), func(j *jobspec.Job) any { return j.OnNodeLost }).
			With("the queue's", "what happens when the job's node is silent for longer than the lease. `requeue` stops the "+
				"job and starts it elsewhere; `wait` lets it run, and starts it elsewhere only once the node is confirmed dead"),
		hclfile.Named("nodes").With("any", "only these nodes, as in `[\"gpu[01-04]\"]`"),
		hclfile.Named("exclude_nodes").With("none", "not these nodes; a name that the cluster does not have is refused"),
		hclfile.Named("features").With("none", "keys of labels that a node must have; `a|b` needs only one of them"),
		hclfile.Named("licenses").
			With("none", "licences of the cluster that the job holds while it runs, as in `{ matlab = 2 }`; each element of "+
				"an array holds that many"),
		hclfile.Named("workdir").With("the submit directory", "absolute path where the tasks start"),
		hclfile.Named("export").
			With("an active environment", "names of variables to copy from the submit side. `*` and `?` stand for parts of a "+
				"name, and copy no secrets; a `*` alone copies the usual variables, paths and functions"),
		hclfile.Named("description").With("", "free text, at most 4 KiB"),
		hclfile.Named("comment").
			With("", "text that lists of jobs show, at most 1 KiB; `rota update --comment` changes it"),
		hclfile.Named("tags").With("none", "at most 32 names"),
		hclfile.Later("time_min", "leave it out: a job runs up to its time_limit"),
		hclfile.Later("count", "write group \"main\" { count = ... } around the task"),
	},
	Blocks: []hclfile.Nested{
		metaBlock[jobspec.Job](),
		hclfile.NamedBlock("array", "array", "turns the job into an array of many jobs", arraySchema),
		hclfile.NamedBlock("dependency", "dependencies", "other jobs to wait for; with several blocks the job waits for all",
			dependencySchema),
		constraintBlock,
		affinityBlock,
		hclfile.NamedBlock("log_policy", "log_policies", "action to take when a line of output matches a pattern",
			logPolicySchema),
		restartBlock,
		hclfile.NamedBlock("checkpoint", "checkpoint", "states that the program saves its progress",
			checkpointSchema),
		preemptionBlock(),
		groupBlock(),
		jobTaskBlock(),
		hclfile.LaterBlock("hang", "set a time_limit"),
		hclfile.LaterBlock("idle", "set a time_limit"),
		hclfile.LaterBlock("notify", "wait in a script: rota wait ID"),
	},
})

func metaBlock[T any]() hclfile.Nested {
	return hclfile.Nested{
		Name: "meta", Body: hclfile.FreeBlock[T]("meta"), Doc: "names and values of your own, at most 4 KiB",
		Enter: func(parent any, _ string) (any, string) { return parent, "meta" },
	}
}

// implied marks a block that may be omitted if it is empty.
func implied(block hclfile.Nested) hclfile.Nested {
	block.Implied = true
	return block
}

// section is a block with its name and place in the documentation.
type section struct {
	name  string
	where string // "" at the top
	block *hclfile.Block
}

// sections are the blocks in the order of the documentation.
func sections() []section {
	return []section{
		{"job", "", jobSchema},
		{"array", "in job", arraySchema},
		{"stop", "in array", stopSchema},
		{"dependency", "in job", dependencySchema},
		{"constraint", "in job or group", constraintSchema},
		{"affinity", "in job or group", affinitySchema},
		{"log_policy", "in job", logPolicySchema},
		{"restart", "in job or group", restartSchema},
		{"checkpoint", "in job", checkpointSchema},
		{"preemption", "in job", preemptionSchema},
		{"group", "in job", groupSchema},
		{"elastic", "in group", elasticSchema},
		{"network", "in group", networkSchema},
		{"task", "in group, or in job", taskSchema},
		{"resources", "in task", resourcesSchema},
		{"gpu", "in resources", gpuSchema},
		{"launch", "in task", launchSchema},
		{"mount", "in task", mountSchema},
		{"log", "in task", logSchema},
		{"progress", "in task", progressSchema},
		{"lifecycle", "in task", lifecycleSchema},
		{"secret", "in task", secretSchema},
		{"ulimit", "in task", ulimitSchema},
		{"terminal", "in task", terminalSchema},
	}
}

// refused lists the known but unsupported names of a block.
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
	return names
}

// refusedValues are values that are refused with a reason.
var refusedValues = []struct{ where, what, instead string }{
	{"job", "`array` with several groups that start independently",
		"write gang_scope = \"job\", or submit one job for each group"},
	{"job", "`gang_scope = \"job\"` and `depends_on` in one job", "leave one of them out"},
	{"group", "`gang = false` with several workers in an array or beside other groups",
		"leave gang out, or submit a separate job for the group"},
	{"preemption", "`mode` other than `suspend`", "leave it out. A stopped job is requeued, and an elastic job gives up " +
		"workers first; with a checkpoint block it continues from its checkpoint"},
	{"elastic", "a job with `mode = \"suspend\"`", "leave out mode"},
	{"group", "`on_worker_failure = \"restart_worker\"`", "leave it out"},
	{"network", "`mode` other than `host`", "leave it out: tasks use the host's network"},
	{"task", "`image` as a reference", "give a directory with a root file system"},
	{"resources", "`rdma` as a number, several `gpu { }` as alternatives", "write rdma = \"all\", and one gpu"},
	{"launch", "`type = \"mpi\"`", "start `mpirun` in the command or script of one worker"},
	{"mount", "`type = \"volume\"`", "use `bind` or `tmpfs`"},
}
