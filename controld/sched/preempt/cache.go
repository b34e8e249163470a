package preempt

// Cache keeps the memory of candidates from cycle to cycle, with what is known of attempts that
// have not changed. The zero value is ready for use.
type Cache struct {
	last   *Candidates // of an earlier cycle; nil: there is none, or this cycle has taken it
	made   *Candidates // in this cycle
	unused int         // cycles in a row that have made none
}

// take returns the memory of the last candidates, which this cycle may overwrite.
func (c *Cache) take() *Candidates {
	r := c.last
	if r == nil {
		r = &Candidates{}
	}
	c.last, c.made = nil, r
	return r
}

// EndCycle keeps the candidates of this cycle for the next.
func (c *Cache) EndCycle() {
	switch {
	case c.made != nil:
		c.last, c.made, c.unused = c.made, nil, 0
	case c.unused == tunables.KeepCycles:
		c.last = nil
	default:
		c.unused++
	}
}

// Reused returns how many pages of attempts the last cycle took over from the one before; 0 if it
// needed no candidates.
func (c *Cache) Reused() int {
	if c.unused > 0 || c.last == nil {
		return 0
	}
	return c.last.repeated
}
