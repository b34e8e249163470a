package main

import "testing"

func TestGCPercent(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, 400}, {8 << 20, 400}, {128 << 20, 400}, {256 << 20, 200}, {512 << 20, 100}, {4 << 30, 100},
	} {
		if got := gcPercent(c.live); got != c.want {
			t.Errorf("%d MiB live: GOGC %d, want %d", c.live>>20, got, c.want)
		}
	}
}
