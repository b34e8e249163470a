package estimate

import "testing"

// TestLowerQuartile has the least time after which a quarter of the jobs of a kind had ended.
func TestLowerQuartile(t *testing.T) {
	p := &RuntimeHistogram{}
	p.Counts[0], p.Counts[3], p.Counts[6] = 2, 5, 3 // below 15 s; 1 to 2 minutes; 8 to 16 minutes
	for _, c := range []struct {
		ran, least int64
		jobs       int
	}{{0, 60_000, 10}, {20_000, 60_000, 8}, {90_000, 90_000, 8}, {121_000, 480_000, 3}, {500_000, 500_000, 3},
		{3_600_000, 3_600_000, 0}} {
		if least, jobs := p.LowerQuartile(c.ran); least != c.least || jobs != c.jobs {
			t.Errorf("after %d ms: %d ms of %d jobs, want %d of %d", c.ran, least, jobs, c.least, c.jobs)
		}
	}
	p.Counts[0] = 3
	if least, jobs := p.LowerQuartile(0); least != 0 || jobs != 11 {
		t.Errorf("a quarter ended at once: %d of %d", least, jobs)
	}
}
