package jobs

import (
	"sync"
	"time"

	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched"
)

// waitReasons remembers why jobs wait. A list of the queue asks once for each group of alike jobs,
// and lists that follow each other closely share the answers. So finding them takes a tenth of one
// processor at most, however many lists are asked for.
type waitReasons struct {
	mu   sync.Mutex
	view *state.View
	next time.Time // not found again before
	find func(model.JobID) model.Reason
}

// reason returns why j waits.
func (w *waitReasons) reason(v *state.View, now model.Instant, j *model.Job) model.Reason {
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
	case j.Reason.Code != model.ReasonNone:
		return j.Reason
	}
	return model.Reason{Code: model.ReasonNotScheduled}
}
