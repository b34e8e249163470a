package jobspec

// Elastic lets a group run with any number of workers in a range: the fewest are enough to start it, more join while there is room for them,
// and leave when others need theirs.
type Elastic struct {
	Min        int     `json:"min"`
	Max        int     `json:"max"`
	MultipleOf int     `json:"multiple_of,omitempty"` // default 1: the number of workers is always a multiple of it
	Step       int     `json:"step,omitempty"`        // default MultipleOf: how many workers join at once, or a multiple of it
	Resize     string  `json:"resize,omitempty"`      // restart (default): all workers are stopped, and started again as many as they are then
	Cooldown   Seconds `json:"cooldown,omitempty"`    // default 300: how long after a start it is left alone, unless its room is needed
	GrowAfter  Seconds `json:"grow_after,omitempty"`  // default 60: how long room was free before the group grows into it
}

// ResizeRestart is the value of [Elastic.Resize] that is honoured.
const ResizeRestart = "restart"

// Defaults of an elastic group.
const (
	DefaultCooldown  = Seconds(300)
	DefaultGrowAfter = Seconds(60)
)

func (e *Elastic) withDefaults() *Elastic {
	if e == nil {
		return nil
	}
	d := *e
	orElse(&d.MultipleOf, 1)
	orElse(&d.Step, max(d.MultipleOf, 1))
	drop(&d.Resize, ResizeRestart)
	orElse(&d.Cooldown, DefaultCooldown)
	orElse(&d.GrowAfter, DefaultGrowAfter)
	return &d
}

// Fewest returns with how many workers the group starts at least.
func (g *Group) Fewest() int {
	if g.Elastic != nil {
		return max(g.Elastic.Min, 1)
	}
	return max(g.Count, 1)
}

// Most returns how many workers the group can have.
func (g *Group) Most() int {
	if g.Elastic != nil {
		return max(g.Elastic.Max, 1)
	}
	return max(g.Count, 1)
}

// elastic checks the range of a group's workers, and that nothing else in the job wants a fixed number.
func (c *checker) elastic(where string, g *Group, j *Job) {
	e := g.Elastic
	if e == nil {
		return
	}
	where = c.part(where, ".elastic")
	c.between(where+".min", e.Min, 1, MaxWorkers)
	c.between(where+".max", e.Max, 1, MaxWorkers)
	if e.Min >= 1 && e.Max >= 1 && e.Max < e.Min {
		c.add(CodeConflict, where+".max", "make max at least min", "max (%d) is less than min (%d)", e.Max, e.Min)
	}
	c.steps(where, e)
	c.duration(where+".cooldown", e.Cooldown)
	c.duration(where+".grow_after", e.GrowAfter)
	if e.Resize == "signal" {
		c.add(CodeUnsupported, where+".resize", `write resize = "restart", or leave it out: the workers are asked to save and are started again`,
			"telling a running program that it has another number of workers is not supported yet")
	} else {
		c.choice(where+".resize", e.Resize, ResizeRestart)
	}
	c.elasticIn(where, g, j)
}

// steps checks what numbers of workers are multiples of.
func (c *checker) steps(where string, e *Elastic) {
	if e.MultipleOf != 0 {
		c.between(where+".multiple_of", e.MultipleOf, 1, MaxWorkers)
	}
	if e.Step != 0 {
		c.between(where+".step", e.Step, 1, MaxWorkers)
	}
	unit := max(e.MultipleOf, 1)
	for _, n := range []struct {
		name  string
		value int
	}{{"min", e.Min}, {"max", e.Max}, {"step", e.Step}} {
		if n.value > 0 && n.value%unit != 0 {
			c.add(CodeConflict, where+"."+n.name, "", "%s (%d) is no multiple of multiple_of (%d)", n.name, n.value, unit)
		}
	}
}

// elasticIn checks what a group has beside its range.
func (c *checker) elasticIn(where string, g *Group, j *Job) {
	switch {
	case j.Class == TE:
		c.add(CodeConflict, where, "leave elastic out, or class", "a te job is short and starts at once with what it asks for, so it is not elastic")
	case g.Count != 0:
		c.add(CodeConflict, where, "leave count out", "the number of workers is between min and max, and count (%d) fixes it", g.Count)
	case g.Gang != nil && !*g.Gang:
		c.add(CodeConflict, where, "leave gang out", "the workers of an elastic group start together, and gang = false starts each by itself")
	}
}

// oneElastic refuses a second elastic group in a gang: who should grow first nobody could say.
func (c *checker) oneElastic(j *Job) {
	first := -1
	for i := range j.Groups {
		switch {
		case j.Groups[i].Elastic == nil:
		case first < 0:
			first = i
		default:
			c.add(CodeUnsupported, at("groups", i)+".elastic", "give it a count", "groups %q and %q start together and are both elastic, which is not supported yet",
				j.Groups[first].name(), j.Groups[i].name())
		}
	}
}

// elasticGroup returns the place of the first elastic group, -1 if there is none.
func (j *Job) elasticGroup() int {
	for i := range j.Groups {
		if j.Groups[i].Elastic != nil {
			return i
		}
	}
	return -1
}
