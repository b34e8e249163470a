package baseline

import (
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// FIFO serves jobs strictly in the order in which they came: no job passes the first that does not
// fit.
func FIFO(t *scratch.State) {
	s := NewStarter(t)
	for j := range Waiting(t) {
		if !s.StartWhole(j) {
			return
		}
	}
}
