package sim

import (
	"math"
	"testing"
)

func TestInterval(t *testing.T) {
	mean, half := Interval([]float64{1, 2, 3, 4, 5, 6, 7, 8})
	if mean != 4.5 || math.Abs(half-2.0479) > 1e-3 { // 2.365 x 2.4495 / sqrt(8)
		t.Errorf("%g ± %g", mean, half)
	}
	if mean, half := Interval([]float64{3}); mean != 3 || half != 0 {
		t.Errorf("one value: %g ± %g", mean, half)
	}
	if got := student(100); math.Abs(got-1.984) > 0.005 {
		t.Errorf("100 degrees of freedom: %g", got)
	}
}
