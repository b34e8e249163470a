package server

import (
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched"
)

// waitReasons remembers why jobs wait. A list of the queue asks once for each group of alike jobs,
// and lists that follow each other closely share the answers. So finding them takes a tenth of one
// processor at most, however many lists are asked for.
type waitReasons struct {
	mu   sync.Mutex
	view *cluster.View
	next time.Time // not found again before
	find func(cluster.JobID) cluster.Reason
}

// reason returns why j waits.
func (w *waitReasons) reason(v *cluster.View, now cluster.Instant, j *cluster.Job) cluster.Reason {
	w.mu.Lock()
	defer w.mu.Unlock()
	if begin := time.Now(); w.view != v && begin.After(w.next) {
		w.view, w.find = v, sched.Reasons(v, now, v.Config().Policy)
		end := time.Now()
		w.next = end.Add(10 * end.Sub(begin))
	}
	switch {
	case w.view == v || w.view.Job(j.ID) == j:
		return w.find(j.ID)
	case j.Reason.Code != cluster.ReasonNone:
		return j.Reason
	}
	return cluster.Reason{Code: cluster.ReasonNotScheduled}
}
