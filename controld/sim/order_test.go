package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSortNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 2, 255, 256, 257, 5000} {
		for kind := range 6 {
			values := make([]float64, n)
			for i := range values {
				switch kind {
				case 0:
					values[i] = 1 + 100*r.Float64()
				case 1:
					values[i] = float64(r.IntN(3))
				case 2:
					values[i] = float64(r.Int64N(1<<50)) / 1000
				case 3:
					values[i] = 7
				case 4:
					values[i] = r.NormFloat64() // negative ones, too
				default:
					values[i] = []float64{0, math.Inf(1), math.MaxFloat64, math.SmallestNonzeroFloat64, 1}[r.IntN(5)]
				}
			}
			want := slices.Clone(values)
			slices.Sort(want)
			if sortNumbers(values); !slices.Equal(values, want) {
				t.Fatalf("%d values of kind %d: got %v, want %v", n, kind, values, want)
			}
		}
	}
}
