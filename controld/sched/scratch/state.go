// Package scratch holds what one scheduling cycle works on: a copy of the grid on which it tries
// things out, and the plan so far.
//
// [State] is the same for all policies and has no field for one of them. A policy keeps what it
// needs beside it in a struct of its own, which is made for the cycle and dropped with it. What one
// cycle remembers for the next is in [Pages].
package scratch

import (
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// State is the scratch state of one cycle.
type State struct {
	View    *cluster.View // what the cycle decides about; it does not change
	Now     cluster.Instant
	Policy  cluster.Policy // its parameters
	Room    *fit.Room      // free capacity, less what the plan takes so far
	Actions []cluster.Action
	Holders map[cluster.JobID]*cluster.Reservation // reservations in force, those of this cycle included
	Started map[cluster.JobID]int                  // attempts started in this cycle; of an array more than one
	Late    map[cluster.JobID]bool                 // jobs given up in this cycle
	Freed   bool                                   // reserved capacity is free again: jobs that failed may fit
	// jobs asked in this cycle to give up room, and the jobs that get it
	Stopping        map[cluster.JobID]cluster.JobID
	Revision        int  // counts the changes of room
	RotationChecked bool // the plan notes that the service order was checked

	wake    cluster.Instant
	awaited map[cluster.JobID]bool // jobs for which others leave; nil until it is needed
}

// New returns the scratch state of a cycle that begins. It overwrites room.
func New(v *cluster.View, now cluster.Instant, p cluster.Policy, room *fit.Room) *State {
	room.Reset(v)
	return &State{
		View: v, Now: now, Policy: p, Room: room,
		Holders: map[cluster.JobID]*cluster.Reservation{}, Started: map[cluster.JobID]int{}, Late: map[cluster.JobID]bool{},
		Stopping: map[cluster.JobID]cluster.JobID{},
	}
}

// Act appends an action to the plan.
func (t *State) Act(a cluster.Action) { t.Actions = append(t.Actions, a) }

// WakeAt asks for another cycle at an instant. An instant that has passed is ignored.
func (t *State) WakeAt(at cluster.Instant) {
	if at > t.Now && (t.wake == 0 || at < t.wake) {
		t.wake = at
	}
}

// NextWake returns the earliest instant that was asked for, 0 if none was.
func (t *State) NextWake() cluster.Instant { return t.wake }

// Waits reports whether a job is pending and may start, its back-off aside.
func (t *State) Waits(id cluster.JobID) bool {
	j := t.View.Job(id)
	return j != nil && j.Waits() && j.Hold == cluster.NotHeld && !j.Blocked() && !t.Late[id] && !Full(j)
}

// Startable reports whether a job may start now, as far as no policy objects. A job in back-off
// wakes the cycle when that is over.
func (t *State) Startable(j *cluster.Job) bool {
	if j.Hold != cluster.NotHeld || j.Blocked() || t.Late[j.ID] || Full(j) {
		return false
	}
	if j.Eligible > t.Now {
		t.WakeAt(j.Eligible)
		return false
	}
	return !t.awaitsWorkers(j)
}

// Full reports whether an array may start no further task: as many run as max_parallel allows, or
// the others are held.
func Full(j *cluster.Job) bool { return j.Family != nil && j.Startable() == 0 }

// awaitsWorkers reports whether an elastic job has to wait for workers that others give up for it.
// Its minimum may fit already, but it would be restarted for more.
func (t *State) awaitsWorkers(j *cluster.Job) bool {
	r := t.Holders[j.ID]
	if _, elastic := j.Elastic(); r == nil || !r.Firm || !elastic {
		return false
	}
	if t.awaited == nil {
		t.awaited = map[cluster.JobID]bool{}
		for run := range t.View.Runs() {
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

// Gang returns what a job asks of a placement.
func (t *State) Gang(j *cluster.Job) fit.Gang { return fit.NewGang(t.View, j) }

// Unreserve ends a reservation.
func (t *State) Unreserve(r *cluster.Reservation) {
	id := r.Job
	t.Act(cluster.Action{Unreserve: &id})
	t.Room.Unclaim(id)
	t.Revision++
}

// Reserve makes a reservation.
func (t *State) Reserve(r *cluster.Reservation) {
	t.Act(cluster.Action{Reserve: r})
	t.Room.Claim(r)
	t.Revision++
	t.Holders[r.Job] = r
	t.WakeAt(r.Until)
}

// Start plans the next attempt of a job, or of the array task with number member, and takes its
// room. past is the queue head that it goes past, 0 if there is none. The first place gets the port
// at which the gang meets.
func (t *State) Start(j *cluster.Job, member int, g *fit.Gang, spots []fit.Spot, past cluster.JobID) {
	port := t.Room.Take(g, spots)
	t.Revision++
	places := make([]cluster.Place, 0, len(spots))
	for _, s := range spots {
		places = append(places, cluster.Place{Node: t.View.Nodes()[s.Node].Name, GPUs: s.GPUs, Port: s.Port})
	}
	t.Act(cluster.Action{Start: &cluster.StartJob{Job: j.ID, Member: member, Places: places, Port: port, Past: past}})
	t.Started[j.ID]++
	if t.Holders[j.ID] != nil {
		// Its claims end with the start, so jobs may fit that were found not to: a new cycle tries
		// all of them again.
		t.Freed = true
		t.WakeAt(t.Now + 1)
		delete(t.Holders, j.ID)
	}
}

// Stop asks an attempt to leave so that another job can start.
func (t *State) Stop(j *cluster.Job, a *cluster.Attempt, cause cluster.Cause, beneficiary cluster.JobID) {
	t.Act(cluster.Action{Stop: &cluster.StopJob{Job: j.ID, Attempt: a.N, Cause: cause, For: beneficiary}})
	t.Stopping[j.ID] = beneficiary
}

// Resize asks an elastic job to go on with other workers. beneficiary is the job that gets the
// room, 0 if there is none.
func (t *State) Resize(r *cluster.ResizeJob) {
	t.Act(cluster.Action{Resize: r})
	if r.For != 0 {
		t.Stopping[r.Job] = r.For
	}
}

// Ending returns the jobs that the plan ends, stops or resizes so far; nil if there are none.
func (t *State) Ending() map[cluster.JobID]bool {
	var ids map[cluster.JobID]bool
	for _, a := range t.Actions {
		if ids == nil && (a.Stop != nil || a.End != nil || a.Resize != nil) {
			ids = map[cluster.JobID]bool{}
		}
		if a.Stop != nil {
			ids[a.Stop.Job] = true
		}
		if a.End != nil {
			ids[a.End.Job] = true
		}
		if a.Resize != nil {
			ids[a.Resize.Job] = true
		}
	}
	return ids
}

// KeepsWorker reports whether a job that the plan resizes keeps one of its workers.
func (t *State) KeepsWorker(id cluster.JobID, worker int) bool {
	for i := range t.Actions {
		if r := t.Actions[i].Resize; r != nil && r.Job == id {
			return !slices.Contains(r.Leave, worker)
		}
	}
	return false
}
