package estimate

import (
	"math/bits"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/jobspec"
)

// WorkloadMix is what jobs with GPUs have asked for, as far as placements should know what will be
// asked for next. It holds no more than a few kinds of workers and small counts, and what is recent
// weighs more. A WorkloadMix never changes once a view has it.
type WorkloadMix struct {
	Kinds []RequestCount `json:"kinds"` // in the order in which they were first seen
}

// RequestCount is one kind of workers, and how many have come. Amounts are rounded up, so that
// whatever fits this fits them.
type RequestCount struct {
	Worker model.Vector `json:"worker"`
	Count  int64        `json:"count"`
}

// Add counts workers of a kind.
func (m *WorkloadMix) Add(worker model.Vector, n int64) {
	i := slices.IndexFunc(m.Kinds, func(k RequestCount) bool { return k.Worker == worker })
	if i < 0 {
		if len(m.Kinds) == maxRequestKinds {
			m.evictRarest()
		}
		i, m.Kinds = len(m.Kinds), append(m.Kinds, RequestCount{Worker: worker})
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
	m.Kinds = slices.DeleteFunc(m.Kinds, func(k RequestCount) bool { return k.Count == 0 })
}

// evictRarest drops the rarest kind, of several the one that was seen first.
func (m *WorkloadMix) evictRarest() {
	rarest := 0
	for i := range m.Kinds {
		if m.Kinds[i].Count < m.Kinds[rarest].Count {
			rarest = i
		}
	}
	m.Kinds = slices.Delete(m.Kinds, rarest, rarest+1)
}

// roundedRequest rounds a worker up, so that there are few kinds.
func roundedRequest(v model.Vector) model.Vector {
	gpus := v.GPUs
	if model.IsShare(gpus) {
		gpus = min(model.WholeGPU, (gpus+shareStep-1)/shareStep*shareStep)
	}
	return model.Vector{Cores: roundUpCoarse(v.Cores), Memory: jobspec.Bytes(roundUpCoarse(int64(v.Memory))), GPUs: gpus}
}

// roundUpCoarse rounds up to a number of two binary digits: 1, 2, 3, 4, 6, 8, 12 and so on.
func roundUpCoarse(n int64) int64 {
	if n <= 2 {
		return n
	}
	unit := int64(1) << (bits.Len64(uint64(n)) - 2)
	return (n + unit - 1) / unit * unit
}

// Bounds of a Mix.
const (
	maxRequestKinds = 64   // when there are more, the rarest is forgotten
	requestsKept    = 4096 // workers: when there are more, all counts are halved
	requestsPerJob  = 64   // workers of one job that count: no gang or array is a majority by itself
	shareStep       = 10   // thousandths of a GPU that shares are rounded up to
)
