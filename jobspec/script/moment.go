package script

import (
	"fmt"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/script/slurm"
)

// Clock is the time and the time zone of the submitting user. Flags such as --begin=16:00 mean a
// time of day there.
type Clock struct {
	Now   int64                // seconds since 1970
	Civil func(at int64) Civil // calendar and clock of the user's zone at a time
	At    func(c Civil) int64  // the time with this calendar date and clock; fields beyond their bounds carry over
}

// Civil is a date and a time of day.
type Civil struct{ Year, Month, Day, Hour, Minute, Second int }

func (a *request) begin(s setting) {
	a.job.Begin, a.result.BeginsAhead = a.moment(s)
}

func (a *request) deadline(s setting) {
	a.job.Deadline, a.result.DeadlineAhead = a.moment(s)
}

// moment parses a future time. It also returns the distance from now if the text says one, such as
// now+1hour.
func (a *request) moment(s setting) (text string, ahead jobspec.Seconds) {
	clock := a.opts.Clock
	if clock.Civil == nil || clock.At == nil {
		a.badValue(s, "", "%q: the time of submission is unknown", s.value)
		return "", 0
	}
	if at, err := jobspec.ParseTime(s.value); err == nil {
		return jobspec.FormatTime(at), 0
	}
	m, ok := slurm.ParseMoment(s.value)
	if ok && m.FromNow {
		return jobspec.FormatTime(clock.Now + int64(m.Ahead)), m.Ahead
	}
	at, isDay := clock.next(m)
	if !ok || !isDay {
		a.badValue(s, "write now+1hour, 16:00, tomorrow, 2026-03-01 or 2026-03-01T08:00:00", "%q is not a time", s.value)
		return "", 0
	}
	return jobspec.FormatTime(at), 0
}

// next returns the time of a moment that is no distance from now. A time of day without a date is
// today, or tomorrow if it is past. next returns false if the date does not exist.
func (k Clock) next(m slurm.Moment) (at int64, ok bool) {
	today := k.Civil(k.Now)
	c := Civil{today.Year, today.Month, today.Day + m.DaysAhead, m.Hour, m.Minute, m.Second}
	if m.Month > 0 {
		if m.Year > 0 {
			c.Year = m.Year
		}
		c.Month, c.Day = m.Month, m.Day
		if _, err := jobspec.ParseTime(fmt.Sprintf("%04d-%02d-%02dT00:00:00Z", c.Year, c.Month, c.Day)); err != nil {
			return 0, false
		}
	}
	if at = k.At(c); !m.Dated && at <= k.Now {
		c.Day++
		at = k.At(c)
	}
	return at, true
}
