package container

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable replaces unprintable characters of a text that a job may have chosen: the name of a process,
// or of a file. The shim does so before such a text gets into a record or a log.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}
