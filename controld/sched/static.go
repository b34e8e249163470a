package sched

// static serves jobs by priority and age with a fixed number of workers, elastic ones with the most that the cluster could ever hold, and lets
// others pass those that do not fit.
func static(t *trial) {
	s := &stretcher{trial: t}
	for _, j := range s.line() {
		c := newContender(nil, j)
		for fixSize(t, c) {
			spots, ok := placeTogether(t, c.gang(t))
			if !ok {
				break
			}
			c.start(t, spots, 0)
			if !c.nextTask() {
				break
			}
		}
	}
}

// fixSize sets the size of an elastic job that waits to the most that the cluster could hold if it were empty. False: it could not hold the least.
func fixSize(t *trial, c *contender) bool {
	g := c.gang(t)
	terms, elastic := c.job.Elastic()
	if !elastic {
		return true
	}
	part := g.At(terms.Part)
	for part.Workers = terms.Max; part.Workers >= terms.Min; part.Workers -= terms.Unit {
		if everHolds(t, g) {
			return true
		}
	}
	return false
}
