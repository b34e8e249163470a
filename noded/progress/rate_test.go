package progress

import (
	"math"
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/model"
)

func TestRateMeter(t *testing.T) {
	begin := time.Unix(1_700_000_000, 0)
	type line struct {
		after time.Duration
		step  int64
		rate  int64 // 0: none is returned
	}
	for name, lines := range map[string][]line{
		"once, after a minute": {{0, 100, 0}, {30 * time.Second, 130, 0}, {59 * time.Second, 159, 0},
			{60 * time.Second, 160, 1000}, {120 * time.Second, 190, 0}},
		"later if steps are slow": {{0, 7, 0}, {61 * time.Second, 7, 0}, {100 * time.Second, 8, 10}},
		"at least something":      {{0, 0, 0}, {3_000_000 * time.Second, 1, 1}},
		"from anew when it goes back": {{0, 50, 0}, {40 * time.Second, 10, 0}, {70 * time.Second, 40, 0},
			{100 * time.Second, 70, 1000}},
		"from anew when a clock is off": {{time.Hour, 50, 0}, {0, 60, 0}, {60 * time.Second, 120, 1000}},
		"nonsense": {{0, 5, 0}, {60 * time.Second, math.MaxInt64, 0}, {61 * time.Second, 6, 0},
			{121 * time.Second, 66, 1000}},
		"as fast as can be": {{0, 0, 0}, {1000 * time.Second, model.MaxRate, model.MaxRate}},
		"a little faster":   {{0, 0, 0}, {1000 * time.Second, model.MaxRate + 1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			var m RateMeter
			for i, l := range lines {
				if rate, known := m.Measure(l.step, begin.Add(l.after), time.Minute); rate != l.rate ||
					known != (l.rate > 0) {
					t.Errorf("line %d: %d, %v; want %d", i, rate, known, l.rate)
				}
			}
		})
	}
}
