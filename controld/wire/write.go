package wire

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

var (
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// writerOf makes the writer of a type, or reports false.
func (p *plan) writerOf(t reflect.Type) (writer, bool) {
	if !p.enter(t) {
		return nil, false
	}
	defer p.leave(t)
	if t.Implements(marshaler) || t.Implements(textMarshaler) {
		return writeOther(t), true
	}
	if pt := reflect.PointerTo(t); pt.Implements(marshaler) || pt.Implements(textMarshaler) {
		return nil, false // what is written depends on how the value is reached
	}
	switch t.Kind() {
	case reflect.Struct:
		return p.structWriter(t)
	case reflect.Pointer:
		return p.pointerWriter(t)
	case reflect.Slice:
		return p.sliceWriter(t)
	case reflect.Map:
		if t.Key().Kind() == reflect.String && t.Elem() == reflect.TypeFor[string]() && !t.Key().Implements(textMarshaler) {
			return writeTexts, true
		}
	}
	if w := scalarWriter(t.Kind()); w != nil {
		return w, true
	}
	return writeOther(t), true
}

// writeOther leaves a value to encoding/json.
func writeOther(t reflect.Type) writer {
	return func(b []byte, p unsafe.Pointer) ([]byte, error) {
		text, err := json.Marshal(reflect.NewAt(t, p).Elem().Interface())
		return append(b, text...), err
	}
}

func scalarWriter(k reflect.Kind) writer {
	switch k {
	case reflect.String:
		return func(b []byte, p unsafe.Pointer) ([]byte, error) { return appendString(b, *(*string)(p)), nil }
	case reflect.Bool:
		return func(b []byte, p unsafe.Pointer) ([]byte, error) { return strconv.AppendBool(b, *(*bool)(p)), nil }
	case reflect.Int, reflect.Int64: // both have 64 bits on what Rota runs on; see the constant below
		return func(b []byte, p unsafe.Pointer) ([]byte, error) { return strconv.AppendInt(b, *(*int64)(p), 10), nil }
	case reflect.Int32:
		return func(b []byte, p unsafe.Pointer) ([]byte, error) {
			return strconv.AppendInt(b, int64(*(*int32)(p)), 10), nil
		}
	case reflect.Uint32:
		return func(b []byte, p unsafe.Pointer) ([]byte, error) {
			return strconv.AppendUint(b, uint64(*(*uint32)(p)), 10), nil
		}
	case reflect.Uint64:
		return func(b []byte, p unsafe.Pointer) ([]byte, error) { return strconv.AppendUint(b, *(*uint64)(p), 10), nil }
	}
	return nil
}

// An int has 64 bits, or this does not compile.
const _ = uint(strconv.IntSize - 64)

func (p *plan) structWriter(t reflect.Type) (writer, bool) {
	fields, ok := fieldsOf(t)
	if !ok {
		return nil, false
	}
	writers := make([]writer, len(fields))
	for i, f := range fields {
		if writers[i], ok = p.writerOf(f.typ); !ok {
			return nil, false
		}
	}
	return func(b []byte, at unsafe.Pointer) ([]byte, error) {
		b = append(b, '{')
		start := len(b)
		var err error
		for i := range fields {
			f := &fields[i]
			v := unsafe.Add(at, f.offset)
			if f.empty != nil && f.empty(v) {
				continue
			}
			if len(b) > start {
				b = append(b, ',')
			}
			b = append(b, f.label...)
			if b, err = writers[i](b, v); err != nil {
				return b, err
			}
		}
		return append(b, '}'), nil
	}, true
}

func (p *plan) pointerWriter(t reflect.Type) (writer, bool) {
	w, ok := p.writerOf(t.Elem())
	return func(b []byte, at unsafe.Pointer) ([]byte, error) {
		to := *(*unsafe.Pointer)(at)
		if to == nil {
			return append(b, "null"...), nil
		}
		return w(b, to)
	}, ok
}

func (p *plan) sliceWriter(t reflect.Type) (writer, bool) {
	if t.Elem().Kind() == reflect.Uint8 { // base64
		return writeOther(t), true
	}
	w, ok := p.writerOf(t.Elem())
	size := t.Elem().Size()
	return func(b []byte, at unsafe.Pointer) ([]byte, error) {
		s := (*slice)(at)
		if s.data == nil {
			return append(b, "null"...), nil
		}
		b = append(b, '[')
		var err error
		for i := range s.len {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = w(b, unsafe.Add(s.data, uintptr(i)*size)); err != nil {
				return b, err
			}
		}
		return append(b, ']'), nil
	}, ok
}

// writeTexts writes a map from texts to texts, by key.
func writeTexts(b []byte, at unsafe.Pointer) ([]byte, error) {
	m := *(*map[string]string)(at)
	if m == nil {
		return append(b, "null"...), nil
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	b = append(b, '{')
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, k), ':')
		b = appendString(b, m[k])
	}
	return append(b, '}'), nil
}

// plain holds the bytes that stand for themselves in a string.
var plain = func() (p [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		p[c] = c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
	}
	return p
}()

func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if !plain[s[i]] {
			return appendEscaped(b, s)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// escapes are the short forms that encoding/json writes.
var escapes = map[byte]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '<': `\u003c`, '>': `\u003e`, '&': `\u0026`}

// appendEscaped writes a string with something special in it. What scripts are full of it does itself.
func appendEscaped(b []byte, s string) []byte {
	start := len(b)
	b = append(b, '"')
	from := 0
	for i := range len(s) {
		if plain[s[i]] {
			continue
		}
		short, ok := escapes[s[i]]
		if !ok {
			text, _ := json.Marshal(s) // a string has no way to fail
			return append(b[:start], text...)
		}
		b = append(append(b, s[from:i]...), short...)
		from = i + 1
	}
	return append(append(b, s[from:]...), '"')
}
