package fsm

import (
	"github.com/rota-hpc/rota/controld/fsm/estimate"
	"github.com/rota-hpc/rota/controld/model"
)

// recordRequest takes in a job that was just submitted.
func (s *State) recordRequest(j *model.Job) {
	parts := j.Parts
	if len(parts) == 0 {
		parts = []model.Part{{Workers: j.Workers, Request: j.Request}}
	}
	for i := range parts {
		n := int64(parts[i].Workers)
		if j.Children != nil {
			n *= int64(j.Children.Size)
		}
		if worker := parts[i].Request.Active; worker.GPUs > 0 {
			s.ownWorkloadMix().Add(estimate.RoundedRequest(worker), min(n, estimate.RequestsPerJob))
		}
	}
}

// ownWorkloadMix returns the mix ready to be written.
func (s *State) ownWorkloadMix() *estimate.WorkloadMix {
	if s.workloadMixEpoch == s.epoch && s.v.statistics != nil && s.v.statistics.Mix != nil {
		return s.v.statistics.Mix
	}
	l, next := s.ownStatistics(), &estimate.WorkloadMix{}
	if l.Mix != nil {
		next.Kinds = append(make([]estimate.RequestCount, 0, len(l.Mix.Kinds)+1), l.Mix.Kinds...)
	}
	l.Mix, s.workloadMixEpoch = next, s.epoch
	return next
}
