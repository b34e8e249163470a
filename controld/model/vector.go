package model

import (
	"math"

	"github.com/rota-hpc/rota/jobspec"
)

func VectorOf(cores, memory, gpus int64) Vector {
	return Vector{Cores: cores, Memory: jobspec.Bytes(memory), GPUs: gpus}
}

func (v Vector) Plus(w Vector) Vector {
	return Vector{Cores: v.Cores + w.Cores, Memory: v.Memory + w.Memory, GPUs: v.GPUs + w.GPUs}
}

func (v Vector) Minus(w Vector) Vector {
	return Vector{Cores: v.Cores - w.Cores, Memory: v.Memory - w.Memory, GPUs: v.GPUs - w.GPUs}
}

// Within reports whether v is no more than w in every resource.
func (v Vector) Within(w Vector) bool {
	return v.Cores <= w.Cores && v.Memory <= w.Memory && v.GPUs <= w.GPUs
}

func (v Vector) Negative() bool { return v.Cores < 0 || v.Memory < 0 || v.GPUs < 0 }

// After returns the instant a duration later, without overflow.
func (t Instant) After(d jobspec.Seconds) Instant {
	if int64(d) > (math.MaxInt64-int64(t))/1000 {
		return math.MaxInt64
	}
	return t + Instant(d)*1000
}
