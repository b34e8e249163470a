package command

import (
	"os"
	"path/filepath"
	"strings"
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

// TestParseSize notices a size in the wrong unit, and one that is read although it is none.
func TestParseSize(t *testing.T) {
	for text, want := range map[string]jobspec.Bytes{"512": 512 << 20, "64GiB": 64 << 30, "8G": 8 << 30, "512M": 512 << 20,
		"999999999": 999999999 << 20} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%s: %d %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-5", "lots", "5 apples", "1000000000", "99999999999G"} {
		if got, err := ParseSize(text); err == nil || !strings.HasPrefix(err.Error(), "--mem ") {
			t.Errorf("%q was read as %d, %v", text, got, err)
		}
	}
}

// TestWrongTimes notices a time that is read although it is none, and an offset of another unit.
func TestWrongTimes(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, text := range []string{"", "someday", "now-", "now-x", "now-7", "now-7years", "now-5ms", "now-2ds",
		"2026-13-01", "25:00", "21.11.2026",
		"now-1000000000s"} {
		if got, err := ParseWhen(text, now, true); err == nil || !strings.Contains(err.Error(),
			"is not a time: write 2026-11-21") {
			t.Errorf("%q was read as %v, %v", text, got, err)
		}
	}
	for text, back := range map[string]time.Duration{"now-90s": 90 * time.Second, "now-1second": time.Second,
		"now-5m": 5 * time.Minute, "now-2minutes": 2 * time.Minute, "now-3hours": 3 * time.Hour, "now-1d": 24 * time.Hour,
		"now-2weeks": 336 * time.Hour, "now-1w": 168 * time.Hour} {
		if got, err := ParseWhen(text, now, true); err != nil || now.Sub(got) != back {
			t.Errorf("%s: %v %v, want %s ago", text, got, err, back)
		}
	}
}

// TestLocalTimes notices a time that the user means by the clock on the wall, and that is read in
// UTC.
func TestLocalTimes(t *testing.T) {
	before := time.Local
	t.Cleanup(func() { time.Local = before })
	time.Local = time.FixedZone("east", 3*3600)
	now := time.Date(2026, 11, 21, 22, 30, 0, 0, time.UTC) // 01:30 of the next day
	for text, want := range map[string]string{"today": "2026-11-21T21:00:00Z", "yesterday": "2026-11-20T21:00:00Z",
		"01:00": "2026-11-21T22:00:00Z", "2026-11-01": "2026-10-31T21:00:00Z",
		"2026-11-01 08:00:00": "2026-11-01T05:00:00Z"} {
		got, err := ParseWhen(text, now, false)
		if err != nil || got.UTC().Format(time.RFC3339) != want {
			t.Errorf("%s: %v %v, want %s", text, got.UTC(), err, want)
		}
	}
}

func TestAssignments(t *testing.T) {
	got, err := Assignments("--env", []string{"A=b=c", "B="})
	if err != nil || len(got) != 2 || got["A"] != "b=c" || got["B"] != "" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := Assignments("--env", nil); got != nil || err != nil {
		t.Errorf("none: %v, %v", got, err)
	}
	for _, pair := range []string{"A", "=b", ""} {
		if _, err := Assignments("--env", []string{"X=1", pair}); err == nil ||
			err.Error() != "--env "+pair+": write --env NAME=VALUE" {
			t.Errorf("%q: %v", pair, err)
		}
	}
}

func TestLeadingInt(t *testing.T) {
	for text, want := range map[string]struct {
		n    int64
		rest string
		ok   bool
	}{"7days": {7, "days", true}, "7": {7, "", true}, "": {}, "x7": {}, "123456789": {123456789, "", true},
		"1234567890": {}, "-7": {}} {
		if n, rest, ok := LeadingInt(text); n != want.n || rest != want.rest || ok != want.ok {
			t.Errorf("%q: %d %q %v", text, n, rest, ok)
		}
	}
}

func TestNodeRefs(t *testing.T) {
	got, err := NodeRefs([]string{"gpu[01-03,7]", "gpu02,cpu1", "gpu01"})
	if err != nil || strings.Join(got, " ") != "gpu01 gpu02 gpu03 gpu7 cpu1" {
		t.Errorf("%v, %v", got, err)
	}
	for _, wrong := range []string{"", "gpu[", "gpu[3-1]", "gpu[x]"} {
		if got, err := NodeRefs([]string{"gpu01", wrong}); err == nil {
			t.Errorf("%q: %v", wrong, got)
		}
	}
}

func TestAbsolutePath(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"": "", "/a/../b": "/b", "x": filepath.Join(here, "x"), ".": here} {
		if got, err := AbsolutePath(path); got != want || err != nil {
			t.Errorf("%q: %q %v", path, got, err)
		}
	}
}
