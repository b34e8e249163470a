package hclfile

import (
	"errors"
	"fmt"
	"math/big"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// valueError says why a value does not fit its attribute.
type valueError struct {
	code, text, hint string
	found            string // what it is, with CodeType
	inElement        bool
	element          int
}

// Error implements error.
func (e *valueError) Error() string { return e.text }

func wrongType(value cty.Value, hint string) error {
	return &valueError{code: CodeType, found: describe(value), hint: hint}
}

func describe(v cty.Value) string {
	if v.Type() == cty.String {
		return fmt.Sprintf("the string %q", shorten(v.AsString()))
	}
	if v.Type() == cty.Number {
		return "the number " + asText(v)
	}
	return "a " + v.Type().FriendlyName()
}

func shorten(text string) string {
	if len(text) > 40 {
		return text[:37] + "..."
	}
	return text
}

// store puts a value into the field that an attribute has.
func store(into any, value cty.Value, positive bool) error {
	switch field := into.(type) {
	case Quantity:
		return storeQuantity(field, value, positive)
	case *string:
		return storeString(field, value)
	case **string:
		*field = new(string)
		return storeString(*field, value)
	case *bool:
		return storeBool(field, value)
	case **bool:
		*field = new(bool)
		return storeBool(*field, value)
	case *int:
		return storeInt(field, value, positive)
	case **int:
		*field = new(int)
		return storeInt(*field, value, positive)
	case *int64:
		n := 0
		err := storeInt(&n, value, positive)
		*field = int64(n)
		return err
	case *[]string:
		return storeList(field, value, func(text *string, v cty.Value) (err error) { *text, err = scalarText(v); return err })
	case *[]int:
		return storeList(field, value, func(n *int, v cty.Value) error { return storeInt(n, v, false) })
	case *map[string]string:
		return storeMap(field, value)
	}
	panic(fmt.Sprintf("hclfile: no attribute can be stored in a %T", into))
}

func storeString(field *string, value cty.Value) error {
	if value.Type() != cty.String {
		return wrongType(value, "write it in quotes")
	}
	*field = value.AsString()
	return nil
}

func storeBool(field *bool, value cty.Value) error {
	if value.Type() != cty.Bool {
		return wrongType(value, "write true or false, without quotes")
	}
	*field = value.True()
	return nil
}

// maxInt is beyond any count a file can mean, and fits an int everywhere.
const maxInt = 1 << 31

func storeInt(field *int, value cty.Value, positive bool) error {
	if value.Type() != cty.Number {
		hint := "write a whole number, without quotes"
		if value.Type() == cty.String {
			if _, err := convert.Convert(value, cty.Number); err == nil {
				hint = "write " + value.AsString() + ", without quotes"
			}
		}
		return wrongType(value, hint)
	}
	n, accuracy := value.AsBigFloat().Int64()
	if accuracy != big.Exact {
		return &valueError{code: CodeRange, text: "a whole number is wanted", hint: "round it: floor(x) or ceil(x)"}
	}
	if n > maxInt || n < -maxInt || positive && n < 1 {
		return &valueError{code: CodeRange, text: fmt.Sprintf("%d is out of range", n), hint: atLeast(positive)}
	}
	*field = int(n)
	return nil
}

func atLeast(positive bool) string {
	if positive {
		return "write 1 or more, or leave it out"
	}
	return ""
}

// storeQuantity reads a text with a unit. A bare number has a message of its own, because other systems take it.
func storeQuantity(field Quantity, value cty.Value, positive bool) error {
	if value.Type() == cty.Number {
		text := asText(value)
		return noUnit(field, text)
	}
	if value.Type() != cty.String {
		return wrongType(value, "write it in quotes, with a unit: \""+field.Example("1")+"\"")
	}
	text := value.AsString()
	if _, isNumber := new(big.Float).SetString(text); isNumber {
		return noUnit(field, text)
	}
	if err := field.FromText(text); err != nil {
		return &valueError{code: CodeQuantity, text: err.Error()}
	}
	if positive && isZero(field) {
		return &valueError{code: CodeRange, text: fmt.Sprintf("%q is nothing", text), hint: "write more, or leave it out"}
	}
	return nil
}

func noUnit(field Quantity, text string) error {
	return &valueError{code: CodeNoUnit, text: fmt.Sprintf("%s has no unit", shorten(text)), hint: fmt.Sprintf("write %q", field.Example(shorten(text)))}
}

// isZero reports whether a quantity of an integer type holds zero, by way of its text form.
func isZero(field Quantity) bool {
	zero, ok := field.(interface{ IsZero() bool })
	return ok && zero.IsZero()
}

func storeList[T any](field *[]T, value cty.Value, each func(*T, cty.Value) error) error {
	if t := value.Type(); !t.IsListType() && !t.IsTupleType() && !t.IsSetType() {
		return wrongType(value, "write a list: [...]")
	}
	list := make([]T, 0, value.LengthInt())
	for it := value.ElementIterator(); it.Next(); {
		_, v := it.Element()
		var one T
		if err := each(&one, v); err != nil {
			bad := &valueError{}
			if errors.As(err, &bad) {
				bad.element, bad.inElement = len(list), true
				if bad.text == "" {
					bad.text = fmt.Sprintf("element %d is %s", len(list)+1, bad.found)
				}
			}
			return err
		}
		list = append(list, one)
	}
	*field = list
	return nil
}

func storeMap(field *map[string]string, value cty.Value) error {
	if !value.Type().IsMapType() && !value.Type().IsObjectType() {
		return wrongType(value, "write a map: { name = value }")
	}
	m := make(map[string]string, value.LengthInt())
	for it := value.ElementIterator(); it.Next(); {
		key, v := it.Element()
		text, err := scalarText(v)
		if err != nil {
			return &valueError{code: CodeType, text: fmt.Sprintf("%s is not a string, number or bool", key.AsString())}
		}
		m[key.AsString()] = text
	}
	*field = m
	return nil
}

// scalarText is the text of a string, number or bool.
func scalarText(v cty.Value) (string, error) {
	if v.IsNull() || !v.Type().IsPrimitiveType() {
		return "", wrongType(v, "write a string, a number, true or false")
	}
	return asText(v), nil
}
