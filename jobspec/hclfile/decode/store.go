package decode

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
)

// Error explains why a value does not fit its attribute.
type Error struct {
	Code, Text, Hint string
	Found            string // description of the value, with [diagnostic.CodeType]
	InElement        bool   // the error concerns one element of a list
	Element          int    // index of the element, from 0
}

// Error implements error.
func (e *Error) Error() string { return e.Text }

func wrongType(value cty.Value, hint string) error {
	return &Error{Code: diagnostic.CodeType, Found: Describe(value), Hint: hint}
}

// Describe describes a value for messages: the string "x", the number 7, a list.
func Describe(v cty.Value) string {
	if v.Type() == cty.String && !v.IsNull() {
		return fmt.Sprintf("the string %q", Shorten(v.AsString()))
	}
	if v.IsNull() {
		return "null"
	}
	if v.Type() == cty.Number {
		return "the number " + Shorten(asText(v))
	}
	return Article(v.Type().FriendlyName())
}

// Article puts "a" or "an" before a word.
func Article(word string) string {
	if word != "" && strings.ContainsRune("aeiou", rune(word[0])) {
		return "an " + word
	}
	return "a " + word
}

// Shorten cuts a text to 40 bytes for messages.
func Shorten(text string) string {
	if len(text) > 40 {
		return text[:37] + "..."
	}
	return text
}

// Into stores a value in the field of an attribute.
func Into(into any, value cty.Value, positive bool) error {
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
	case *int16:
		n := int64(*field)
		err := storeWhole(&n, value, positive, math.MaxInt16)
		*field = int16(n)
		return err
	case *int64:
		return storeWhole(field, value, positive, 1<<53)
	case *[]string:
		return StoreList(field, value, func(text *string, v cty.Value) (err error) { *text, err = ScalarText(v); return err })
	case *[]int:
		return StoreList(field, value, func(n *int, v cty.Value) error { return storeInt(n, v, false) })
	case *map[string]string:
		return storeMap(field, value)
	default:
		return storeRare(into, value)
	}
}

// storeRare is [Into] for the rare types of attributes.
func storeRare(into any, value cty.Value) error {
	switch field := into.(type) {
	case *float64:
		return storeFloat(field, value)
	case *map[string]int:
		return storeMapOf(field, value, func(n *int, v cty.Value) error { return storeInt(n, v, false) })
	case *map[string][]string:
		return storeMapOf(field, value, func(list *[]string, v cty.Value) error { return Into(list, v, false) })
	}
	panic(fmt.Sprintf("hclfile: no attribute can be stored in a %T", into))
}

func storeString(field *string, value cty.Value) error {
	if value.Type() != cty.String {
		return wrongType(value, "write it in quotes")
	}
	return storeText(field, value.AsString())
}

// storeText refuses a text that cannot be passed to a program.
func storeText(field *string, text string) error {
	if strings.ContainsRune(text, 0) {
		return &Error{Code: diagnostic.CodeValue, Text: "a text cannot hold a NUL byte", Hint: "leave it out"}
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
		return &Error{Code: diagnostic.CodeRange, Text: "the number is out of range"}
	}
	*field = f
	return nil
}

// storeMapOf stores a map whose values are not texts.
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

// elementError adds the map key to the error of an element.
func elementError(key string, err error) error {
	bad := &Error{}
	if !errors.As(err, &bad) {
		return err
	}
	text := Shorten(key) + ": " + bad.Text
	if bad.Text == "" {
		text = Shorten(key) + " is " + bad.Found
	}
	return &Error{Code: bad.Code, Text: text, Hint: bad.Hint}
}

func storeBool(field *bool, value cty.Value) error {
	if value.Type() != cty.Bool {
		return wrongType(value, "write true or false, without quotes")
	}
	*field = value.True()
	return nil
}

// maxInt exceeds every sensible count in a file, and fits an int on every machine.
const maxInt = 1 << 31

func storeInt(field *int, value cty.Value, positive bool) error {
	n := int64(*field)
	err := storeWhole(&n, value, positive, maxInt)
	*field = int(n)
	return err
}

// storeWhole stores an integer whose absolute value is at most the given bound.
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
		return &Error{Code: diagnostic.CodeRange, Text: "the number must be whole", Hint: "round it: floor(x) or ceil(x)"}
	}
	n, accuracy := value.AsBigFloat().Int64()
	if accuracy != big.Exact || n > most || n < -most || positive && n < 1 {
		return &Error{Code: diagnostic.CodeRange, Text: Shorten(asText(value)) + " is out of range",
			Hint: atLeast(positive && n < 1)}
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

// storeQuantity parses a text with a unit. A number without unit has its own message, because other
// systems accept it.
func storeQuantity(field Quantity, value cty.Value, positive bool) error {
	if value.Type() == cty.Number {
		text := asText(value)
		return noUnit(field, text)
	}
	if value.Type() != cty.String {
		return wrongType(value, "write it in quotes, with a unit: "+field.Example("1"))
	}
	text := value.AsString()
	if _, isNumber := new(big.Float).SetString(text); isNumber {
		return noUnit(field, text)
	}
	if err := field.FromText(text); err != nil {
		return &Error{Code: diagnostic.CodeQuantity, Text: err.Error()}
	}
	if positive && isZero(field) {
		return &Error{Code: diagnostic.CodeRange, Text: fmt.Sprintf("%q is nothing", text),
			Hint: "write more, or leave it out"}
	}
	return nil
}

func noUnit(field Quantity, text string) error {
	return &Error{Code: diagnostic.CodeNoUnit, Text: fmt.Sprintf("%s has no unit", Shorten(text)),
		Hint: "write " + field.Example(Shorten(text))}
}

// isZero reports whether a quantity of integer type is zero; it reads the text form.
func isZero(field Quantity) bool {
	zero, ok := field.(interface{ IsZero() bool })
	return ok && zero.IsZero()
}

// StoreList stores a list in a field; each stores one element.
func StoreList[T any](field *[]T, value cty.Value, each func(*T, cty.Value) error) error {
	if t := value.Type(); !t.IsListType() && !t.IsTupleType() && !t.IsSetType() {
		return wrongType(value, "write a list: [...]")
	}
	list := make([]T, 0, value.LengthInt())
	for it := value.ElementIterator(); it.Next(); {
		_, v := it.Element()
		var one T
		if err := each(&one, v); err != nil {
			bad := &Error{}
			if errors.As(err, &bad) {
				bad.Element, bad.InElement = len(list), true
				if bad.Text == "" {
					bad.Text = fmt.Sprintf("element %d is %s", len(list)+1, bad.Found)
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
		text, err := ScalarText(v)
		if err != nil {
			return &Error{Code: diagnostic.CodeType, Text: fmt.Sprintf("%s is not a string, number or bool", key.AsString())}
		}
		if strings.ContainsRune(key.AsString()+text, 0) {
			return &Error{Code: diagnostic.CodeValue, Text: "a text cannot hold a NUL byte", Hint: "leave it out"}
		}
		m[key.AsString()] = text
	}
	*field = m
	return nil
}

// ScalarText returns a string, number or bool as text.
func ScalarText(v cty.Value) (string, error) {
	text, err := PrimitiveText(v)
	if err != nil {
		return "", err
	}
	err = storeText(&text, text)
	return text, err
}

// PrimitiveText is [ScalarText] for an HCL value.
func PrimitiveText(v cty.Value) (string, error) {
	if v.IsNull() || !v.Type().IsPrimitiveType() {
		return "", wrongType(v, "write a string, a number, true or false")
	}
	return asText(v), nil
}
