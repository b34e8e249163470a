package sched

import (
	"cmp"

	"github.com/rota-hpc/rota/controld/cluster"
)

// usualRestart is how long a job is taken to stand still when it is started again, as long as that was never measured, in ms.
const usualRestart = 30_000

// relaunchOf returns for how long a job stands still when it is started again, as it was measured the last time, in ms.
func relaunchOf(j *cluster.Job) int64 {
	terms, _ := j.Elastic()
	for i := len(j.Attempts) - 1; i >= 0; i-- {
		a := &j.Attempts[i]
		if a.N > 1 && a.Rated > 0 {
			return max(0, int64(a.Rated-a.Assigned.At-terms.RateAfter()))
		}
	}
	return usualRestart
}

// gainPM is by how many thousandths a job must get faster with more workers to keep them.
func gainPM(t *trial) int64 { return cmp.Or(t.policy.GrowGainPM, usualGainPM) }

// growAfter is how long room has to be idle before a job grows into it.
func growAfter(t *trial, f *flexible) cluster.Instant {
	return cmp.Or(cluster.Instant(t.policy.GrowAfterMS), f.terms.GrowAfter)
}

// settled reports whether a job has had its present size for long enough to be given another for its own sake, and what that size is worth is
// known, if the job says at all how fast it is.
func settled(t *trial, f *flexible) bool {
	rest := cmp.Or(cluster.Instant(t.policy.CooldownMS), f.terms.Cooldown)
	if f.attempt.Rate == 0 {
		rest = max(rest, 2*f.terms.RateAfter())
	}
	at := f.attempt.Started.At + rest
	t.wakeAt(at)
	return at <= t.now
}

// idleSince returns since when nobody has started, ended or come.
func idleSince(t *trial) cluster.Instant {
	var at cluster.Instant
	if l := t.view.Learned(); l != nil {
		at = l.Freed
	}
	for j := range t.view.Live() {
		at = max(at, j.Live().Assigned.At)
	}
	return at
}

// idle reports whether room has been idle for long enough for a job to grow into it.
func idle(t *trial, f *flexible, since cluster.Instant) bool {
	at := since + growAfter(t, f)
	t.wakeAt(at)
	return at <= t.now && len(t.started) == 0
}

// superfluous returns how many workers a job has that do not make it faster, by the rate that it had with fewer.
func superfluous(t *trial, f *flexible) int {
	now := f.attempt.Rate
	if now == 0 {
		return 0
	}
	list := pacesOf(f.job)
	for i := len(list) - 1; i >= 0; i-- {
		if p := list[i]; p.Size < f.size {
			if f.terms.Has(p.Size) && now*1000 < p.Rate*(1000+gainPM(t)) {
				return f.size - p.Size
			}
			return 0
		}
	}
	return 0
}

// mayGrow reports whether one step more is legal and not known to be in vain.
func mayGrow(t *trial, f *flexible) bool {
	return f.terms.Has(f.size+f.terms.Step) && f.size+f.terms.Step <= max(f.size, tip(f.job, gainPM(t)))
}
