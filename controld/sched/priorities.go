package sched

import (
	"cmp"
	"slices"

	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/queue"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// Priority is a waiting job and the terms of its place in the order.
type Priority struct {
	Job      *model.Job
	Position int // from 1; 0 of a job that cannot start now whatever is free
	queue.Terms
	Age      int64 // ms for which it has waited since it could start
	Reserved bool  // room is kept for it
}

// Priorities lists the jobs that wait in the order in which a cycle at now comes to them. Jobs that
// cannot start now come last: held, in back-off, or with open dependencies. Policies name their
// terms; without hooks of their own jobs are ordered by class, priority and age.
func Priorities(v *state.View, now model.Instant, p cluster.Policy) []Priority {
	t := scratch.New(v, now, p, new(fit.Room))
	for _, r := range v.Reservations() {
		if r.Until > now {
			t.Holders[r.Job] = r
		}
	}
	answers := policyNamed(p.Name).begin(t, new(memory)).Answers()
	var ready, aside []*model.Job
	for g := range v.QueueGroups() {
		for _, j := range g.Jobs {
			if t.Startable(j) {
				ready = append(ready, j)
			} else {
				aside = append(aside, j)
			}
		}
	}
	switch {
	case answers.Compare != nil:
		slices.SortFunc(ready, answers.Compare)
	default:
		answers.Order.Sort(ready)
	}
	slices.SortFunc(aside, func(a, b *model.Job) int { return cmp.Compare(a.ID, b.ID) })
	list := make([]Priority, 0, len(ready)+len(aside))
	for i, j := range slices.Concat(ready, aside) {
		out := Priority{Job: j, Age: int64(max(0, now-j.Eligible)), Reserved: t.Holders[j.ID] != nil}
		if i < len(ready) {
			out.Position = i + 1
		}
		if answers.Terms != nil {
			out.Terms = answers.Terms(j)
		} else {
			out.Terms = answers.Order.Terms(j)
		}
		list = append(list, out)
	}
	return list
}
