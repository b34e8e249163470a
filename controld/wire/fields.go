package wire

import (
	"encoding/json"
	"reflect"
	"strings"
	"unsafe"
)

// field is one member of an object. Those of embedded structs count as the outer one's.
type field struct {
	name   string
	label  string // name in quotes, and a colon
	offset uintptr
	typ    reflect.Type
	empty  func(unsafe.Pointer) bool // whether to leave it out; nil: never
	depth  int                       // of embedding
}

// fieldsOf lists the members of a struct in the order in which encoding/json writes them. It reports false for what it does not know to
// treat as encoding/json does.
func fieldsOf(t reflect.Type) ([]field, bool) {
	all, ok := collect(t, 0, 0)
	if !ok {
		return nil, false
	}
	best := map[string]int{} // least depth of each name
	for _, f := range all {
		if d, seen := best[f.name]; seen && d == f.depth {
			return nil, false // two of the same name hide each other
		} else if !seen || f.depth < d {
			best[f.name] = f.depth
		}
	}
	var fields []field
	for _, f := range all {
		if f.depth == best[f.name] {
			fields = append(fields, f)
		}
	}
	return fields, len(fields) <= 64
}

func collect(t reflect.Type, offset uintptr, depth int) ([]field, bool) {
	var all []field
	for i := range t.NumField() {
		sf := t.Field(i)
		tag := sf.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		switch {
		case tag == "-":
			continue
		case sf.Anonymous && name == "":
			if sf.Type.Kind() != reflect.Struct || options != "" {
				return nil, false
			}
			inner, ok := collect(sf.Type, offset+sf.Offset, depth+1)
			if !ok {
				return nil, false
			}
			all = append(all, inner...)
			continue
		case !sf.IsExported():
			continue
		}
		f, ok := member(sf, name, options)
		if !ok {
			return nil, false
		}
		f.offset += offset
		f.depth = depth
		all = append(all, f)
	}
	return all, true
}

// member is the field that sf is by itself.
func member(sf reflect.StructField, name, options string) (field, bool) {
	if name == "" {
		name = sf.Name
	}
	label, err := json.Marshal(name)
	if err != nil || string(label) != `"`+name+`"` {
		return field{}, false
	}
	f := field{name: name, label: string(label) + ":", offset: sf.Offset, typ: sf.Type}
	for option := range strings.SplitSeq(options, ",") {
		switch option {
		case "":
		case "omitempty":
			f.empty = either(f.empty, emptyOf(sf.Type))
		case "omitzero":
			f.empty = either(f.empty, zeroOf(sf.Type))
		default: // such as string
			return field{}, false
		}
	}
	return f, true
}

func either(a, b func(unsafe.Pointer) bool) func(unsafe.Pointer) bool {
	if a == nil || b == nil {
		return b
	}
	return func(p unsafe.Pointer) bool { return a(p) || b(p) }
}

// emptyOf is what omitempty asks of a type. Structs are never empty.
func emptyOf(t reflect.Type) func(unsafe.Pointer) bool {
	switch t.Kind() {
	case reflect.String:
		return func(p unsafe.Pointer) bool { return *(*string)(p) == "" }
	case reflect.Bool:
		return func(p unsafe.Pointer) bool { return !*(*bool)(p) }
	case reflect.Slice:
		return func(p unsafe.Pointer) bool { return (*slice)(p).len == 0 }
	case reflect.Pointer:
		return func(p unsafe.Pointer) bool { return *(*unsafe.Pointer)(p) == nil }
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return func(p unsafe.Pointer) bool { return *(*int64)(p) == 0 }
	case reflect.Map:
		return func(p unsafe.Pointer) bool {
			return *(*unsafe.Pointer)(p) == nil || reflect.NewAt(t, p).Elem().Len() == 0
		}
	case reflect.Array:
		return func(unsafe.Pointer) bool { return t.Len() == 0 }
	case reflect.Struct:
		return func(unsafe.Pointer) bool { return false }
	}
	return func(p unsafe.Pointer) bool { return reflect.NewAt(t, p).Elem().IsZero() }
}

// zeroOf is what omitzero asks of a type: its own IsZero, or that all of it is zero.
func zeroOf(t reflect.Type) func(unsafe.Pointer) bool {
	type zeroer interface{ IsZero() bool }
	if reflect.PointerTo(t).Implements(reflect.TypeFor[zeroer]()) && t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface {
		return func(p unsafe.Pointer) bool {
			z, ok := reflect.NewAt(t, p).Interface().(zeroer)
			return ok && z.IsZero()
		}
	}
	return func(p unsafe.Pointer) bool { return reflect.NewAt(t, p).Elem().IsZero() }
}
