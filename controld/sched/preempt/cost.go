package preempt

import (
	"cmp"
	"math"
	"math/bits"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/controld/sched/fit"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// MuchUnsaved is a day of lost work, in ms of one GPU. A job that would lose more leaves only if
// nothing else helps.
const MuchUnsaved = 24 * 3600 * 1000

// price computes what each candidate costs, before any has been taken. The cost is the sum of its
// size and its grace, each as a part of the greatest, and the work that would be lost.
func (r *Candidates) price(t *scratch.State) {
	usual := gracesOf(t, r.queues.List)
	r.weight, r.longest, r.greatest = GraceWeight(t), 0, 0
	r.lossWeight = cluster.LossWeight.Of(&t.Policy)
	for _, v := range r.Each() {
		if v.Grace = min(v.Grace, usual[v.queue]); v.Pauses {
			v.Grace = PauseCosts(v.Grace)
		}
		r.longest, r.greatest = max(r.longest, v.Grace), max(r.greatest, v.size)
	}
	for _, v := range r.Each() {
		if !v.Pauses {
			v.Unsaved = v.unsavedAt(t.Now)
		}
		v.Score = r.scoreOf(v) + r.lossPrice(v.Unsaved)
	}
}

// expectGraces sets each candidate's expected time to leave: its declared grace, or less if jobs
// like it took less.
func (r *Candidates) expectGraces(t *scratch.State) {
	known := t.View.Statistics()
	for _, v := range r.Each() {
		v.Grace = known.ExpectedGrace(v.kind, v.declared)
	}
}

// ExpectedGrace returns how long a job will take to leave, in ms.
func ExpectedGrace(t *scratch.State, j *model.Job) int64 {
	return t.View.Statistics().ExpectedGrace(estimate.GraceKindOf(j), scratch.GraceOf(j))
}

// GraceWeight returns the weight of grace against lost work, in thousandths.
func GraceWeight(t *scratch.State) int64 {
	return max(0, cmp.Or(t.Policy.GraceWeight, tunables.GraceWeight))
}

func (r *Candidates) lossPrice(unsaved int64) int64 {
	return one * r.lossWeight / 1000 * log2Hours(unsaved) / 1024
}

// priceOf is the cost of a candidate that gives up some of its room and is started again. Only the
// room that it gives up counts as its size, but its whole grace and its whole loss count.
func (r *Candidates) priceOf(v *Candidate, room model.Vector) int64 {
	return part(fit.Length(room, r.largest), r.greatest) + r.waitingCosts(v.Grace) + r.lossPrice(v.Unsaved)
}

// gracesOf returns an upper bound of the time to leave for some queues, in ms. It is the usual time
// there, so that no job becomes dear by declaring a long grace.
func gracesOf(t *scratch.State, queues []string) []int64 {
	list := make([]int64, len(queues))
	for i, queue := range queues {
		list[i] = math.MaxInt64
		if ms, known := UsualGrace(t, queue); known {
			list[i] = ms
		}
	}
	return list
}

// UsualGrace returns the 95th percentile of the time that jobs of a queue took to leave, in ms;
// false if too few were asked to.
func UsualGrace(t *scratch.State, queue string) (ms int64, known bool) {
	if l := t.View.Statistics(); l != nil {
		took := l.StopDurations[queue]
		return took.P95()
	}
	return 0, false
}

// UnsavedWork returns how much work is lost with an attempt, in ms of one GPU. A job that saves
// when it is asked to leave loses none; others lose the work since their last save.
func UnsavedWork(t *scratch.State, r *estimate.LiveAttempt) int64 {
	f := factsOf(r)
	return f.unsavedAt(t.Now)
}

// unsavedAt returns how much work of an attempt is not saved at an instant.
func (f *facts) unsavedAt(now model.Instant) int64 {
	if f.Started == 0 || f.Saves == 0 {
		return 0
	}
	since := int64(now - f.Started)
	if f.Saves > 0 {
		since %= f.Saves
	}
	return model.GPUTime(since, f.worth)
}

// log2Hours returns log2(1 + hours) in 1024ths, with a straight line between powers of two:
// integers, so that all machines agree.
func log2Hours(ms int64) int64 {
	const hour = 3600 * 1000
	x := uint64(ms)*1024/hour + 1024 // 1 + hours, in 1024ths
	n := bits.Len64(x) - 1
	return int64(n-10)*1024 + int64(x<<10>>n) - 1024
}

// scoreOf is the FitGpp score of a candidate.
func (r *Candidates) scoreOf(v *Candidate) int64 {
	score := part(v.size, r.greatest) + r.waitingCosts(v.Grace)
	if v.once {
		score += one * tunables.OnceWeight / 1000
	}
	return score
}

// waitingCosts is the cost of waiting for so many ms.
func (r *Candidates) waitingCosts(ms int64) int64 { return Ratio(ms, r.longest) * r.weight / 1000 }
