package jobspec

import (
	"fmt"
	"strings"
)

// Times in a job are texts in RFC 3339, such as 2026-03-01T08:00:00Z or 2026-03-01T09:00:00+01:00.
// The package has no clock: it only turns them into seconds since 1970 and back.

// ParseTime reads a time in RFC 3339 and returns the seconds since 1970-01-01T00:00:00Z. Fractions
// of a second are cut off, years go from 1970 to 9999.
func ParseTime(text string) (int64, error) {
	bad := fmt.Errorf("%q is not a time as in 2026-03-01T08:00:00Z", text)
	if len(text) < len("2026-03-01T08:00:00Z") {
		return 0, bad
	}
	var n [6]int
	for i, f := range [...]struct{ at, width int }{{0, 4}, {5, 2}, {8, 2}, {11, 2}, {14, 2}, {17, 2}} {
		digits := text[f.at : f.at+f.width]
		if !isDigits(digits) {
			return 0, bad
		}
		n[i] = number(digits)
	}
	if marks := string([]byte{text[4], text[7], text[10], text[13], text[16]}); marks != "--T::" && marks != "--t::" &&
		marks != "-- ::" {
		return 0, bad
	}
	zone, ok := parseZone(skipFraction(text[19:]))
	if !ok || n[0] < 1970 || n[1] < 1 || n[1] > 12 || n[2] < 1 || n[2] > daysIn(n[0], n[1]) || n[3] > 23 || n[4] > 59 ||
		n[5] > 59 {
		return 0, bad
	}
	return daysBefore(n[0], n[1], n[2])*86400 + int64(n[3]*3600+n[4]*60+n[5]-zone), nil
}

// skipFraction removes a fraction such as .123 from the front.
func skipFraction(text string) string {
	rest, found := strings.CutPrefix(text, ".")
	if !found || rest == "" || !isDigit(rest[0]) {
		return text
	}
	return strings.TrimLeft(rest, "0123456789")
}

// parseZone reads Z or +HH:MM and returns the seconds by which it is ahead of UTC.
func parseZone(text string) (int, bool) {
	if text == "Z" || text == "z" {
		return 0, true
	}
	if len(text) != 6 || text[0] != '+' && text[0] != '-' || !isDigits(text[1:3]) || text[3] != ':' ||
		!isDigits(text[4:]) {
		return 0, false
	}
	hours, minutes := number(text[1:3]), number(text[4:])
	ahead := hours*3600 + minutes*60
	if text[0] == '-' {
		ahead = -ahead
	}
	return ahead, hours < 24 && minutes < 60
}

// FormatTime writes seconds since 1970 in RFC 3339, in UTC.
func FormatTime(unix int64) string {
	days, clock := unix/86400, unix%86400
	if clock < 0 {
		days, clock = days-1, clock+86400
	}
	year := int(1970 + days/366)
	for daysBefore(year+1, 1, 1) <= days {
		year++
	}
	month := 1
	for month < 12 && daysBefore(year, month+1, 1) <= days {
		month++
	}
	day := days - daysBefore(year, month, 1) + 1
	return fmt.Sprintf("%04d-%02d-%02dT%02d:%02d:%02dZ", year, month, day, clock/3600, clock/60%60, clock%60)
}

func leap(year int) bool { return year%4 == 0 && (year%100 != 0 || year%400 == 0) }

func daysIn(year, month int) int {
	if month == 2 && leap(year) {
		return 29
	}
	return [...]int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}[month-1]
}

// daysBefore returns the days from 1970-01-01 to a date.
func daysBefore(year, month, day int) int64 {
	past := year - 1
	days := past*365 + past/4 - past/100 + past/400 - 719162
	for m := 1; m < month; m++ {
		days += daysIn(year, m)
	}
	return int64(days + day - 1)
}
