package wire

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// input is a text being read. It remembers short strings that it has read before, so that what many values have in common, such as
// names, owners and paths, is kept once.
type input struct {
	data []byte
	at   int
	seen [256]string
}

// longestShared is the length in bytes of strings that are remembered.
const longestShared = 64

// next skips white space and returns the next byte, 0 at the end.
func (in *input) next() byte {
	for in.at < len(in.data) {
		switch c := in.data[in.at]; c {
		case ' ', '\t', '\n', '\r':
			in.at++
		default:
			return c
		}
	}
	return 0
}

// take skips c, if that is what comes next.
func (in *input) take(c byte) bool {
	if in.next() != c {
		return false
	}
	in.at++
	return true
}

// end reports whether nothing follows.
func (in *input) end() bool { return in.next() == 0 && in.at == len(in.data) }

// word skips w, which is null, true or false.
func (in *input) word(w string) bool {
	if len(in.data)-in.at < len(w) || string(in.data[in.at:in.at+len(w)]) != w {
		return false
	}
	in.at += len(w)
	return true
}

// null skips a null, which leaves a value as it is.
func (in *input) null() bool { return in.next() == 'n' && in.word("null") }

// quoted returns what stands between the next quotes, and whether it is free of escapes and the like.
func (in *input) quoted() (text []byte, simple, ok bool) {
	if !in.take('"') {
		return nil, false, false
	}
	rest := in.data[in.at:]
	for i, c := range rest {
		switch {
		case plain[c] || c == '<' || c == '>' || c == '&':
		case c == '"':
			in.at += i + 1
			return rest[:i], true, true
		default:
			return in.special(i)
		}
	}
	return nil, false, false
}

// special goes on with a string that is not simple, from byte i of it.
func (in *input) special(i int) (text []byte, simple, ok bool) {
	rest := in.data[in.at:]
	for ; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '"':
			in.at += i + 1
			return rest[:i], false, true
		}
	}
	return nil, false, false
}

// text reads a string.
func (in *input) text(into *string) bool {
	start := in.at
	raw, simple, ok := in.quoted()
	if !ok {
		return false
	}
	if simple {
		*into = in.share(raw)
		return true
	}
	if s, ok := unescape(raw); ok {
		*into = s
		return true
	}
	var s string // of its own, so that where into points need not be in the heap
	err := json.Unmarshal(in.data[start:in.at], &s)
	*into = s
	return err == nil
}

// unescape resolves the escapes of scripts and of what encoding/json writes, one byte each, and reports false if there is anything else.
func unescape(raw []byte) (string, bool) {
	if !utf8.Valid(raw) {
		return "", false
	}
	b := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '\\':
			c, size := escaped(raw[i:])
			if size == 0 {
				return "", false
			}
			b = append(b, c)
			i += size - 1
		case c < ' ':
			return "", false
		default:
			b = append(b, c)
		}
	}
	return string(b), true
}

// escaped is the byte that the escape at the start of raw stands for, and the escape's length; 0 for one that is none of ours.
func escaped(raw []byte) (c byte, size int) {
	if len(raw) < 2 {
		return 0, 0
	}
	switch raw[1] {
	case '"', '\\':
		return raw[1], 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	}
	for _, c := range []byte("<>&") {
		if bytes.HasPrefix(raw, []byte(escapes[c])) {
			return c, len(escapes[c])
		}
	}
	return 0, 0
}

// share returns raw as a string, the same one as the last time where it can.
func (in *input) share(raw []byte) string {
	if len(raw) == 0 || len(raw) > longestShared {
		return string(raw)
	}
	h := uint32(len(raw))
	for _, c := range raw {
		h = h*31 + uint32(c)
	}
	slot := &in.seen[(h^h>>8)%uint32(len(in.seen))]
	if *slot != string(raw) {
		*slot = string(raw)
	}
	return *slot
}

// number reads a whole number as its sign and digits.
func (in *input) number() (value uint64, negative, ok bool) {
	if in.next() == '-' {
		negative = true
		in.at++
	}
	start := in.at
	for in.at < len(in.data) && in.at-start < 18 { // 18 digits always fit
		c := in.data[in.at] - '0'
		if c > 9 {
			break
		}
		value = value*10 + uint64(c)
		in.at++
	}
	digits := in.at - start
	if digits == 0 || digits > 1 && in.data[start] == '0' {
		return 0, false, false
	}
	if in.at < len(in.data) {
		switch c := in.data[in.at]; {
		case c == '.', c == 'e', c == 'E', c >= '0' && c <= '9':
			return 0, false, false
		}
	}
	return value, negative, true
}

// skip passes over one value and returns it. What it passes over need not be right: who reads it checks that.
func (in *input) skip() ([]byte, bool) {
	in.next()
	start, depth := in.at, 0
	for in.at < len(in.data) {
		switch in.data[in.at] {
		case '"':
			if _, _, ok := in.quoted(); !ok {
				return nil, false
			}
			in.at--
		case '{', '[':
			depth++
		case '}', ']', ',':
			if depth == 0 {
				return in.data[start:in.at], true
			}
			if in.data[in.at] != ',' {
				depth--
			}
		}
		in.at++
	}
	return in.data[start:in.at], depth == 0
}
