package telemetry

import (
	"sync"

	"github.com/rota-hpc/rota/controld/cluster"
)

// Samples keeps the newest progress of running jobs. The zero value is ready.
type Samples struct {
	mu   sync.Mutex
	last map[cluster.JobID]Progress
}

// Progress is how far one attempt of a job has come.
type Progress struct {
	Attempt int
	Step    int64
	Saved   int64              // step of the newest checkpoint
	Metrics map[string]float64 // of the newest step
}

// maxSamples bounds the memory of samples. Beyond it all are forgotten; nodes send them again
// within seconds.
const maxSamples = 200_000

// Clear forgets every sample.
func (s *Samples) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = map[cluster.JobID]Progress{}
}

// Put keeps the progress that a worker reports. Of all workers of an attempt the newest step
// counts.
func (s *Samples) Put(id cluster.JobID, p Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil || len(s.last) >= maxSamples {
		s.last = map[cluster.JobID]Progress{}
	}
	old := s.last[id]
	if p.Attempt < old.Attempt {
		return
	}
	if p.Attempt == old.Attempt {
		if p.Step < old.Step || len(p.Metrics) == 0 {
			p.Metrics = old.Metrics
		}
		p.Step, p.Saved = max(p.Step, old.Step), max(p.Saved, old.Saved)
	}
	s.last[id] = p
}

// Of returns a job's progress, zero if none is known.
func (s *Samples) Of(id cluster.JobID) Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[id]
}
