package telemetry

import (
	"cmp"
	"fmt"
	"sync"

	"github.com/rota-hpc/rota/controld/model"
)

// Samples keeps the newest progress of jobs, and what they have reported of their metrics, in
// bounded form: of jobs that have ended for as long as there are not too many. The zero value is
// ready.
type Samples struct {
	mu     sync.Mutex
	last   map[model.JobID]Progress
	series map[model.JobID]map[string]*series // by metric
	count  int                                // of series
	dropAt int                                // so many series: those of ended jobs are dropped
}

// Progress is how far one attempt of a job has come.
type Progress struct {
	Attempt int
	Step    int64
	Saved   int64              // step of the newest checkpoint
	Metrics map[string]float64 // of the newest step
	Problem string             // what is wrong with what a worker reported; "": nothing
	earlier int64              // step of the newest checkpoint of earlier attempts
}

// maxSamples bounds the memory of samples. Beyond it those of ended jobs are forgotten, and all if
// that does not leave half of them; nodes send them again within seconds.
const maxSamples = 200_000

// Clear forgets every sample.
func (s *Samples) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
}

// forget is Clear with mu held.
func (s *Samples) forget() {
	s.last, s.series, s.count, s.dropAt = map[model.JobID]Progress{}, map[model.JobID]map[string]*series{}, 0, 0
}

// drop forgets the samples and the series of ended jobs. The caller holds mu.
func (s *Samples) drop(ended func(model.JobID) bool) {
	for id := range s.last {
		if ended(id) {
			s.count -= len(s.series[id])
			delete(s.last, id)
			delete(s.series, id)
		}
	}
}

// Put keeps the progress that a worker reports. Of all workers of an attempt the newest step
// counts. The watched metric is the one that matters most, "" if the job names none. Jobs that have
// ended may be forgotten.
func (s *Samples) Put(id model.JobID, p Progress, watched string, ended func(model.JobID) bool) {
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

// Of returns a job's progress, zero if none is known. An attempt that is behind what an earlier one
// saved has a problem until it is there again.
func (s *Samples) Of(id model.JobID) Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.last[id]
	if p.Problem == "" && p.Step > 0 && p.Step < p.earlier {
		p.Problem = fmt.Sprintf("attempt %d is at step %d, and an earlier one had saved step %d: look whether it finds "+
			"its checkpoint", p.Attempt, p.Step, p.earlier)
	}
	return p
}
