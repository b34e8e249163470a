package rules

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/template"
)

// Built-in limits of a queue for trial-and-error jobs; operators may change them
// (docs/operating.md).
const (
	usualTETime = jobspec.Seconds(2 * 3600)
	usualTEGPUs = 16
)

// Warnings returns settings that are allowed but probably mistakes, in the order of the job's
// fields. A job is never refused for a warning.
func Warnings(j *jobspec.Job) []jobspec.Problem {
	c := &checker{}
	if j.Class == jobspec.TE {
		c.largeTEJob(j)
	}
	if k := j.Checkpoint; k != nil && k.Path == "" && !k.OnNode() {
		c.add(jobspec.CodeNoPath, "checkpoint", `write path = "/shared/you/checkpoints"`,
			"the checkpoint has no path, so users and cost estimates cannot see where the program saves, or how much")
	}
	if i := elasticGroup(j); i >= 0 && j.Checkpoint == nil {
		c.add(jobspec.CodeForgetful, at("groups", i)+".elastic",
			"let the program save when it gets the signal, and add checkpoint { }",
			"the group is restarted each time its number of workers changes, but the job has no checkpoint block: it would "+
				"lose its progress")
	}
	if p := j.Preemption; p != nil && p.GracePeriod > jobspec.DefaultGracePeriod && j.Checkpoint == nil {
		c.add(jobspec.CodeNoTrap, "preemption.grace_period",
			"let the program save its state and add checkpoint { }, or leave grace_period out",
			"a grace period of %v helps only programs that save their state at the signal, but this job has no checkpoint "+
				"block", p.GracePeriod)
	}
	for i := range j.Groups {
		c.alikeOnNode(at("groups", i), &j.Groups[i])
		for k := range j.Groups[i].Tasks {
			c.sharedLogs(at(at("groups", i)+".tasks", k)+".log", &j.Groups[i].Tasks[k], &j.Groups[i], j.Array)
		}
	}
	return c.problems
}

// mayShareNode reports whether workers of the group may run on one node.
func mayShareNode(g *jobspec.Group) bool {
	return g.Most() > 1 && cmp.Or(g.MaxWorkersPerNode, g.UsualPerNode()) > 1
}

// alikeOnNode warns of workers on one node that call torchrun themselves with c10d.
func (c *checker) alikeOnNode(where string, g *jobspec.Group) {
	if g.Loose() || g.MeetsByHost() || !mayShareNode(g) {
		return
	}
	for i := range g.Tasks {
		t := &g.Tasks[i]
		if strings.Contains(t.Script, "c10d") ||
			slices.ContainsFunc(t.Command, func(word string) bool { return strings.Contains(word, "c10d") }) {
			c.add(jobspec.CodeAlikeOnNode, at(where+".tasks", i), "write max_workers_per_node = 1 in the group",
				"with c10d torchrun cannot tell workers on the same node apart, and these workers may share a node")
		}
	}
}

// sharedLogs warns of log files that several workers or array elements write.
func (c *checker) sharedLogs(where string, t *jobspec.Task, g *jobspec.Group, a *jobspec.Array) {
	if t.Log == nil {
		return
	}
	for _, f := range []struct{ name, pattern string }{{".stdout", t.Log.Stdout}, {".stderr", t.Log.Stderr}} {
		of := func(letters string, references ...string) bool { return differs(t, f.pattern, letters, references) }
		switch {
		case f.pattern == "" || strings.HasPrefix(f.pattern, "/dev/"):
		case (g.Loose() || a != nil && a.Len() > 1) && !of("ja", "job.id", "array."):
			c.add(jobspec.CodeOneLog, where+f.name, "put %a, the index, into its name",
				"all elements write to the same file, %q", f.pattern)
		case !g.Loose() && !g.RunsSteps() && g.Most() > 1 && !of("nt", "worker.index") &&
			(mayShareNode(g) || !of("N", "node.name")):
			c.add(jobspec.CodeOneLog, where+f.name, "put %n, the worker's number, into its name",
				"all workers write to the same "+
					"file, %q",
				f.pattern)
		}
	}
}

// differs reports whether the path contains one of the % letters, or a reference that starts with
// one of references.
func differs(t *jobspec.Task, pattern, letters string, references []string) bool {
	if t.Template {
		for _, name := range template.References(pattern) {
			if slices.ContainsFunc(references, func(begin string) bool { return strings.HasPrefix(name, begin) }) {
				return true
			}
		}
	}
	for rest, found := pattern, true; found; {
		if _, rest, found = strings.Cut(rest, "%"); rest != "" {
			rest = strings.TrimLeft(rest, "0123456789")
			if rest != "" && strings.Contains(letters, rest[:1]) {
				return true
			}
			rest = strings.TrimPrefix(rest, "%")
		}
	}
	return false
}

// largeTEJob warns of trial-and-error jobs that most queues refuse.
func (c *checker) largeTEJob(j *jobspec.Job) {
	if j.TimeLimit > usualTETime {
		c.add(jobspec.CodeTryTooMuch, "time_limit", `leave class out for a long job`,
			"queues with the usual limit of %[2]v for te jobs refuse a te job of %[1]v", j.TimeLimit, usualTETime)
	}
	gpus := 0
	for i := range j.Groups {
		for k := range j.Groups[i].Tasks {
			gpus += min(j.Groups[i].Most(), jobspec.MaxWorkers) * min(max(j.Groups[i].Tasks[k].Resources.GPUs, 0),
				jobspec.MaxGPUs)
		}
	}
	if gpus > usualTEGPUs {
		c.add(jobspec.CodeTryTooMuch, "groups", "leave class out for a large job",
			"queues with the usual limit of %[2]d GPUs for te jobs refuse a te job with %[1]d GPUs", gpus, usualTEGPUs)
	}
}
