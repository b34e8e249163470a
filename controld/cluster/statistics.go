package cluster

import (
	"maps"
	"math/bits"
	"slices"

	"github.com/rota-hpc/rota/jobspec"
)

// Learned is what the cluster has learnt from what happened in it. It is small, in integers, and kept by Apply, so that it outlives
// changes of leader and is the same on every replica. A Learned never changes once a view has it.
type Learned struct {
	Grace map[string]Graces `json:"grace,omitempty"` // by queue: how long displaced attempts took to leave
	TE    Arrivals          `json:"te,omitzero"`
	Turns Instant           `json:"turns,omitempty"` // when a cycle last looked whose turn it is; see [CommitPlan].Turns
	Freed Instant           `json:"freed,omitempty"` // when an attempt last ended
	Came  Instant           `json:"came,omitempty"`  // when a job was last submitted

	Elastic Instant          `json:"elastic,omitempty"` // when an elastic job last began an attempt; 0: none ever has
	Paces   map[string]Paces `json:"paces,omitempty"`   // of elastic jobs, by user and name
	Mix     *Mix             `json:"mix,omitempty"`     // nil: no job with GPUs has come yet
	Waits   Waits            `json:"waits,omitzero"`
	Pasts   *Pasts           `json:"pasts,omitempty"` // nil: no best-effort job is over yet
}

// Waits is how many of the last jobs that began did not begin at once, in 65,536ths, by class.
type Waits struct {
	TE int64 `json:"te"`
	BE int64 `json:"be"`
}

// Bounds of [Waits].
const (
	waitsUnit    = 1 << 16
	waitsMemory  = 512  // jobs of a class after which what was before counts for about a third
	atOnceWithin = 2000 // ms from when a job may start
)

// Graces counts how long attempts that were displaced took to leave: Counts[i] took less than 2^i seconds and no less than half of that.
type Graces struct {
	Counts [16]int `json:"counts"`
}

// stopDurationsKept bounds the counts of one queue: when there are more, all are halved, so that what is recent weighs more.
const stopDurationsKept = 1024

// Arrivals is what trial-and-error jobs have asked for lately.
type Arrivals struct {
	Last   Instant `json:"last"`   // when the last one came
	From   Instant `json:"from"`   // the minute that Sum is about begins
	Sum    int64   `json:"sum"`    // thousandths of a GPU that came in it
	Mean   int64   `json:"mean"`   // of a minute, in 256ths of a thousandth of a GPU
	Dev    int64   `json:"dev"`    // mean distance from the mean, in the same unit
	Worker Vector  `json:"worker"` // what nine of ten workers are content with, the cores in thousandths; read only where Recent is empty

	Recent []Vector `json:"recent,omitempty"` // what the last workers asked for, the oldest first
}

// Bounds of [Arrivals].Recent.
const (
	recentKept   = 64
	recentPerJob = 8 // workers of one job that count: no gang is all that is remembered
)

// idleMinutes is after how many minutes without arrivals what is known of them is void.
const idleMinutes = 24 * 60

// Learned returns what the cluster has learnt, nil if that is nothing yet. The caller must not change it.
func (v *View) Learned() *Learned { return v.statistics }

// ownStatistics returns a copy to be changed and stored.
func (s *State) ownStatistics() *Learned {
	if s.v.statistics != nil && s.statisticsEpoch == s.epoch {
		return s.v.statistics
	}
	next := &Learned{}
	if s.v.statistics != nil {
		*next = *s.v.statistics
	}
	s.v.statistics, s.statisticsEpoch = next, s.epoch
	return next
}

// recordRotation notes when it was last looked whose turn it is.
func (s *State) recordRotation() {
	s.ownStatistics().Turns = s.v.at
}

// recordSubmission notes that somebody has submitted a job.
func (s *State) recordSubmission() {
	s.ownStatistics().Came = s.v.at
}

// recordStopDuration takes in how long a displaced attempt took to leave.
func (s *State) recordStopDuration(queue string, took Instant) {
	l := s.ownStatistics()
	if l.Grace = maps.Clone(l.Grace); l.Grace == nil {
		l.Grace = map[string]Graces{}
	}
	g := l.Grace[queue]
	g.add(took)
	l.Grace[queue] = g
}

func (g *Graces) add(took Instant) {
	total := 0
	g.Counts[min(len(g.Counts)-1, bits.Len64(uint64(max(0, took)/1000)))]++
	for _, n := range g.Counts {
		total += n
	}
	if total <= stopDurationsKept {
		return
	}
	for i := range g.Counts {
		g.Counts[i] /= 2
	}
}

// P95 returns in how many milliseconds 19 of 20 attempts had left, rounded up to a power of two seconds; false if too few have for such a
// statement.
func (g *Graces) P95() (int64, bool) {
	const few = 20
	total, seen := 0, 0
	for _, n := range g.Counts {
		total += n
	}
	if total < few {
		return 0, false
	}
	for i, n := range g.Counts {
		if seen += n; seen*20 >= total*19 {
			return 1000 << i, true
		}
	}
	return 1000 << len(g.Counts), true
}

// recordArrival takes in a trial-and-error job that was just submitted.
func (s *State) recordArrival(j *Job) {
	if j.Class != jobspec.TE {
		return
	}
	l := s.ownStatistics()
	a := &l.TE
	a.closeMinutes(s.v.at)
	a.Last = s.v.at
	for i := range j.Workers {
		want := j.RequestOf(i).Active
		a.Sum += want.GPUs
		want.Cores *= 1000
		a.Worker = a.Worker.moveTowards(want)
	}
	if s.recentEpoch != s.epoch {
		a.Recent, s.recentEpoch = append(make([]Vector, 0, recentKept+recentPerJob), a.Recent...), s.epoch
	}
	a.addRequests(j)
}

// recordQueueWait takes in whether a job that begins its first attempt has had to wait for it.
func (s *State) recordQueueWait(j *Job) {
	if j.Attempt != 0 {
		return
	}
	seen := int64(0)
	if s.v.at-j.Eligible > atOnceWithin {
		seen = waitsUnit
	}
	w := &s.ownStatistics().Waits
	if j.Class == jobspec.TE {
		w.TE += (seen - w.TE) / waitsMemory
	} else {
		w.BE += (seen - w.BE) / waitsMemory
	}
}

// addRequests takes in what the workers of a job ask for, and forgets what is older than the last recentKept. No view has what is remembered.
func (a *Arrivals) addRequests(j *Job) {
	more := min(j.Workers, recentPerJob)
	a.Recent = slices.Delete(a.Recent, 0, max(0, len(a.Recent)+more-recentKept))
	for i := range more {
		a.Recent = append(a.Recent, j.RequestOf(i).Active)
	}
}

// closeMinutes closes the minutes that are over.
func (a *Arrivals) closeMinutes(now Instant) {
	const minute = 60_000
	if now-a.From > idleMinutes*minute {
		*a = Arrivals{From: now}
		return
	}
	for ; now-a.From >= minute; a.From += minute {
		miss := a.Sum*256 - a.Mean
		a.Mean += miss / 32
		a.Dev += (max(miss, -miss) - a.Dev) / 32
		a.Sum = 0
	}
}

// moveTowards moves an estimate towards a value that was seen: up nine times as fast as down, which is where it rests when one of ten is above.
func (v Vector) moveTowards(seen Vector) Vector {
	step := func(have, want int64) int64 {
		if want > have {
			return have + (want-have+7)/8
		}
		return have - (have-want)/72
	}
	return vector(step(v.Cores, seen.Cores), step(int64(v.Memory), int64(seen.Memory)), step(v.GPUs, seen.GPUs))
}
