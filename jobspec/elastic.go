package jobspec

// Elastic lets a group run with any number of workers in a range: the fewest are enough to start
// it, more join while there is room for them, and leave when others need theirs.
type Elastic struct {
	Min        int `json:"min"`
	Max        int `json:"max"`
	MultipleOf int `json:"multiple_of,omitempty"` // default 1: the number of workers is always a multiple of it
	// default MultipleOf: how many workers join at once, or a multiple of it
	Step int `json:"step,omitempty"`
	// restart (default): all workers are stopped, and started again as many as they are then
	Resize string `json:"resize,omitempty"`
	// default 300: how long after a start it is left alone, unless its room is needed
	Cooldown  Seconds `json:"cooldown,omitempty"`
	GrowAfter Seconds `json:"grow_after,omitempty"` // default 60: how long room was free before the group grows into it
}

// ResizeRestart is the value of [Elastic.Resize] that is honoured.
const ResizeRestart = "restart"

// Defaults of an elastic group.
const (
	DefaultCooldown  = Seconds(300)
	DefaultGrowAfter = Seconds(60)
)

// Default fills in what an elastic group does not say about its range.
func (e *Elastic) Default() {
	orElse(&e.MultipleOf, 1)
	orElse(&e.Step, max(e.MultipleOf, 1))
	drop(&e.Resize, ResizeRestart)
	orElse(&e.Cooldown, DefaultCooldown)
	orElse(&e.GrowAfter, DefaultGrowAfter)
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
