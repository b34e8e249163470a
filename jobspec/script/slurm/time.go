package slurm

import (
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
)

// TimeLimit parses minutes, M:S, H:M:S, D-H, D-H:M and D-H:M:S, and also durations of job files. As
// in Slurm, a limit of zero is unlimited. The limit may exceed the longest allowed run time.
func TimeLimit(text string) (limit jobspec.Seconds, unlimited, ok bool) {
	switch strings.ToUpper(text) {
	case "UNLIMITED", "INFINITE", "-1":
		return 0, true, true
	}
	if strings.ContainsAny(text, "smhdw") {
		seconds, err := jobspec.ParseSeconds(text)
		return seconds, false, err == nil && seconds > 0
	}
	seconds, ok := clockTime(text)
	return seconds, seconds == 0, ok
}

// clockTime parses numbers, with - after the days and : between the others.
func clockTime(text string) (jobspec.Seconds, bool) {
	days, clock, hasDays := strings.Cut(text, "-")
	if !hasDays {
		days, clock = "0", text
	}
	parts := strings.Split(clock, ":")
	if len(parts) > 3 {
		return 0, false
	}
	weights := [][]jobspec.Seconds{{60}, {60, 1}, {3600, 60, 1}}[len(parts)-1]
	if hasDays {
		weights = []jobspec.Seconds{3600, 60, 1}
	}
	total, ok := digits(days, 86400)
	for i, part := range parts {
		n, good := digits(part, weights[i])
		total, ok = total+n, ok && good
	}
	return total, ok
}

// digits parses at most nine digits.
func digits(text string, weight jobspec.Seconds) (jobspec.Seconds, bool) {
	if text == "" || len(text) > 9 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return jobspec.Seconds(n) * weight, err == nil
}

// Moment is a point in time in the form that a user wrote. Unwritten parts are zero. A moment is a
// distance from now, or a date with a time of day.
type Moment struct {
	FromNow              bool
	Ahead                jobspec.Seconds // distance from now
	Dated                bool            // a date was written; otherwise the next such time of day is meant
	Year, Month, Day     int             // the year may be missing, or the whole date
	DaysAhead            int             // distance from today if no date was written
	Hour, Minute, Second int
}

// ParseMoment parses a point in time such as now+1hour, 16:00, tomorrow, 2026-03-01 or
// 2026-03-01T08:00. It accepts 31 days in any month.
func ParseMoment(text string) (Moment, bool) {
	text = strings.ToUpper(text)
	if rest, found := strings.CutPrefix(text, "NOW"); found {
		ahead, ok := fromNow(rest)
		return Moment{FromNow: true, Ahead: ahead}, ok
	}
	text = strings.TrimSpace(text)
	switch text {
	case "TODAY":
		return Moment{FromNow: true}, true
	case "TOMORROW":
		return Moment{Dated: true, DaysAhead: 1}, true
	}
	if hour, found := map[string]int{"MIDNIGHT": 0, "NOON": 12, "ELEVENSES": 11, "FIKA": 15, "TEATIME": 16}[text]; found {
		return Moment{Hour: hour}, true
	}
	date, clock := cutDate(text)
	m := Moment{Dated: date != ""}
	ok := (date == "" || m.date(date)) && (clock == "" || m.clock(clock)) && text != ""
	return m, ok
}

// units maps the singular units after now+N to seconds.
var units = map[string]jobspec.Seconds{
	"": 1, "SECOND": 1, "SEC": 1, "MINUTE": 60, "MIN": 60, "M": 60, "HOUR": 3600, "HR": 3600, "H": 3600,
	"DAY": 86400, "D": 86400, "WEEK": 7 * 86400, "W": 7 * 86400,
}

// fromNow parses +N and a unit; the default is seconds.
func fromNow(text string) (jobspec.Seconds, bool) {
	if text == "" {
		return 0, true
	}
	text, plus := strings.CutPrefix(text, "+")
	number := text[:len(text)-len(strings.TrimLeft(text, "0123456789"))]
	n, err := strconv.Atoi(number)
	unit, known := units[strings.TrimSuffix(text[len(number):], "S")]
	if !plus || err != nil || !known || n > 1_000_000_000 || jobspec.Seconds(n)*unit > jobspec.MaxDuration {
		return 0, false
	}
	return jobspec.Seconds(n) * unit, true
}

// cutDate splits DATETCLOCK, DATE-CLOCK and DATE CLOCK. The date or the time may be missing.
func cutDate(text string) (date, clock string) {
	at := strings.Index(text, ":")
	if at < 0 {
		return text, ""
	}
	if mark := strings.LastIndexAny(text[:at], "T- "); mark > 0 {
		return text[:mark], text[mark+1:]
	}
	return "", text
}

// clock parses HH:MM[:SS] with an optional AM or PM.
func (m *Moment) clock(text string) bool {
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
	m.Hour, m.Minute = n[0], n[1]
	if len(n) == 3 {
		m.Second = n[2]
	}
	switch {
	case half == "AM" && m.Hour == 12:
		m.Hour = 0
	case half == "PM" && m.Hour < 12:
		m.Hour += 12
	}
	return m.Second < 60
}

// date parses YYYY-MM-DD, MM/DD[/YY], MM.DD.YY and MMDDYY.
func (m *Moment) date(text string) bool {
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
		m.Year, m.Month, m.Day = n[0], n[1], n[2]
	case !strings.Contains(text, "-") && len(n) == 3:
		if m.Month, m.Day, m.Year = n[0], n[1], n[2]; m.Year < 100 {
			m.Year += 2000
		}
	case !strings.Contains(text, "-") && len(n) == 2:
		m.Month, m.Day = n[0], n[1]
	default:
		return false
	}
	return m.Month >= 1 && m.Month <= 12 && m.Day >= 1 && m.Day <= 31 && (m.Year >= 1970 || len(n) == 2)
}

// numbers parses a fixed count of parts that consist of digits, each at most most.
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
