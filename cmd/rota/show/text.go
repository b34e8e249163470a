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
