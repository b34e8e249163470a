package api

import (
	"fmt"
	"time"

	"github.com/rota-hpc/rota/controld/model"
)

// Time is a wall-clock time in JSON: RFC 3339, UTC, with milliseconds.
type Time struct{ time.Time }

const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// At is the Time of a wall-clock stamp, or nil for zero.
func At(ms model.UnixMS) *Time {
	if ms == 0 {
		return nil
	}
	return &Time{time.UnixMilli(int64(ms)).UTC()}
}

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(`"` + t.UTC().Format(timeLayout) + `"`), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Time) UnmarshalJSON(b []byte) error {
	if len(b) < 2 || b[0] != '"' {
		return fmt.Errorf("time %s is not a string", b)
	}
	return t.UnmarshalText(b[1 : len(b)-1])
}

// MarshalText implements encoding.TextMarshaler.
func (t Time) MarshalText() ([]byte, error) { return []byte(t.UTC().Format(timeLayout)), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Time) UnmarshalText(b []byte) error {
	parsed, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil {
		return err
	}
	t.Time = parsed
	return nil
}
