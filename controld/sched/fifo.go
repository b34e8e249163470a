package sched

// fifo serves jobs strictly in the order in which they came: nobody passes the first that does not fit.
func fifo(t *trial) {
	s := newStarter(t)
	for j := range waiting(t) {
		if !s.startWhole(j) {
			return
		}
	}
}
