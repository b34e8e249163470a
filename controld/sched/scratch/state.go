// Package scratch holds the working state of one scheduling cycle: a copy of the grid for trying
// things out, and the plan so far.
//
// [State] is the same for all policies and has no field for one of them. A policy keeps its own
// data in a struct of its own, which lives for one cycle. [Pages] is the memory of one cycle for
// the next.
package scratch

import (
	"maps"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/fsm/steering"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// State is the scratch state of one cycle.
type State struct {
	View    *state.View // the state that the cycle decides about; it does not change
	Now     model.Instant
	Policy  cluster.Policy // its parameters
	Room    *fit.Room      // free capacity, less what the plan takes so far
	Actions []fsm.Action
	Holders map[model.JobID]*model.Reservation // reservations in force, those of this cycle included
	Started map[model.JobID]int                // attempts started in this cycle; of an array more than one
	Begun   map[model.JobID]bool               // jobs that were started before their turn: no more of them start
	Late    map[model.JobID]bool               // jobs given up in this cycle
	Freed   bool                               // reserved capacity is free again: jobs that failed may fit
	// jobs asked in this cycle to give up room, and the jobs that get it
	Stopping        map[model.JobID]model.JobID
	Revision        int  // counts the changes of room
	MaxStarts       int  // the cycle ends after so many starts
	Cut             bool // it has ended so: not all jobs were looked at
	RotationChecked bool // the plan notes that the service order was checked
	// orders of operators to the scheduler: Act drops paused actions
	Steering *steering.Steering
	// jobs that were to pause and keep their room instead
	Withdrawn map[model.JobID]bool
	Unmoved   map[model.JobID]bool // jobs for which others would have moved, had that not been paused

	wake    model.Instant
	starts  int
	awaited map[model.JobID]bool // jobs for which others leave; nil until it is needed
	// licences held, this cycle's starts included; nil until first needed
	licenses map[string]int
	limits   *limiter // nil until first needed
}

// New returns the scratch state of a cycle that begins. It overwrites room.
func New(v *state.View, now model.Instant, p cluster.Policy, room *fit.Room) *State {
	room.Reset(v)
	return &State{
		View: v, Now: now, Policy: p, Room: room, Steering: v.Steering(),
		Holders: map[model.JobID]*model.Reservation{}, Started: map[model.JobID]int{}, Late: map[model.JobID]bool{},
		Stopping: map[model.JobID]model.JobID{}, Withdrawn: map[model.JobID]bool{}, MaxStarts: tunables.MaxStarts,
	}
}

// Act appends an action to the plan, unless an operator has paused its kind. Policies ask May
// before they work something out; this holds for those that do not.
func (t *State) Act(a fsm.Action) {
	if fsm.MayDo(t.Steering, a) {
		t.Actions = append(t.Actions, a)
	}
}

// May reports whether a part of scheduling may do anything in this cycle. It may not if it is
// paused, or if it displaces jobs and there is a dry run.
func (t *State) May(part steering.Switch) bool { return t.Steering.Forbids(part) == nil }

// WakeAt asks for another cycle at an instant. An instant that has passed is ignored.
func (t *State) WakeAt(at model.Instant) {
	if at > t.Now && (t.wake == 0 || at < t.wake) {
		t.wake = at
	}
}

// NextWake returns the earliest instant that was asked for, 0 if none was.
func (t *State) NextWake() model.Instant { return t.wake }

// Waits reports whether a job is pending and may start, its back-off aside.
func (t *State) Waits(id model.JobID) bool {
	j := t.View.Job(id)
	return j != nil && j.Waits() && j.Hold == model.NotHeld && !j.Blocked() && !t.Late[id] && !Full(j)
}

// Startable reports whether a job may start now, as far as no policy objects. A job in back-off
// wakes the cycle when that is over.
func (t *State) Startable(j *model.Job) bool {
	return t.StartableOrLimited(j) && t.OverLimit(j).Code == model.ReasonNone
}

// StartableOrLimited is Startable for a job that only a limit may keep from starting.
func (t *State) StartableOrLimited(j *model.Job) bool {
	if j.Hold != model.NotHeld || j.Blocked() || t.Late[j.ID] || t.Begun[j.ID] || Full(j) ||
		t.lacksLicenses(j).Code != model.ReasonNone {
		return false
	}
	if j.Eligible > t.Now {
		t.WakeAt(j.Eligible)
		return false
	}
	return !t.awaitsWorkers(j)
}

// Barred names the limit or the licences that keep a job from starting wherever there is room, with
// the starts of the plan so far. It returns nothing if none do.
func (t *State) Barred(j *model.Job) model.Reason {
	if why := t.OverLimit(j); why.Code != model.ReasonNone {
		return why
	}
	return t.lacksLicenses(j)
}

// lacksLicenses names the licences that a job lacks to start, with the starts of the plan so far.
// It returns nothing if none are missing.
func (t *State) lacksLicenses(j *model.Job) model.Reason {
	if len(j.Spec.Licenses) == 0 {
		return model.Reason{}
	}
	if t.licenses == nil {
		if t.licenses = maps.Clone(t.View.HeldLicenses()); t.licenses == nil {
			t.licenses = map[string]int{}
		}
	}
	return t.View.Config().LacksLicenses(j, t.licenses)
}

// Full reports whether an array may start no further task: as many run as max_parallel allows, or
// the others are held.
func Full(j *model.Job) bool { return j.Children != nil && j.Startable() == 0 }

// awaitsWorkers reports whether an elastic job has to wait for workers that others give up for it.
// Its minimum may fit already, but it would be restarted for more.
func (t *State) awaitsWorkers(j *model.Job) bool {
	if _, elastic := j.Elastic(); !elastic || !t.AwaitsVictims(j.ID) {
		return false
	}
	if t.awaited == nil {
		t.awaited = map[model.JobID]bool{}
		for run := range t.View.LiveAttempts() {
			if stop := run.Attempt.Stop; stop != nil && stop.For != 0 {
				t.awaited[stop.For] = true
			}
		}
	}
	if t.awaited[j.ID] {
		return true
	}
	for _, beneficiary := range t.Stopping {
		if beneficiary == j.ID {
			return true
		}
	}
	return false
}

// Gang returns the placement request of a job.
func (t *State) Gang(j *model.Job) fit.Gang { return fit.NewGang(t.View, j) }

// AwaitsVictims reports whether a job holds a reservation for room that other jobs leave.
func (t *State) AwaitsVictims(id model.JobID) bool {
	r := t.Holders[id]
	return r != nil && r.ForPreemptor
}

// NewReservation returns a reservation for a job that is made now, for room that is there from an
// instant on. Nothing is planned yet.
func (t *State) NewReservation(id model.JobID, claims []model.Claim, ready model.Instant) *model.Reservation {
	return &model.Reservation{Job: id, Claims: claims, At: t.Now, Until: ready + model.Instant(t.Policy.ReserveHoldMS)}
}

// Claims returns claims on rooms of nodes.
func (t *State) Claims(rooms []estimate.NodeResources) (claims []model.Claim) {
	for _, r := range rooms {
		claims = append(claims, model.Claim{Node: t.View.Nodes()[r.Node].Name, Resources: fit.AtLeast(r.Room)})
	}
	return claims
}

// Places returns spots as places, with the names of their nodes.
func (t *State) Places(spots []fit.Spot) []model.Place {
	places := make([]model.Place, 0, len(spots))
	for _, s := range spots {
		places = append(places, model.Place{Node: t.View.Nodes()[s.Node].Name, GPUs: s.GPUs, Port: s.Port})
	}
	return places
}

// Unreserve ends a reservation.
func (t *State) Unreserve(r *model.Reservation) {
	t.Act(&fsm.Unreserve{Job: r.Job})
	t.unpromise(r.Job)
	t.Room.Unclaim(r.Job)
	t.Revision++
}

// Reserve makes a reservation.
func (t *State) Reserve(r *model.Reservation) {
	t.Act((*fsm.Reserve)(r))
	if t.limits != nil {
		t.limits.promise(t, r)
	}
	t.Room.Claim(r)
	t.Revision++
	t.Holders[r.Job] = r
	t.WakeAt(r.Until)
}

// Start plans the next attempt of a job, or of the array task with a number, and takes its room.
// past is the queue head that it goes past, 0 if there is none. The first place gets the port at
// which the gang meets. A limit may be in the way, or earlier starts have left no licences for it.
// Then nothing is planned, and it returns false.
func (t *State) Start(j *model.Job, task int, g *fit.Gang, spots []fit.Spot, past model.JobID) bool {
	if t.BarredAt(j, spots) {
		return false
	}
	t.began(j, spots)
	if len(j.Spec.Licenses) > 0 {
		cluster.AddLicenses(t.licenses, j)
	}
	port := t.Room.Take(g, spots)
	t.Revision++
	t.Act(&fsm.StartJob{
		Job: j.ID, TaskNumber: task, Places: t.Places(spots), Port: port, Bypasses: past,
	})
	t.Started[j.ID]++
	if t.starts++; t.starts >= t.MaxStarts {
		t.Cut = true
		t.WakeAt(t.Now + 1)
	}
	if t.Holders[j.ID] != nil {
		// Its claims end with the start, so jobs may fit that were found not to: a new cycle tries
		// all of them again.
		t.Freed = true
		t.WakeAt(t.Now + 1)
		delete(t.Holders, j.ID)
	}
	return true
}

// EndsEarly reports whether this cycle must decide nothing more: jobs without a start are tried in
// the next.
func (t *State) EndsEarly() bool { return t.Freed || t.Cut || len(t.Withdrawn) > 0 }

// Stop asks an attempt to leave so that another job can start.
func (t *State) Stop(j *model.Job, a *model.Attempt, cause model.Cause, beneficiary model.JobID) {
	stop := &fsm.StopJob{Job: j.ID, Attempt: a.N, Cause: cause, For: beneficiary}
	switch {
	case t.May(stop.PartOf()):
		t.Act(stop)
		t.Stopping[j.ID] = beneficiary
	case cause == model.CauseMigrate:
		if t.Unmoved == nil {
			t.Unmoved = map[model.JobID]bool{}
		}
		t.Unmoved[beneficiary] = true
	}
}

// Suspend asks an attempt to pause where it is, so that another job can start.
func (t *State) Suspend(j *model.Job, a *model.Attempt, cause model.Cause, beneficiary model.JobID) {
	suspend := &fsm.SuspendJob{Job: j.ID, Attempt: a.N, Cause: cause, For: beneficiary}
	if t.May(suspend.PartOf()) {
		t.Act(suspend)
		t.Stopping[j.ID] = beneficiary
	}
}

// Leaves reports whether the plan asks a job to give up room.
func (t *State) Leaves(id model.JobID) bool {
	_, asked := t.Stopping[id]
	return asked
}

// Suspends reports whether the plan suspends a job.
func (t *State) Suspends(id model.JobID) bool {
	return slices.ContainsFunc(t.Actions, func(a fsm.Action) bool {
		s, ok := a.(*fsm.SuspendJob)
		return ok && s.Job == id
	})
}

// Resize asks an elastic job to go on with other workers. beneficiary is the job that gets the
// room, 0 if there is none.
func (t *State) Resize(r *fsm.ResizeJob) {
	t.Act(r)
	if r.For != 0 && t.May(r.PartOf()) {
		t.Stopping[r.Job] = r.For
	}
}

// Ending returns the jobs that the plan ends, stops, suspends, resizes or moves so far; nil if
// there are none.
func (t *State) Ending() map[model.JobID]bool {
	var ids map[model.JobID]bool
	note := func(id model.JobID) {
		if ids == nil {
			ids = map[model.JobID]bool{}
		}
		ids[id] = true
	}
	for _, a := range t.Actions {
		switch a := a.(type) {
		case *fsm.StopJob:
			note(a.Job)
		case *fsm.SuspendJob:
			note(a.Job)
		case *fsm.EndAttempt:
			note(a.Job)
		case *fsm.ResizeJob:
			note(a.Job)
		case *fsm.MoveJob:
			note(a.Job)
		}
	}
	return ids
}

// KeepsWorker reports whether a job that the plan resizes keeps one of its workers.
func (t *State) KeepsWorker(id model.JobID, worker int) bool {
	for _, a := range t.Actions {
		if r, ok := a.(*fsm.ResizeJob); ok && r.Job == id {
			return !slices.Contains(r.Leave, worker)
		}
	}
	return false
}
