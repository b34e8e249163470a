// Package functions has the functions that an expression in a file may call.
package functions

import (
	"errors"
	"maps"
	"time"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// MaxFile bounds the bytes of a file that file() or script_file reads.
const MaxFile = 1 << 20

// Environment is what functions may ask for besides their arguments.
type Environment struct {
	ReadFile func(name string) ([]byte, error) // for file()
	Getenv   func(name string) (string, error) // for env()
	Now      func() time.Time                  // for timestamp(), called once
	NewUUID  func() string                     // for uuid(), called each time
	// Quantities are functions that turn a text with a unit into a number: duration("1h").
	Quantities map[string]func(text string) (int64, error)
}

// pure are the functions that need nothing but their arguments.
var pure = map[string]function.Function{
	"abs": stdlib.AbsoluteFunc, "ceil": stdlib.CeilFunc, "chomp": stdlib.ChompFunc, "chunklist": stdlib.ChunklistFunc,
	"coalesce": stdlib.CoalesceFunc, "coalescelist": stdlib.CoalesceListFunc, "compact": stdlib.CompactFunc,
	"concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc, "csvdecode": stdlib.CSVDecodeFunc,
	"distinct": stdlib.DistinctFunc, "element": stdlib.ElementFunc, "flatten": stdlib.FlattenFunc,
	"floor":  stdlib.FloorFunc,
	"format": boundedFormat(stdlib.FormatFunc), "formatdate": stdlib.FormatDateFunc,
	"formatlist": boundedFormat(stdlib.FormatListFunc),
	"hasindex":   stdlib.HasIndexFunc, "indent": boundedIndent(), "index": stdlib.IndexFunc, "int": stdlib.IntFunc,
	"join":       stdlib.JoinFunc,
	"jsondecode": stdlib.JSONDecodeFunc, "jsonencode": stdlib.JSONEncodeFunc, "keys": stdlib.KeysFunc,
	"length": stdlib.LengthFunc,
	"log":    stdlib.LogFunc, "lookup": stdlib.LookupFunc, "lower": stdlib.LowerFunc, "max": stdlib.MaxFunc,
	"merge": stdlib.MergeFunc,
	"min":   stdlib.MinFunc, "parseint": stdlib.ParseIntFunc, "pow": stdlib.PowFunc, "range": stdlib.RangeFunc,
	"regex": stdlib.RegexFunc, "regexall": stdlib.RegexAllFunc, "regexreplace": stdlib.RegexReplaceFunc,
	"replace": stdlib.ReplaceFunc, "reverse": stdlib.ReverseListFunc, "setintersection": stdlib.SetIntersectionFunc,
	"setproduct": stdlib.SetProductFunc, "setsubtract": stdlib.SetSubtractFunc,
	"setsymmetricdifference": stdlib.SetSymmetricDifferenceFunc, "setunion": stdlib.SetUnionFunc,
	"signum": stdlib.SignumFunc, "slice": stdlib.SliceFunc, "sort": stdlib.SortFunc, "split": stdlib.SplitFunc,
	"strlen": stdlib.StrlenFunc, "strrev": stdlib.ReverseFunc, "substr": stdlib.SubstrFunc, "timeadd": stdlib.TimeAddFunc,
	"tobool": stdlib.MakeToFunc(cty.Bool), "tolist": stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType)),
	"tomap": stdlib.MakeToFunc(cty.Map(cty.DynamicPseudoType)), "tonumber": stdlib.MakeToFunc(cty.Number),
	"toset": stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)), "tostring": stdlib.MakeToFunc(cty.String),
	"title": stdlib.TitleFunc, "trim": stdlib.TrimFunc, "trimprefix": stdlib.TrimPrefixFunc,
	"trimspace":  stdlib.TrimSpaceFunc,
	"trimsuffix": stdlib.TrimSuffixFunc, "upper": stdlib.UpperFunc, "values": stdlib.ValuesFunc,
	"zipmap": stdlib.ZipmapFunc,
}

// Table returns the functions of a file by name.
func Table(in Environment) map[string]function.Function {
	table := maps.Clone(pure)
	now := ""
	table["file"] = textFunction("path", func(name string) (string, error) {
		text, err := in.ReadFile(name)
		return string(text), err
	})
	table["env"] = textFunction("name", in.Getenv)
	table["timestamp"] = noArguments(func() (string, error) {
		switch {
		case in.Now == nil:
			return "", errors.New("the current time is not available here")
		case now == "":
			now = in.Now().UTC().Format(time.RFC3339)
		}
		return now, nil
	})
	table["uuid"] = noArguments(func() (string, error) {
		if in.NewUUID == nil {
			return "", errors.New("random numbers are not available here")
		}
		return in.NewUUID(), nil
	})
	for name, example := range in.Quantities {
		table[name] = quantityFunction(example)
	}
	return table
}

func textFunction(parameter string, f func(string) (string, error)) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: parameter, Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			text, err := f(args[0].AsString())
			if err != nil {
				return cty.NilVal, function.NewArgError(0, err)
			}
			return cty.StringVal(text), nil
		},
	})
}

func noArguments(f func() (string, error)) function.Function {
	return function.New(&function.Spec{
		Type: function.StaticReturnType(cty.String),
		Impl: func([]cty.Value, cty.Type) (cty.Value, error) {
			text, err := f()
			return cty.StringVal(text), err
		},
	})
}

// quantityFunction turns a duration or size into its number of seconds or bytes.
func quantityFunction(read func(text string) (int64, error)) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "text", Type: cty.String}},
		Type:   function.StaticReturnType(cty.Number),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			n, err := read(args[0].AsString())
			if err != nil {
				return cty.NilVal, function.NewArgError(0, err)
			}
			return cty.NumberIntVal(n), nil
		},
	})
}

// MaxWidth bounds a width or precision in a format, which would otherwise ask for gigabytes of
// blanks. It has maxDigits digits.
const (
	MaxWidth  = 999
	maxDigits = 3
)

// MaxIndent bounds the spaces of indent().
const MaxIndent = 100

// boundedFormat refuses formats with a huge or computed width.
func boundedFormat(f function.Function) function.Function {
	return function.New(&function.Spec{
		Params:   f.Params(),
		VarParam: f.VarParam(),
		Type:     func(args []cty.Value) (cty.Type, error) { return f.ReturnTypeForValues(args) },
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if !args[0].IsKnown() || args[0].IsNull() {
				return f.Call(args)
			}
			digits := 0
			for _, c := range args[0].AsString() {
				if c < '0' || c > '9' {
					digits = 0
					if c == '*' {
						return cty.NilVal, function.NewArgErrorf(0, "a width of * is not supported")
					}
					continue
				}
				if digits++; digits > maxDigits {
					return cty.NilVal, function.NewArgErrorf(0, "numbers in a format have at most %d digits", maxDigits)
				}
			}
			return f.Call(args)
		},
	})
}

// boundedIndent refuses to indent by more than MaxIndent spaces.
func boundedIndent() function.Function {
	f := stdlib.IndentFunc
	return function.New(&function.Spec{
		Params: f.Params(),
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if n, _ := args[0].AsBigFloat().Float64(); n < 0 || n > MaxIndent {
				return cty.NilVal, function.NewArgErrorf(0, "indentation must be from 0 to %d spaces", MaxIndent)
			}
			return f.Call(args)
		},
	})
}
