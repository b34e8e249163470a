package script

import (
	"strings"
)

// word is one word of a command, as written.
type word struct {
	begin, end int
	raw        string
}

// plain is the word without its outermost quotes, "" when more would have to be done to know it.
func (w word) plain() string {
	text := w.raw
	if n := len(text); n >= 2 && (text[0] == '"' || text[0] == '\'') && text[n-1] == text[0] {
		text = text[1 : n-1]
	}
	if strings.ContainsAny(text, "\"'\\`") || strings.Contains(text, "$(") {
		return ""
	}
	return text
}

// behind is the place behind the next text like this, or the end.
func (sh *shell) behind(from int, text string) int {
	at := strings.Index(sh.src[min(from, len(sh.src)):], text)
	if at < 0 {
		return len(sh.src)
	}
	return from + at + len(text)
}

// word reads one word. It always moves on.
func (sh *shell) word() word {
	begin := sh.i
	for sh.i < len(sh.src) {
		c := sh.src[sh.i]
		switch {
		case c == '\\':
			sh.i = min(sh.i+2, len(sh.src))
		case c == '\'':
			sh.i = sh.behind(sh.i+1, "'")
		case c == '"':
			sh.i++
			sh.quoted()
		case c == '$':
			sh.dollar()
		case c == '`' && !sh.ticked:
			sh.i++
			sh.within('`')
		case c == '(' && sh.i > begin && sh.src[sh.i-1] == '=':
			sh.i++
			sh.array()
		case strings.IndexByte(" \t\n;&|()<>`", c) >= 0:
			if sh.i == begin {
				sh.i++
			}
			return word{begin, sh.i, sh.src[begin:sh.i]}
		default:
			sh.i++
		}
	}
	return word{begin, sh.i, sh.src[begin:sh.i]}
}

// quoted reads to the end of "...".
func (sh *shell) quoted() {
	for sh.i < len(sh.src) {
		switch sh.src[sh.i] {
		case '"':
			sh.i++
			return
		case '\\':
			sh.i = min(sh.i+2, len(sh.src))
		case '$':
			if strings.HasPrefix(sh.src[sh.i:], "$'") { // only a dollar sign here
				sh.i++
			} else {
				sh.dollar()
			}
		case '`':
			if sh.ticked {
				return
			}
			sh.i++
			sh.within('`')
		default:
			sh.i++
		}
	}
}

// dollar reads $NAME, ${...}, $(...), $((...)) and $'...'.
func (sh *shell) dollar() {
	rest := sh.src[sh.i:]
	switch {
	case strings.HasPrefix(rest, "$(("):
		sh.i = sh.behind(sh.i+3, "))")
	case strings.HasPrefix(rest, "$("):
		sh.i += 2
		sh.within(')')
	case strings.HasPrefix(rest, "${"):
		sh.i += 2
		sh.braced()
	case strings.HasPrefix(rest, "$'"):
		sh.i += 2
		sh.escaped()
	default:
		sh.i++
	}
}

// escaped reads to the end of $'...', in which \' is no end.
func (sh *shell) escaped() {
	for sh.i < len(sh.src) {
		switch sh.src[sh.i] {
		case '\'':
			sh.i++
			return
		case '\\':
			sh.i = min(sh.i+2, len(sh.src))
		default:
			sh.i++
		}
	}
}

// braced reads to the end of ${...}.
func (sh *shell) braced() {
	for depth := 1; sh.i < len(sh.src) && depth > 0; sh.i++ {
		switch sh.src[sh.i] {
		case '{':
			depth++
		case '}':
			depth--
		case '\\':
			sh.i++
		case '\n':
			return
		}
	}
	sh.i = min(sh.i, len(sh.src))
}

// array reads the values of NAME=( ... ).
func (sh *shell) array() {
	for sh.i < len(sh.src) {
		switch sh.src[sh.i] {
		case ')':
			sh.i++
			return
		case '#':
			for sh.i < len(sh.src) && sh.src[sh.i] != '\n' {
				sh.i++
			}
		default:
			sh.word()
		}
	}
}
