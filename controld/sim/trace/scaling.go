package trace

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/rota-hpc/rota/controld/model"
)

// FullRate is the rate of a job that makes one ms of its Work in one ms. Rates are in millionths of
// that.
const FullRate int64 = 1_000_000

// maxRate bounds every rate, so that a rate times a time stays within 64 bits.
const maxRate = 100_000 * FullRate

// Spread says how far apart the workers of a job are, nearest first.
type Spread uint8

// Spreads.
const (
	OneIsland Spread = iota // on GPUs of one node that are joined by fast links
	OneNode
	OneRack
	Across
)

// String returns the name that [ParseLocality] and the command line use.
func (s Spread) String() string {
	if s > Across {
		return fmt.Sprintf("spread(%d)", uint8(s))
	}
	return [...]string{"island", "node", "rack", "across"}[s]
}

// Layout says where the workers of a job are, as far as its speed depends on it.
type Layout struct {
	PerNode []int // workers on each node that has any, in any order
	Spread  Spread
}

// Workers is the number of workers of the layout.
func (l Layout) Workers() int {
	n := 0
	for _, k := range l.PerNode {
		n += max(0, k)
	}
	return n
}

// Scaling is the speed of a job by its workers. Only the simulator knows it; a policy sees the
// reports of a job.
type Scaling interface {
	// Rate returns the progress per ms in millionths of a ms of Job.Work; 0 without workers.
	Rate(Layout) int64
}

// Locality is the part of its rate that a job keeps at each spread, in millionths. Zero means no
// loss.
type Locality [Across + 1]int64

func (l Locality) check() error {
	for s, part := range l {
		if part < 0 || part > FullRate {
			return fmt.Errorf("the fraction of its rate that a job keeps at spread %s must be between 0 and 1", Spread(s))
		}
	}
	return nil
}

// of returns a rate at a spread.
func (l Locality) of(rate int64, s Spread) int64 {
	if part := l[min(s, Across)]; part > 0 {
		return rate/FullRate*part + rate%FullRate*part/FullRate
	}
	return rate
}

// Rate returns the rate of the job in a layout: millionths of a ms of its Work in each ms, 0
// without workers.
func (j *Job) Rate(l Layout) int64 {
	n := l.Workers()
	if n == 0 {
		return 0
	}
	rate := FullRate * int64(n) / int64(max(1, j.Workers))
	if j.Scaling != nil {
		rate = j.Scaling.Rate(l)
	}
	return min(maxRate, max(1, j.Locality.of(rate, l.Spread)))
}

// Alone returns how many ms the job takes undisturbed, with the requested workers in their best
// placement. Slowdowns are relative to it.
func (j *Job) Alone() int64 {
	return max(1, model.MulDiv(j.Work, FullRate, max(1, j.Rate(Layout{PerNode: []int{j.Workers}}))))
}

// Diminishing is a job whose n workers are n/(1 + c(n-1)) times as fast as one: each further worker
// slows all others by c. Its Work is the work of one worker.
type Diminishing struct {
	Loss int64 // c in millionths
}

// Rate implements [Scaling].
func (d Diminishing) Rate(l Layout) int64 {
	n := int64(l.Workers())
	if n == 0 {
		return 0
	}
	return n * FullRate * FullRate / (FullRate + max(0, d.Loss)*(n-1))
}

// Point is a measured rate.
type Point struct {
	Workers int
	Rate    int64 // millionths
}

// Curve is a rate by the number of workers, interpolated between measured numbers. It begins at
// nothing, and stays constant beyond the last number.
type Curve []Point

// NewCurve returns the curve through points, in any order.
func NewCurve(points []Point) (Curve, error) {
	c := slices.Clone(points)
	slices.SortFunc(c, func(a, b Point) int { return cmp.Compare(a.Workers, b.Workers) })
	if len(c) == 0 {
		return nil, errors.New("the list of speeds is empty: write WORKERS=SPEED, such as 1=1 2=1.9")
	}
	for i, p := range c {
		switch {
		case p.Workers < 1 || p.Workers > MaxWorkers:
			return nil, fmt.Errorf("a speed for %d workers: must be for 1 to %d workers", p.Workers, MaxWorkers)
		case p.Rate < 1 || p.Rate > maxRate:
			return nil, fmt.Errorf("the speed of %d workers is not positive, or impossibly large", p.Workers)
		case i > 0 && c[i-1].Workers == p.Workers:
			return nil, fmt.Errorf("two speeds for %d workers", p.Workers)
		}
	}
	return c, nil
}

// Rate implements [Scaling].
func (c Curve) Rate(l Layout) int64 {
	xs, ys := make([]int64, len(c)), make([]int64, len(c))
	for i, p := range c {
		xs[i], ys[i] = int64(p.Workers), p.Rate
	}
	n := int64(l.Workers())
	if n == 0 || len(c) == 0 {
		return 0
	}
	if n < xs[0] {
		return ys[0] * n / xs[0]
	}
	return interpolate(xs, ys, n)
}

// interpolate returns the value at x of the line through ascending xs and their ys. It is constant
// outside of them.
func interpolate(xs, ys []int64, x int64) int64 {
	i, exact := slices.BinarySearch(xs, x)
	switch {
	case exact:
		return ys[i]
	case i == 0:
		return ys[0]
	case i == len(xs):
		return ys[len(ys)-1]
	}
	x0, x1, y0, y1 := xs[i-1], xs[i], ys[i-1], ys[i]
	if y1 < y0 {
		return y0 - model.MulDiv(y0-y1, x-x0, x1-x0)
	}
	return y0 + model.MulDiv(y1-y0, x-x0, x1-x0)
}
