package hclfile

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"

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
	if v.Type() == cty.String && !v.IsNull() {
		return fmt.Sprintf("the string %q", shorten(v.AsString()))
	}
	if v.IsNull() {
		return "null"
	}
	if v.Type() == cty.Number {
		return "the number " + shorten(asText(v))
	}
	return article(v.Type().FriendlyName())
}

// article puts "a" or "an" before a word.
func article(word string) string {
	if word != "" && strings.ContainsRune("aeiou", rune(word[0])) {
		return "an " + word
	}
	return "a " + word
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
		return storeWhole(field, value, positive, 1<<53)
	case *[]string:
		return storeList(field, value, func(text *string, v cty.Value) (err error) { *text, err = scalarText(v); return err })
	case *[]int:
		return storeList(field, value, func(n *int, v cty.Value) error { return storeInt(n, v, false) })
	case *map[string]string:
		return storeMap(field, value)
	default:
		return storeRare(into, value)
	}
}

// storeRare is [store] for types that few attributes have.
func storeRare(into any, value cty.Value) error {
	switch field := into.(type) {
	case *float64:
		return storeFloat(field, value)
	case *map[string]int:
		return storeMapOf(field, value, func(n *int, v cty.Value) error { return storeInt(n, v, false) })
	case *map[string][]string:
		return storeMapOf(field, value, func(list *[]string, v cty.Value) error { return store(list, v, false) })
	}
	panic(fmt.Sprintf("hclfile: no attribute can be stored in a %T", into))
}

func storeString(field *string, value cty.Value) error {
	if value.Type() != cty.String {
		return wrongType(value, "write it in quotes")
	}
	return storeText(field, value.AsString())
}

// storeText refuses what no program can be given.
func storeText(field *string, text string) error {
	if strings.ContainsRune(text, 0) {
		return &valueError{code: CodeValue, text: "a text cannot hold a NUL byte", hint: "leave it out"}
	}
	*field = text
	return nil
}

func storeFloat(field *float64, value cty.Value) error {
	if value.Type() != cty.Number {
		return wrongType(value, "write a number, without quotes")
	}
	f, _ := value.AsBigFloat().Float64()
	if math.IsInf(f, 0) {
		return &valueError{code: CodeRange, text: "the number is out of range"}
	}
	*field = f
	return nil
}

// storeMapOf puts a map of values that are not texts into a field.
func storeMapOf[T any](field *map[string]T, value cty.Value, each func(*T, cty.Value) error) error {
	if !value.Type().IsMapType() && !value.Type().IsObjectType() {
		return wrongType(value, "write a map: { name = value }")
	}
	m := make(map[string]T, value.LengthInt())
	for it := value.ElementIterator(); it.Next(); {
		key, v := it.Element()
		var one T
		if err := each(&one, v); err != nil {
			return elementError(key.AsString(), err)
		}
		m[key.AsString()] = one
	}
	*field = m
	return nil
}

// elementError names the element of a map that a value could not be stored in.
func elementError(key string, err error) error {
	bad := &valueError{}
	if !errors.As(err, &bad) {
		return err
	}
	text := shorten(key) + ": " + bad.text
	if bad.text == "" {
		text = shorten(key) + " is " + bad.found
	}
	return &valueError{code: bad.code, text: text, hint: bad.hint}
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
	n := int64(*field)
	err := storeWhole(&n, value, positive, maxInt)
	*field = int(n)
	return err
}

// storeWhole stores a whole number that is not farther from 0 than most.
func storeWhole(field *int64, value cty.Value, positive bool, most int64) error {
	if value.Type() != cty.Number {
		hint := "write a whole number, without quotes"
		if value.Type() == cty.String {
			if _, err := convert.Convert(value, cty.Number); err == nil {
				hint = "write " + value.AsString() + ", without quotes"
			}
		}
		return wrongType(value, hint)
	}
	if !value.AsBigFloat().IsInt() {
		return &valueError{code: CodeRange, text: "a whole number is wanted", hint: "round it: floor(x) or ceil(x)"}
	}
	n, accuracy := value.AsBigFloat().Int64()
	if accuracy != big.Exact || n > most || n < -most || positive && n < 1 {
		return &valueError{code: CodeRange, text: shorten(asText(value)) + " is out of range", hint: atLeast(positive && n < 1)}
	}
	*field = n
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
		if strings.ContainsRune(key.AsString()+text, 0) {
			return &valueError{code: CodeValue, text: "a text cannot hold a NUL byte", hint: "leave it out"}
		}
		m[key.AsString()] = text
	}
	*field = m
	return nil
}

// scalarText is the text of a string, number or bool.
func scalarText(v cty.Value) (string, error) {
	text, err := primitiveText(v)
	if err != nil {
		return "", err
	}
	err = storeText(&text, text)
	return text, err
}

// primitiveText is [scalarText] of a value that is not stored yet.
func primitiveText(v cty.Value) (string, error) {
	if v.IsNull() || !v.Type().IsPrimitiveType() {
		return "", wrongType(v, "write a string, a number, true or false")
	}
	return asText(v), nil
}
