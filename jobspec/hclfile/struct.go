package hclfile

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/rota-hpc/rota/jobspec/hclfile/decode"
	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
)

// Decode reads a file into a struct whose fields have tags. An attribute has the tag `hcl:"name"`,
// or `hcl:"name,optional"` if it may be left out. A block has the tag `hcl:"name,block"`. Its field
// is a struct, a pointer to a struct, or a slice of structs if the block may be repeated. The
// block's label goes to a string field of that struct with `hcl:"name,label"`, or
// `hcl:"name,label,optional"` if the block may have none. Fields have the types that [Field] takes,
// or time.Duration; what is not written keeps the value that target had. Fields without a tag are
// left alone. A block whose struct is [Described] is read as that says. It panics when target's
// type cannot be decoded, which is a mistake in the program.
func Decode(name string, src []byte, target any) diagnostic.Diagnostics {
	_, diags := Load(name, src, SchemaOf(target), target, Options{})
	return diags
}

// SchemaOf returns the schema of [Decode] for a target, for [Load].
func SchemaOf(target any) *Block {
	typ := reflect.TypeOf(target)
	if typ == nil || typ.Kind() != reflect.Pointer || typ.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("hclfile: %T is not a pointer to a struct", target))
	}
	schema, _ := structSchema(typ.Elem())
	return schema
}

// The tags of labels.
const (
	labelled = "label"
	mayLabel = "label,optional"
)

// Described is a struct for a block of [Decode] with a schema of its own. Only the tag of its label
// counts.
type Described interface {
	// Block returns the schema, whose targets are pointers to the struct.
	Block() *Block
}

// structSchema makes the schema that a struct's tags describe. label is the field that takes the
// label, nil for none.
func structSchema(typ reflect.Type) (schema *Block, label []int) {
	schema = &Block{}
	for i := range typ.NumField() {
		field := typ.Field(i)
		name, kind, _ := strings.Cut(field.Tag.Get("hcl"), ",")
		switch {
		case name == "":
			continue
		case kind == labelled || kind == mayLabel:
			label = field.Index
		case kind == "block":
			schema.Blocks = append(schema.Blocks, structBlock(name, field))
		case kind == "" || kind == "optional":
			attr := fieldAttr(name, field)
			attr.Required = kind == ""
			schema.Attrs = append(schema.Attrs, attr)
		default:
			panic(fmt.Sprintf("hclfile: field %s.%s: unknown tag %q", typ, field.Name, kind))
		}
	}
	return schema, label
}

// For completes a schema whose targets are of type *T: it finds the fields of its [Named]
// attributes and [NamedBlock] blocks.
func For[T any](b *Block) *Block {
	for i := range b.Attrs {
		if a := &b.Attrs[i]; a.into == nil && a.set == nil && a.setValue == nil && a.Refused == "" {
			stored := fieldAttr(a.Name, fieldNamed[T](a.Name))
			a.into, a.Type = stored.into, stored.Type
		}
	}
	for i := range b.Blocks {
		if n := &b.Blocks[i]; n.Enter == nil && n.Refused == "" {
			stored := BlockOf[T](n.Name, n.path, n.Doc, n.Body)
			n.Enter, n.Many, n.Label = stored.Enter, stored.Many, stored.Label
			if n.Written == nil {
				n.Written = stored.Written
			}
		}
	}
	return b
}

// BlockOf is [NamedBlock] in a schema whose targets are of type *T. A content with a field Name
// takes the label of its block.
func BlockOf[T any](name, path, doc string, body *Block) Nested {
	field := fieldNamed[T](path)
	var label []int
	if known, ok := contentOf(field.Type).FieldByName("Name"); ok {
		label = known.Index
	}
	n := fieldBlock(name, path, field, label)
	n.Doc, n.Body = doc, body
	return n
}

// FreeBlock is the content of a block whose attributes have any name. They go into the field of T
// whose name in JSON is path.
func FreeBlock[T any](path string) *Block {
	into := fieldAttr(path, fieldNamed[T](path)).into
	return &Block{Free: func(target any) *map[string]string { return into(target).(*map[string]string) }}
}

// fieldNamed returns the field of T with a name in JSON.
func fieldNamed[T any](name string) reflect.StructField {
	typ := reflect.TypeFor[T]()
	for _, field := range reflect.VisibleFields(typ) {
		if known, _, _ := strings.Cut(field.Tag.Get("json"), ","); known == name {
			return field
		}
	}
	panic(fmt.Sprintf("hclfile: %s has no field %q", typ, name))
}

// fieldAttr returns an attribute that is stored in a field of a struct.
func fieldAttr(name string, field reflect.StructField) Attr {
	stored := reflect.PointerTo(field.Type)
	switch {
	case field.Type == reflect.TypeFor[time.Duration]():
		stored = reflect.TypeFor[*decode.Duration]()
	case field.Type.Kind() == reflect.String:
		stored = reflect.TypeFor[*string]()
	}
	return Attr{Name: name, Type: decode.TypeName(reflect.New(stored.Elem()).Interface()), into: func(target any) any {
		return reflect.ValueOf(target).Elem().FieldByIndex(field.Index).Addr().Convert(stored).Interface()
	}}
}

// contentOf returns the struct of a block that is stored in a field of a type.
func contentOf(typ reflect.Type) reflect.Type {
	if typ.Kind() == reflect.Slice || typ.Kind() == reflect.Pointer {
		return typ.Elem()
	}
	return typ
}

// structBlock makes the block that the tag of a field describes.
func structBlock(name string, field reflect.StructField) Nested {
	content := contentOf(field.Type)
	if content.Kind() != reflect.Struct {
		panic(fmt.Sprintf("hclfile: block %q cannot be stored in a %s", name, field.Type))
	}
	body, label := structSchema(content)
	if own, ok := reflect.New(content).Interface().(Described); ok {
		body = own.Block()
	}
	block := fieldBlock(name, name, field, label)
	block.Body = body
	if label != nil {
		_, kind, _ := strings.Cut(content.FieldByIndex(label).Tag.Get("hcl"), ",")
		block.MayLabel = kind == mayLabel
	}
	return block
}

// fieldBlock returns a block that is stored in a field of a struct. label is the field of its
// content that takes the label, nil for none.
func fieldBlock(name, path string, field reflect.StructField, label []int) Nested {
	kind, content := field.Type.Kind(), contentOf(field.Type)
	block := Nested{Name: name, Many: kind == reflect.Slice}
	if label != nil {
		block.Label = "its name"
	}
	stored := func(parent any) reflect.Value { return reflect.ValueOf(parent).Elem().FieldByIndex(field.Index) }
	block.Enter = func(parent any, text string) (any, string) {
		into, where := stored(parent), path
		switch kind {
		case reflect.Slice:
			where = fmt.Sprintf("%s[%d]", path, into.Len())
			into.Set(reflect.Append(into, reflect.Zero(content)))
			into = into.Index(into.Len() - 1)
		case reflect.Pointer:
			into.Set(reflect.New(content))
			into = into.Elem()
		}
		if label != nil {
			into.FieldByIndex(label).SetString(text)
		}
		return into.Addr().Interface(), where
	}
	block.Written = func(parent any) []Written {
		var contents []reflect.Value
		switch from := stored(parent); {
		case kind == reflect.Slice:
			for i := range from.Len() {
				contents = append(contents, from.Index(i))
			}
		case kind != reflect.Pointer || !from.IsNil():
			contents = append(contents, reflect.Indirect(from))
		}
		written := make([]Written, len(contents))
		for i, one := range contents {
			written[i].Target = one.Addr().Interface()
			if label != nil {
				written[i].Label = one.FieldByIndex(label).String()
			}
		}
		return written
	}
	return block
}
