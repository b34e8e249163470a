package field

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Milliseconds.
const (
	second int64 = 1000
	minute       = 60 * second
	hour         = 60 * minute
)

// Scaled reads a number that is not negative as a multiple of 1/scale, rounded. The scaled value is
// at most most.
func Scaled(text string, scale, most int64) (int64, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return 0, errors.New("is empty")
	case !isDecimal(text):
		return 0, fmt.Errorf("%q is not a number", Shorten(text))
	}
	x, err := strconv.ParseFloat(text, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%s is absurd", Shorten(text))
	case err != nil:
		return 0, fmt.Errorf("%q is not a number", Shorten(text))
	case x < 0:
		return 0, fmt.Errorf("%s is negative", Shorten(text))
	}
	x = math.Round(x * float64(scale))
	if x > float64(most) {
		return 0, fmt.Errorf("%s is more than %s", Shorten(text), inUnits(most, scale))
	}
	return int64(x), nil
}

// isDecimal reports whether a text has only characters of decimal numbers.
func isDecimal(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case '0' <= c && c <= '9', c == '.', c == 'e', c == 'E', c == '+', c == '-':
		default:
			return false
		}
	}
	return true
}

func inUnits(most, scale int64) string {
	return strconv.FormatFloat(float64(most)/float64(scale), 'f', -1, 64)
}

// Whole reads an integer between least and most.
func Whole(text string, least, most int64) (int64, error) {
	text = strings.TrimSpace(text)
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case text == "":
		return 0, errors.New("is empty")
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%s is absurd", Shorten(text))
	case err != nil:
		return 0, fmt.Errorf("%q is not a whole number", Shorten(text))
	case n < 0 && least >= 0:
		return 0, fmt.Errorf("%d is negative", n)
	case n == 0 && least > 0:
		return 0, errors.New("is zero")
	case n < least:
		return 0, fmt.Errorf("%d is less than %d", n, least)
	case n > most:
		return 0, fmt.Errorf("%d is more than %d", n, most)
	}
	return n, nil
}

// Shorten cuts a text to 40 bytes, so that an error message stays on one line.
func Shorten(text string) string {
	return ShortenTo(text, 40)
}

// ShortenTo returns at most most bytes of a text, with an ellipsis if that is not all of it.
func ShortenTo(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return Clip(text, most) + "…"
}

// Clip returns the beginning of a text, at most most bytes of whole characters.
func Clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// Time reads a date and a time of day, 2017-09-25 00:01:57 or RFC 3339, as ms since 1970. A time
// without a zone is UTC.
func Time(text string) (int64, error) {
	bad := fmt.Errorf("%q is not a time such as 2017-09-25 00:01:57", Shorten(text))
	text = strings.TrimSpace(text)
	if len(text) < len("2017-09-25 00:01:57") || text[10] != ' ' && text[10] != 'T' {
		return 0, bad
	}
	days, ok := date(text[:10])
	clock, rest, ok2 := clockMS(text[11:])
	zone, ok3 := zoneMS(rest)
	if !ok || !ok2 || !ok3 {
		return 0, bad
	}
	return days*24*hour + clock - zone, nil
}

// date returns the days from 1970-01-01 to YYYY-MM-DD. Years are 1970 to 9999.
func date(text string) (int64, bool) {
	y, ok1 := digits(text[0:4], 1970, 9999)
	m, ok2 := digits(text[5:7], 1, 12)
	d, ok3 := digits(text[8:10], 1, 31)
	if !ok1 || !ok2 || !ok3 || text[4] != '-' || text[7] != '-' || d > daysIn(y, m) {
		return 0, false
	}
	leaps := func(y int64) int64 { return y/4 - y/100 + y/400 }
	days := (y-1970)*365 + leaps(y-1) - leaps(1969)
	for month := int64(1); month < m; month++ {
		days += daysIn(y, month)
	}
	return days + d - 1, true
}

func daysIn(year, month int64) int64 {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// clockMS reads HH:MM:SS with an optional fraction and returns what follows.
func clockMS(text string) (ms int64, rest string, ok bool) {
	h, ok1 := digits(text[0:2], 0, 23)
	m, ok2 := digits(text[3:5], 0, 59)
	s, ok3 := digits(text[6:8], 0, 60)
	if !ok1 || !ok2 || !ok3 || text[2] != ':' || text[5] != ':' {
		return 0, "", false
	}
	ms = h*hour + m*minute + s*second
	rest = text[8:]
	if !strings.HasPrefix(rest, ".") {
		return ms, rest, true
	}
	end := 1
	for weight := int64(100); end < len(rest) && rest[end] >= '0' && rest[end] <= '9'; end++ {
		ms += int64(rest[end]-'0') * weight
		weight /= 10
	}
	return ms, rest[end:], end > 1
}

// zoneMS reads Z, +HH:MM, -HH:MM or nothing as an offset from UTC.
func zoneMS(text string) (int64, bool) {
	if text == "" || text == "Z" {
		return 0, true
	}
	if len(text) != len("+02:00") || text[3] != ':' || text[0] != '+' && text[0] != '-' {
		return 0, false
	}
	h, ok1 := digits(text[1:3], 0, 23)
	m, ok2 := digits(text[4:6], 0, 59)
	offset := h*hour + m*minute
	if text[0] == '-' {
		offset = -offset
	}
	return offset, ok1 && ok2
}

func digits(text string, least, most int64) (int64, bool) {
	n := int64(0)
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, n >= least && n <= most
}
