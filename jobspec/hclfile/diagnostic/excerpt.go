package diagnostic

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
)

// Locate returns a diagnostic without text for a place in a source, with the line if it may be
// shown. Without a source, columns are as the parser counts them.
func Locate(src []byte, at hcl.Range, showLine bool) Diagnostic {
	d := Diagnostic{File: at.Filename, Start: Pos{Line: at.Start.Line}, End: Pos{Line: at.End.Line}}
	d.Start.Column, d.start = columns(src, at.Start)
	d.End.Column, d.end = columns(src, at.End)
	if showLine {
		d.Line, d.shift = excerpt(LineAt(src, at.Start.Byte), d.Start.Column)
	}
	return d
}

// columns counts the characters and the UTF-16 units in front of a place. The parser counts what is
// seen as one character, which the caret line and editors do not.
func columns(src []byte, at hcl.Pos) (column, utf16Units int) {
	if at.Line == 0 || at.Byte > len(src) || src == nil {
		return at.Column, max(0, at.Column-1)
	}
	before := src[bytes.LastIndexByte(src[:at.Byte], '\n')+1 : at.Byte]
	for _, r := range string(before) {
		utf16Units += max(1, utf16.RuneLen(r))
	}
	return utf8.RuneCount(before) + 1, utf16Units
}

// underline puts carets below the part of the line that is meant; tabs stay tabs so that it lines
// up.
func (d Diagnostic) underline() string {
	var b strings.Builder
	column, start := 1, d.Start.Column-d.shift
	for _, r := range d.Line {
		if column >= start {
			break
		}
		if r == '\t' {
			b.WriteByte('\t')
		} else {
			b.WriteByte(' ')
		}
		column++
	}
	width := 1
	if d.End.Line == d.Start.Line {
		width = max(1, min(d.End.Column-d.Start.Column, utf8.RuneCountInString(d.Line)-start+1))
	} else if d.End.Line > d.Start.Line {
		width = max(1, utf8.RuneCountInString(d.Line)-start+1)
	}
	b.WriteString(strings.Repeat("^", width))
	return b.String()
}

// maxLineShown bounds a source line in a diagnostic; of a longer one the part around the place is
// shown.
const (
	maxLineShown = 160
	shownBefore  = 60
	leftOut      = "..."
)

// LineAt returns the line of src that holds the byte at offset, without its end. Unprintable
// characters are replaced.
func LineAt(src []byte, offset int) string {
	if offset > len(src) || len(src) == 0 {
		return ""
	}
	start := bytes.LastIndexByte(src[:offset], '\n') + 1
	end := len(src)
	if n := bytes.IndexByte(src[offset:], '\n'); n >= 0 {
		end = offset + n
	}
	line := strings.Map(printable, string(bytes.TrimSuffix(src[start:end], []byte("\r"))))
	if strings.TrimSpace(line) == "" {
		return ""
	}
	return line
}

// printable replaces what a terminal would take for a command, and what changes the direction of
// the text around it.
func printable(r rune) rune {
	if unicode.IsControl(r) && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
		return utf8.RuneError
	}
	return r
}

// excerpt cuts a long line around a column, and says how many characters are missing in front of
// what it returns.
func excerpt(line string, column int) (part string, shift int) {
	text := []rune(line)
	if len(text) <= maxLineShown {
		return line, 0
	}
	start := max(0, min(column-shownBefore, len(text)-maxLineShown))
	end := min(len(text), start+maxLineShown)
	part = string(text[start:end])
	if end < len(text) {
		part += leftOut
	}
	if start > 0 {
		return leftOut + part, start - len(leftOut)
	}
	return part, 0
}

// JSONPlace corrects a place in JSON, which [jsonPosition] does for both its ends.
func JSONPlace(src []byte, at hcl.Range) hcl.Range {
	at.Start, at.End = jsonPosition(src, at.Start), jsonPosition(src, at.End)
	return at
}

// jsonPosition corrects a position in JSON. The parser of a template within a string knows neither
// the line ends of the file nor its escaped characters.
func jsonPosition(src []byte, at hcl.Pos) hcl.Pos {
	if at.Line == 0 {
		return at
	}
	offset := min(at.Byte, len(src))
	for i := 0; i < offset; i++ {
		if src[i] != '"' {
			continue
		}
		end := stringEnd(src, i)
		if offset < end {
			offset = min(end-1, i+1+encodedLength(src[i+1:end], offset-i-1))
		}
		i = end - 1
	}
	before := src[bytes.LastIndexByte(src[:offset], '\n')+1 : offset]
	return hcl.Pos{Line: bytes.Count(src[:offset], []byte("\n")) + 1, Column: utf8.RuneCount(before) + 1, Byte: offset}
}

// stringEnd is the offset behind the JSON string that begins at start.
func stringEnd(src []byte, start int) int {
	for i := start + 1; i < len(src); i++ {
		switch src[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(src)
}

// encodedLength is how many bytes of the inside of a JSON string stand for the first decoded bytes
// of its text.
func encodedLength(inside []byte, decoded int) int {
	i := 0
	for decoded > 0 && i < len(inside) {
		size, means := 1, 1
		if inside[i] == '\\' && i+1 < len(inside) {
			size, means = escapeLength(inside[i:])
		}
		i += size
		decoded -= means
	}
	return i
}

// escapeLength is the length of the escape that text begins with, and of what it stands for in
// UTF-8.
func escapeLength(text []byte) (size, means int) {
	const unicodeEscape = 6 // \uXXXX
	if text[1] != 'u' || len(text) < unicodeEscape {
		return 2, 1
	}
	code, err := strconv.ParseUint(string(text[2:unicodeEscape]), 16, 16)
	switch {
	case err != nil:
		return 2, 1
	case utf16.IsSurrogate(rune(code)):
		return 2 * unicodeEscape, 4
	}
	return unicodeEscape, utf8.RuneLen(rune(code))
}
