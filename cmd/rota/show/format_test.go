package show

import (
	"testing"

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
