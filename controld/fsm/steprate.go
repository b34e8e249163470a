package fsm

import (
	"maps"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
)

// StepRatesOf returns how fast elastic jobs of the same user with the same name were, by size, nil if none was measured. The caller must not change it.
func (v *View) StepRatesOf(j *model.Job) []estimate.StepRate {
	if v.statistics == nil {
		return nil
	}
	return v.statistics.StepRates[estimate.RateKey(j)].Sizes
}

// MeanService returns how much service elastic jobs of the same user with the same name took until they had completed, as [model.Job.Attained] counts it;
// 0 if none has.
func (v *View) MeanService(j *model.Job) int64 {
	if v.statistics == nil {
		return 0
	}
	return v.statistics.StepRates[estimate.RateKey(j)].Service
}

// recordService takes in how much service a job has taken that has completed.
func (s *State) recordService(j *model.Job) {
	if _, elastic := j.Elastic(); !elastic {
		return
	}
	l, p := s.ownStepRates(j)
	if l == nil {
		return
	}
	p.At = s.v.at
	p.Ended++
	p.Service += (j.Attained() - p.Service) / min(p.Ended, estimate.ServicesKept)
	l.StepRates[estimate.RateKey(j)] = p
}

// ownStepRates returns what is known of jobs like one, with a table to store it in again; nil if there is none.
func (s *State) ownStepRates(j *model.Job) (*estimate.Statistics, estimate.StepRates) {
	l := s.ownStatistics()
	if l == nil {
		return nil, estimate.StepRates{}
	}
	if l.StepRates = maps.Clone(l.StepRates); l.StepRates == nil {
		l.StepRates = map[string]estimate.StepRates{}
	}
	key := estimate.RateKey(j)
	if _, known := l.StepRates[key]; !known && len(l.StepRates) >= estimate.MaxRatedNames {
		delete(l.StepRates, estimate.OldestRated(l.StepRates))
	}
	return l, l.StepRates[key]
}

// recordStepRate takes in how fast an attempt is. Of several measurements at one size and as far apart the later count for more; what has not been seen for longest is
// forgotten.
func (s *State) recordStepRate(j *model.Job, a *model.Attempt) {
	e, elastic := j.Elastic()
	if !elastic {
		return
	}
	if l, p := s.ownStepRates(j); l != nil {
		l.StepRates[estimate.RateKey(j)] = p.With(estimate.StepRateOf(e, a), s.v.at)
	}
}

// recordRelease notes that an attempt has ended: how long room has been idle is counted from then.
func (s *State) recordRelease() {
	if s.v.statistics != nil && s.v.statistics.LastEnded == s.v.at {
		return
	}
	s.ownStatistics().LastEnded = s.v.at
}

// recordElasticStart notes that an elastic job begins an attempt: as long as none has, none has to be looked for.
func (s *State) recordElasticStart(j *model.Job) {
	if _, elastic := j.Elastic(); elastic {
		s.ownStatistics().LastElasticStart = s.v.at
	}
}
