package synth

import (
	"errors"
	"math"
	"math/rand/v2"

	"github.com/rota-hpc/rota/controld/model"
)

// Milliseconds, the unit of every time in this package.
const (
	second int64 = 1000
	minute       = 60 * second
	hour         = 60 * minute
)

// gpu is a whole GPU in the unit of vectors.
const gpu = model.WholeGPU

// Streams keep the draws for different purposes apart, so that one more kind of number does not
// change the others.
const (
	streamJob uint64 = iota + 1
	streamArrival
	streamLabel
	streamGrace
	streamCheckpoint
	streamEstimate
	streamInflate
	streamRedraw
	streamPause
)

// source returns random numbers for one purpose and one job. They depend on nothing else, so a job
// is the same whatever was drawn before.
func source(seed, stream, index uint64) *rand.Rand {
	return rand.New(rand.NewPCG(mix(seed+stream<<56), mix(index^seed<<1)))
}

// mix spreads close numbers over all 64 bits (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Normal is a normal distribution cut off at both ends: values outside are drawn again.
type Normal struct {
	Mean, SD    float64
	Least, Most float64
}

// maxDraws bounds the search for a value within the bounds. A distribution whose mean lies within
// them needs far fewer.
const maxDraws = 1_000_000

func (n Normal) draw(r *rand.Rand) float64 {
	for range maxDraws {
		// The conversion prevents a fused multiply and add, which some processors would round
		// differently.
		if x := n.Mean + float64(n.SD*r.NormFloat64()); x >= n.Least && x <= n.Most {
			return x
		}
	}
	return min(max(n.Mean, n.Least), n.Most)
}

// times returns the distribution of f times the value.
func (n Normal) times(f float64) Normal {
	return Normal{n.Mean * f, n.SD * f, n.Least * f, n.Most * f}
}

// upTo draws a value and rounds it up.
func (n Normal) upTo(r *rand.Rand) int64 { return int64(math.Ceil(n.draw(r))) }

// nearest draws a value and rounds it to the nearest integer.
func (n Normal) nearest(r *rand.Rand) int64 { return int64(math.Round(n.draw(r))) }

// LogNormal is a distribution with a long tail, in ms, cut off at both ends.
type LogNormal struct {
	Median, Least, Most int64
	Sigma               float64 // of the logarithm
}

func (n LogNormal) draw(r *rand.Rand) int64 {
	for range maxDraws {
		x := float64(n.Median) * math.Exp(float64(n.Sigma*r.NormFloat64()))
		if x >= float64(n.Least) && x <= float64(n.Most) {
			return int64(math.Round(x))
		}
	}
	return n.Median
}

// exponential draws the gap before the next of independent arrivals, in ms.
func exponential(r *rand.Rand, mean int64) int64 {
	return int64(math.Round(float64(float64(mean) * r.ExpFloat64())))
}

// chance reports true in part of a thousand cases.
func chance(r *rand.Rand, thousandths int64) bool { return r.Int64N(1000) < thousandths }

var errShare = errors.New("a share must be 0 to 1000 thousandths")
