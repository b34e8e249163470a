package estimate

import (
	"testing"

	"github.com/rota-hpc/rota/controld/model"
)

// The mix has few kinds, small counts, and forgets what does not come any more.
func TestMix(t *testing.T) {
	var m WorkloadMix
	for i := range 20_000 {
		m.Add(roundedRequest(model.Vector{Cores: int64(1 + i%7), GPUs: 1000}), 1)
		if i%100 == 0 {
			m.Add(roundedRequest(model.Vector{Cores: int64(i), GPUs: int64(1 + i%999)}), 1)
		}
		if len(m.Kinds) > maxRequestKinds {
			t.Fatalf("%d kinds", len(m.Kinds))
		}
	}
	total, common := int64(0), int64(0)
	for _, k := range m.Kinds {
		total += k.Count
		if k.Worker.GPUs == 1000 && k.Worker.Cores <= 8 {
			common += k.Count
		}
	}
	if total > requestsKept || common*100 < total*95 {
		t.Errorf("%d of %d are of the usual kinds: %+v", common, total, m.Kinds)
	}
	for n, want := range map[int64]int64{1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 6, 7: 8, 9: 12, 96_000: 98_304, 0: 0} {
		if got := roundUpCoarse(n); got != want {
			t.Errorf("%d is about %d, want %d", n, got, want)
		}
	}
}
