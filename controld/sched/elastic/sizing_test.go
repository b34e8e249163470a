package elastic

import (
	"testing"

	"github.com/rota-hpc/rota/controld/fsm/estimate"
)

// TestBetween estimates speeds between two that were measured. Jobs that lose by each worker as
// [speedup] has it are met exactly, others lie between.
func TestBetween(t *testing.T) {
	const unit = 1_000_000
	for _, loss := range []int64{0, 31_250, 250_000, noUse} {
		a := estimate.StepRate{Size: 4, Rate: unit * Speedup(4, loss)}
		b := estimate.StepRate{Size: 16, Rate: unit * Speedup(16, loss)}
		for n := a.Size; n <= b.Size; n++ {
			got, want := between(a, b, n), unit*Speedup(n, loss)
			if diff := got - want; max(diff, -diff)*500 > want {
				t.Errorf("with a loss of %d, %d workers are estimated at %d, want %d", loss, n, got, want)
			}
		}
	}
	for _, ends := range [][2]estimate.StepRate{
		{{Size: 1, Rate: 1}, {Size: 4096, Rate: 1 << 40}},
		{{Size: 3, Rate: 1 << 40}, {Size: 9, Rate: 1}},
		{{Size: 2, Rate: 7}, {Size: 5, Rate: 7}},
	} {
		a, b := ends[0], ends[1]
		for n := a.Size; n <= b.Size; n++ {
			if got := between(a, b, n); got < min(a.Rate, b.Rate)-1 || got > max(a.Rate, b.Rate) {
				t.Errorf("%d workers between %+v and %+v are estimated at %d", n, a, b, got)
			}
		}
	}
}
