package show

import (
	"testing"
	"time"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/jobspec"
)

func TestClockText(t *testing.T) {
	for s, want := range map[jobspec.Seconds]string{0: "0:00", 59: "0:59", 60: "1:00", 3599: "59:59", 3600: "1:00:00",
		86399: "23:59:59", 86400: "1-00:00:00", -5: "0:00"} {
		if got := Clock(s); got != want {
			t.Errorf("%d s: %q, want %q", s, got, want)
		}
	}
}

func TestSizeText(t *testing.T) {
	for b, want := range map[jobspec.Bytes]string{0: "0B", 1023: "1023B", 1024: "1K", 1536: "1.5K",
		64 * jobspec.GiB: "64G", 1536 * jobspec.GiB: "1.5T"} {
		if got := Size(b); got != want {
			t.Errorf("%d: %q, want %q", b, got, want)
		}
	}
}

// TestTimes notices a time in another zone than was asked for, and one that is shown although there is none.
func TestTimes(t *testing.T) {
	before := time.Local
	t.Cleanup(func() { time.Local = before })
	time.Local = time.FixedZone("east", 3*3600)
	at := &api.Time{Time: time.Date(2026, 11, 21, 23, 30, 5, 999e6, time.UTC)}
	for what, c := range map[string][2]string{"UTC": {Time(at, true), "2026-11-21T23:30:05Z"},
		"local": {Time(at, false), "2026-11-22T02:30:05"}, "nil": {Time(nil, true), ""}, "zero": {Time(&api.Time{}, false),
			""}} {
		if c[0] != c[1] {
			t.Errorf("%s: %q, want %q", what, c[0], c[1])
		}
	}
}

// TestGPUs notices a part of a GPU that is shown as a whole one, or as none.
func TestGPUs(t *testing.T) {
	for thousandths, want := range map[int64]string{0: "0 GPUs", 1000: "1 GPU", 8000: "8 GPUs", 500: "0.5 GPU",
		125: "0.125 GPU", 1500: "1.5 GPUs"} {
		if got := CountGPUs(thousandths); got != want {
			t.Errorf("%d: %q, want %q", thousandths, got, want)
		}
	}
	if GPUAmount(2, 1500) != 1500 || GPUAmount(2, 0) != 2000 {
		t.Error("an amount is not that of the answer")
	}
}
