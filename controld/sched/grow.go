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
func (t *trial) gainPM() int64 { return cmp.Or(t.policy.GrowGainPM, elasticGainPM) }

// growAfter is how long room has to be idle before a job grows into it.
func (t *trial) growAfter(f *flexible) cluster.Instant {
	return cmp.Or(cluster.Instant(t.policy.GrowAfterMS), f.terms.GrowAfter)
}

// settled reports whether a job has had its present size for long enough to be given another for its own sake, and what that size is worth is
// known, if the job says at all how fast it is.
func (t *trial) settled(f *flexible) bool {
	rest := cmp.Or(cluster.Instant(t.policy.CooldownMS), f.terms.Cooldown)
	if f.attempt.Rate == 0 {
		rest = max(rest, 2*f.terms.RateAfter())
	}
	at := f.attempt.Started.At + rest
	t.wakeAt(at)
	return at <= t.now
}

// idleSince returns since when nobody has started, ended or come.
func (t *trial) idleSince() cluster.Instant {
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
func (t *trial) idle(f *flexible, since cluster.Instant) bool {
	at := since + t.growAfter(f)
	t.wakeAt(at)
	return at <= t.now && len(t.started) == 0
}

// goBack takes from jobs the workers with which they did not get faster.
func (s *stretcher) goBack() {
	for _, f := range without(s.running) {
		if n := s.superfluous(f); n > 0 && s.settled(f) {
			f.drop(n)
			s.resize(f, 0)
		}
	}
}

// superfluous returns how many workers a job has that do not make it faster, by the rate that it had with fewer.
func (t *trial) superfluous(f *flexible) int {
	now := f.attempt.Rate
	if now == 0 {
		return 0
	}
	list := pacesOf(f.job)
	for i := len(list) - 1; i >= 0; i-- {
		if p := list[i]; p.Size < f.size {
			if f.terms.Has(p.Size) && now*1000 < p.Rate*(1000+t.gainPM()) {
				return f.size - p.Size
			}
			return 0
		}
	}
	return 0
}

// grow gives jobs one step more each, those first that gain most from it for their weight, as long as there is idle room that nobody claims.
func (s *stretcher) grow() {
	since := s.idleSince()
	var list []*flexible
	for _, f := range without(s.running) {
		if s.mayGrow(f) && s.settled(f) && s.idle(f, since) {
			list = append(list, f)
		}
	}
	for len(list) > 0 {
		best := 0
		for i := range list {
			if c := cmp.Compare(s.worth(list[i]), s.worth(list[best])); c > 0 || c == 0 && compare(list[i].job, list[best].job) < 0 {
				best = i
			}
		}
		f := list[best]
		list = append(list[:best:best], list[best+1:]...)
		if s.extend(f, f.terms.Step, nil) {
			s.resize(f, 0)
		}
	}
}

// mayGrow reports whether one step more is legal and not known to be in vain.
func (t *trial) mayGrow(f *flexible) bool {
	return f.terms.Has(f.size+f.terms.Step) && f.size+f.terms.Step <= max(f.size, tip(f.job, t.gainPM()))
}

// worth is what one step more gains: speedup for each GPU, weighted by priority.
func (s *stretcher) worth(f *flexible) int64 {
	loss := lossOf(f.job)
	width := f.job.WorthOf(f.request().Active) * int64(f.terms.Step)
	return (speedup(f.size+f.terms.Step, loss) - speedup(f.size, loss)) * 1_000_000 / width * int64(1+f.job.Priority)
}
