package hclfile

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/rota-hpc/rota/jobspec/hclfile/decode"
	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
)

// givenValue is a value for a variable from outside the file.
type givenValue struct {
	text  string               // from the command line or the environment
	expr  hclsyntax.Expression // from a file of values
	place hcl.Range
	from  string
}

// givenValues collects them, the strongest source last.
func (r *reader) givenValues() map[string]*givenValue {
	given := map[string]*givenValue{}
	for _, name := range r.opts.AutoFiles {
		r.variableFile(name, given, true)
	}
	if r.opts.Getenv != nil {
		for name := range r.varBlocks {
			if text, ok := r.opts.Getenv("ROTA_VAR_" + name); ok {
				from := "ROTA_VAR_" + name
				r.given(name, text)
				given[name] = &givenValue{text: text, from: from, place: hcl.Range{Filename: from}}
			}
		}
	}
	for _, name := range r.opts.VarFiles {
		r.variableFile(name, given, false)
	}
	for _, name := range slices.Sorted(maps.Keys(r.opts.Vars)) {
		place := hcl.Range{Filename: "-var " + name}
		if r.varBlocks[name] == nil {
			r.noVariable(name, place)
			continue
		}
		r.given(name, r.opts.Vars[name])
		given[name] = &givenValue{text: r.opts.Vars[name], from: "-var", place: place}
	}
	return given
}

// given notes the text of a sensitive variable before it is read.
func (r *reader) given(name, text string) {
	if r.sensitive[name] {
		r.strikeOut(text)
	}
}

func (r *reader) noVariable(name string, place hcl.Range) {
	r.add(place, diagnostic.CodeNoVariable, r.variableHint(name), "the file has no variable %q", name)
}

// variableHint returns what to do about an unknown variable.
func (r *reader) variableHint(name string) string {
	return didYouMean(name, slices.Collect(maps.Keys(r.varBlocks)), "declare it: variable \""+name+"\" {}")
}

// variableFile reads a file of values. A shared one serves every job file of its directory, so it
// may have values for others.
func (r *reader) variableFile(name string, given map[string]*givenValue, shared bool) {
	place := hcl.Range{Filename: name}
	if r.opts.ReadVars == nil {
		r.add(place, diagnostic.CodeVariableFile, "", "files of values cannot be read here")
		return
	}
	src, err := r.opts.ReadVars(name)
	if err != nil {
		r.add(place, diagnostic.CodeVariableFile, "", "the file of values cannot be read: %v", err)
		return
	}
	body := r.parse(name, src, valuesSchema, true)
	if body == nil {
		return
	}
	for _, b := range body.Blocks {
		r.add(b.DefRange(), diagnostic.CodeForm, "write name = value", "a file of values may contain only attributes, no "+
			"blocks")
	}
	for _, a := range inSourceOrder(body.Attributes) {
		if r.varBlocks[a.Name] == nil {
			if !shared {
				r.noVariable(a.Name, a.NameRange)
			}
			continue
		}
		if r.sensitive[a.Name] {
			r.hide(a.SrcRange)
		}
		given[a.Name] = &givenValue{expr: a.Expr, from: name, place: a.Expr.Range()}
	}
}

// givenVariable converts a value from outside to the variable's type. A text is taken literally for
// a string, and read as HCL for any other type.
func (r *reader) givenVariable(name string, typ variableType, given *givenValue) cty.Value {
	r.now = current{name: name}
	value := cty.StringVal(given.text)
	switch {
	case given.expr != nil:
		v, ok := r.eval(given.expr)
		if !ok {
			return cty.DynamicVal
		}
		value = v
	case !typ.IsPrimitiveType() && typ.Type != cty.DynamicPseudoType:
		v, ok := r.evalText(given)
		if !ok {
			return cty.DynamicVal
		}
		value = v
	}
	converted, err := typ.convert(value)
	switch {
	case err == nil && !converted.IsNull():
		return converted
	case r.sensitive[name]:
		r.add(given.place, diagnostic.CodeVariableValue, "",
			"variable %q must be %s, but the given value is not; it is sensitive, so it is not shown",
			name, decode.Article(typ.FriendlyName()))
	case given.expr == nil && typ.IsPrimitiveType():
		r.add(given.place, diagnostic.CodeVariableValue, "", "variable %q must be %s, but %q is not", name,
			decode.Article(typ.FriendlyName()), decode.Shorten(given.text))
	case err != nil:
		r.add(given.place, diagnostic.CodeVariableValue, "", "variable %q is %s: %v", name,
			decode.Article(typ.FriendlyName()), err)
	default:
		r.add(given.place, diagnostic.CodeVariableValue, "leave it out", "variable %q must be %s, but null is not", name,
			decode.Article(typ.FriendlyName()))
	}
	return cty.DynamicVal
}

// evalText evaluates a list, map or object from the command line or the environment.
func (r *reader) evalText(given *givenValue) (cty.Value, bool) {
	if !r.readable(given.place.Filename, []byte(given.text)) || !r.shallow(given.place.Filename, []byte(given.text)) {
		return cty.DynamicVal, false
	}
	expr, found := hclsyntax.ParseExpression([]byte(given.text), given.place.Filename, hcl.InitialPos)
	if found.HasErrors() {
		if r.sensitive[r.now.name] {
			r.add(given.place, diagnostic.CodeVariableValue, "",
				"the value of variable %q cannot be read; it is sensitive, so it is not shown", r.now.name)
			return cty.DynamicVal, false
		}
		r.addHCL(diagnostic.CodeVariableValue, `write a list as ["a", "b"] and a map as {a = 1}`, found)
		return cty.DynamicVal, false
	}
	return r.eval(expr)
}
