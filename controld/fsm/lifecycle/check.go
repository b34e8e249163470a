package lifecycle

import (
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

var liveStates = []model.JobState{model.Configuring, model.Running, model.Suspended, model.Completing}

// CheckJob says whether a job's state and its attempts agree: a gang is wholly there or not at all
// (A3).
func CheckJob(j *model.Job) error {
	bad := func(what string) error { return fmt.Errorf("job %d in state %q: %s", j.ID, j.State, what) }
	if _, ok := model.Steps[j.State]; j.State == "" || !ok && !slices.Contains(model.Steps[model.Completing], j.State) &&
		j.State != model.PastDue {
		return bad("no such state")
	}
	for i := range j.Attempts {
		a := &j.Attempts[i]
		last := i == len(j.Attempts)-1
		if a.Ended.At == 0 && !last || !numbered(j, i) || !j.MayHave(len(a.Workers)) {
			return bad(fmt.Sprintf("attempt %d is out of order, not ended, or incomplete", a.N))
		}
	}
	a := j.Live()
	switch {
	case len(j.Attempts) > model.MaxAttemptsKept:
		return bad("too many attempts kept")
	case j.Children != nil:
		return checkParent(j)
	case (a != nil) != slices.Contains(liveStates, j.State):
		return bad("its state does not match its attempt in progress")
	case j.State.Final() != (j.Seq > 0), j.State.Final() != (j.Ended.At > 0):
		return bad("its end does not match its number in the history")
	case j.Hold != model.NotHeld && j.State != model.Pending:
		return bad("held but not pending")
	case a != nil:
		return checkAttempt(j, a)
	}
	return checkSizeOf(j)
}

// numbered reports whether attempt i has a number above that of the one before, and the last one the
// number that the job says. Numbers that controllers gave that are gone are left out, see
// [generation.Recovery.Ran].
func numbered(j *model.Job, i int) bool {
	n := j.Attempts[i].N
	if i == len(j.Attempts)-1 && n != j.Attempt {
		return false
	}
	return n > 0 && (i == 0 || n > j.Attempts[i-1].N)
}

// checkSizeOf says whether a job that waits would start with as few workers as it may (A4).
func checkSizeOf(j *model.Job) error {
	if e, elastic := j.Elastic(); elastic && j.State == model.Pending && j.Size() != e.Min {
		return fmt.Errorf("job %d waits with %d workers, not %d", j.ID, j.Size(), e.Min)
	}
	return nil
}

func checkAttempt(j *model.Job, a *model.Attempt) error {
	bad := func(what string) error { return fmt.Errorf("job %d attempt %d: %s", j.ID, a.N, what) }
	if len(a.Workers) != j.Workers { // mayHave has looked at the number (A4)
		return bad(fmt.Sprintf("it has %d workers, the job %d", len(a.Workers), j.Workers))
	}
	if err := model.CheckResize(j, a); err != nil {
		return bad(err.Error())
	}
	if err := model.CheckShrink(j, a); err != nil {
		return bad(err.Error())
	}
	least := 3
	for i := range a.Workers {
		w := &a.Workers[i]
		if !w.IsJoining() || a.Stop != nil {
			least = min(least, model.Rank(w.State))
		}
		if w.Index != i || model.Rank(w.State) < 0 || len(w.GPUs) != devices(j, a, i) {
			return bad(fmt.Sprintf("worker %d differs from the request", i))
		}
		if w.State.Final() != (w.Ended > 0) {
			return bad(fmt.Sprintf("worker %d is final without an end, or has an end without being final", i))
		}
	}
	switch {
	case least == 3:
		return bad("every worker is final but the attempt goes on")
	case (a.Stop != nil) != (j.State == model.Completing):
		return bad("its stop does not match the job's state")
	case a.Stop == nil && (least >= 2) != (j.State == model.Running || j.State == model.Suspended):
		return bad("its workers do not match the job's state")
	case a.Stop == nil && a.Suspended() != (j.State == model.Suspended):
		return bad("its workers do not match the job's state")
	case a.Packed() && (a.Suspended() || !j.CanPack()):
		return bad("it shares a GPU, which is not allowed")
	case a.Suspended() && !a.Switched():
		return bad("it is suspended before every worker has paused")
	case a.Class != "" && !a.Class.Known() || (a.Class == "") != (a.ClassSince == 0):
		return bad(fmt.Sprintf("its progress class %q is unknown, or has no time", a.Class))
	case a.Early != 0 && (a.Started.At == 0 || j.Spec.Checkpoint == nil || j.Spec.Checkpoint.BeforeLimit == 0):
		return bad("it was warned of its time limit before it ran, or without a request")
	case a.Stop == nil && j.Workers > 1 && a.Released != (least >= 1):
		return bad("its commands are released although a container is missing, or not released although all exist")
	}
	return nil
}

// devices is on how many GPUs a worker lies, 0 if it is or was suspended when it ended.
func devices(j *model.Job, a *model.Attempt, worker int) int {
	w := &a.Workers[worker]
	if len(w.GPUs) == 0 && (a.Suspended() || a.Switch != nil && w.State.Final()) {
		return 0
	}
	return model.Devices(j, worker)
}

// CheckLedger says whether a job was charged the integral of what its workers held (A10). Attempts
// that are no longer kept cannot be added up, so nothing is said about jobs with such.
func CheckLedger(j *model.Job) error {
	if j.Attempt > len(j.Attempts) {
		return nil
	}
	var want model.Ledger
	for i := range j.Attempts {
		a, of := &j.Attempts[i], j.Resized(len(j.Attempts[i].Workers))
		if r := a.Resizing; r != nil {
			want.GPUMS += r.Before.GPUMS
			want.CoreMS += r.Before.CoreMS
		}
		for k := range a.Workers {
			charged, until := of.RequestOf(k).Active, a.HeldUntil(a.Workers[k].Ended)
			if whole := a.Workers[k].Whole; whole != (model.Vector{}) {
				charged, until = whole, a.LeftBy(k)
			}
			held := max(0, int64(until-a.ChargedFrom()))
			want.GPUMS += model.GPUTime(held, charged.GPUs)
			if until != 0 {
				want.GPUMS -= a.Spared(until) / 1000
			}
			want.CoreMS += held * charged.Cores
			want.SuspendedMS += model.GPUTime(a.Workers[k].SuspendedMS, of.RequestOf(k).Active.GPUs)
		}
	}
	if j.Ledger != want {
		return fmt.Errorf("job %d was charged for %+v but used %+v", j.ID, j.Ledger, want)
	}
	return nil
}

// checkParent says whether what a parent job knows of its children agrees with itself: each of them
// waits, was dropped, or was made.
func checkParent(j *model.Job) error {
	bad := func(what string) error {
		return fmt.Errorf("parent job %d in state %q: %s: %+v", j.ID, j.State, what, *j.Children)
	}
	f := j.Children
	over := f.Live == 0 && len(f.Waiting) == 0
	switch {
	case len(j.Attempts) > 0 || j.Parent != 0:
		return bad("a parent job must neither run itself nor be a task")
	case f.Size < 1 || f.Size > model.MaxArrayTasks || min(f.Live, f.Completed, f.Failed, f.Cancelled) < 0:
		return bad("a count is out of range")
	case f.Waiting.Len()+f.Dropped.Len()+f.Made() != f.Size:
		return bad("tasks are missing or counted twice")
	case !f.Waiting.Within(f.Size) || !f.Dropped.Within(f.Size) || len(f.Waiting.Both(f.Dropped)) > 0:
		return bad("dropped tasks are pending, or unknown")
	case len(f.HeldUser.Without(f.Waiting))+len(f.HeldAdmin.Without(f.Waiting))+len(f.Ready.Without(f.Waiting)) > 0:
		return bad("held or ready tasks are not pending")
	case len(f.HeldUser.Both(f.HeldAdmin)) > 0:
		return bad("tasks are held twice")
	case !f.Unsuccessful.Within(f.Size) || f.Unsuccessful.Len() != f.Failed+f.Cancelled:
		return bad("it has lost track of which tasks failed")
	case len(f.Pruned.Without(f.Dropped.With(f.Unsuccessful))) > 0:
		return bad("pruned tasks were not cancelled")
	case f.Fate != "" && len(f.Waiting) > 0:
		return bad("its outcome is decided, but tasks are pending")
	case j.State.Final() != over, j.State.Final() != (j.Seq > 0), j.State.Final() != (j.Ended.At > 0):
		return bad("its end, the ends of its tasks and its number in the history do not match")
	case !j.State.Final() && j.State != model.Pending && j.State != model.Running:
		return bad("a parent job cannot have this state")
	case j.Hold != model.NotHeld && !j.StillToStart():
		return bad("held, but no task is pending")
	}
	return nil
}
