// Package profile measures the utilisation and the memory of a worker's GPU, and its step rate. The
// rate comes from the steps that it reports, or else from the rhythm of its GPU ([Periods]).
// Nothing is guessed: a value that is not certain is unknown.
package profile

import "math"

// Point is one sample of a quantity.
type Point struct {
	At    int64 // ms since any fixed instant; later than the point before
	Value float64
}

const (
	// slot is the resolution of lags, in ms. Reason: samples come at 20 Hz.
	slot = 50
	// minPoints, in points: a series with fewer says nothing. Reason: each half of it is looked at by
	// itself.
	minPoints = 200
	// minLag, in slots: a shorter period cannot be told from the samples.
	minLag = 4
	// maxGap is how long no sample may be missing, in ms.
	maxGap = 500
	// leastSwing is the least standard deviation, in thousandths of the largest value. Reason: a
	// constant with noise of its last digit has no rhythm.
	leastSwing = 10
	// peakAt is the least correlation with itself one and two periods later. Evidence: with these
	// numbers 4 of 120,000 series of noise of twelve kinds have a period (TestNoiseHasNoPeriod with
	// 10,000 of each). No period in TestPeriods is more than 10 % off.
	peakAt = 0.5
	// weakAt is the least correlation that may belong to a period which is too weak to be sure.
	weakAt = 0.15
	// dipAt is the most that the correlation has within a period, where it is least.
	dipAt = 0.2
	// agree, in thousandths: so far may the periods of both halves be apart. Reason: a period drifts.
	agree = 100
)

// Periods returns how many periods a series of samples has in 1,000 s; false if that is not known.
// Mini-batches show as such periods: between two of them the memory of a GPU is least, and its
// utilisation falls. See Xiao et al., Gandiva, OSDI 2018, section 4.2.
//
// A period is known if the series correlates with itself one and two periods later, and does not
// within a period. Both halves of the series must have the same period, each by itself. The samples
// should come at irregular intervals, since a rhythm that is faster than they are looks like a slow
// one at regular intervals. A period below 0.2 s is unknown, and so is a period that fits
// into the series fewer than eight times.
func Periods(points []Point) (rate int64, known bool) {
	n := len(points)
	if n < minPoints {
		return 0, false
	}
	first, known := periodOf(points[:n/2])
	if !known {
		return 0, false
	}
	second, known := periodOf(points[n/2:])
	if !known || apart(first, second) > agree {
		return 0, false
	}
	all, known := periodOf(points)
	if !known || apart(all, (first+second)/2) > agree {
		return 0, false
	}
	return int64(math.Round(1_000_000 / (all * slot))), true
}

// apart returns by how many thousandths two periods differ.
func apart(a, b float64) float64 { return math.Abs(a-b) / min(a, b) * 1000 }

// periodOf returns the period of one series, in slots.
func periodOf(points []Point) (float64, bool) {
	r := correlation(points)
	low := 1.0
	for k := 2; 2*k+1 < len(r); k++ {
		low = min(low, r[k-1])
		switch {
		case r[k] < weakAt || low > dipAt || !highest(r, k):
		case k < minLag || r[k] < peakAt:
			return 0, false // what follows may be multiples of this
		default:
			return refine(r, k)
		}
	}
	return 0, false
}

// highest reports whether the correlation is nowhere higher near a lag.
func highest(r []float64, k int) bool {
	for i := k - max(1, k/4); i <= min(len(r)-1, k+max(1, k/4)); i++ {
		if r[i] > r[k] {
			return false
		}
	}
	return true
}

// refine returns the period near lag k, as exactly as its multiples say, if there is a peak at
// twice the lag too.
func refine(r []float64, k int) (p float64, found bool) {
	p = vertex(r, k)
	for m := 2.0; m*p+1 < float64(len(r)); m++ {
		near, reach := int(math.Round(m*p)), max(1, k/4)
		best := near
		for i := max(1, near-reach); i <= min(len(r)-2, near+reach); i++ {
			if r[i] > r[best] {
				best = i
			}
		}
		valley := r[int(math.Round((m-0.5)*p))]
		if r[best] < peakAt || r[best]-valley < peakAt-dipAt {
			return p, found
		}
		p = vertex(r, best) / m
		found = true
	}
	return p, found
}

// vertex returns where the parabola through a peak and its neighbours is highest.
func vertex(r []float64, k int) float64 {
	if k+1 >= len(r) {
		return float64(k)
	}
	if curve := r[k-1] - 2*r[k] + r[k+1]; curve < 0 {
		return float64(k) + max(-0.5, min(0.5, (r[k-1]-r[k+1])/(2*curve)))
	}
	return float64(k)
}

// correlation returns how a series correlates with itself, by lag in slots, up to half of its
// length. Pairs of samples are sorted into slots by the time between them, so that the intervals
// of the samples need not be equal. It is nil if the series cannot be used.
func correlation(points []Point) []float64 {
	x, usable := detrended(points)
	if !usable {
		return nil
	}
	slots := int((points[len(points)-1].At-points[0].At)/slot)/2 + 1
	type sums struct{ xy, xx, yy float64 }
	all := make([]sums, slots)
	for i := range points {
		for j := i + 1; j < len(points); j++ {
			k := int((points[j].At - points[i].At + slot/2) / slot)
			if k >= slots {
				break
			}
			s := &all[k]
			s.xy, s.xx, s.yy = s.xy+x[i]*x[j], s.xx+x[i]*x[i], s.yy+x[j]*x[j]
		}
	}
	r := make([]float64, slots)
	r[0] = 1
	for k, s := range all {
		if k > 0 && s.xx > 0 && s.yy > 0 {
			r[k] = s.xy / math.Sqrt(s.xx*s.yy)
		}
	}
	return r
}

// detrended returns the values without their mean and their linear trend.
func detrended(points []Point) (x []float64, usable bool) {
	n := float64(len(points))
	var at, value, largest float64
	for i, p := range points {
		if math.IsNaN(p.Value) || math.IsInf(p.Value, 0) || i > 0 &&
			(p.At <= points[i-1].At || p.At-points[i-1].At > maxGap) {
			return nil, false
		}
		at, value = at+float64(p.At)/n, value+p.Value/n
		largest = max(largest, math.Abs(p.Value))
	}
	var above, below float64
	for _, p := range points {
		above += (float64(p.At) - at) * (p.Value - value)
		below += (float64(p.At) - at) * (float64(p.At) - at)
	}
	slope := above / below
	x = make([]float64, len(points))
	var square float64
	for i, p := range points {
		x[i] = p.Value - value - slope*(float64(p.At)-at)
		square += x[i] * x[i] / n
	}
	return x, math.Sqrt(square)*1000 >= leastSwing*largest && square > 0
}
