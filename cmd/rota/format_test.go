package main

import (
	"testing"
	"time"

	"github.com/rota-hpc/rota/jobspec"
)

func TestClockText(t *testing.T) {
	for s, want := range map[jobspec.Seconds]string{0: "0:00", 59: "0:59", 60: "1:00", 3599: "59:59", 3600: "1:00:00", 86399: "23:59:59", 86400: "1-00:00:00", -5: "0:00"} {
		if got := clockText(s); got != want {
			t.Errorf("%d s: %q, want %q", s, got, want)
		}
	}
}

func TestSizeText(t *testing.T) {
	for b, want := range map[jobspec.Bytes]string{0: "0B", 1023: "1023B", 1024: "1K", 1536: "1.5K", 64 * jobspec.GiB: "64G", 1536 * jobspec.GiB: "1.5T"} {
		if got := sizeText(b); got != want {
			t.Errorf("%d: %q, want %q", b, got, want)
		}
	}
}

func TestParseLimit(t *testing.T) {
	for text, want := range map[string]jobspec.Seconds{"30": 1800, "10:30": 630, "1:30:00": 5400, "2-0": 172800, "1-2:30": 95400, "1-00:00:10": 86410,
		"90s": 90, "1h30m": 5400, "2d": 172800} {
		if got, err := parseLimit(text); err != nil || got != want {
			t.Errorf("%s: %d %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-5", "x", "1:2:3:4", "99999999999", "1-", "5y", "4000d"} {
		if got, err := parseLimit(text); err == nil {
			t.Errorf("%q was read as %d", text, got)
		}
	}
}

func TestParseWhen(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{"now": "2026-11-21T12:00:00Z", "today": "2026-11-21T00:00:00Z", "yesterday": "2026-11-20T00:00:00Z",
		"now-7days": "2026-11-14T12:00:00Z", "now-2h": "2026-11-21T10:00:00Z", "2026-11-01": "2026-11-01T00:00:00Z",
		"2026-11-01T08:30": "2026-11-01T08:30:00Z", "08:30": "2026-11-21T08:30:00Z", "13:00:01": "2026-11-21T13:00:01Z", "2026-11-01T08:30:00+02:00": "2026-11-01T06:30:00Z"} {
		got, err := parseWhen(text, now, true)
		if err != nil || got.UTC().Format(time.RFC3339) != want {
			t.Errorf("%s: %v %v, want %s", text, got, err, want)
		}
	}
}
