package fairshare

import (
	"slices"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/drf"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// # Holdings while a cycle decides
//
// The account tree begins with the present holdings and follows the actions of the cycle one by
// one. Reclaim looks at future holdings: leaving jobs count as gone, and holders of reservations as
// started.

// Foresee counts jobs that are leaving as gone, and those that hold a reservation as started.
func (f *Accounts) Foresee() {
	if f.foreseen {
		return
	}
	f.CatchUp()
	f.foreseen = true
	for r := range f.state.View.LiveAttempts() {
		if r.Stopping {
			f.gone(r.Job.ID)
		}
	}
	for _, a := range f.state.Actions[:f.counted] {
		switch a := a.(type) {
		case *fsm.StopJob:
			if f.state.View.Job(a.Job).Live().Stop == nil {
				f.gone(a.Job)
			}
		case *fsm.SuspendJob:
			f.gone(a.Job)
		}
	}
	for id, r := range f.state.Holders {
		if f.state.Started[id] == 0 && f.counts(r) {
			f.anticipate(id)
		}
	}
}

// CatchUp brings holdings up to the actions of this cycle. Started jobs count, and so do jobs for
// which room was taken from others. If leaving jobs count as gone, so do those that were asked to
// leave.
func (f *Accounts) CatchUp() {
	for ; f.counted < len(f.state.Actions); f.counted++ {
		switch a := f.state.Actions[f.counted].(type) {
		case *fsm.StartJob:
			f.began(a)
		case *fsm.Reserve:
			if a.ForPreemptor {
				f.anticipate(a.Job)
			}
		case *fsm.ResumeJob:
			if len(a.GPUs) > 0 {
				f.wentOn(a.Job)
			}
		case *fsm.StopJob:
			if f.foreseen {
				f.gone(a.Job)
			}
		case *fsm.SuspendJob:
			if f.foreseen {
				f.gone(a.Job)
			}
		}
	}
}

// began counts a job that was started.
func (f *Accounts) began(a *fsm.StartJob) {
	j := f.state.View.Job(a.Job)
	leaf := f.Leaf(j.Association())
	f.unanticipate(j.ID)
	var spots []fit.Spot
	for _, p := range a.Places {
		_, n := f.state.View.Node(p.Node)
		spots = append(spots, fit.Spot{Node: n, GPUs: p.GPUs})
	}
	leaf.Hold(f.At(j, spots))
}

// wentOn adds the holdings of a resumed job, without the memory that it kept.
func (f *Accounts) wentOn(id model.JobID) {
	j := f.state.View.Job(id)
	more := j.Total()
	more.Memory = 0
	f.Leaf(j.Association()).Hold(f.AmountOf(more))
}

// anticipate counts a job with reserved room as started.
func (f *Accounts) anticipate(id model.JobID) {
	if !f.anticipated[id] {
		f.anticipated[id] = true
		j := f.state.View.Job(id)
		f.Leaf(j.Association()).Hold(f.Asks(j))
	}
}

// unanticipate undoes anticipate, and reports whether the job was counted.
func (f *Accounts) unanticipate(id model.JobID) bool {
	if !f.anticipated[id] {
		return false
	}
	delete(f.anticipated, id)
	j := f.state.View.Job(id)
	f.Leaf(j.Association()).Hold(f.Asks(j).Negative())
	return true
}

// gone takes a leaving job off the holdings. For a job that is resized, these are the workers that
// do not stay.
func (f *Accounts) gone(id model.JobID) {
	j := f.state.View.Job(id)
	f.Leaf(j.Association()).Hold(f.leavingBy(j, j.Live()).Negative())
}

// leavingBy returns the room of an attempt's workers that have not ended and do not stay.
func (f *Accounts) leavingBy(j *model.Job, a *model.Attempt) drf.Amount {
	if !a.Shrinking() && (a.Stop == nil || a.Stop.Resize == nil) {
		return f.HeldBy(j, a)
	}
	left := *a
	left.Workers = slices.Clone(a.Workers)
	for i := range left.Workers {
		if scratch.Stays(a, i) {
			left.Workers[i].State = model.WorkerExited
		}
	}
	return f.HeldBy(j, &left)
}
