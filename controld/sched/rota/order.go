package rota

import (
	"math/bits"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// # The order
//
// Of best-effort jobs those come first whose accounts hold less than they are entitled to, then those
// with the higher priority, then those with the lower service index, then the older ones. docs/policy.md
// has the whole policy.
//
// The service index of a job is the least time that is spent for each job of its kind that ends, if
// each that came so far runs on up to some bound: the reciprocal of Gittins' index (Gittins, Glazebrook
// and Weber, Multi-armed Bandit Allocation Indices, 2011). It follows from how long the last jobs of
// its kind ran. Where these ran alike, the index falls as a job runs, and no job leaves for its equals.
// Where a few ran far longer than the others, it grows with what a job has had. A job of which no kind
// is known is taken to run for as long again as it has run, which is the least attained service.

// remaining returns how long a job goes on by its service index that has run for so long, in ms, and
// whether a kind of it is known.
func (t *rotaPolicy) remaining(j *model.Job, ran int64) (ms int64, known bool) {
	if left, known := t.state.View.Statistics().PredictRemaining(j, ran); known {
		return left, true
	}
	return ran, false
}

// needs returns how long a job that waits goes on once it runs, in ms, and whether that is known.
func (t *rotaPolicy) needs(j *model.Job) (ms int64, known bool) {
	return t.remaining(j, j.RuntimeOf(j.Attained()))
}

// levelOf returns the level of a job that waits: that of the GPU time that it still takes. All short
// jobs have level 0: among them age and fit decide. Each further level is twice as long as the one
// before.
func (t *rotaPolicy) levelOf(j *model.Job) int {
	switch {
	case j.OwnRoomFirst:
		return model.LevelOwnRoom
	case j.Class == jobspec.TE:
		return 0
	}
	need, _ := t.needs(j)
	short := max(1, model.ShortService.Of(&t.state.Policy)*60_000)
	level := 2 * bits.Len64(uint64(max(0, j.ServiceOf(need)))/uint64(short))
	if user := t.accounts().Leaf(j.Association()); !user.Guaranteed() {
		if due := user.Due(); user.Holding(nil).Cmp(due.Plus(due)) >= 0 {
			level++
		}
	}
	return level
}
