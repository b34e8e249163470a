package jobfile

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

func (w *writer) job(j *jobspec.Job) {
	w.str("class", string(j.Class), "")
	w.str("queue", j.Queue, "")
	w.str("account", j.Account, "")
	w.num("priority", *j.Priority, jobspec.DefaultPriority)
	w.duration("time_limit", j.TimeLimit, 0)
	w.str("begin", j.Begin, "")
	w.str("deadline", j.Deadline, "")
	w.flag("hold", j.Hold, false)
	w.str("gang_scope", j.GangScope, "")
	w.str("on_dependency_failure", j.OnDependencyFailure, "")
	w.list("nodes", j.Nodes)
	w.list("exclude_nodes", j.ExcludeNodes)
	w.list("features", j.Features)
	w.str("workdir", j.Workdir, "")
	w.list("export", j.Export)
	w.str("description", j.Description, "")
	w.list("tags", j.Tags)
	w.entries("meta", j.Meta)
	w.array(j.Array)
	for i := range j.Dependencies {
		w.dependency(&j.Dependencies[i])
	}
	w.conditions(j.Constraints, j.Affinities)
	for _, p := range j.LogPolicies {
		w.block("log_policy", p.Name, func() {
			w.str("pattern", p.Pattern, "")
			w.str("action", p.Action, "")
			w.str("stream", p.Stream, "both")
		})
	}
	w.restart(j.Restart)
	w.checkpoint(j.Checkpoint)
	w.preemption(j)
	w.groups(j)
}

func (w *writer) array(a *jobspec.Array) {
	if a == nil {
		return
	}
	w.block("array", "", func() {
		w.str("indices", a.Indices, "")
		if a.Matrix != nil {
			w.attr("matrix", matrix(a.Matrix))
		}
		if a.Columns != nil {
			w.str("file", ParamsFile, "")
		}
		w.num("max_parallel", a.MaxParallel, 0)
		w.num("max_failures", *a.MaxFailures, -1)
		w.str("order", a.Order, "index")
		if s := a.Stop; s != nil {
			w.block("stop", "", func() {
				w.str("metric", s.Metric, "")
				w.str("goal", s.Goal, "")
				w.attr("at_step", strconv.FormatInt(s.AtStep, 10))
				w.str("keep", s.Keep, "")
			})
		}
	})
}

func matrix(axes []jobspec.Axis) string {
	var b strings.Builder
	b.WriteString("{\n")
	for _, axis := range axes {
		b.WriteString(axis.Name + " = " + listed(axis.Values) + "\n")
	}
	return b.String() + "}"
}

func (w *writer) dependency(d *jobspec.Dependency) {
	w.block("dependency", "", func() {
		w.str("type", d.Type, "")
		w.list("jobs", d.Jobs)
		w.duration("delay", d.Delay, 0)
		w.str("match", d.Match, "all")
	})
}

func (w *writer) conditions(constraints []jobspec.Constraint, affinities []jobspec.Affinity) {
	for i := range constraints {
		w.block("constraint", "", func() { w.condition(&constraints[i]) })
	}
	for i := range affinities {
		w.block("affinity", "", func() {
			w.condition(&affinities[i].Constraint)
			w.num("weight", affinities[i].Weight, 0)
		})
	}
}

func (w *writer) condition(c *jobspec.Constraint) {
	w.str("attribute", c.Attribute, "")
	w.str("operator", c.Operator, "=")
	w.str("value", c.Value, "")
	w.list("values", c.Values)
}

func (w *writer) restart(r *jobspec.Restart) {
	if r == nil {
		return
	}
	w.block("restart", "", func() {
		w.num("attempts", r.Attempts, 0)
		w.duration("delay", r.Delay, jobspec.DefaultRestartDelay)
		w.str("backoff", r.Backoff, "exponential")
		w.duration("max_delay", r.MaxDelay, max(jobspec.DefaultRestartMaxDelay, r.Delay))
		w.duration("window", r.Window, jobspec.DefaultRestartWindow)
		w.flag("exclude_node", *r.ExcludeNode, true)
		w.numbers("retry_on_exit", r.RetryOnExit)
		w.numbers("no_retry_on_exit", r.NoRetryOnExit)
	})
}

func (w *writer) checkpoint(c *jobspec.Checkpoint) {
	if c == nil {
		return
	}
	w.block("checkpoint", "", func() {
		w.str("path", c.Path, "")
		w.duration("interval", c.Interval, 0)
		w.num("exit_code", c.ExitCode, jobspec.DefaultCheckpointExitCode)
	})
}

// preemption writes what differs from what the job gets without the block.
func (w *writer) preemption(j *jobspec.Job) {
	p, usual := j.Preemption, j.UsualPreemption()
	if *p == *usual {
		return
	}
	w.block("preemption", "", func() {
		w.str("signal", p.Signal, usual.Signal)
		w.duration("grace_period", p.GracePeriod, usual.GracePeriod)
	})
}

// groups writes a job's groups, or its task when the one group has nothing to say.
func (w *writer) groups(j *jobspec.Job) {
	if len(j.Groups) == 1 && len(j.Groups[0].Tasks) == 1 {
		bare := &writer{}
		bare.groupAttrs(&j.Groups[0])
		if j.Groups[0].Name == jobspec.DefaultGroup && bare.text.Len() == 0 {
			w.task(&j.Groups[0].Tasks[0], 0, 0)
			return
		}
	}
	for i := range j.Groups {
		g := &j.Groups[i]
		w.block("group", g.Name, func() {
			w.groupAttrs(g)
			first := slices.IndexFunc(g.Tasks, func(t jobspec.Task) bool { return t.Lifecycle == nil })
			for k := range g.Tasks {
				w.task(&g.Tasks[k], k, first)
			}
		})
	}
}

func (w *writer) groupAttrs(g *jobspec.Group) {
	if g.Elastic == nil {
		w.num("count", g.Count, 1)
	}
	w.flag("gang", *g.Gang, true)
	w.list("depends_on", g.DependsOn)
	w.duration("time_limit", g.TimeLimit, 0)
	w.num("max_workers_per_node", g.MaxWorkersPerNode, 1)
	w.flag("exclusive", g.Exclusive, false)
	w.str("success", g.Success, "")
	w.str("on_worker_failure", g.OnWorkerFailure, "")
	w.entries("meta", g.Meta)
	w.elastic(g.Elastic)
	w.conditions(g.Constraints, g.Affinities)
	w.restart(g.Restart)
}

func (w *writer) elastic(e *jobspec.Elastic) {
	if e == nil {
		return
	}
	w.block("elastic", "", func() {
		w.num("min", e.Min, 0)
		w.num("max", e.Max, 0)
		w.num("multiple_of", e.MultipleOf, 1)
		w.num("step", e.Step, e.MultipleOf)
		w.duration("cooldown", e.Cooldown, jobspec.DefaultCooldown)
		w.duration("grow_after", e.GrowAfter, jobspec.DefaultGrowAfter)
	})
}
