package hclfile

import (
	"strings"

	"github.com/rota-hpc/rota/jobspec/hclfile/decode"
)

// Block says what may stand in a block. It has every name of the language, including those that are
// not supported yet. Mistyped names then get a hint, and unsupported ones are refused by name.
type Block struct {
	Attrs  []Attr
	Blocks []Nested
	Free   func(target any) *map[string]string // set: any name is an attribute, and goes into this map (env, meta)
	// Tells makes the message about an unknown name list all known names.
	Tells bool
	// Elsewhere are names that other systems have here, with what to write instead.
	Elsewhere map[string]string
	// Deferred lets the values of a Free block hold references that only have a value once the job
	// runs, as [Attr.Deferred] does.
	Deferred bool
}

// Attr is one attribute of a block. Make one with [Field], [Text] or [Later].
type Attr struct {
	Name     string
	Type     string // for messages and documentation
	Default  string // for documentation
	Doc      string
	Required bool
	Positive bool   // zero means "not written" in the target, so it cannot be asked for
	Path     string // name in the target's JSON, when it is another
	Refused  string // what to do instead; set: not honoured yet
	// Deferred lets the texts of the attribute hold references that only have a value once the job
	// runs, such as ${array.index}. They are stored in the form of package template, and the flag
	// [Nested.Template] of the block around is set. Without such a block the attribute takes no
	// references.
	Deferred bool
	nameRoot string // a reference that begins with it stands for its own name
	keyword  bool   // the text of a file in JSON is an expression, not a template
	into     func(target any) any
	set      func(target any, text string, from Source) error
	setValue func(target any, value decode.Value, from Source) error
	written  func(target any) any
}

// Nested is a block inside a block.
type Nested struct {
	Name     string
	Label    string // what its label is; "": none
	MayLabel bool   // the label may be left out
	Many     bool
	Required bool
	Excludes string // an attribute that says the same, or a block that cannot stand beside it
	Instead  string // what to do when it is written twice, or beside a block that it excludes
	Doc      string
	Refused  string
	Body     *Block
	path     string // of a [NamedBlock]
	// Enter returns the target of the block's content, and its path in the JSON of the parent.
	Enter func(parent any, label string) (target any, path string)
	// Template returns the flag for the texts of Deferred attributes of the block, and of blocks in
	// it. It is set if one of them holds a reference: then all are templates (package template),
	// otherwise all are literal. target is the result of Enter.
	Template func(target any) *bool
	// Written returns the blocks of this kind that a parent has, for writing it as a file; nil for a
	// kind that is never written.
	Written func(parent any) []Written
	// Implied says that the target is the same without an empty block of this kind, so that only one
	// with content is written.
	Implied bool
}

// Written is a block as it is written: its label and the target of its content.
type Written struct {
	Label  string
	Target any
}

// Source is what the setter of an attribute may read.
type Source interface {
	// ReadFile reads a file that lies below the directory of the file being decoded.
	ReadFile(name string) ([]byte, error)
	// Literal escapes a text that was read from a file if the texts around it are templates. Values
	// that a setter is given are escaped already.
	Literal(text string) string
}

// Field is an attribute that is stored in a field of T: a string, bool, number, [decode.Quantity],
// list or map. It is a pointer to a string, bool or int where "not written" differs from zero. Use
// [Text] and [Any] for other types.
func Field[T, F any](name string, field func(*T) *F) Attr {
	return Attr{Name: name, Type: decode.TypeName(any(new(F))), into: func(target any) any { return field(target.(*T)) }}
}

// Named is an attribute that is stored in the field with its name in JSON, as [Field] says. Its
// schema is completed by [For].
func Named(name string) Attr { return Attr{Name: name} }

// NamedBlock is a block that is stored in the field whose name in JSON is path. The field is a
// pointer to its content, nil unless the block is written, the content itself, or a list of
// contents. Its schema is completed by [For].
func NamedBlock(name, path, doc string, body *Block) Nested {
	return Nested{Name: name, Doc: doc, Body: body, path: path}
}

// Text is an attribute whose value, a string or a number, is read by set.
func Text[T any](name, typ string, set func(target *T, text string, from Source) error) Attr {
	return Attr{Name: name, Type: typ,
		set: func(target any, text string, from Source) error { return set(target.(*T), text, from) }}
}

// Any is an attribute whose value, of whatever type, is read by set. An error that its
// [decode.Value] returned is reported as such.
func Any[T any](name, typ string, set func(target *T, value decode.Value, from Source) error) Attr {
	return Attr{Name: name, Type: typ,
		setValue: func(target any, value decode.Value, from Source) error { return set(target.(*T), value, from) }}
}

// WrittenAs returns a with the value that is written for it, nil for none, where that is not the
// content of a field.
func WrittenAs[T any](a Attr, value func(target *T) any) Attr {
	a.written = func(target any) any { return value(target.(*T)) }
	return a
}

// Later is an attribute that is known and refused; hint says what to do instead.
func Later(name, hint string) Attr { return Attr{Name: name, Refused: orLater(hint)} }

// LaterBlock is a block that is known and refused; hint says what to do instead.
func LaterBlock(name, hint string) Nested { return Nested{Name: name, Refused: orLater(hint)} }

func orLater(hint string) string {
	if hint == "" {
		return "leave it out"
	}
	return hint
}

// With returns a with its documentation.
func (a Attr) With(def, doc string) Attr {
	a.Default, a.Doc = def, doc
	return a
}

// AtLeastOne returns a such that zero is refused.
func (a Attr) AtLeastOne() Attr {
	a.Positive = true
	return a
}

// Must returns a such that leaving it out is refused.
func (a Attr) Must() Attr {
	a.Required = true
	return a
}

// MayDefer returns a such that its texts may hold references that only have a value once the job
// runs.
func (a Attr) MayDefer() Attr {
	a.Deferred = true
	return a
}

// OrName returns a with a text that may be a reference. The reference begins with root and stands
// for its own name: "${node.gpu.model}" or node.gpu.model for "node.gpu.model".
func (a Attr) OrName(root string) Attr {
	a.nameRoot = root
	return a
}

// As returns a with another name in the target's JSON.
func (a Attr) As(path string) Attr {
	a.Path = path
	return a
}

// Written returns what a target is written with: a pointer to the attribute's field, or the value
// of [WrittenAs]; nil for nothing.
func (a Attr) Written(target any) any {
	switch {
	case a.written != nil:
		return a.written(target)
	case a.into != nil:
		return a.into(target)
	}
	return nil
}

func (a Attr) path() string {
	if a.Path != "" {
		return a.Path
	}
	return a.Name
}

func (b *Block) attr(name string) *Attr {
	for i := range b.Attrs {
		if b.Attrs[i].Name == name {
			return &b.Attrs[i]
		}
	}
	return nil
}

func (b *Block) block(name string) *Nested {
	for i := range b.Blocks {
		if b.Blocks[i].Name == name {
			return &b.Blocks[i]
		}
	}
	return nil
}

// hint names the known word that is nearest to an unknown name.
func (b *Block) hint(written string) string {
	if instead := b.Elsewhere[written]; instead != "" {
		return instead
	}
	known := b.names()
	near := didYouMean(written, known, "")
	if !b.Tells {
		return near
	}
	all := "there are " + strings.Join(known, ", ")
	if near != "" {
		return near + " " + all
	}
	return all
}

func (b *Block) names() []string {
	var names []string
	for i := range b.Attrs {
		names = append(names, b.Attrs[i].Name)
	}
	for i := range b.Blocks {
		names = append(names, b.Blocks[i].Name)
	}
	return names
}
