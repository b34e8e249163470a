package groups

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// moves is what the present command has to do in the middle of a group. It is done once, when the
// command is over. So ten thousand jobs that leave or enter a group of a hundred thousand cost one
// copy of the group.
type moves struct {
	leaving  []model.JobID // still in Group.Jobs
	arriving []*model.Job  // not yet there
}

// movesOf returns the moves of a group that are collected.
func (q *Queue) movesOf(k model.GroupKey) *moves {
	m := q.moves[k]
	if m == nil {
		m = &moves{}
		if q.moves == nil {
			q.moves = map[model.GroupKey]*moves{}
		}
		q.moves[k] = m
		q.moved = append(q.moved, k)
	}
	return m
}

// enqueue adds a job to its group. A new job is the youngest and goes to the end of the array,
// behind the part that views see. A job that returns goes to its place by id.
func (q *Queue) enqueue(j *model.Job) {
	k := KeyOf(j)
	g := q.ownGroup(k)
	if n := len(g.Jobs); n == 0 || g.Jobs[n-1].ID < j.ID {
		g.Jobs = append(g.Jobs, j)
		return
	}
	if _, leaves := findJob(g.Jobs, j.ID); leaves {
		q.regroup(k)
		q.enqueue(j)
		return
	}
	m := q.movesOf(k)
	m.arriving = append(m.arriving, j)
}

// dequeue removes a job from its group.
func (q *Queue) dequeue(j *model.Job) {
	k := KeyOf(j)
	g := q.ownGroup(k)
	i, found := findJob(g.Jobs, j.ID)
	switch {
	case !found && q.moves[k] == nil:
		return
	case !found: // it arrived a moment ago
		q.regroup(k)
		q.dequeue(j)
	case len(g.Jobs) == 1 && q.moves[k] == nil:
		q.dropGroup(g)
	case i == 0 && len(g.Jobs) > 1:
		g.Jobs = g.Jobs[1:]
	default:
		m := q.movesOf(k)
		m.leaving = append(m.leaving, j.ID)
	}
}

// requeue replaces a job that stays where it is.
func (q *Queue) requeue(j *model.Job) {
	k := KeyOf(j)
	g := q.ownGroup(k)
	if i, found := findJob(g.Jobs, j.ID); found {
		q.ownArray(g)
		g.Jobs[i] = j
		return
	}
	if q.moves[k] != nil {
		q.regroup(k)
		q.requeue(j)
	}
}

// Settle carries out all moves and updates the heads of the groups, when a command is over.
func (q *Queue) Settle() {
	for _, k := range q.moved {
		if q.moves[k] != nil {
			q.regroup(k)
		}
	}
	q.moved = q.moved[:0]
	q.updateHeads()
}

// regroup carries out the moves of one group, in an array that no view shares.
func (q *Queue) regroup(k model.GroupKey) {
	m := q.moves[k]
	delete(q.moves, k)
	g := q.ownGroup(k)
	slices.Sort(m.leaving)
	slices.SortFunc(m.arriving, func(a, b *model.Job) int { return cmp.Compare(a.ID, b.ID) })
	jobs := make([]*model.Job, 0, len(g.Jobs)+len(m.arriving)-len(m.leaving))
	leaving, arriving := m.leaving, m.arriving
	for _, j := range g.Jobs {
		for len(arriving) > 0 && arriving[0].ID < j.ID {
			jobs, arriving = append(jobs, arriving[0]), arriving[1:]
		}
		for len(leaving) > 0 && leaving[0] < j.ID {
			leaving = leaving[1:]
		}
		if len(leaving) == 0 || leaving[0] != j.ID {
			jobs = append(jobs, j)
		}
	}
	g.Jobs, g.array = append(jobs, arriving...), q.epoch
	if len(g.Jobs) == 0 {
		q.dropGroup(g)
	}
}
