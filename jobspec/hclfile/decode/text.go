package decode

import (
	"fmt"
	"strconv"
	"time"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/rota-hpc/rota/jobspec/duration"
)

func asText(v cty.Value) string {
	if v.Type() == cty.Number && v.IsKnown() && !v.IsNull() && digits(v) > maxDigits {
		return "a huge number"
	}
	if s, err := convert.Convert(v, cty.String); err == nil && s.IsKnown() && !s.IsNull() {
		return s.AsString()
	}
	return ""
}

// maxDigits bounds the digits of a number in text form.
const maxDigits = 4096

// digits estimates the length of a number in text form.
func digits(v cty.Value) int {
	exponent := v.AsBigFloat().MantExp(nil)
	return max(exponent, -exponent) / 3
}

// Duration is a quantity that may be shorter than a second.
type Duration time.Duration

// FromText implements [Quantity].
func (d *Duration) FromText(text string) error {
	parsed, ok := duration.Parse(text)
	if !ok {
		return fmt.Errorf("%q is not a duration; write a number with ms, s, m, h, d or w", text)
	}
	*d = Duration(parsed)
	return nil
}

// Kind implements [Quantity].
func (*Duration) Kind() string { return "duration" }

// Example implements [Quantity].
func (*Duration) Example(number string) string { return strconv.Quote(number + "s") }

// TypeName returns the name of a field's type for messages and documentation. It panics for a type
// that attributes cannot have.
func TypeName(into any) string {
	switch v := into.(type) {
	case Quantity:
		return v.Kind()
	case *string, **string:
		return "string"
	case *bool, **bool:
		return "bool"
	case *int, **int, *int16, *int64:
		return "int"
	case *[]string:
		return "list(string)"
	case *[]int:
		return "list(int)"
	case *map[string]string:
		return "map(string)"
	case *map[string]int:
		return "map(int)"
	case *map[string][]string:
		return "map(list(string))"
	case *float64:
		return "number"
	}
	panic(fmt.Sprintf("hclfile: no attribute can be stored in a %T", into))
}

// Quantity is a value that is written as text with a unit. jobspec.Seconds and jobspec.Bytes
// implement it.
type Quantity interface {
	FromText(text string) error
	Kind() string
	Example(number string) string // example of a quantity with this number, in quotes
}
