package jobfile

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hclfile"
)

// groupBlock is a group of a job. Writing a file omits the group that a single task directly in the
// job stands for.
func groupBlock() hclfile.Nested {
	block := hclfile.BlockOf[jobspec.Job]("group", "groups", "workers that start together", groupSchema)
	block.Excludes, block.Instead = "task", "put the task into a group"
	all := block.Written
	block.Written = func(parent any) []hclfile.Written {
		if standsForTask(parent.(*jobspec.Job)) {
			return nil
		}
		return all(parent)
	}
	return block
}

// jobTaskBlock is a task directly in the job; it stands for a group with only this task.
func jobTaskBlock() hclfile.Nested {
	return hclfile.Nested{
		Name: "task", Label: "its name", Body: taskSchema, Doc: "the program of a job with a single worker",
		Template: taskTemplate,
		Excludes: "group", Instead: "put tasks into a group; the tasks of one worker run on the same node",
		Enter: func(parent any, label string) (any, string) {
			j := parent.(*jobspec.Job)
			j.Groups = append(j.Groups, jobspec.Group{Name: jobspec.DefaultGroup, Tasks: []jobspec.Task{{Name: label}}})
			last := len(j.Groups) - 1
			return &j.Groups[last].Tasks[0], fmt.Sprintf("groups[%d].tasks[0]", last)
		},
		Written: func(parent any) []hclfile.Written {
			if j := parent.(*jobspec.Job); standsForTask(j) {
				return writtenTasks(&j.Groups[0])
			}
			return nil
		},
	}
}

// standsForTask reports whether the job's groups can be written as a single task.
func standsForTask(j *jobspec.Job) bool {
	if len(j.Groups) != 1 || len(j.Groups[0].Tasks) != 1 || j.Groups[0].Name != jobspec.DefaultGroup {
		return false
	}
	bare, w := j.Groups[0], &writer{}
	bare.Tasks = nil
	w.content(groupSchema, &bare)
	return w.text.Len() == 0
}

// taskBlock is a task of a group.
func taskBlock() hclfile.Nested {
	block := hclfile.NamedBlock("task", "tasks", "a program that every worker runs", taskSchema)
	block.Template = taskTemplate
	block.Written = func(parent any) []hclfile.Written { return writtenTasks(parent.(*jobspec.Group)) }
	return block
}

// writtenTasks returns the tasks of a group. leader is omitted if it has the default value.
func writtenTasks(g *jobspec.Group) []hclfile.Written {
	written := make([]hclfile.Written, len(g.Tasks))
	first := slices.IndexFunc(g.Tasks, func(t jobspec.Task) bool { return t.Lifecycle == nil })
	for i, t := range g.Tasks {
		if *t.Leader == (i == first) {
			t.Leader = nil
		}
		written[i] = hclfile.Written{Label: t.Name, Target: &t}
	}
	return written
}

// taskTemplate returns the flag of a task whose texts hold references.
func taskTemplate(target any) *bool { return &target.(*jobspec.Task).Template }

var groupSchema = hclfile.For[jobspec.Group](&hclfile.Block{
	Attrs: []hclfile.Attr{
		hclfile.Named("count").AtLeastOne().With("1", "number of workers, at most 4096; not beside `elastic`"),
		hclfile.Named("gang").With("true",
			"start either all workers together or none. With `false` each worker starts by itself, as an array element; "+
				"`array.index` is its number"),
		hclfile.Named("depends_on").
			With("none", "groups of the job to wait for: `prep` or `prep:ok` (succeeded), `prep:failed`, `prep:any` (ended), "+
				"`prep:started`"),
		hclfile.Named("time_limit").AtLeastOne().With("the job's", "how long one attempt may run, at most the job's"),
		hclfile.Named("max_workers_per_node").AtLeastOne().
			With("all", "how many workers may share a node. The workers take as few nodes as possible; 1 gives each worker a "+
				"node of its own. 1 is the default with `exclusive`, `launch` type `steps` and `rdzv = \"c10d\"`"),
		hclfile.Named("exclusive").
			With("false", "take whole nodes: no other job runs there, and the workers get all cores and all memory; resources "+
				"set the minimum that a node must have"),
		hclfile.Named("success").
			With("all", "when the group has succeeded: when `all` workers have, the `leader` (the first worker) has, or `any` "+
				"worker has"),
		hclfile.Named("on_worker_failure").
			With("restart_group", "what happens when one worker fails: `restart_group` (all are stopped, and start again if "+
				"restart allows it) or `ignore`"),
		hclfile.Later("class", "set class in the job"),
		hclfile.Later("priority", "set priority in the job"),
		hclfile.Later("queue", "set queue in the job"),
	},
	Blocks: []hclfile.Nested{
		metaBlock[jobspec.Group](),
		hclfile.NamedBlock("elastic", "elastic", "lets the number of workers change while the job runs",
			elasticSchema),
		constraintBlock,
		affinityBlock,
		restartBlock,
		{
			Name: "network", Body: networkSchema, Doc: "sets the network that the tasks use",
			Enter: func(parent any, _ string) (any, string) { return parent, "network" },
		},
		taskBlock(),
		hclfile.LaterBlock("topology", "leave it out: the fewest nodes are taken"),
	},
})

var elasticSchema = hclfile.For[jobspec.Elastic](&hclfile.Block{
	Attrs: []hclfile.Attr{
		hclfile.Named("min").AtLeastOne().Must().With("",
			"minimum of workers: so many start together, and an elastic job never shrinks below it"),
		hclfile.Named("max").AtLeastOne().Must().With("", "most workers, at most 4096"),
		hclfile.Named("multiple_of").AtLeastOne().With("1",
			"the number of workers, min and max are always a multiple of this number"),
		hclfile.Named("step").AtLeastOne().With("`multiple_of`", "how many workers join at once"),
		hclfile.Named("resize").
			With("restart", "only `restart`: all workers are asked to save, and the new number of workers is started"),
		hclfile.Later("signal", "leave it out: with resize = \"restart\" the signal is that of preemption"),
		hclfile.Named("cooldown").AtLeastOne().With("5m",
			"how long after a start the group keeps its size, unless its room is needed"),
		hclfile.Named("grow_after").AtLeastOne().With("60s",
			"how long room must be free before the group grows into it"),
	},
})

// networkSchema accepts the only kind of network, so that files may name it.
var networkSchema = &hclfile.Block{
	Attrs: []hclfile.Attr{
		hclfile.Text("mode", "string", func(_ *jobspec.Group, mode string, _ hclfile.Source) error {
			if mode != "host" {
				return fmt.Errorf("%q is not supported yet; write host, or leave it out", mode)
			}
			return nil
		}).With("host", "only `host`: tasks use the node's network"),
	},
	Blocks: []hclfile.Nested{hclfile.LaterBlock("port", "leave it out: $MASTER_PORT is a free port of the node")},
}
