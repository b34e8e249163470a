// Package show writes jobs, times, sizes and lists of nodes as text for users.
package show

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// NumberOrDash writes a number, or a dash for 0.
func NumberOrDash[N ~int | ~int64](n N) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatInt(int64(n), 10)
}

// DashIfEmpty returns s, or a dash for an empty text.
func DashIfEmpty(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Words returns names of any type as texts.
func Words[S ~string](names []S) []string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = string(name)
	}
	return texts
}

// Count writes a number with its noun.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// GPUAmount returns an amount of GPUs in thousandths: of whole ones, or as it is given.
func GPUAmount(whole int, thousandths int64) int64 {
	if thousandths > 0 {
		return thousandths
	}
	return int64(whole) * 1000
}

// GPUs writes thousandths of GPUs as a number: 2, or 0.5.
func GPUs(thousandths int64) string {
	return strconv.FormatFloat(float64(thousandths)/1000, 'f', -1, 64)
}

// CountGPUs writes thousandths of GPUs as a number with its noun.
func CountGPUs(thousandths int64) string {
	if thousandths > 0 && thousandths <= 1000 {
		return GPUs(thousandths) + " GPU"
	}
	return GPUs(thousandths) + " GPUs"
}

// IsPlain reports whether s is printable ASCII, so that each byte is one character.
func IsPlain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Clean replaces control characters, which could move the cursor or break a table.
func Clean(s string) string {
	if IsPlain(s) || strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}
