package telemetry

import (
	"cmp"
	"fmt"
	"sync"

	"github.com/rota-hpc/rota/controld/model"
)

// Samples keeps the newest progress of jobs, and the values of their metrics. The zero value is
// ready.
type Samples struct {
	mu     sync.Mutex
	last   map[model.JobID]AttemptProgress
	series map[model.JobID]map[string]*series // by metric
	count  int                                // number of series
	dropAt int                                // number of series at which those of ended jobs are dropped
}

// AttemptProgress is the progress of one attempt of a job.
type AttemptProgress struct {
	Attempt int
	Step    int64
	Saved   int64              // step of the newest checkpoint
	Metrics map[string]float64 // metrics of the newest step
	Problem string             // mistake in a worker's report; "": none
	earlier int64              // step of the newest checkpoint in earlier attempts
}

// maxSamples bounds the number of samples. Beyond it, samples of ended jobs are dropped, or all if
// that leaves more than half; nodes send them again within seconds.
const maxSamples = 200_000

// Clear drops every sample.
func (s *Samples) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
}

// forget is Clear with mu held.
func (s *Samples) forget() {
	s.last, s.series, s.count, s.dropAt = map[model.JobID]AttemptProgress{}, map[model.JobID]map[string]*series{}, 0, 0
}

// drop drops the samples and the series of ended jobs. The caller holds mu.
func (s *Samples) drop(ended func(model.JobID) bool) {
	for id := range s.last {
		if ended(id) {
			s.count -= len(s.series[id])
			delete(s.last, id)
			delete(s.series, id)
		}
	}
}

// Put records the progress that a worker reports. Of all workers of an attempt, the newest step
// counts. watched is the most important metric, "" if the job names none. Jobs that have ended may
// be forgotten.
func (s *Samples) Put(id model.JobID, p AttemptProgress, watched string, ended func(model.JobID) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.last) >= maxSamples {
		if s.drop(ended); len(s.last) > maxSamples/2 {
			s.forget()
		}
	}
	if s.last == nil {
		s.forget()
	}
	old := s.last[id]
	if p.Attempt < old.Attempt {
		return
	}
	if len(p.Metrics) > 0 && (p.Attempt > old.Attempt || p.Step >= old.Step) {
		s.addPoints(id, &p, watched, ended)
	}
	if p.Attempt == old.Attempt {
		if p.Step < old.Step || len(p.Metrics) == 0 {
			p.Metrics = old.Metrics
		}
		p.Step, p.Saved, p.Problem = max(p.Step, old.Step), max(p.Saved, old.Saved), cmp.Or(p.Problem, old.Problem)
		p.earlier = old.earlier
	} else {
		p.earlier = cmp.Or(old.Saved, old.earlier)
	}
	s.last[id] = p
}

// Of returns a job's progress; zero if unknown. An attempt has a problem while it is behind the
// saved step of an earlier attempt.
func (s *Samples) Of(id model.JobID) AttemptProgress {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.last[id]
	if p.Problem == "" && p.Step > 0 && p.Step < p.earlier {
		p.Problem = fmt.Sprintf("attempt %d is at step %d, but an earlier attempt had saved step %d: check that the "+
			"program finds its checkpoint", p.Attempt, p.Step, p.earlier)
	}
	return p
}
