// Package decode puts a value of HCL into a field of Go: strings, numbers, lists, maps, and texts
// with a unit. An [Error] says why a value does not fit.
package decode

import (
	"slices"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Value is what an attribute made with [hclfile.Any] was set to: a string, a number, true or false,
// a list, or a map. Return the errors of its methods as they are.
type Value struct {
	raw   cty.Value
	order []string // keys of a map as they are written
}

// NewValue returns the value of an expression.
func NewValue(value cty.Value, expr hclsyntax.Expression) Value {
	return Value{raw: value, order: SourceOrder(expr)}
}

// Entry is one element of a map.
type Entry struct {
	Name  string
	Value Value
}

// Text returns a string, and a number, true or false as text.
func (v Value) Text() (string, error) { return ScalarText(v.raw) }

// IsList reports whether it is a list, tuple or set.
func (v Value) IsList() bool {
	t := v.raw.Type()
	return !v.raw.IsNull() && (t.IsListType() || t.IsTupleType() || t.IsSetType())
}

// Texts returns the elements of a list as text.
func (v Value) Texts() ([]string, error) {
	var texts []string
	if v.raw.IsNull() {
		return nil, wrongType(v.raw, "write a list: [...]")
	}
	err := Into(&texts, v.raw, false)
	return texts, err
}

// Entries returns the elements of a map: in the order of the file where the map is written out,
// else by name.
func (v Value) Entries() ([]Entry, error) {
	if v.raw.IsNull() || !v.raw.Type().IsMapType() && !v.raw.Type().IsObjectType() {
		return nil, wrongType(v.raw, "write a map: { name = value }")
	}
	var entries []Entry
	for it := v.raw.ElementIterator(); it.Next(); {
		key, element := it.Element()
		entries = append(entries, Entry{Name: key.AsString(), Value: Value{raw: element}})
	}
	if len(v.order) > 0 {
		place := make(map[string]int, len(v.order))
		for i, name := range v.order {
			place[name] = i
		}
		slices.SortStableFunc(entries, func(a, b Entry) int { return place[a.Name] - place[b.Name] })
	}
	return entries, nil
}

// SourceOrder lists the keys of a map that is written out, nil when they are computed.
func SourceOrder(expr hclsyntax.Expression) []string {
	switch x := expr.(type) {
	case *hclsyntax.TemplateWrapExpr:
		return SourceOrder(x.Wrapped)
	case *hclsyntax.ParenthesesExpr:
		return SourceOrder(x.Expression)
	}
	object, ok := expr.(*hclsyntax.ObjectConsExpr)
	if !ok {
		return nil
	}
	var names []string
	for _, item := range object.Items {
		name, found := item.KeyExpr.Value(nil)
		if found.HasErrors() || name.Type() != cty.String || !name.IsKnown() || name.IsNull() {
			return nil
		}
		names = append(names, name.AsString())
	}
	return names
}
