package command

import (
	"testing"
	"time"

	"github.com/rota-hpc/rota/jobspec"
)

func TestParseLimit(t *testing.T) {
	for text, want := range map[string]jobspec.Seconds{"30": 1800, "10:30": 630, "1:30:00": 5400, "2-0": 172800,
		"1-2:30": 95400, "1-00:00:10": 86410,
		"90s": 90, "1h30m": 5400, "2d": 172800} {
		if got, err := ParseLimit(text); err != nil || got != want {
			t.Errorf("%s: %d %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "-5", "x", "1:2:3:4", "99999999999", "1-", "5y", "4000d"} {
		if got, err := ParseLimit(text); err == nil {
			t.Errorf("%q was read as %d", text, got)
		}
	}
}

func TestParseWhen(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{"now": "2026-11-21T12:00:00Z", "today": "2026-11-21T00:00:00Z",
		"yesterday": "2026-11-20T00:00:00Z",
		"now-7days": "2026-11-14T12:00:00Z", "now-2h": "2026-11-21T10:00:00Z", "2026-11-01": "2026-11-01T00:00:00Z",
		"2026-11-01T08:30": "2026-11-01T08:30:00Z", "08:30": "2026-11-21T08:30:00Z", "13:00:01": "2026-11-21T13:00:01Z",
		"2026-11-01T08:30:00+02:00": "2026-11-01T06:30:00Z"} {
		got, err := ParseWhen(text, now, true)
		if err != nil || got.UTC().Format(time.RFC3339) != want {
			t.Errorf("%s: %v %v, want %s", text, got, err, want)
		}
	}
}
