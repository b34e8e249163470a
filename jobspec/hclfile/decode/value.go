// Package decode stores HCL values in Go fields: strings, numbers, lists, maps, and texts with a
// unit. An [Error] explains why a value does not fit.
package decode

import (
	"slices"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Value is the value of an attribute made with [hclfile.Any]: a string, a number, a bool, a list,
// or a map. A setter must return the errors of its methods unchanged.
type Value struct {
	raw   cty.Value
	order []string // keys of a map in the order of the file
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

// Text returns a string, number or bool as text.
func (v Value) Text() (string, error) { return ScalarText(v.raw) }

// IsList reports whether the value is a list, tuple or set.
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

// Entries returns the elements of a map: in the order of the file if the map is a literal,
// otherwise by name.
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

// SourceOrder lists the keys of a literal map in the order of the file; nil if the map is computed.
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
