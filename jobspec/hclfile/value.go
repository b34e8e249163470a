package hclfile

import (
	"slices"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Value is what an attribute made with [Any] was set to: a string, a number, true or false, a list, or a map. Return the errors of its
// methods as they are.
type Value struct {
	v     cty.Value
	order []string // keys of a map as they are written
}

// Entry is one element of a map.
type Entry struct {
	Name  string
	Value Value
}

// Text returns a string, and a number, true or false as text.
func (v Value) Text() (string, error) { return scalarText(v.v) }

// Int returns a whole number.
func (v Value) Int() (int, error) {
	n := 0
	err := storeInt(&n, v.v, false)
	return n, err
}

// IsList reports whether it is a list, tuple or set.
func (v Value) IsList() bool {
	t := v.v.Type()
	return !v.v.IsNull() && (t.IsListType() || t.IsTupleType() || t.IsSetType())
}

// IsMap reports whether it is a map or an object.
func (v Value) IsMap() bool {
	return !v.v.IsNull() && (v.v.Type().IsMapType() || v.v.Type().IsObjectType())
}

// List returns the elements of a list.
func (v Value) List() ([]Value, error) {
	if !v.IsList() {
		return nil, wrongType(v.v, "write a list: [...]")
	}
	list := make([]Value, 0, v.v.LengthInt())
	for it := v.v.ElementIterator(); it.Next(); {
		_, element := it.Element()
		list = append(list, Value{v: element})
	}
	return list, nil
}

// Texts returns the elements of a list as text.
func (v Value) Texts() ([]string, error) {
	var texts []string
	if v.v.IsNull() {
		return nil, wrongType(v.v, "write a list: [...]")
	}
	err := store(&texts, v.v, false)
	return texts, err
}

// Entries returns the elements of a map: in the order of the file where the map is written out, else by name.
func (v Value) Entries() ([]Entry, error) {
	if !v.IsMap() {
		return nil, wrongType(v.v, "write a map: { name = value }")
	}
	var entries []Entry
	for it := v.v.ElementIterator(); it.Next(); {
		key, element := it.Element()
		entries = append(entries, Entry{Name: key.AsString(), Value: Value{v: element}})
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

// sourceOrder lists the keys of a map that is written out, nil when they are computed.
func sourceOrder(expr hclsyntax.Expression) []string {
	switch x := expr.(type) {
	case *hclsyntax.TemplateWrapExpr:
		return sourceOrder(x.Wrapped)
	case *hclsyntax.ParenthesesExpr:
		return sourceOrder(x.Expression)
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
