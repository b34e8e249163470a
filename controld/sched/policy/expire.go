package policy

import (
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/reserve"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Expire ends jobs and reservations whose time is over. It stops attempts at their limit or their
// job's deadline, and tells those that asked for it that their limit comes. It ends attempts on
// nodes that were silent until their shims must have stopped them. It gives up waiting jobs that
// can no longer end by their deadline, and suspensions of jobs that reach no pause point. It also
// gives up reservations for room that does not come, or of jobs whose licences others have taken.
// Jobs that it stops hold their room until nodes report that they have ended.
func Expire(t *scratch.State, due *scratch.Pages[model.Instant]) {
	lost := lostNodes(t)
	for p, first := range due.Walk(t.View, firstDue) {
		if lost == nil && (first == 0 || first > t.Now) {
			t.WakeAt(first)
			continue
		}
		for r := range p.Runs {
			if !endLost(t, lost, r.Job, r.Attempt) {
				stopAtLimit(t, r)
			}
		}
	}
	giveUp(t)
	withdrawLate(t)
	vain := reserve.InVain(t)
	for _, r := range t.View.Reservations() {
		if r.Until > t.Now && t.Waits(r.Job) && !vain[r.Job] && hasLicenses(t, r.Job) {
			t.WakeAt(r.Until)
			t.Holders[r.Job] = r
			continue
		}
		if r.Until > t.Now && t.View.Job(r.Job).Moving() && !vain[r.Job] {
			t.WakeAt(r.Until) // the job does not wait yet, so that it is no holder
			continue
		}
		if t.Late[r.Job] { // it ends with the job
			t.Room.Unclaim(r.Job)
			continue
		}
		t.Unreserve(r)
	}
}

// hasLicenses reports whether no licence is missing for a job to start. The room of a job that
// cannot is of use to others.
func hasLicenses(t *scratch.State, id model.JobID) bool {
	return t.Barred(t.View.Job(id)).Code == model.ReasonNone
}

// withdrawLate takes back the suspensions that have not been acknowledged in time. Jobs that
// counted on that room are decided again in the next cycle.
func withdrawLate(t *scratch.State) {
	if !t.View.AnySuspended() {
		return
	}
	ending := t.Ending()
	for r := range t.View.LiveAttempts() {
		a := r.Attempt
		if a.Stop != nil || !a.Suspending() || ending[r.Job.ID] {
			continue
		}
		if over := a.Switch.At + model.PauseLimit; over > t.Now {
			t.WakeAt(over)
			continue
		}
		t.Act(&fsm.ResumeJob{Job: r.Job.ID, Attempt: a.N})
		t.Withdrawn[r.Job.ID] = true
	}
}

// firstDue returns the earliest instant at which something is due for some attempts; 0 if nothing
// is. It may be a time limit, a deadline, or a notice that a limit comes.
func firstDue(p state.AttemptPage) (first model.Instant) {
	for r := range p.Runs {
		for _, due := range []model.Instant{r.Ends, r.Early} {
			if due != 0 && (first == 0 || due < first) {
				first = due
			}
		}
	}
	return first
}

// lostNodes returns, for nodes that are down, the instant from which nothing can run there any more. A
// node whose jobs its witnesses may keep is left out until the leader has declared it lost. Nil if
// there is none.
func lostNodes(t *scratch.State) map[string]model.Instant {
	var lost map[string]model.Instant
	for i, n := range t.View.Nodes() {
		if t.Room.Up(i) || n.State != model.NodeDown || t.View.HeldByWitnesses(n) {
			continue
		}
		if lost == nil {
			lost = make(map[string]model.Instant)
		}
		lost[n.Name] = t.View.LostAt(n)
	}
	return lost
}

// endLost ends an attempt that has a worker on a lost node, unless it waits for its nodes, and reports
// whether it did.
func endLost(t *scratch.State, lost map[string]model.Instant, j *model.Job, a *model.Attempt) bool {
	if len(lost) == 0 || a.Waits {
		return false
	}
	for i := range a.Workers {
		w := &a.Workers[i]
		over, down := lost[w.Node]
		if !down || w.State.Final() {
			continue
		}
		if over <= t.Now {
			t.Act(&fsm.EndAttempt{Job: j.ID, Attempt: a.N, Cause: model.CauseNodeLost})
			return true
		}
		t.WakeAt(over)
	}
	return false
}

// stopAtLimit stops an attempt that has run for the job's time limit, counted from when all its
// workers ran. It tells the attempt before if the job asks for that. An attempt that is being
// stopped already is left alone: its grace is never restarted.
func stopAtLimit(t *scratch.State, r *estimate.LiveAttempt) {
	if r.Ends != 0 && r.Ends <= t.Now {
		t.Act(&fsm.StopJob{Job: r.Job.ID, Attempt: r.Attempt.N, Cause: model.CauseTimeout})
		return
	}
	if r.Ends != 0 {
		t.WakeAt(r.Ends)
	}
	switch {
	case r.Early == 0:
	case r.Early > t.Now:
		t.WakeAt(r.Early)
	default:
		t.Act(&fsm.EarlySignal{Job: r.Job.ID, Attempt: r.Attempt.N})
	}
}

// giveUp ends waiting jobs that can no longer meet their deadline, and lets the state continue its
// own unfinished work.
func giveUp(t *scratch.State) {
	for j := range t.View.WithDeadline() {
		latest, _ := j.LatestStart()
		if max(t.Now, j.Eligible) <= latest {
			t.WakeAt(latest + 1)
			continue
		}
		id := j.ID
		if t.Late[id] = true; t.Late[j.Parent] {
			continue // its parent takes it along
		}
		t.Act(&fsm.GiveUp{Job: id})
	}
	if t.View.HasUnsettled() {
		t.Act(&fsm.Settle{})
	}
}
