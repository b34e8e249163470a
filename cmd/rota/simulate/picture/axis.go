package picture

import (
	"math"
	"strconv"
)

// axis maps values to a side of a panel, with labels at round numbers.
type axis struct {
	title     string
	ticks     []float64 // the first is the lower end, the last the upper one
	logarithm bool
}

// mostTicks bounds the labels of an axis.
const mostTicks = 8

// linear returns an axis from 0 to at least most, in whole numbers if whole. Its labels are 1, 2, 2.5 or 5 times
// a power of ten apart.
func linear(title string, most float64, whole bool) axis {
	if !(most > 0) || math.IsInf(most, 0) {
		most = 1
	}
	step := stepFor(most, whole)
	n := int(math.Max(1, math.Ceil(most/step-1e-9)))
	a := axis{title: title}
	for i := range n + 1 {
		a.ticks = append(a.ticks, round(float64(i)*step))
	}
	return a
}

// stepFor returns the least distance of labels that leaves few enough of them.
func stepFor(most float64, whole bool) float64 {
	for power := math.Pow(10, math.Floor(math.Log10(most))-1); ; power *= 10 {
		for _, factor := range []float64{1, 2, 2.5, 5} {
			step := round(factor * power)
			if whole && step != math.Trunc(step) {
				continue
			}
			if most/step <= mostTicks-1 {
				return step
			}
		}
	}
}

// decades returns a logarithmic axis from 1 to at least most.
func decades(title string, most float64) axis {
	a := axis{title: title, ticks: []float64{1}, logarithm: true}
	factors := []float64{2, 5, 10}
	if most > 100 {
		factors = []float64{10}
	}
	for power := 1.0; a.last() < most || len(a.ticks) < 2; power *= 10 {
		for _, factor := range factors {
			if a.last() < most || len(a.ticks) < 2 {
				a.ticks = append(a.ticks, factor*power)
			}
		}
	}
	return a
}

func (a *axis) last() float64 { return a.ticks[len(a.ticks)-1] }

// at returns where a value lies between the ends, from 0 to 1.
func (a *axis) at(v float64) float64 {
	low, high := a.ticks[0], a.last()
	v = math.Min(math.Max(v, low), high)
	if a.logarithm {
		return math.Log(v/low) / math.Log(high/low)
	}
	return (v - low) / (high - low)
}

// label writes a number without superfluous zeros.
func label(v float64) string {
	if v >= 1e7 {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// round removes the errors of binary fractions.
func round(v float64) float64 {
	text := strconv.FormatFloat(v, 'g', 12, 64)
	v, _ = strconv.ParseFloat(text, 64) // it was written in the line above
	return v
}

// timeUnit is a unit of a time axis.
type timeUnit struct {
	name string
	ms   float64
}

// unitFor returns the unit for a span of time: the largest of which it has three or more.
func unitFor(ms int64) timeUnit {
	units := []timeUnit{{"days", 86_400_000}, {"hours", 3_600_000}, {"minutes", 60_000}, {"seconds", 1000}}
	for i, u := range units {
		if float64(ms) >= 3*u.ms || i == len(units)-1 {
			return u
		}
	}
	return units[0]
}
