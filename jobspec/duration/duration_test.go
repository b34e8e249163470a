package duration

import (
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"7d": 7 * 24 * time.Hour, "2d12h": 60 * time.Hour, "1w": 168 * time.Hour, "90m": 90 * time.Minute,
		"1.5h": 90 * time.Minute, "250ms": 250 * time.Millisecond, "1h0m0s": time.Hour, "0s": 0, "3us": 3 * time.Microsecond,
		"1-02:00:00": 26 * time.Hour, "00:10:00": 10 * time.Minute,
	} {
		if got, ok := Parse(text); !ok || got != int64(want) {
			t.Errorf("Parse(%q) = %d, %v; want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "5", "-1s", "1y", "soon", "d7", "1:00", "1-00:61:00", "200000d", "1..5h", "1 d"} {
		if got, ok := Parse(text); ok {
			t.Errorf("Parse(%q) = %d, although it is no duration", text, got)
		}
	}
}
