package rota

import (
	"math/bits"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// # The order
//
// Best-effort jobs come first if their accounts hold less than they are entitled to. Then the
// higher priority decides, then the lower service index, then age. docs/policy.md has the whole
// policy.
//
// The service index of a job is the reciprocal of Gittins' index (Gittins, Glazebrook and Weber,
// Multi-armed Bandit Allocation Indices, 2011). Let all jobs of its kind that came as far as it run
// on up to some bound. The index is the least time, over all bounds, that this costs for each job
// that ends. It follows from how long the last jobs of its kind ran. Where these ran alike, the
// index falls as a job runs, and no job leaves for its equals. Where a few ran far longer than the
// others, it grows with what a job has had. A job of unknown kind is taken to run for as long again
// as it has run, so that the order is least attained service.

// remaining returns how long a job goes on by its service index after it has run for so long, in
// ms. False: its kind is unknown.
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
	short := max(1, cluster.ShortService.Of(&t.state.Policy)*60_000)
	level := 2 * bits.Len64(uint64(max(0, j.ServiceOf(need)))/uint64(short))
	if user := t.accounts().Leaf(j.Association()); !user.Guaranteed() {
		if due := user.Due(); user.Holding(nil).Cmp(due.Plus(due)) >= 0 {
			level++
		}
	}
	return level
}
