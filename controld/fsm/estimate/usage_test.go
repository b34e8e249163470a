package estimate

import (
	"math"
	"testing"
)

func TestUsageHalvesInItsHalfLife(t *testing.T) {
	for half := range int64(100) {
		half = (half + 1) * HourMS / 7
		for age := int64(0); age < UsedHours*HourMS; age += HourMS {
			got, want := float64(halved(age, half))/weightOne, math.Exp2(-float64(age)/float64(half))
			if math.Abs(got-want) > 0.003*want+1e-8 {
				t.Fatalf("after %d ms of half-life %d: weight %g, want %g", age, half, got, want)
			}
		}
	}
}
