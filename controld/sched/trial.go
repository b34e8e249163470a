package sched

import (
	"github.com/rota-hpc/rota/controld/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
)

// trial is what one cycle works on: a scratch copy of the free room, what has been decided so far, and why the rest waits.
type trial struct {
	view    *cluster.View
	now     cluster.Instant
	policy  cluster.Policy
	room    *fit.Room
	desk    *Desk // whose memory it uses
	actions []cluster.Action
	wake    cluster.Instant
	holders map[cluster.JobID]*cluster.Reservation // reservations in force, those made in this cycle included
	started map[cluster.JobID]int                  // attempts begun in this cycle; more than one of a record, whose members they are
	late    map[cluster.JobID]bool                 // given up in this cycle
	freed   bool                                   // room that had been claimed is free again, so what is known of failures no longer holds
	limits  func(*cluster.Job) cluster.Reason      // whose limit keeps a job from starting; nil: there are none
	ending  [][]release                            // by node, soonest first; nil until somebody asks

	stopping map[cluster.JobID]cluster.JobID // who was asked to leave in this cycle, and for whom

	// Of policy rota.
	byService  bool                   // the order goes by attained service
	alone      map[cluster.JobID]bool // lined up apart from their groups
	spare      *headroom              // nil: none is kept
	ample      ample                  // what is free altogether, as far as it is known
	dear       *scarcity              // nil until somebody asks
	mix        *mixture               // nil until somebody asks
	turned     bool                   // it was looked whose turn it is
	hopeless   map[cluster.JobID]bool // trial-and-error jobs for which nobody can be asked to leave
	whole      *capacities            // nil until somebody asks
	awaited    map[cluster.JobID]bool // jobs for which others leave; nil until somebody asks
	fair       *fair                  // what accounts and users hold; nil until somebody asks
	anyLimit   *bool                  // the configuration limits somebody; nil until somebody asks
	anyPromise *bool                  // it promises somebody a part of the cluster; nil until somebody asks
	teHeld     map[string]int64       // by account: thousandths of a GPU of trial-and-error jobs; nil: it does not matter
}

func newTrial(v *cluster.View, now cluster.Instant, p cluster.Policy) *trial {
	return new(Desk).newTrial(v, now, p)
}

func (t *trial) act(a cluster.Action) { t.actions = append(t.actions, a) }

// wakeAt asks for a cycle at an instant; one that has passed is no reason to wake.
func (t *trial) wakeAt(at cluster.Instant) {
	if at > t.now && (t.wake == 0 || at < t.wake) {
		t.wake = at
	}
}

// waits reports whether a job is pending and nobody holds it.
func (t *trial) waits(id cluster.JobID) bool {
	j := t.view.Job(id)
	return j != nil && j.Waits() && j.Hold == cluster.NotHeld && !j.Blocked() && !t.late[id] && !full(j)
}

// startable reports whether j may start now as far as it alone is concerned. A job in back-off is looked at again when it is over.
func (t *trial) startable(j *cluster.Job) bool {
	if j.Hold != cluster.NotHeld || j.Blocked() || t.late[j.ID] || full(j) {
		return false
	}
	if j.Eligible > t.now {
		t.wakeAt(j.Eligible)
		return false
	}
	return !t.overTELimit(j) && !t.overLimit(j) && !t.expects(j)
}

// full reports whether no member of a record may start: as many live as max_parallel allows, or the others are held.
func full(j *cluster.Job) bool { return j.Family != nil && j.Startable() == 0 }

func (t *trial) unreserve(r *cluster.Reservation) {
	id := r.Job
	t.act(cluster.Action{Unreserve: &id})
	t.room.Unclaim(id)
	t.ample.known = false
}

func (t *trial) reserve(r *cluster.Reservation) {
	t.act(cluster.Action{Reserve: r})
	t.room.Claim(r)
	t.ample.known = false
	t.holders[r.Job] = r
	t.wakeAt(r.Until)
}
