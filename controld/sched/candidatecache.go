package sched

// candidateCache keeps the memory of candidates from cycle to cycle, with what is known of attempts that have not changed. The zero value is ready
// for use.
type candidateCache struct {
	last   *roster // of an earlier cycle; nil: there is none, or this cycle has taken it
	made   *roster // in this cycle
	unused int     // cycles in a row that have made none
}

// maxUnused is for how many cycles candidates are kept that none of them needs: jobs among them may have left the state.
const maxUnused = 256

// take returns the memory of the last candidates, which this cycle may overwrite.
func (c *candidateCache) take() *roster {
	r := c.last
	if r == nil {
		r = &roster{}
	}
	c.last, c.made = nil, r
	return r
}

// endCycle keeps the candidates of this cycle for the next.
func (c *candidateCache) endCycle() {
	switch {
	case c.made != nil:
		c.last, c.made, c.unused = c.made, nil, 0
	case c.unused == maxUnused:
		c.last = nil
	default:
		c.unused++
	}
}
