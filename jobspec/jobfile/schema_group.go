package jobfile

import (
	"fmt"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hclfile"
)

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

var enterTask = addTo("tasks", func(g *jobspec.Group) *[]jobspec.Task { return &g.Tasks }, func(t *jobspec.Task) *string { return &t.Name })

// taskTemplate is where it is noted that a task's texts hold references.
func taskTemplate(target any) *bool { return &target.(*jobspec.Task).Template }

var groupSchema = &hclfile.Block{
	Attrs: []hclfile.Attr{
		field("count", func(g *jobspec.Group) *int { return &g.Count }).AtLeastOne().With("1", "number of workers, at most 4096; not beside `elastic`"),
		field("gang", func(g *jobspec.Group) **bool { return &g.Gang }).With("true", "start all workers in one decision, or none; with `false` each starts by itself, as an element of an array whose index, `array.index`, is its number"),
		field("depends_on", func(g *jobspec.Group) *[]string { return &g.DependsOn }).
			With("none", "groups of the job to wait for: `prep` or `prep:ok` (succeeded), `prep:failed`, `prep:any` (ended), `prep:started`"),
		field("time_limit", func(g *jobspec.Group) *jobspec.Seconds { return &g.TimeLimit }).AtLeastOne().With("the job's", "how long one attempt may run, at most the job's"),
		field("max_workers_per_node", func(g *jobspec.Group) *int { return &g.MaxWorkersPerNode }).AtLeastOne().
			With("1", "how many workers may share a node"),
		field("exclusive", func(g *jobspec.Group) *bool { return &g.Exclusive }).With("false", "share the nodes with no other job"),
		field("success", func(g *jobspec.Group) *string { return &g.Success }).
			With("all", "whose success is the group's: `all` workers', the `leader`'s (the first worker's), or `any` one's"),
		field("on_worker_failure", func(g *jobspec.Group) *string { return &g.OnWorkerFailure }).
			With("restart_group", "when one worker fails: `restart_group` (stop all, then restart says whether again) or `ignore`"),
		hclfile.Later("class", "set class in the job"),
		hclfile.Later("priority", "set priority in the job"),
		hclfile.Later("queue", "set queue in the job"),
	},
	Blocks: []hclfile.Nested{
		{Name: "task", Label: "its name", Many: true, Body: taskSchema, Doc: "a program that every worker runs", Enter: enterTask, Template: taskTemplate},
		constraintBlock(func(g *jobspec.Group) *[]jobspec.Constraint { return &g.Constraints }),
		affinityBlock(func(g *jobspec.Group) *[]jobspec.Affinity { return &g.Affinities }),
		restartBlock(func(g *jobspec.Group) **jobspec.Restart { return &g.Restart }),
		metaBlock(func(g *jobspec.Group) *map[string]string { return &g.Meta }),
		{
			Name: "network", Body: networkSchema, Doc: "says which network the tasks use",
			Enter: func(parent any, _ string) (any, string) { return parent, "network" },
		},
		{Name: "elastic", Body: elasticSchema, Doc: "lets the number of workers change while the job lives", Enter: enterElastic},
		hclfile.LaterBlock("topology", "leave it out: the fewest nodes are taken"),
	},
}

func enterElastic(parent any, _ string) (any, string) {
	g := parent.(*jobspec.Group)
	g.Elastic = &jobspec.Elastic{}
	return g.Elastic, "elastic"
}

var elasticSchema = &hclfile.Block{
	Attrs: []hclfile.Attr{
		field("min", func(e *jobspec.Elastic) *int { return &e.Min }).AtLeastOne().Must().With("", "fewest workers: as many start together, and none of these is taken away alone"),
		field("max", func(e *jobspec.Elastic) *int { return &e.Max }).AtLeastOne().Must().With("", "most workers, at most 4096"),
		field("multiple_of", func(e *jobspec.Elastic) *int { return &e.MultipleOf }).AtLeastOne().With("1", "the number of workers is always a multiple of it, and so are min and max"),
		field("step", func(e *jobspec.Elastic) *int { return &e.Step }).AtLeastOne().With("`multiple_of`", "how many workers join at once"),
		field("resize", func(e *jobspec.Elastic) *string { return &e.Resize }).
			With("restart", "only `restart`: all workers are asked to save, and are started again as many as they are then"),
		hclfile.Later("signal", "leave it out: with resize = \"restart\" the signal is that of preemption"),
		field("cooldown", func(e *jobspec.Elastic) *jobspec.Seconds { return &e.Cooldown }).AtLeastOne().With("5m", "how long after a start the group is left alone, unless its room is needed"),
		field("grow_after", func(e *jobspec.Elastic) *jobspec.Seconds { return &e.GrowAfter }).AtLeastOne().With("60s", "how long room was free before the group grows into it"),
	},
}

// networkSchema takes the one network that there is, so that files which name it are read.
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
