package jobspec

// Elastic lets a group run with any number of workers in a range. The group starts with the fewest
// workers, grows into free capacity, and shrinks when other jobs need its capacity.
type Elastic struct {
	Min        int `json:"min"`
	Max        int `json:"max"`
	MultipleOf int `json:"multiple_of,omitempty"` // default 1: the number of workers is a multiple of it
	// default MultipleOf: workers join in multiples of it
	Step int `json:"step,omitempty"`
	// restart (default): stop all workers and start the new number; signal: stop the leaving
	// workers only
	Resize string `json:"resize,omitempty"`
	// default 300: no growth for this time after a start
	Cooldown  Seconds `json:"cooldown,omitempty"`
	GrowAfter Seconds `json:"grow_after,omitempty"` // default 60: time for which room must be free before growth
}

// Values of [Elastic.Resize]. Only the state machine and the scheduler support signal so far: nodes
// cannot tell a program its new number of workers.
const (
	ResizeRestart = "restart"
	ResizeSignal  = "signal"
)

// Defaults of an elastic group.
const (
	DefaultCooldown  = Seconds(300)
	DefaultGrowAfter = Seconds(60)
)

// Default fills in the settings of an elastic group.
func (e *Elastic) Default() {
	orElse(&e.MultipleOf, 1)
	orElse(&e.Step, max(e.MultipleOf, 1))
	drop(&e.Resize, ResizeRestart)
	orElse(&e.Cooldown, DefaultCooldown)
	orElse(&e.GrowAfter, DefaultGrowAfter)
}

// Fewest returns the number of workers with which the group can start.
func (g *Group) Fewest() int {
	if g.Elastic != nil {
		return max(g.Elastic.Min, 1)
	}
	return max(g.Count, 1)
}

// Most returns the largest number of workers of the group.
func (g *Group) Most() int {
	if g.Elastic != nil {
		return max(g.Elastic.Max, 1)
	}
	return max(g.Count, 1)
}
