package progress

import (
	"time"

	"github.com/rota-hpc/rota/controld/model"
)

// RateMeter measures the step rate of an attempt of an elastic job, which the job's policy compares
// with that of other numbers of workers. A rate goes into the log, so that it is measured once per
// attempt. After a restart of this daemon it is measured again, and the controllers keep the first.
type RateMeter struct {
	step     int64     // of the first line that was read
	since    time.Time // when that line was written; zero: no line was read
	measured bool
}

// Measure notes a step and when it was written. It returns the step rate, in steps per 1,000 s,
// once the attempt has made progress for the time after. Steps that no program can make are as if
// it began anew.
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
	rate = max(1, model.MulDiv(step-m.step, 1_000_000, max(1, written.Sub(m.since).Milliseconds())))
	if rate > model.MaxRate {
		m.step, m.since = step, written
		return 0, false
	}
	m.measured = true
	return rate, true
}
