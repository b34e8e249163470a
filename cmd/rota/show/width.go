package show

import (
	"bytes"
	"io"
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// emojiStyle is the variation selector that has a terminal draw the character before it as an emoji,
// which is two columns wide.
const emojiStyle = '\ufe0f'

// Width returns how many columns of a terminal a text takes once it is clean. A wide character of East Asia
// takes two, and a combining one none.
func Width(s string) int {
	if IsPlain(s) {
		return len(s)
	}
	n, last := 0, 0
	for _, r := range Clean(s) {
		last = columns(r, last)
		n += last
	}
	return n
}

// columns returns how many columns a printable character takes. last is the number of the character before
// it.
func columns(r rune, last int) int {
	switch {
	case r < 0x300:
		return 1
	case r == emojiStyle && last == 1:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case r >= 0x1160 && r <= 0x11ff: // vowels and ends of Korean syllables join the consonant before them
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Cut shortens a clean text to n columns. An ellipsis stands in the place of what is left out.
func Cut(s string, n int) string {
	if Width(s) <= n {
		return s
	}
	if n < 1 {
		return ""
	}
	return s[:fitting(s, n-1)] + "…"
}

// fitting returns how many bytes of a clean text fit into n columns. Combining characters stay with theirs.
func fitting(s string, n int) int {
	last := 0
	for i, r := range s {
		last = columns(r, last)
		if n -= last; n < 0 {
			return i
		}
	}
	return len(s)
}

// Wrap breaks a clean text into lines of at most n columns, at spaces where it can. n of 0 means that
// nothing is broken.
func Wrap(s string, n int) []string {
	var lines []string
	for n > 0 && Width(s) > n {
		end := fitting(s, n)
		if end == 0 { // not even one character fits
			break
		}
		next := end
		if i := strings.LastIndexByte(s[:min(len(s), end+1)], ' '); i > 0 && strings.TrimLeft(s[:i], " ") != "" {
			end, next = i, i+1
		}
		lines = append(lines, strings.TrimRight(s[:end], " "))
		s = strings.TrimLeft(s[next:], " ")
	}
	return append(lines, s)
}

// Fold returns a writer that breaks lines of more than n columns, at spaces where it can. The parts of a line
// begin below each other. The last line must end. n of 0 means that nothing is broken.
func Fold(w io.Writer, n int) io.Writer {
	if n == 0 {
		return w
	}
	return &folding{out: w, columns: n}
}

type folding struct {
	out     io.Writer
	columns int
	begun   []byte // a line whose end was not written yet
}

// Write implements io.Writer.
func (f *folding) Write(p []byte) (int, error) {
	f.begun = append(f.begun, p...)
	end := bytes.LastIndexByte(f.begun, '\n') + 1
	var whole strings.Builder
	for line := range strings.Lines(string(f.begun[:end])) {
		line = strings.TrimSuffix(line, "\n")
		text := strings.TrimLeft(line, " ")
		indent := strings.Repeat(" ", min(len(line)-len(text), f.columns/2))
		for _, part := range Wrap(text, f.columns-len(indent)) {
			if part != "" {
				whole.WriteString(indent)
			}
			whole.WriteString(part + "\n")
		}
	}
	f.begun = append([]byte(nil), f.begun[end:]...)
	if _, err := io.WriteString(f.out, whole.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}
