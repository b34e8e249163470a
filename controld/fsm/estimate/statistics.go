// Package estimate has what the state machine learns from ended attempts, in bounded integers.
// These are runtimes by job kind, step rates of elastic jobs, the workload mix, waits, stop
// durations, and usage of accounts. It is replicated, so that the scheduler has it after a change
// of leader, and in the simulator too.
package estimate

import (
	"math/bits"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// Statistics is what the cluster has learnt from what happened in it. It is small, in integers, and
// kept by Apply, so that it outlives changes of leader and is the same on every replica. A
// Statistics never changes once a view has it.
type Statistics struct {
	// by queue: how long displaced attempts took to leave
	StopDurations map[string]StopDurations `json:"stop_durations,omitempty"`
	// by kind of job: how long displaced attempts took, of what they had declared
	Graces map[string]MeasuredGrace `json:"graces,omitempty"`
	TE     Arrivals                 `json:"te,omitzero"`
	// when a cycle last looked whose turn it is; see CommitPlan.Rotated
	LastRotation  model.Instant `json:"last_rotation,omitempty"`
	LastEnded     model.Instant `json:"last_ended,omitempty"`     // when an attempt last ended
	LastSubmitted model.Instant `json:"last_submitted,omitempty"` // when a job was last submitted

	// when an elastic job last began an attempt; 0: none ever has
	LastElasticStart model.Instant        `json:"last_elastic_start,omitempty"`
	StepRates        map[string]StepRates `json:"step_rates,omitempty"` // of elastic jobs, by user and name
	// of gangs with a fixed number of workers, by user, name and size of a worker
	GangRates map[string]StepRates `json:"gang_rates,omitempty"`
	Moves     []model.Instant      `json:"moves,omitempty"`        // when jobs last moved for their own sake, oldest first
	Mix       *WorkloadMix         `json:"workload_mix,omitempty"` // nil: no job with GPUs has come yet
	Waits     QueueWaits           `json:"waits,omitzero"`
	Runtimes  *RuntimeHistory      `json:"runtimes,omitempty"` // nil: no best-effort job is over yet
}

// QueueWaits is how many of the last jobs that began did not begin at once, in 65,536ths, by class.
type QueueWaits struct {
	TE int64 `json:"te"`
	BE int64 `json:"be"`
}

// StopDurations counts how long attempts that were displaced took to leave: Counts[i] took less
// than 2^i seconds and no less than half of that.
type StopDurations struct {
	Counts [16]int `json:"counts"`
}

// stopDurationsKept bounds the counts of one queue: when there are more, all are halved, so that
// what is recent weighs more.
const stopDurationsKept = 1024

// Arrivals is what trial-and-error jobs have asked for lately.
type Arrivals struct {
	Last      model.Instant `json:"last"`      // when the last one came
	From      model.Instant `json:"from"`      // the minute that Sum is about begins
	Sum       int64         `json:"sum"`       // thousandths of a GPU that came in it
	Mean      int64         `json:"mean"`      // of a minute, in 256ths of a thousandth of a GPU
	Deviation int64         `json:"deviation"` // mean distance from the mean, in the same unit
	// what nine of ten workers are content with, the cores in thousandths; read only where Recent is
	// empty
	Worker model.Vector `json:"worker"`

	Recent []model.Vector `json:"recent,omitempty"` // what the last workers asked for, the oldest first
}

// idleMinutes is after how many minutes without arrivals what is known of them is void.
const idleMinutes = 24 * 60

// Add counts an attempt that took so long to stop, in ms.
func (g *StopDurations) Add(took model.Instant) {
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

// P95 returns the milliseconds in which 19 of 20 attempts had left, rounded up to a power of two
// seconds. It returns false if too few attempts are known.
func (g *StopDurations) P95() (int64, bool) {
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

// addRequests takes in what the workers of a job ask for, and forgets what is older than the last
// recentKept. No view has what is remembered.
func (a *Arrivals) addRequests(j *model.Job) {
	more := min(j.Workers, RecentPerJob)
	a.Recent = slices.Delete(a.Recent, 0, max(0, len(a.Recent)+more-RecentKept))
	for i := range more {
		a.Recent = append(a.Recent, j.RequestOf(i).Active)
	}
}

// closeMinutes closes the minutes that are over.
func (a *Arrivals) closeMinutes(now model.Instant) {
	const minute = 60_000
	if now-a.From > idleMinutes*minute {
		*a = Arrivals{From: now}
		return
	}
	for ; now-a.From >= minute; a.From += minute {
		miss := a.Sum*256 - a.Mean
		a.Mean += miss / 32
		a.Deviation += (max(miss, -miss) - a.Deviation) / 32
		a.Sum = 0
	}
}

// Bounds of [Waits].
const (
	WaitsUnit    = 1 << 16
	WaitsMemory  = 512  // jobs of a class after which what was before counts for about a third
	AtOnceWithin = 2000 // ms from when a job may start
)

// Bounds of [Arrivals].Recent.
const (
	RecentKept   = 64
	RecentPerJob = 8 // workers of one job that count: no gang is all that is remembered
)

// PredictRemaining predicts how long a job that has run for so many ms needs to its end. It tries
// bounds for the time that each job of the kind may get, and returns the least time spent for each
// job that ends. It is the reciprocal of Gittins' index: little for a job that will probably be
// over soon. The narrowest kind speaks of which enough are known that came so far. False: there is
// none.
func (s *Statistics) PredictRemaining(j *model.Job, ran int64) (int64, bool) {
	if s == nil || s.Runtimes == nil {
		return 0, false
	}
	kinds, first := KindsOfJob(j)
	for i := first; i < len(kinds); i++ {
		if at, known := s.Runtimes.Find(&kinds[i]); known {
			if cost, known := s.Runtimes.List[at].RemainingCost(ran); known {
				return cost, true
			}
		}
	}
	return 0, false
}

// StepRatesOf returns how fast elastic jobs of the same user with the same name were, by size, nil
// if none was measured. The caller must not change it.
func (s *Statistics) StepRatesOf(j *model.Job) []StepRate {
	if s == nil {
		return nil
	}
	return s.StepRates[RateKey(j)].Sizes
}

// GangRate returns how fast gangs like one were on so many nodes, in steps in 1,000 s, 0 if that
// was not measured.
func (s *Statistics) GangRate(j *model.Job, nodes int) int64 {
	if s == nil {
		return 0
	}
	for _, p := range s.GangRates[gangKey(j)].Sizes {
		if p.Size == j.Workers && p.Nodes == nodes {
			return p.Rate
		}
	}
	return 0
}

// MovedSince counts the moves of jobs for their own sake after an instant, of the last [MovesKept].
func (s *Statistics) MovedSince(t model.Instant) int {
	if s == nil {
		return 0
	}
	at, _ := slices.BinarySearch(s.Moves, t+1)
	return len(s.Moves) - at
}

// MovesKept is how many moves are remembered.
const MovesKept = 256

// MeanService returns the mean service, as [model.Job.Attained] counts it, of completed elastic
// jobs of the same user with the same name. It is 0 if none has completed.
func (s *Statistics) MeanService(j *model.Job) int64 {
	if s == nil {
		return 0
	}
	return s.StepRates[RateKey(j)].Service
}

// Check says whether the runtime history and the grace periods are kept as they should be.
func (s *Statistics) Check() error {
	if s == nil {
		return nil
	}
	if err := checkGraces(s.Graces); err != nil || s.Runtimes == nil {
		return err
	}
	return s.Runtimes.Check()
}
