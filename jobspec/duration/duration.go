// Package duration parses durations in the form of all files, flags and requests of Rota: "90m",
// "7d", "2d12h", or Slurm's D-HH:MM:SS.
package duration

import (
	"math"
	"strconv"
	"strings"
)

// Parse parses a duration of at most 292 years, in nanoseconds. It returns false for other texts,
// including a number without a unit.
func Parse(text string) (nanoseconds int64, ok bool) {
	seconds, ok := Seconds(text)
	ns := math.Round(seconds * 1e9)
	if !ok || ns >= math.MaxInt64 {
		return 0, false
	}
	return int64(ns), true
}

// Seconds parses a duration of any length, in seconds. It returns false for other texts.
func Seconds(text string) (float64, bool) {
	if strings.Contains(text, ":") {
		return clockTime(text)
	}
	return unitTime(text)
}

// clockTime parses [D-]HH:MM:SS; minutes and seconds have two digits and are below 60.
func clockTime(text string) (float64, bool) {
	days, clock, dashed := strings.Cut(text, "-")
	if !dashed {
		days, clock = "0", text
	}
	part := strings.Split(clock, ":")
	if len(part) != 3 || len(part[1]) != 2 || len(part[2]) != 2 {
		return 0, false
	}
	total := 0.0
	for i, digits := range []string{days, part[0], part[1], part[2]} {
		if !isDigits(digits) || len(digits) > 9 {
			return 0, false
		}
		n, _ := strconv.Atoi(digits)
		if i >= 2 && n >= 60 {
			return 0, false
		}
		total += float64(n) * [...]float64{86400, 3600, 60, 1}[i]
	}
	return total, true
}

// unitTime parses a sequence of numbers, each with a unit.
func unitTime(text string) (total float64, ok bool) {
	for rest := text; rest != ""; ok = true {
		number := leadingNumber(rest)
		rest = rest[len(number):]
		unit := rest[:strings.IndexFunc(rest+"0", func(r rune) bool { return r >= '0' && r <= '9' || r == '.' })]
		rest = rest[len(unit):]
		n, err := strconv.ParseFloat(number, 64)
		scale := unitSeconds[unit]
		if err != nil || scale == 0 {
			return 0, false
		}
		total += n * scale
	}
	return total, ok
}

// unitSeconds maps the units to seconds.
var unitSeconds = map[string]float64{
	"w": 7 * 86400, "d": 86400, "h": 3600, "m": 60, "s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9,
}

// leadingNumber returns the digits at the start of text, with at most one decimal point between
// digits, at most 18 characters.
func leadingNumber(text string) string {
	end, dot := 0, false
	for end < len(text) && end < 18 && (isDigits(text[end:end+1]) || text[end] == '.' && !dot && end > 0) {
		dot = dot || text[end] == '.'
		end++
	}
	return text[:end]
}

func isDigits(text string) bool {
	return text != "" && strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' }) < 0
}
