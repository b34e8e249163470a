package cluster

import (
	"math/bits"
	"slices"

	"github.com/rota-hpc/rota/jobspec"
)

// Mix is what jobs with GPUs have asked for, as far as placements should know what will be asked for next. It holds no more than a few
// kinds of workers and small counts, and what is recent weighs more. A Mix never changes once a view has it.
type Mix struct {
	Kinds []Asked `json:"kinds"` // in the order in which they were first seen
}

// Asked is one kind of workers, and how many have come. Amounts are rounded up, so that whatever fits this fits them.
type Asked struct {
	Worker Vector `json:"worker"`
	Count  int64  `json:"count"`
}

// Bounds of a Mix.
const (
	maxRequestKinds = 64   // when there are more, the rarest is forgotten
	requestsKept    = 4096 // workers: when there are more, all counts are halved
	requestsPerJob  = 64   // workers of one job that count: no gang or array is a majority by itself
	shareStep       = 10   // thousandths of a GPU that shares are rounded up to
)

// recordRequest takes in a job that was just submitted.
func (s *State) recordRequest(j *Job) {
	parts := j.Parts
	if len(parts) == 0 {
		parts = []Part{{Workers: j.Workers, Request: j.Request}}
	}
	for i := range parts {
		n := int64(parts[i].Workers)
		if j.Family != nil {
			n *= int64(j.Family.Size)
		}
		if worker := parts[i].Request.Active; worker.GPUs > 0 {
			s.ownWorkloadMix().add(roundedRequest(worker), min(n, requestsPerJob))
		}
	}
}

// ownWorkloadMix returns the mix ready to be written.
func (s *State) ownWorkloadMix() *Mix {
	if s.workloadMixEpoch == s.epoch && s.v.statistics != nil && s.v.statistics.Mix != nil {
		return s.v.statistics.Mix
	}
	l, next := s.ownStatistics(), &Mix{}
	if l.Mix != nil {
		next.Kinds = append(make([]Asked, 0, len(l.Mix.Kinds)+1), l.Mix.Kinds...)
	}
	l.Mix, s.workloadMixEpoch = next, s.epoch
	return next
}

// add counts workers of a kind.
func (m *Mix) add(worker Vector, n int64) {
	i := slices.IndexFunc(m.Kinds, func(k Asked) bool { return k.Worker == worker })
	if i < 0 {
		if len(m.Kinds) == maxRequestKinds {
			m.evictRarest()
		}
		i, m.Kinds = len(m.Kinds), append(m.Kinds, Asked{Worker: worker})
	}
	m.Kinds[i].Count += n
	total := int64(0)
	for i := range m.Kinds {
		total += m.Kinds[i].Count
	}
	if total <= requestsKept {
		return
	}
	for i := range m.Kinds {
		m.Kinds[i].Count /= 2
	}
	m.Kinds = slices.DeleteFunc(m.Kinds, func(k Asked) bool { return k.Count == 0 })
}

// evictRarest drops the rarest kind, of several the one that was seen first.
func (m *Mix) evictRarest() {
	rarest := 0
	for i := range m.Kinds {
		if m.Kinds[i].Count < m.Kinds[rarest].Count {
			rarest = i
		}
	}
	m.Kinds = slices.Delete(m.Kinds, rarest, rarest+1)
}

// roundedRequest rounds a worker up, so that there are few kinds.
func roundedRequest(v Vector) Vector {
	gpus := v.GPUs
	if isShare(gpus) {
		gpus = min(WholeGPU, (gpus+shareStep-1)/shareStep*shareStep)
	}
	return Vector{Cores: roundUpCoarse(v.Cores), Memory: jobspec.Bytes(roundUpCoarse(int64(v.Memory))), GPUs: gpus}
}

// roundUpCoarse rounds up to a number of two binary digits: 1, 2, 3, 4, 6, 8, 12 and so on.
func roundUpCoarse(n int64) int64 {
	if n <= 2 {
		return n
	}
	unit := int64(1) << (bits.Len64(uint64(n)) - 2)
	return (n + unit - 1) / unit * unit
}
