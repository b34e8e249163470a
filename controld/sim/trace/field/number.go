package field

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rota-hpc/rota/jobspec"
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
	const length = len("2017-09-25 00:01:57")
	if len(text) < length || text[10] != ' ' && text[10] != 'T' || strings.HasSuffix(text, "z") {
		return 0, bad
	}
	clock, zone, ms := text[:length], text[length:], int64(0)
	if before, leap := strings.CutSuffix(clock, ":60"); leap {
		clock, ms = before+":59", 1000
	}
	if fraction, found := strings.CutPrefix(zone, "."); found {
		zone = strings.TrimLeft(fraction, "0123456789")
		digits := fraction[:len(fraction)-len(zone)]
		if digits == "" || strings.HasPrefix(zone, ".") {
			return 0, bad
		}
		n, _ := strconv.ParseInt((digits + "000")[:3], 10, 64) // three digits
		ms += n
	}
	seconds, err := jobspec.ParseTime(clock + cmp.Or(zone, "Z"))
	if err != nil {
		return 0, bad
	}
	return seconds*1000 + ms, nil
}
