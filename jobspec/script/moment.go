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
	Civil func(at int64) Civil // what calendar and clock show at a time
	At    func(c Civil) int64  // when they show that; fields beyond their bounds carry over
}

// Civil is what calendar and clock show.
type Civil struct{ Year, Month, Day, Hour, Minute, Second int }

func (a *request) begin(s setting) {
	a.job.Begin, a.result.BeginsAhead = a.moment(s)
}

func (a *request) deadline(s setting) {
	a.job.Deadline, a.result.DeadlineAhead = a.moment(s)
}

// moment reads a time to come. It also returns how far ahead it is, if that is what was written.
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

// next returns the time of a moment that is not from now. A time of day without a day is today, or
// tomorrow when it is over. It is false when there is no such day.
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
