package sim

import "math"

// Interval returns the mean of values and half the width of its 95 % interval by Student's
// distribution: 0 for fewer than two values.
func Interval(values []float64) (mean, half float64) {
	n := float64(len(values))
	for _, v := range values {
		mean += v / n
	}
	if len(values) < 2 {
		return mean, 0
	}
	squares := 0.0
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	return mean, student(len(values)-1) * math.Sqrt(squares/(n-1)/n)
}

// student is the 97.5 % quantile of Student's distribution: exact for few degrees of freedom, close
// beyond.
func student(freedom int) float64 {
	few := []float64{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
		2.131}
	if freedom <= len(few) {
		return few[freedom-1]
	}
	const z = 1.959964
	return z + (z*z*z+z)/(4*float64(freedom))
}
