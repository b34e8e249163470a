package hclfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/rota-hpc/rota/jobspec/hclfile/decode"
	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
)

// takeDeclarations keeps the variable and locals blocks and returns a body with the rest.
func (r *reader) takeDeclarations(body *hclsyntax.Body) *hclsyntax.Body {
	rest := *body
	rest.Blocks = nil
	for _, b := range body.Blocks {
		switch b.Type {
		case "variable":
			r.declareVariable(b)
		case "locals":
			r.declareLocals(b)
		default:
			rest.Blocks = append(rest.Blocks, b)
		}
	}
	return &rest
}

func (r *reader) declareVariable(b *hclsyntax.Block) {
	switch {
	case len(b.Labels) != 1 || !hclsyntax.ValidIdentifier(b.Labels[0]):
		r.add(b.DefRange(), diagnostic.CodeLabels, `write variable "name" { ... }`, "a variable needs one label, its name")
	case r.varBlocks[b.Labels[0]] != nil:
		r.add(b.LabelRanges[0], diagnostic.CodeDuplicate, "keep one of them", "variable %q is declared twice", b.Labels[0])
	case len(r.varBlocks) == maxVariables:
		r.add(b.DefRange(), diagnostic.CodeLimit, "", "more than %d variables", maxVariables)
	default:
		r.varBlocks[b.Labels[0]] = b
		r.findSensitive(b.Labels[0], b)
	}
}

func (r *reader) declareLocals(b *hclsyntax.Block) {
	for _, inner := range b.Body.Blocks {
		r.add(inner.DefRange(), diagnostic.CodeForm, "write "+inner.Type+" = { ... }", "locals may contain only "+
			"attributes, no blocks")
	}
	for _, a := range inSourceOrder(b.Body.Attributes) {
		switch {
		case r.pending[a.Name] != nil:
			r.add(a.NameRange, diagnostic.CodeDuplicate, "keep one of them", "local %q is set twice", a.Name)
		case len(r.pending) == maxLocals:
			r.add(a.NameRange, diagnostic.CodeLimit, "", "more than %d locals", maxLocals)
		default:
			r.pending[a.Name] = a
		}
	}
}

func inSourceOrder(attrs hclsyntax.Attributes) []*hclsyntax.Attribute {
	list := make([]*hclsyntax.Attribute, 0, len(attrs))
	for _, a := range attrs {
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b *hclsyntax.Attribute) int { return a.NameRange.Start.Byte - b.NameRange.Start.Byte })
	return list
}

func (r *reader) evaluateDeclarations() {
	given := r.givenValues()
	names := slices.Sorted(maps.Keys(r.varBlocks))
	values := make(map[string]cty.Value, len(names))
	for _, name := range names {
		values[name] = r.variable(name, r.varBlocks[name], given[name])
		if r.sensitive[name] {
			values[name] = r.conceal(values[name])
		}
	}
	r.vars = values
	for _, name := range names {
		r.validateVariable(name, r.varBlocks[name])
	}
	for _, name := range slices.Sorted(maps.Keys(r.pending)) {
		r.local(name)
	}
}

// variableSchema is the schema of a variable block. Its values are not stored in a target.
var variableSchema = &Block{
	Attrs: []Attr{
		{Name: "type", keyword: true}, {Name: "default"}, {Name: "description"}, {Name: "sensitive"},
	},
	Blocks: []Nested{{Name: "validation", Many: true, Body: validationSchema}},
}

var validationSchema = &Block{Attrs: []Attr{{Name: "condition", Required: true},
	{Name: "error_message", Required: true}}}

func (r *reader) variable(name string, b *hclsyntax.Block, given *givenValue) cty.Value {
	r.checkNames(b.Body, variableSchema)
	typ, ok := r.variableType(b)
	if !ok {
		return cty.DynamicVal
	}
	r.describe(b)
	if given != nil {
		return r.givenVariable(name, typ, given)
	}
	a := b.Body.Attributes["default"]
	if a == nil {
		r.add(b.DefRange(), diagnostic.CodeVariable, "give it with -var "+name+"=VALUE, in a -var-file, or as ROTA_VAR_"+name,
			"variable %q has no value and no default", name)
		return cty.DynamicVal
	}
	value, ok := r.evalAs("default", a.Expr)
	if !ok {
		return cty.DynamicVal
	}
	converted, err := typ.convert(value)
	if err != nil {
		r.add(a.Expr.Range(), diagnostic.CodeVariableValue, "", "the default of variable %q is not %s: %v", name,
			decode.Article(typ.FriendlyName()), r.reason(name, err))
		return cty.DynamicVal
	}
	return converted
}

// reason is why a value is not of its variable's type.
func (r *reader) reason(name string, err error) string {
	if r.sensitive[name] {
		return "it is sensitive, so it is not shown"
	}
	return err.Error()
}

// variableType is the type of a variable, with defaults for the attributes of objects that may be
// left out.
type variableType struct {
	cty.Type
	defaults *typeexpr.Defaults
}

func (t variableType) convert(value cty.Value) (cty.Value, error) {
	if name := unknownAttribute(value.Type(), t.Type); name != "" {
		return cty.NilVal, fmt.Errorf("its type has no attribute %q", name)
	}
	if t.defaults != nil && !value.IsNull() {
		value = t.defaults.Apply(value)
	}
	return convert.Convert(value, t.Type)
}

// unknownAttribute finds an attribute of an object that its variable's type does not have, "" when
// there is none. The conversion would drop it without a message.
func unknownAttribute(have, want cty.Type) string {
	switch {
	case want.IsObjectType() && have.IsObjectType():
		for _, name := range slices.Sorted(maps.Keys(have.AttributeTypes())) {
			if !want.HasAttribute(name) {
				return name
			}
			if inner := unknownAttribute(have.AttributeType(name), want.AttributeType(name)); inner != "" {
				return inner
			}
		}
	case want.IsCollectionType():
		for _, element := range elementTypes(have) {
			if inner := unknownAttribute(element, want.ElementType()); inner != "" {
				return inner
			}
		}
	case want.IsTupleType() && have.IsTupleType():
		for i, element := range have.TupleElementTypes() {
			if i < want.Length() {
				if inner := unknownAttribute(element, want.TupleElementType(i)); inner != "" {
					return inner
				}
			}
		}
	}
	return ""
}

// elementTypes are the types of the elements of a list, set, map, tuple or object.
func elementTypes(t cty.Type) []cty.Type {
	switch {
	case t.IsCollectionType():
		return []cty.Type{t.ElementType()}
	case t.IsTupleType():
		return t.TupleElementTypes()
	case t.IsObjectType():
		var types []cty.Type
		for _, name := range slices.Sorted(maps.Keys(t.AttributeTypes())) {
			types = append(types, t.AttributeType(name))
		}
		return types
	}
	return nil
}

func (r *reader) variableType(b *hclsyntax.Block) (variableType, bool) {
	a := b.Body.Attributes["type"]
	if a == nil {
		return variableType{Type: cty.DynamicPseudoType}, true
	}
	if lit, ok := a.Expr.(*hclsyntax.LiteralValueExpr); ok && !lit.Val.IsKnown() {
		return variableType{}, false // reported where it was read
	}
	typ, defaults, found := typeexpr.TypeConstraintWithDefaults(a.Expr)
	if found.HasErrors() {
		r.addHCL(diagnostic.CodeVariable, "write string, number, bool, list(string), map(number) or the like", found)
		return variableType{}, false
	}
	return variableType{typ, defaults}, true
}

// describe checks that the description is a text.
func (r *reader) describe(b *hclsyntax.Block) {
	a := b.Body.Attributes["description"]
	if a == nil {
		return
	}
	if value, ok := r.evalAs("description", a.Expr); ok && (value.IsNull() || value.Type() != cty.String) {
		r.add(a.Expr.Range(), diagnostic.CodeType, "write it in quotes", "description must be a text")
	}
}

func (r *reader) validateVariable(name string, b *hclsyntax.Block) {
	if !r.vars[name].IsKnown() {
		return
	}
	for _, v := range b.Body.Blocks {
		if v.Type != "validation" {
			continue
		}
		r.checkNames(v.Body, validationSchema)
		condition, message := v.Body.Attributes["condition"], v.Body.Attributes["error_message"]
		if condition == nil || message == nil {
			continue
		}
		ok, evaluated := r.evalAs("condition", condition.Expr)
		ok, _ = ok.UnmarkDeep()
		if !evaluated {
			continue
		}
		if ok.IsNull() || ok.Type() != cty.Bool {
			r.add(condition.Expr.Range(), diagnostic.CodeType, "", "condition must be true or false")
		} else if text := r.ruleMessage(message.Expr); ok.False() {
			r.add(condition.Expr.Range(), diagnostic.CodeVariableRule, text, "variable %q has a value that is not allowed", name)
		}
	}
}

// ruleMessage is the error_message of a validation.
func (r *reader) ruleMessage(expr hclsyntax.Expression) string {
	value, ok := r.evalAs("error_message", expr)
	plain := r.reveal(value)
	switch {
	case !ok:
		return ""
	case plain.IsNull() || plain.Type() != cty.String:
		r.add(expr.Range(), diagnostic.CodeType, "write it in quotes", "error_message must be a text")
		return ""
	case r.now.secret:
		return "error_message contains a sensitive value, so it is not shown"
	}
	return plain.AsString()
}

// local returns a local's value, computing it and what it needs first.
func (r *reader) local(name string) cty.Value {
	if v, done := r.locals[name]; done {
		return v
	}
	a := r.pending[name]
	if start := slices.Index(r.visiting, name); start >= 0 {
		r.add(a.NameRange, diagnostic.CodeCycle, "break the circle", "local %q refers to itself%s", name,
			circle(r.visiting[start:]))
		return cty.DynamicVal
	}
	r.visiting = append(r.visiting, name)
	outer := r.now
	v, ok := r.evalAs(name, a.Expr)
	r.now = outer
	r.visiting = r.visiting[:len(r.visiting)-1]
	if !ok {
		v = cty.DynamicVal
	}
	r.locals[name] = v
	return v
}

// maxCircle bounds how many locals of a cycle are named.
const maxCircle = 8

// circle returns the chain of locals through which a local needs itself.
func circle(names []string) string {
	if len(names) < 2 {
		return ""
	}
	shown := append(slices.Clone(names[:min(len(names), maxCircle)]), names[0])
	if len(names) > maxCircle {
		shown[maxCircle] = "..."
	}
	return ": " + strings.Join(shown, " -> ")
}
