package workers

import (
	"slices"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/noded/container"
	"github.com/rota-hpc/rota/noded/follow"
	"github.com/rota-hpc/rota/noded/reconcile"
)

var _ follow.Node = (*Table)(nil)

// Apply implements [follow.Node].
func (t *Table) Apply(n *api.NodeAllocs, received time.Time, l follow.Lease) {
	h, unlock := t.lock()
	defer unlock()
	h.desiredKnown, h.lease = true, l
	// 1. The workers that are listed. A kept worker takes nothing from an order that is not its own.
	wanted := make(map[container.ID]bool, len(n.Allocs))
	for i := range n.Allocs {
		d := &n.Allocs[i]
		id := container.ID{Job: int64(d.Job), Attempt: d.Attempt, Worker: d.Worker}
		wanted[id] = true
		w := h.of(id)
		w.Unread = ""
		if !w.keep(d) {
			w.setDesired(d, received, int64(n.Now))
			h.recoverSteps(w)
		}
	}
	for i := range n.Unread {
		wanted[h.cannotRead(&n.Unread[i], received, int64(n.Now))] = true
	}
	// 2. The others are not wanted any more. Then decide for each worker.
	for id, w := range h.workers {
		if w.Kept {
			w.keep(nil)
		} else if !wanted[id] {
			w.Desired, w.KillAt, w.Unread = nil, time.Time{}, ""
		} else if w.Confirmed {
			w.lastReported, w.Confirmed = "", false // it is still asked for: report its result again
		}
		h.reconcile(w)
	}
	// 3. The shims of those that go on get the lease.
	h.renewLeases()
}

// cannotRead notes an unreadable wish of the controllers for a worker, and returns the worker's id.
// An existing container follows the last wish that could be read, and obeys a readable stop. A
// missing container is not made.
func (h held) cannotRead(u *api.UnreadAlloc, received time.Time, now int64) container.ID {
	id := container.ID{Job: int64(u.Job), Attempt: u.Attempt, Worker: u.Worker}
	w := h.of(id)
	if why := reconcile.Message(u.Err); w.Unread != why {
		w.Unread = why
		h.Log.Error("cannot read what the controllers want of a worker: is this node's version older than theirs?",
			"worker", id.String(), "err", why)
	}
	if w.Desired != nil && u.Stop != nil {
		d := *w.Desired
		d.Stop = u.Stop
		w.setDesired(&d, received, now)
	}
	return id
}

// setDesired stores the controllers' wish for one worker. The deadline of a stop is converted from
// the log's clock to this machine's. It only ever moves forward: a stronger stop may shorten the
// grace period, and nothing lengthens it.
func (w *worker) setDesired(d *api.Alloc, received time.Time, now int64) {
	w.Desired = d
	if d.Early != nil {
		w.LimitAt = received.Add(time.Duration(int64(d.Early.Limit)-now) * time.Millisecond)
	}
	if d.Stop == nil {
		w.KillAt = time.Time{}
		return
	}
	at := received.Add(time.Duration(int64(d.Stop.KillAt)-now) * time.Millisecond)
	if w.KillAt.IsZero() || at.Before(w.KillAt) {
		w.KillAt = at
	}
}

// KeepAll implements [follow.Node]. Until the kept containers have ended this node starts nothing.
func (t *Table) KeepAll(unseen bool) {
	h, unlock := t.lock()
	defer unlock()
	h.desiredKnown = false
	for _, w := range h.workers {
		w.Kept = true
		if unseen {
			w.keptUnseen = w.Desired == nil // this daemon was restarted, and cannot compare it
		}
	}
}

// keep reports whether a worker is kept, in spite of the controllers' wish under its id. A kept
// worker that they ordered at the same instant for the same user is the same one, and is kept no
// more. The result of any other is of no interest to them.
func (w *worker) keep(d *api.Alloc) bool {
	if w.Kept && d != nil && w.keptUnseen {
		w.Kept = false
	}
	if w.Kept && d != nil && w.Desired != nil && d.Start == w.Desired.Start && d.Owner.UID == w.Desired.Owner.UID {
		w.Kept = false
	}
	if w.Kept {
		w.Desired, w.KillAt, w.Confirmed = nil, time.Time{}, true
	}
	return w.Kept
}

// KeepsAny implements [follow.Node].
func (t *Table) KeepsAny() bool {
	h, unlock := t.lock()
	defer unlock()
	return h.keepsAny()
}

// Kept implements [follow.Node].
func (t *Table) Kept() (kept []string) {
	h, unlock := t.lock()
	defer unlock()
	for id, w := range h.workers {
		if w.Kept && w.Exists() {
			kept = append(kept, id.String())
		}
	}
	slices.Sort(kept)
	return kept
}

// Known implements [follow.Node]. Folders of checkpoints and logs name workers that are only known.
func (t *Table) Known() (known, live []string) {
	seen := map[string]bool{}
	add := func(id string) {
		if !seen[id] {
			seen[id] = true
			known = append(known, id)
		}
	}
	for _, e := range t.Journal.Entries() {
		if id, ok := container.ParseID(e.ID); ok && id.Step == 0 {
			add(e.ID)
		}
	}
	t.mu.Lock()
	for id, w := range t.workers {
		if w.Exists() || w.Actual != "" {
			add(id.String())
		}
	}
	t.mu.Unlock()
	live = append(live, known...)
	if t.Folders == nil {
		return known, live
	}
	for _, id := range t.Folders() {
		if id.Step == 0 {
			add(id.String())
		}
	}
	return known, live
}
