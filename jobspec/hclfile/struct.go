package hclfile

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/rota-hpc/rota/jobspec/hclfile/decode"
	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
)

// Decode reads a file into a struct whose fields have tags: `hcl:"name"` for an attribute that must be written, `hcl:"name,optional"`
// for one that may be, `hcl:"name,block"` for a block (a struct, a pointer to one, or a slice of them when it may be written several
// times), and `hcl:"name,label"` on the string field of such a struct that takes its label, `hcl:"name,label,optional"` when the block may
// have none. Fields have the types that [Field] takes, or time.Duration; what is not written keeps the value that target had. Fields
// without a tag are left alone. A block whose struct is [Described] is read as that says. It panics when target's type cannot be decoded,
// which is a mistake in the program.
func Decode(name string, src []byte, target any) diagnostic.Diagnostics {
	_, diags := Load(name, src, SchemaOf(target), target, Options{})
	return diags
}

// SchemaOf is the schema that [Decode] has for a target, for callers that want more than its diagnostics.
func SchemaOf(target any) *Block {
	typ := reflect.TypeOf(target)
	if typ == nil || typ.Kind() != reflect.Pointer || typ.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("hclfile: %T is not a pointer to a struct", target))
	}
	schema, _ := structSchema(typ.Elem())
	return schema
}

// What the tag of a label says behind its name.
const (
	labelled = "label"
	mayLabel = "label,optional"
)

// Described is a struct for a block of [Decode] that says itself what may stand in the block. Of its tags only that of its label counts.
type Described interface {
	// Block returns the schema, whose targets are pointers to the struct.
	Block() *Block
}

// structSchema makes the schema that a struct's tags describe; label is the index of the field that takes the label, or -1.
func structSchema(typ reflect.Type) (schema *Block, label int) {
	schema, label = &Block{}, -1
	for i := range typ.NumField() {
		name, kind, _ := strings.Cut(typ.Field(i).Tag.Get("hcl"), ",")
		switch {
		case name == "":
			continue
		case kind == labelled || kind == mayLabel:
			label = i
		case kind == "block":
			schema.Blocks = append(schema.Blocks, structBlock(name, typ.Field(i).Type, i))
		case kind == "" || kind == "optional":
			schema.Attrs = append(schema.Attrs, structAttr(name, typ.Field(i).Type, i, kind == ""))
		default:
			panic(fmt.Sprintf("hclfile: field %s.%s: unknown tag %q", typ, typ.Field(i).Name, kind))
		}
	}
	return schema, label
}

func structAttr(name string, typ reflect.Type, index int, required bool) Attr {
	into := func(target any) any {
		switch field := reflect.ValueOf(target).Elem().Field(index).Addr().Interface().(type) {
		case *time.Duration:
			return (*decode.Duration)(field)
		default:
			return field
		}
	}
	zero := reflect.New(typ).Interface()
	if d, ok := zero.(*time.Duration); ok {
		zero = (*decode.Duration)(d)
	}
	return Attr{Name: name, Type: decode.TypeName(zero), Required: required, into: into}
}

func structBlock(name string, typ reflect.Type, index int) Nested {
	many, inner := typ.Kind() == reflect.Slice, typ
	if many {
		inner = typ.Elem()
	}
	pointer := inner.Kind() == reflect.Pointer
	if pointer {
		inner = inner.Elem()
	}
	if inner.Kind() != reflect.Struct {
		panic(fmt.Sprintf("hclfile: block %q cannot be stored in a %s", name, typ))
	}
	body, label := structSchema(inner)
	if own, ok := reflect.New(inner).Interface().(Described); ok {
		body = own.Block()
	}
	block := Nested{Name: name, Many: many, Body: body}
	if label >= 0 {
		_, kind, _ := strings.Cut(inner.Field(label).Tag.Get("hcl"), ",")
		block.Label, block.MayLabel = "its name", kind == mayLabel
	}
	block.Enter = func(parent any, text string) (any, string) {
		field, made := reflect.ValueOf(parent).Elem().Field(index), reflect.New(inner)
		path := name
		switch {
		case many && pointer:
			field.Set(reflect.Append(field, made))
		case many:
			field.Set(reflect.Append(field, made.Elem()))
			made = field.Index(field.Len() - 1).Addr()
		case pointer:
			field.Set(made)
		default:
			made = field.Addr()
		}
		if many {
			path = fmt.Sprintf("%s[%d]", name, field.Len()-1)
		}
		if label >= 0 {
			made.Elem().Field(label).SetString(text)
		}
		return made.Interface(), path
	}
	return block
}
