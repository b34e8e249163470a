package script

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// Clock is the time, and the time zone, of whoever submits. Flags such as --begin=16:00 mean a time of day there.
type Clock struct {
	Now   int64                // seconds since 1970
	Civil func(at int64) Civil // what calendar and clock show then
	At    func(c Civil) int64  // when they show that; fields beyond their bounds carry over
}

// Civil is what calendar and clock show.
type Civil struct{ Year, Month, Day, Hour, Minute, Second int }

func (a *asked) begin(s setting) {
	a.job.Begin, a.result.BeginsAhead = a.moment(s)
}

func (a *asked) deadline(s setting) {
	a.job.Deadline, a.result.DeadlineAhead = a.moment(s)
}

// moment reads a time to come, and says how far ahead it is if that is how it was written.
func (a *asked) moment(s setting) (text string, ahead jobspec.Seconds) {
	const hint = "write now+1hour, 16:00, tomorrow, 2026-03-01 or 2026-03-01T08:00:00"
	if a.opts.Clock.Civil == nil || a.opts.Clock.At == nil {
		a.bad(s, "", "%q: there is no clock here", s.value)
		return "", 0
	}
	rest, relative := strings.CutPrefix(strings.ToLower(s.value), "now")
	if relative {
		ahead, ok := fromNow(rest)
		if !ok {
			a.bad(s, hint, "%q is not a time", s.value)
			return "", 0
		}
		return jobspec.FormatTime(a.opts.Clock.Now + int64(ahead)), ahead
	}
	if at, err := jobspec.ParseTime(s.value); err == nil {
		return jobspec.FormatTime(at), 0
	}
	c, dated, ok := a.opts.Clock.parse(s.value)
	if !ok {
		a.bad(s, hint, "%q is not a time", s.value)
		return "", 0
	}
	at := a.opts.Clock.At(c)
	if !dated && at <= a.opts.Clock.Now {
		c.Day++
		at = a.opts.Clock.At(c)
	}
	return jobspec.FormatTime(at), 0
}

// fromNow reads +N and a unit, seconds without one.
func fromNow(text string) (jobspec.Seconds, bool) {
	if text == "" {
		return 0, true
	}
	text, plus := strings.CutPrefix(text, "+")
	number := text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
	n, err := strconv.Atoi(number)
	unit := strings.TrimSuffix(text[len(number):], "s")
	scale := map[string]jobspec.Seconds{"": 1, "econd": 1, "second": 1, "sec": 1, "minute": 60, "min": 60, "m": 60, "hour": 3600, "hr": 3600, "h": 3600, "day": 86400, "d": 86400, "week": 7 * 86400, "w": 7 * 86400}[unit]
	if !plus || err != nil || scale == 0 || unit == "econd" || n > 1_000_000_000 || jobspec.Seconds(n)*scale > jobspec.MaxDuration {
		return 0, false
	}
	return jobspec.Seconds(n) * scale, true
}

// parse reads a date, a time of day, or both; dated says that there was a date.
func (k Clock) parse(text string) (c Civil, dated, ok bool) {
	now := k.Civil(k.Now)
	c = Civil{Year: now.Year, Month: now.Month, Day: now.Day}
	upper := strings.ToUpper(strings.TrimSpace(text))
	if day, found := map[string]int{"TODAY": 0, "TOMORROW": 1}[upper]; found {
		c.Day += day
		if day == 0 {
			return now, true, true
		}
		return c, true, true
	}
	if hour, found := map[string]int{"MIDNIGHT": 0, "NOON": 12, "ELEVENSES": 11, "FIKA": 15, "TEATIME": 16}[upper]; found {
		c.Hour = hour
		return c, false, true
	}
	date, clock, both := cutDate(upper)
	switch {
	case both:
		return c, true, c.date(date) && c.clock(clock)
	case strings.Contains(upper, ":"):
		return c, false, c.clock(upper)
	}
	return c, true, c.date(upper)
}

// cutDate splits DATETCLOCK, DATE-CLOCK and DATE CLOCK.
func cutDate(text string) (date, clock string, both bool) {
	at := strings.Index(text, ":")
	if at < 0 {
		return "", "", false
	}
	mark := strings.LastIndexAny(text[:at], "T- ")
	if mark < 0 {
		return "", "", false
	}
	return text[:mark], text[mark+1:], true
}

// clock reads HH:MM[:SS] with AM or PM perhaps.
func (c *Civil) clock(text string) bool {
	var half string
	for _, h := range []string{"AM", "PM"} {
		if rest, found := strings.CutSuffix(text, h); found {
			text, half = strings.TrimSpace(rest), h
		}
	}
	n, ok := numbers(strings.Split(text, ":"), 2)
	if !ok || len(n) < 2 || len(n) > 3 || n[0] > 23 || n[1] > 59 || half != "" && (n[0] < 1 || n[0] > 12) {
		return false
	}
	c.Hour, c.Minute, c.Second = n[0], n[1], 0
	if len(n) == 3 {
		c.Second = n[2]
	}
	switch {
	case half == "AM" && c.Hour == 12:
		c.Hour = 0
	case half == "PM" && c.Hour < 12:
		c.Hour += 12
	}
	return c.Second < 60
}

// date reads YYYY-MM-DD, MM/DD[/YY], MM.DD.YY and MMDDYY.
func (c *Civil) date(text string) bool {
	parts := []string{text}
	for _, mark := range []string{"-", "/", "."} {
		if strings.Contains(text, mark) {
			parts = strings.Split(text, mark)
		}
	}
	if len(parts) == 1 && len(text) == 6 {
		parts = []string{text[:2], text[2:4], text[4:]}
	}
	n, ok := numbers(parts, 4)
	switch {
	case !ok:
		return false
	case strings.Contains(text, "-") && len(n) == 3 && len(parts[0]) == 4:
		c.Year, c.Month, c.Day = n[0], n[1], n[2]
	case !strings.Contains(text, "-") && len(n) == 3:
		if c.Month, c.Day, c.Year = n[0], n[1], n[2]; c.Year < 100 {
			c.Year += 2000
		}
	case !strings.Contains(text, "-") && len(n) == 2:
		c.Month, c.Day = n[0], n[1]
	default:
		return false
	}
	_, err := jobspec.ParseTime(fmt.Sprintf("%04d-%02d-%02dT00:00:00Z", c.Year, c.Month, c.Day))
	return err == nil
}

// numbers reads parts that have digits alone, and not more than most of them.
func numbers(parts []string, most int) ([]int, bool) {
	out := make([]int, len(parts))
	for i, p := range parts {
		if p == "" || len(p) > most || strings.Trim(p, "0123456789") != "" {
			return nil, false
		}
		out[i], _ = strconv.Atoi(p) // at most four digits
	}
	return out, true
}
