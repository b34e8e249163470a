package progress

import "time"

// RateMeter measures how fast an attempt of an elastic job makes progress: what its policy compares with other numbers of workers. It is measured
// once an attempt, since it goes into the log. After a restart of this daemon it is measured again, and the controllers keep the first.
type RateMeter struct {
	step     int64     // of the first line that was read
	since    time.Time // when that was written; zero: there was none
	measured bool
}

// Measure notes a line that was written at some time, and returns how fast the attempt is, in steps in 1,000 s, once it has made progress for so
// long.
func (m *RateMeter) Measure(step int64, written time.Time, after time.Duration) (rate int64, known bool) {
	switch {
	case m.measured:
		return 0, false
	case m.since.IsZero() || step < m.step || written.Before(m.since):
		m.step, m.since = step, written
		return 0, false
	case written.Sub(m.since) < after || step == m.step:
		return 0, false
	}
	m.measured = true
	return max(1, (step-m.step)*1_000_000/written.Sub(m.since).Milliseconds()), true
}
