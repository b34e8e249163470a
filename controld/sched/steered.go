package sched

import (
	"slices"

	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// withdrawMigrations takes back the room that was kept in this cycle for jobs for which others
// would have moved: the moves themselves were dropped.
func withdrawMigrations(t *scratch.State) {
	t.Actions = slices.DeleteFunc(t.Actions, func(a fsm.Action) bool {
		r, ok := a.(*fsm.Reserve)
		if !ok || !r.ForPreemptor || !t.Unmoved[r.Job] {
			return false
		}
		t.Room.Unclaim(r.Job)
		delete(t.Holders, r.Job)
		// A reservation that the job had before the cycle binds again.
		if before := t.View.Reservation(r.Job); before != nil && before.Until > t.Now {
			t.Room.Claim(before)
			t.Holders[r.Job] = before
		}
		t.Revision++
		return true
	})
}
