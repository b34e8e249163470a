package explain

import (
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// ofPreemption says why a job waits if that has to do with preemption. It waits for jobs to leave,
// or no job can be asked to leave for it. Its account may have no more such jobs. Or it was
// preempted itself for a job that still has the room or waits for it.
func (r *Reasons) ofPreemption(j *model.Job) (model.Reason, bool) {
	t := r.after
	if own := t.Holders[j.ID]; t.AwaitsVictims(j.ID) {
		why := model.Reason{Code: model.ReasonPreempting, Node: own.Claims[0].Node}
		why.For, why.Until = r.leaving(own)
		return why, true
	}
	if r.answers.Reason != nil {
		if why, own := r.answers.Reason(j); own {
			return why, true
		}
	}
	if r.spared(j) {
		return model.Reason{Code: model.ReasonNoVictim}, true
	}
	if j.Reason.Code == model.ReasonPreempted {
		o := t.View.Job(j.Reason.For)
		return j.Reason, o != nil && !o.State.Final()
	}
	return model.Reason{}, false
}

// spared reports whether an operator's orders alone keep the policy from looking for victims for a
// trial-and-error job.
func (r *Reasons) spared(j *model.Job) bool {
	if j.Class != jobspec.TE || len(r.answers.Causes) == 0 || r.after.May(steering.Preemption) {
		return false
	}
	g := r.before.Gang(j)
	return !r.before.Room.Fits(&g)
}

// leaving returns the first job that was asked to leave for the holder of a reservation; 0 if
// others free the room anyway. It also returns when the last of them is killed; 0 if no job has
// been told yet.
func (r *Reasons) leaving(own *model.Reservation) (first model.JobID, over model.Instant) {
	nodes := map[string]bool{}
	for _, c := range own.Claims {
		nodes[c.Node] = true
	}
	for j := range r.after.View.Live() {
		a := j.Live()
		if a.Stop == nil {
			if first == 0 && r.after.Stopping[j.ID] == own.Job {
				first = j.ID
			}
			continue
		}
		if first == 0 && a.Stop.For == own.Job {
			first = j.ID
		}
		for i := range a.Workers {
			if w := &a.Workers[i]; !w.State.Final() && (a.Stop.For == own.Job || nodes[w.Node]) {
				over = max(over, a.Stop.KillAt)
			}
		}
	}
	return first, over
}
