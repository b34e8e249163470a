// Package wire reads and writes JSON as encoding/json does, several times as fast, for types known when the program starts: what goes
// through the log, into snapshots and over the API. It knows none of them by name.
//
// It is a short cut, not another dialect. What it writes is what encoding/json writes, byte for byte. What it reads it reads only if it is
// sure of the meaning; of everything else, such as an unknown field, a name in other letters or a number with an exponent, it says so and
// leaves the work, and the error message, to encoding/json.
package wire

import (
	"encoding/json"
	"reflect"
	"sync"
	"unsafe"
)

// Codec reads and writes values of type T. It may be used from several goroutines. How T is read and written is found out when it first is, so
// that a codec costs nothing in a program that has no use for it.
type Codec[T any] struct {
	writer func() writer // of nil: T has a part that only encoding/json can write
	reader func() reader // of nil: the same for reading
}

// writer appends the JSON of what p points to.
type writer func(b []byte, p unsafe.Pointer) ([]byte, error)

// reader reads the next value into what p points to, which is zero, and reports whether it is sure of it.
type reader func(in *input, p unsafe.Pointer) bool

// For returns the codec of T. It is made anew for each call, so keep it in a variable of the package.
func For[T any]() *Codec[T] {
	t := reflect.TypeFor[T]()
	return &Codec[T]{
		writer: sync.OnceValue(func() writer { w, _ := newPlan().writerOf(t); return w }),
		reader: sync.OnceValue(func() reader { r, _ := newPlan().readerOf(t); return r }),
	}
}

// Append appends the JSON of v to b, as json.Marshal writes it.
func (c *Codec[T]) Append(b []byte, v *T) ([]byte, error) {
	write := c.writer()
	if write == nil {
		text, err := json.Marshal(v)
		return append(b, text...), err
	}
	return write(b, unsafe.Pointer(v))
}

// Read reads data, which must be one JSON value and nothing after it, into v, which must be zero. If it returns false, v is zero again and
// encoding/json has to decide: data may be right all the same.
func (c *Codec[T]) Read(data []byte, v *T) bool {
	read := c.reader()
	if read == nil {
		return false
	}
	in, _ := inputs.Get().(*input)
	in.data, in.at = data, 0
	ok := read(in, unsafe.Pointer(v)) && in.end()
	in.data = nil
	inputs.Put(in)
	if !ok {
		*v = *new(T)
	}
	return ok
}

var inputs = sync.Pool{New: func() any { return new(input) }}

// plan is what is made for one type. Types that contain themselves are left to encoding/json.
type plan struct {
	open map[reflect.Type]bool // being made
}

func newPlan() *plan { return &plan{open: map[reflect.Type]bool{}} }

// enter reports whether t does not contain itself, as far as is known. Call leave afterwards.
func (p *plan) enter(t reflect.Type) bool {
	if p.open[t] {
		return false
	}
	p.open[t] = true
	return true
}

func (p *plan) leave(t reflect.Type) { delete(p.open, t) }

// slice is how the runtime keeps a slice.
type slice struct {
	data     unsafe.Pointer
	len, cap int
}
