package rules

import "github.com/rota-hpc/rota/jobspec"

// elastic checks the range of workers, and refuses settings that need a fixed number.
func (c *checker) elastic(where string, g *jobspec.Group, j *jobspec.Job) {
	e := g.Elastic
	if e == nil {
		return
	}
	where = c.partPath(where, ".elastic")
	c.between(where+".min", e.Min, 1, jobspec.MaxWorkers)
	c.between(where+".max", e.Max, 1, jobspec.MaxWorkers)
	if e.Min >= 1 && e.Max >= 1 && e.Max < e.Min {
		c.add(jobspec.CodeConflict, where+".max", "make max at least min", "max (%d) is less than min (%d)", e.Max, e.Min)
	}
	c.elasticSteps(where, e)
	c.duration(where+".cooldown", e.Cooldown)
	c.duration(where+".grow_after", e.GrowAfter)
	switch {
	case e.Resize != jobspec.ResizeSignal:
		c.choice(where+".resize", e.Resize, jobspec.ResizeRestart)
	case !c.scheduling:
		c.add(jobspec.CodeUnsupported, where+".resize",
			`write resize = "restart", or leave it out: the workers are asked to save and are started again`,
			"changing the number of workers of a running program without a restart is not supported yet")
	}
	c.elasticConflicts(where, g, j)
}

// elasticConflicts refuses settings that an elastic group cannot have.
func (c *checker) elasticConflicts(where string, g *jobspec.Group, j *jobspec.Job) {
	switch {
	case j.Class == jobspec.TE:
		c.add(jobspec.CodeConflict, where, "leave elastic out, or class",
			"a te job cannot be elastic, because it is short and starts at once with its full request")
	case g.Count != 0:
		c.add(jobspec.CodeConflict, where, "leave count out",
			"count (%d) fixes the number of workers, but elastic lets it change between min and max", g.Count)
	case g.Gang != nil && !*g.Gang:
		c.add(jobspec.CodeConflict, where, "leave gang out",
			"gang = false starts each worker by itself, but the workers of an elastic group start together")
	case j.RunsOnce():
		c.add(jobspec.CodeConflict, where, "leave out either elastic or requeue = false",
			"an elastic job is restarted when its number of workers changes, but this job must never be started again")
	}
}

// oneElastic refuses a second elastic group in a gang.
func (c *checker) oneElastic(j *jobspec.Job) {
	first := -1
	for i := range j.Groups {
		switch {
		case j.Groups[i].Elastic == nil:
		case first < 0:
			first = i
		default:
			c.add(jobspec.CodeUnsupported, at("groups", i)+".elastic", "set count for one of them",
				"groups %q and %q start together and are both elastic, which is not supported yet",
				groupName(&j.Groups[first]), groupName(&j.Groups[i]))
		}
	}
}

// elasticGroup returns the index of the first elastic group, -1 if there is none.
func elasticGroup(j *jobspec.Job) int {
	for i := range j.Groups {
		if j.Groups[i].Elastic != nil {
			return i
		}
	}
	return -1
}

// elasticSteps checks that the numbers of workers are multiples of multiple_of.
func (c *checker) elasticSteps(where string, e *jobspec.Elastic) {
	if e.MultipleOf != 0 {
		c.between(where+".multiple_of", e.MultipleOf, 1, jobspec.MaxWorkers)
	}
	if e.Step != 0 {
		c.between(where+".step", e.Step, 1, jobspec.MaxWorkers)
	}
	unit := max(e.MultipleOf, 1)
	for _, n := range []struct {
		name  string
		value int
	}{{"min", e.Min}, {"max", e.Max}, {"step", e.Step}} {
		if n.value > 0 && n.value%unit != 0 {
			c.add(jobspec.CodeConflict, where+"."+n.name, "", "%s (%d) is not a multiple of multiple_of (%d)", n.name, n.value,
				unit)
		}
	}
}
