package wire

import (
	"bytes"
	"encoding"
	"encoding/json"
	"io"
	"math"
	"reflect"
	"sync"
	"unsafe"
)

var (
	unmarshaler     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// readerOf makes the reader of a type, or reports false.
func (p *plan) readerOf(t reflect.Type) (reader, bool) {
	if !p.enter(t) {
		return nil, false
	}
	defer p.leave(t)
	if pt := reflect.PointerTo(t); pt.Implements(unmarshaler) || pt.Implements(textUnmarshaler) {
		return readOther(t), true
	}
	switch t.Kind() {
	case reflect.Struct:
		return p.structReader(t)
	case reflect.Pointer:
		return pointerReader(t), true
	case reflect.Slice:
		return p.sliceReader(t)
	case reflect.Map:
		if t.Key().Kind() == reflect.String && t.Elem() == reflect.TypeFor[string]() && !reflect.PointerTo(t.Key()).Implements(textUnmarshaler) {
			return readTexts, true
		}
	}
	if r := scalarReader(t.Kind()); r != nil {
		return r, true
	}
	return readOther(t), true
}

// readOther leaves a value to encoding/json, with no unknown fields.
func readOther(t reflect.Type) reader {
	return func(in *input, p unsafe.Pointer) bool {
		raw, ok := in.skip()
		if !ok {
			return false
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if err := d.Decode(reflect.NewAt(t, p).Interface()); err != nil {
			return false
		}
		_, err := d.Token()
		return err == io.EOF
	}
}

func scalarReader(k reflect.Kind) reader {
	switch k {
	case reflect.String:
		return func(in *input, p unsafe.Pointer) bool { return in.null() || in.text((*string)(p)) }
	case reflect.Bool:
		return readBool
	case reflect.Int, reflect.Int64:
		return func(in *input, p unsafe.Pointer) bool {
			return in.null() || in.signed((*int64)(p), math.MaxInt64)
		}
	case reflect.Uint32:
		return func(in *input, p unsafe.Pointer) bool {
			var v uint64
			ok := in.null() || in.unsigned(&v, math.MaxUint32)
			*(*uint32)(p) = uint32(v)
			return ok
		}
	case reflect.Uint64:
		return func(in *input, p unsafe.Pointer) bool {
			return in.null() || in.unsigned((*uint64)(p), math.MaxUint64)
		}
	}
	return nil
}

func readBool(in *input, p unsafe.Pointer) bool {
	switch in.next() {
	case 't':
		*(*bool)(p) = true
		return in.word("true")
	case 'f':
		return in.word("false")
	}
	return in.null()
}

func (in *input) signed(into *int64, most uint64) bool {
	v, negative, ok := in.number()
	if !ok || v > most {
		return false
	}
	if *into = int64(v); negative {
		*into = -*into
	}
	return true
}

func (in *input) unsigned(into *uint64, most uint64) bool {
	v, negative, ok := in.number()
	*into = v
	return ok && !negative && v <= most
}

func (p *plan) structReader(t reflect.Type) (reader, bool) {
	fields, ok := fieldsOf(t)
	if !ok {
		return nil, false
	}
	readers := make([]reader, len(fields))
	for i, f := range fields {
		if readers[i], ok = p.readerOf(f.typ); !ok {
			return nil, false
		}
	}
	return func(in *input, at unsafe.Pointer) bool {
		if in.null() {
			return true
		}
		var found uint64 // a name that comes twice is not for us
		next := 0
		return in.list('{', '}', func() bool {
			name, simple, ok := in.quoted()
			if !ok || !simple || !in.take(':') {
				return false
			}
			i := lookUp(fields, next, name)
			if i < 0 || found&(1<<i) != 0 {
				return false
			}
			found |= 1 << i
			next = i + 1
			return readers[i](in, unsafe.Add(at, fields[i].offset))
		})
	}, true
}

// lookUp finds a field by name, -1 if there is none. What was written by a program comes in order, so it looks from there on first.
func lookUp(fields []field, from int, name []byte) int {
	for k := range fields {
		i := from + k
		if i >= len(fields) {
			i -= len(fields)
		}
		if fields[i].name == string(name) {
			return i
		}
	}
	return -1
}

// list reads what stands between two brackets, an element at a time.
func (in *input) list(first, last byte, element func() bool) bool {
	if !in.take(first) {
		return false
	}
	if in.take(last) {
		return true
	}
	for element() {
		if in.take(last) {
			return true
		}
		if !in.take(',') {
			return false
		}
	}
	return false
}

// pointerReader makes the reader of what a pointer points to when there first is any: a program that reads rows of jobs never meets the
// specifications that jobs may have, which are most of a job's type.
func pointerReader(t reflect.Type) reader {
	elem := t.Elem()
	inner := sync.OnceValue(func() reader { r, _ := newPlan().readerOf(elem); return r })
	return func(in *input, at unsafe.Pointer) bool {
		if in.null() {
			return true
		}
		r := inner()
		if r == nil {
			return false
		}
		to := reflect.New(elem).UnsafePointer()
		*(*unsafe.Pointer)(at) = to
		return r(in, to)
	}
}

func (p *plan) sliceReader(t reflect.Type) (reader, bool) {
	elem := t.Elem()
	if elem.Kind() == reflect.Uint8 { // base64
		return readOther(t), true
	}
	r, ok := p.readerOf(elem)
	if elem == reflect.TypeFor[string]() {
		return readStrings, ok
	}
	return func(in *input, at unsafe.Pointer) bool {
		if in.null() {
			return true
		}
		s := (*slice)(at)
		s.data = unsafe.Pointer(&noElement)
		return in.list('[', ']', func() bool {
			if s.len == s.cap {
				grow(s, t)
			}
			s.len++
			return r(in, unsafe.Add(s.data, uintptr(s.len-1)*elem.Size()))
		})
	}, ok
}

// noElement is where an empty slice points that is not nil.
var noElement [0]byte

// grow makes room in s, whose type is t. Most lists here have one element.
func grow(s *slice, t reflect.Type) {
	if s.cap == 0 {
		s.data, s.cap = reflect.New(t.Elem()).UnsafePointer(), 1
		return
	}
	wider := reflect.MakeSlice(t, 2*s.cap, 2*s.cap)
	reflect.Copy(wider, reflect.NewAt(t, unsafe.Pointer(s)).Elem())
	s.data, s.cap = wider.UnsafePointer(), 2*s.cap
}

// readStrings reads a list of strings.
func readStrings(in *input, at unsafe.Pointer) bool {
	if in.null() {
		return true
	}
	var few [8]string
	list := few[:0]
	ok := in.list('[', ']', func() bool {
		list = append(list, "")
		return in.null() || in.text(&list[len(list)-1])
	})
	kept := make([]string, len(list))
	copy(kept, list)
	*(*[]string)(at) = kept
	return ok
}

// readTexts reads a map from texts to texts.
func readTexts(in *input, at unsafe.Pointer) bool {
	if in.null() {
		return true
	}
	m := map[string]string{}
	*(*map[string]string)(at) = m
	return in.list('{', '}', func() bool {
		var k, v string
		if in.next() != '"' || !in.text(&k) || !in.take(':') || !(in.null() || in.text(&v)) {
			return false
		}
		m[k] = v
		return true
	})
}
