package model

import (
	"math"

	"github.com/rota-hpc/rota/jobspec"
)

// Vector is an amount of every divisible resource of one node.
type Vector struct {
	Cores  int64         `json:"cores"`
	Memory jobspec.Bytes `json:"memory"`
	GPUs   int64         `json:"gpus"` // in thousandths of a GPU
}

// Request is what every worker of a job needs on its node: Active while it runs, Resident even
// while it is suspended.
type Request struct {
	Active   Vector `json:"active"`
	Resident Vector `json:"resident"`
	// workers of other gangs, and of other parts of this one, stay off the node
	Exclusive bool `json:"exclusive,omitempty"`
}

// MoveTowards moves an estimate towards a new value. It moves up nine times as fast as down, so
// that it rests where one value in ten is above it.
func (v Vector) MoveTowards(seen Vector) Vector {
	step := func(have, want int64) int64 {
		if want > have {
			return have + (want-have+7)/8
		}
		return have - (have-want)/72
	}
	return VectorOf(step(v.Cores, seen.Cores), step(int64(v.Memory), int64(seen.Memory)), step(v.GPUs, seen.GPUs))
}

// VectorOf returns amounts of cores, bytes of memory and thousandths of GPUs.
func VectorOf(cores, memory, gpus int64) Vector {
	return Vector{Cores: cores, Memory: jobspec.Bytes(memory), GPUs: gpus}
}

// Plus adds two vectors.
func (v Vector) Plus(w Vector) Vector {
	return Vector{Cores: v.Cores + w.Cores, Memory: v.Memory + w.Memory, GPUs: v.GPUs + w.GPUs}
}

// Minus subtracts w from v.
func (v Vector) Minus(w Vector) Vector {
	return Vector{Cores: v.Cores - w.Cores, Memory: v.Memory - w.Memory, GPUs: v.GPUs - w.GPUs}
}

// Within reports whether v is no more than w in every resource.
func (v Vector) Within(w Vector) bool {
	return v.Cores <= w.Cores && v.Memory <= w.Memory && v.GPUs <= w.GPUs
}

// Positive returns the vector with nothing in place of amounts below zero.
func (v Vector) Positive() Vector { return v.Most(Vector{}) }

// Negative reports whether any amount is below zero.
func (v Vector) Negative() bool { return v.Cores < 0 || v.Memory < 0 || v.GPUs < 0 }

// After returns the instant a duration later, without overflow.
func (t Instant) After(d jobspec.Seconds) Instant {
	if int64(d) > (math.MaxInt64-int64(t))/1000 {
		return math.MaxInt64
	}
	return t + Instant(d)*1000
}
