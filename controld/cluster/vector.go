package cluster

import (
	"math"

	"github.com/rota-hpc/rota/jobspec"
)

func vector(cores, memory, gpus int64) Vector {
	return Vector{Cores: cores, Memory: jobspec.Bytes(memory), GPUs: gpus}
}

func (v Vector) plus(w Vector) Vector {
	return Vector{Cores: v.Cores + w.Cores, Memory: v.Memory + w.Memory, GPUs: v.GPUs + w.GPUs}
}

func (v Vector) minus(w Vector) Vector {
	return Vector{Cores: v.Cores - w.Cores, Memory: v.Memory - w.Memory, GPUs: v.GPUs - w.GPUs}
}

// within reports whether v is no more than w in every resource.
func (v Vector) within(w Vector) bool {
	return v.Cores <= w.Cores && v.Memory <= w.Memory && v.GPUs <= w.GPUs
}

func (v Vector) negative() bool { return v.Cores < 0 || v.Memory < 0 || v.GPUs < 0 }

// after returns the instant a duration later, without overflow.
func (t Instant) after(d jobspec.Seconds) Instant {
	if int64(d) > (math.MaxInt64-int64(t))/1000 {
		return math.MaxInt64
	}
	return t + Instant(d)*1000
}
