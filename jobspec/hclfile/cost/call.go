package cost

import (
	"encoding/csv"
	"math"
	"regexp"
	"strings"
	"unicode"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/rota-hpc/rota/jobspec/hclfile/functions"
)

// takesPart are functions that return a part of their first argument without reading the rest.
var takesPart = map[string]bool{"length": true, "element": true, "lookup": true, "hasindex": true}

// Functions returns functions that charge the budget: before a call for a bound of the growth, and
// after it for the real growth.
func (m *Meter) Functions(table map[string]function.Function) map[string]function.Function {
	spending := make(map[string]function.Function, len(table))
	for name, f := range table {
		grows := 0.0 // growth bound of this call: Impl runs right after Type
		spending[name] = function.New(&function.Spec{
			Params: f.Params(), VarParam: f.VarParam(),
			Type: func(args []cty.Value) (cty.Type, error) {
				// To find the type, functions such as jsondecode compute the result.
				grows = m.growth(name, args)
				if !m.Spend(elementCost + grows) {
					return cty.DynamicPseudoType, nil
				}
				return f.ReturnTypeForValues(args)
			},
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				if m.exhausted {
					return cty.DynamicVal, nil
				}
				value, err := f.Call(args)
				if err != nil {
					return value, err
				}
				known := grows
				for i, arg := range args {
					if !takesPart[name] || i > 0 {
						known += sizeOf(arg, math.Inf(1))
					}
				}
				if more := sizeOf(value, known+m.left) - known; more > 0 && !m.Spend(more) {
					return cty.DynamicVal, nil
				}
				return value, nil
			},
		})
	}
	return spending
}

// growth bounds the size of a function's result beyond a few times the size of its arguments. It is
// 0 for most functions.
func (m *Meter) growth(name string, args []cty.Value) float64 {
	for _, arg := range args {
		if arg == cty.NilVal || !arg.IsKnown() || arg.IsNull() {
			return 0 // the function refuses it, or its result is unknown
		}
	}
	switch name {
	case "join":
		between := 0.0
		for _, list := range args[1:] {
			between += length(list)
		}
		return between * textLength(args[0])
	case "format", "formatlist":
		return m.formatted(args)
	case "replace":
		return float64(strings.Count(text(args[0]), text(args[1]))) * textLength(args[2])
	case "regex", "regexall", "regexreplace":
		return m.matched(name, args)
	case "setproduct":
		return m.combined(args)
	case "indent":
		spaces, _ := args[0].AsBigFloat().Float64()
		return min(max(0, spaces), functions.MaxIndent) * float64(strings.Count(text(args[1]), "\n"))
	case "split":
		return float64(strings.Count(text(args[1]), text(args[0]))+1) * (elementCost + 8)
	case "csvdecode":
		return tabulated(text(args[0]))
	case "jsondecode":
		begins := strings.Count(text(args[0]), ",") + strings.Count(text(args[0]), "[") + strings.Count(text(args[0]), "{")
		return float64(begins+1) * (elementCost + 24)
	case "distinct":
		return length(args[0]) * length(args[0]) / 4 // the function compares all pairs
	}
	return 0
}

// text returns a text argument, or "" for other values.
func text(v cty.Value) string {
	v, _ = v.Unmark()
	if v.Type() != cty.String || v.IsNull() || !v.IsKnown() {
		return ""
	}
	return v.AsString()
}

func textLength(v cty.Value) float64 { return float64(len(text(v))) }

// length returns the number of elements of a collection, or 1 for other values.
func length(v cty.Value) float64 {
	v, _ = v.Unmark()
	if v.IsNull() || !v.IsKnown() || !v.CanIterateElements() {
		return 1
	}
	return float64(v.LengthInt())
}

// largest returns the size of a collection's largest element, or of the value itself.
func (m *Meter) largest(v cty.Value) float64 {
	v, _ = v.Unmark()
	if v.IsNull() || !v.IsKnown() || !v.CanIterateElements() {
		return m.size(v)
	}
	most := 0.0
	for it := v.ElementIterator(); it.Next(); {
		_, element := it.Element()
		most = max(most, m.size(element))
	}
	return most
}

// formatted bounds the length of formatted texts: the format itself, its widths, and an argument
// for each verb. %q and %#v may write eight bytes for one byte.
func (m *Meter) formatted(args []cty.Value) float64 {
	format := text(args[0])
	width, number := 0, 0
	for _, c := range format {
		if !unicode.IsDigit(c) {
			number = 0
			continue
		}
		digit := min(functions.MaxWidth, 10*number+int(c-'0'))
		width += digit - number
		number = digit
	}
	rows, widest := 1.0, 0.0
	for _, arg := range args[1:] {
		rows, widest = max(rows, length(arg)), max(widest, m.largest(arg))
	}
	row := float64(len(format)+width) + float64(strings.Count(format, "%"))*8*widest
	return rows * (row + elementCost)
}

// matched bounds the size of a pattern's matches, and charges for the search.
func (m *Meter) matched(name string, args []cty.Value) float64 {
	pattern, searched := text(args[0]), text(args[1])
	if name == "regexreplace" {
		pattern, searched = searched, pattern
	}
	search := float64(len(pattern)) * float64(len(searched)) / 16
	found, err := regexp.Compile(pattern)
	if err != nil || search > m.left {
		return search // the function itself reports the mistake
	}
	groups, names := float64(found.NumSubexp()+1), 0
	for _, name := range found.SubexpNames() {
		names += len(name)
	}
	each := groups*elementCost + float64(names)
	if name == "regexreplace" {
		each = textLength(args[2])
	}
	matches := 1
	if name != "regex" {
		matches = len(found.FindAllStringIndex(searched, int(m.left/max(1, each))+1))
	}
	kept := groups
	if name == "regexreplace" {
		kept = float64(strings.Count(text(args[2]), "$"))
	}
	return search + float64(matches)*each + kept*float64(len(searched))
}

// combined bounds the tuples of a product of sets.
func (m *Meter) combined(args []cty.Value) float64 {
	tuples, each := 1.0, float64(elementCost)
	for _, arg := range args {
		tuples *= length(arg)
		each += m.largest(arg) + elementCost
	}
	return tuples * each
}

// tabulated bounds the size of a table that repeats its header in each row.
func tabulated(table string) float64 {
	header, err := csv.NewReader(strings.NewReader(table)).Read()
	if err != nil {
		return 0 // the function itself reports the mistake
	}
	row := 0.0
	for _, name := range header {
		row += float64(len(name)) + elementCost + 8
	}
	return row * float64(strings.Count(table, "\n")+1)
}
