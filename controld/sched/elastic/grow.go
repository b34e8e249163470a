package elastic

import (
	"cmp"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/sched/scratch"
)

// RestartCost returns for how long a job stands still when it is started again, as it was measured
// the last time, in ms.
func RestartCost(j *model.Job) int64 {
	terms, _ := j.Elastic()
	if terms.Signal {
		return 0 // it keeps running while it is resized
	}
	for i := len(j.Attempts) - 1; i >= 0; i-- {
		a := &j.Attempts[i]
		if a.N > 1 && a.Rated > 0 {
			return max(0, int64(a.Rated-a.Assigned.At-terms.RateAfter()))
		}
	}
	return tunables.RestartMS
}

// gainPM is by how many thousandths a job must get faster with more workers to keep them.
func gainPM(t *scratch.State) int64 { return cmp.Or(t.Policy.GrowGainPM, tunables.GainPM) }

// GrowAfter is how long room has to be idle before a job grows into it.
func GrowAfter(t *scratch.State, f *RunningJob) model.Instant {
	return cmp.Or(model.Instant(t.Policy.GrowAfterMS), f.Terms.GrowAfter)
}

// Settled reports whether a job may be given another size for its own sake. It must have had its
// present size for long enough. If it reports its speed at all, that must be known at this size.
func Settled(t *scratch.State, f *RunningJob) bool {
	rest := cmp.Or(model.Instant(t.Policy.CooldownMS), f.Terms.Cooldown)
	if f.Attempt.Rate == 0 {
		rest = max(rest, 2*f.Terms.RateAfter())
	}
	since := f.Attempt.Started.At
	if r := f.Attempt.Resizing; r != nil {
		since = max(since, r.At)
	}
	t.WakeAt(since + rest)
	return since+rest <= t.Now
}

// IdleSince returns since when no job has started, ended or arrived.
func IdleSince(t *scratch.State) model.Instant {
	var at model.Instant
	if l := t.View.Statistics(); l != nil {
		at = l.LastEnded
	}
	for j := range t.View.Live() {
		at = max(at, j.Live().Assigned.At)
	}
	return at
}

// RoomIdle reports whether room has been idle for long enough for a job to grow into it.
func RoomIdle(t *scratch.State, f *RunningJob, since model.Instant) bool {
	at := since + GrowAfter(t, f)
	t.WakeAt(at)
	return at <= t.Now && len(t.Started) == 0
}

// Superfluous returns how many workers a job has that do not make it faster, by the rate that it
// had with fewer.
func Superfluous(t *scratch.State, f *RunningJob) int {
	now := f.Attempt.Rate
	if now == 0 {
		return 0
	}
	list := stepRatesOf(t, f.Job)
	for i := len(list) - 1; i >= 0; i-- {
		if p := list[i]; p.Size < f.Size {
			if f.Terms.Has(p.Size) && now*1000 < p.Rate*(1000+gainPM(t)) {
				return f.Size - p.Size
			}
			return 0
		}
	}
	return 0
}

// MayGrow reports whether one step more is legal and not known to be in vain.
func MayGrow(t *scratch.State, f *RunningJob) bool {
	return f.Terms.Has(f.Size+f.Terms.Step) && f.Size+f.Terms.Step <= max(f.Size, tip(t, f.Job))
}
