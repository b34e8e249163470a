package queue

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// Terms are the sort terms of a waiting job, the first that differs decides.
type Terms struct {
	Class   jobspec.Class // te before be
	OwnRoom bool          // it left its room to a job that did not want it: it goes first in its class
	// The levels of the account tree at which its accounts hold all that they are entitled to, as bits
	// from the top down. UserOver says the same of its user.
	AccountsOver int
	UserOver     bool
	Priority     int
	Level        int   // service level: the lower one first
	Service      int64 // its service index, in ms of one GPU; the level follows from it
}

// Terms returns the sort terms of a job, as far as the hooks of the order compute them.
func (o *Order) Terms(j *model.Job) Terms {
	t := Terms{Class: j.Class, OwnRoom: j.OwnRoomFirst, Priority: int(j.Priority), Service: j.Attained()}
	if o == nil {
		return t
	}
	if o.Level != nil {
		t.Level = max(0, o.Level(j))
	}
	if o.Excess != nil && j.Class == jobspec.BE {
		t.AccountsOver = max(0, o.Excess(j))
	}
	return t
}

// Sort puts jobs into the order in which a cycle comes to them. The holders of reservations keep
// their places in it, because their room is theirs whichever job comes first.
func (o *Order) Sort(jobs []*model.Job) {
	entries := make([]*Contender, len(jobs))
	for i, j := range jobs {
		entries[i] = NewContender(o, j)
	}
	slices.SortStableFunc(entries, func(a, b *Contender) int {
		switch {
		case a.before(b):
			return -1
		case b.before(a):
			return 1
		}
		return cmp.Compare(a.Job.ID, b.Job.ID)
	})
	for i, c := range entries {
		jobs[i] = c.Job
	}
}
