// Package scratch holds what one scheduling cycle works on: a copy of the grid on which it tries things out, and the plan so far.
//
// [State] is the same for all policies and has no field for one of them. A policy keeps what it needs beside it in a struct of its own,
// which is made for the cycle and dropped with it. What one cycle remembers for the next is in [Pages].
package sched

import (
	"slices"

	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// trial is the scratch state of one cycle.
type trial struct {
	view     *cluster.View // what the cycle decides about; it does not change
	now      cluster.Instant
	policy   cluster.Policy // its parameters
	room     *fit.Room      // free capacity, less what the plan takes so far
	actions  []cluster.Action
	holders  map[cluster.JobID]*cluster.Reservation // reservations in force, those of this cycle included
	started  map[cluster.JobID]int                  // attempts started in this cycle; of an array more than one
	late     map[cluster.JobID]bool                 // jobs given up in this cycle
	freed    bool                                   // reserved capacity is free again: jobs that failed may fit
	stopping map[cluster.JobID]cluster.JobID        // jobs asked in this cycle to give up room, and the jobs that get it
	revision int                                    // counts the changes of room
	rotation bool                                   // the plan notes that the service order was checked

	wake    cluster.Instant
	awaited map[cluster.JobID]bool // jobs for which others leave; nil until it is needed
}

// newTrial returns the scratch state of a cycle that begins. It overwrites room.
func newTrial(v *cluster.View, now cluster.Instant, p cluster.Policy, room *fit.Room) *trial {
	room.Reset(v)
	return &trial{
		view: v, now: now, policy: p, room: room,
		holders: map[cluster.JobID]*cluster.Reservation{}, started: map[cluster.JobID]int{}, late: map[cluster.JobID]bool{},
		stopping: map[cluster.JobID]cluster.JobID{},
	}
}

// act appends an action to the plan.
func (t *trial) act(a cluster.Action) { t.actions = append(t.actions, a) }

// wakeAt asks for another cycle at an instant. An instant that has passed is ignored.
func (t *trial) wakeAt(at cluster.Instant) {
	if at > t.now && (t.wake == 0 || at < t.wake) {
		t.wake = at
	}
}

// nextWake returns the earliest instant that was asked for, 0 if none was.
func (t *trial) nextWake() cluster.Instant { return t.wake }

// waits reports whether a job is pending and may start, its back-off aside.
func (t *trial) waits(id cluster.JobID) bool {
	j := t.view.Job(id)
	return j != nil && j.Waits() && j.Hold == cluster.NotHeld && !j.Blocked() && !t.late[id] && !full(j)
}

// startable reports whether a job may start now, as far as no policy objects. A job in back-off wakes the cycle when that is over.
func (t *trial) startable(j *cluster.Job) bool {
	if j.Hold != cluster.NotHeld || j.Blocked() || t.late[j.ID] || full(j) {
		return false
	}
	if j.Eligible > t.now {
		t.wakeAt(j.Eligible)
		return false
	}
	return !t.awaitsWorkers(j)
}

// full reports whether an array may start no further task: as many run as max_parallel allows, or the others are held.
func full(j *cluster.Job) bool { return j.Family != nil && j.Startable() == 0 }

// awaitsWorkers reports whether an elastic job has to wait for workers that others give up for it. Its minimum may fit already, but it would be
// restarted for more.
func (t *trial) awaitsWorkers(j *cluster.Job) bool {
	r := t.holders[j.ID]
	if _, elastic := j.Elastic(); r == nil || !r.Firm || !elastic {
		return false
	}
	if t.awaited == nil {
		t.awaited = map[cluster.JobID]bool{}
		for run := range t.view.Runs() {
			if stop := run.Attempt.Stop; stop != nil && stop.For != 0 {
				t.awaited[stop.For] = true
			}
		}
	}
	if t.awaited[j.ID] {
		return true
	}
	for _, beneficiary := range t.stopping {
		if beneficiary == j.ID {
			return true
		}
	}
	return false
}

// gang returns what a job asks of a placement.
func (t *trial) gang(j *cluster.Job) fit.Gang { return fit.NewGang(t.view, j) }

// unreserve ends a reservation.
func (t *trial) unreserve(r *cluster.Reservation) {
	id := r.Job
	t.act(cluster.Action{Unreserve: &id})
	t.room.Unclaim(id)
	t.revision++
}

// reserve makes a reservation.
func (t *trial) reserve(r *cluster.Reservation) {
	t.act(cluster.Action{Reserve: r})
	t.room.Claim(r)
	t.revision++
	t.holders[r.Job] = r
	t.wakeAt(r.Until)
}

// start plans the next attempt of a job, or of the array task with number member, and takes its room. past is the queue head that it goes past, 0 if
// there is none. The first place gets the port at which the gang meets.
func (t *trial) start(j *cluster.Job, member int, g *fit.Gang, spots []fit.Spot, past cluster.JobID) {
	port := t.room.Take(g, spots)
	t.revision++
	places := make([]cluster.Place, 0, len(spots))
	for _, s := range spots {
		places = append(places, cluster.Place{Node: t.view.Nodes()[s.Node].Name, GPUs: s.GPUs, Port: s.Port})
	}
	t.act(cluster.Action{Start: &cluster.StartJob{Job: j.ID, Member: member, Places: places, Port: port, Past: past}})
	t.started[j.ID]++
	if t.holders[j.ID] != nil {
		// Its claims end with the start, so jobs may fit that were found not to: a new cycle tries all of them again.
		t.freed = true
		t.wakeAt(t.now + 1)
		delete(t.holders, j.ID)
	}
}

// stop asks an attempt to leave so that another job can start.
func (t *trial) stop(j *cluster.Job, a *cluster.Attempt, cause cluster.Cause, beneficiary cluster.JobID) {
	t.act(cluster.Action{Stop: &cluster.StopJob{Job: j.ID, Attempt: a.N, Cause: cause, For: beneficiary}})
	t.stopping[j.ID] = beneficiary
}

// resize asks an elastic job to go on with other workers. beneficiary is the job that gets the room, 0 if there is none.
func (t *trial) resize(r *cluster.ResizeJob) {
	t.act(cluster.Action{Resize: r})
	if r.For != 0 {
		t.stopping[r.Job] = r.For
	}
}

// ending returns the jobs that the plan ends, stops or resizes so far; nil if there are none.
func (t *trial) ending() map[cluster.JobID]bool {
	var ids map[cluster.JobID]bool
	for _, a := range t.actions {
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

// keepsWorker reports whether a job that the plan resizes keeps one of its workers.
func (t *trial) keepsWorker(id cluster.JobID, worker int) bool {
	for i := range t.actions {
		if r := t.actions[i].Resize; r != nil && r.Job == id {
			return !slices.Contains(r.Leave, worker)
		}
	}
	return false
}
