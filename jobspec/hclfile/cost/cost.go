// Package cost bounds what an expression of HCL yields before it is evaluated. A small file can ask
// for a huge result: locals that double each other, loops within loops, replace with a long text.
// The estimate is never too low, so that a budget can refuse such a file.
package cost

import (
	"math"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"github.com/rota-hpc/rota/jobspec/hclfile/functions"
)

// estimate bounds what an expression yields: all its elements and bytes together, how many
// elements, and the largest of them.
type estimate struct {
	total, elements, largest float64
}

// elementCost is what an element costs besides its bytes: it has a type and a header.
const elementCost = 64

// Scope is what the names in an expression stand for.
type Scope struct {
	// Value returns the value of root.name, where root is var or local.
	Value func(root, name string) (cty.Value, bool)
	// Iterator returns the element of the innermost dynamic block with an iterator of that name.
	Iterator func(name string) (cty.Value, bool)
	// ReadFile reads what file() reads.
	ReadFile func(name string) ([]byte, error)

	sizes map[string]estimate // of the variables and locals that were asked for, which do not change any more
}

// Of bounds the bytes and elements that an expression yields, including what each element costs
// besides its bytes.
func Of(expr hclsyntax.Expression, scope *Scope) float64 {
	e := estimator{scope: scope}
	return e.of(expr).total
}

// size returns the size of a variable or local, measured once.
func (s *Scope) size(name string, value cty.Value) estimate {
	if known, ok := s.sizes[name]; ok {
		return known
	}
	if s.sizes == nil {
		s.sizes = map[string]estimate{}
	}
	s.sizes[name] = sizeOf(value)
	return s.sizes[name]
}

// estimator has the loop variables around an expression.
type estimator struct {
	scope *Scope
	loop  map[string]estimate
	splat []estimate
}

func scalar(size float64) estimate { return estimate{total: size, elements: 1, largest: size} }

func (e *estimator) of(expr hclsyntax.Expression) estimate {
	switch x := expr.(type) {
	case *hclsyntax.LiteralValueExpr:
		return sizeOf(x.Val)
	case *hclsyntax.ScopeTraversalExpr:
		return e.traversal(x)
	case *hclsyntax.FunctionCallExpr:
		return e.call(x)
	case *hclsyntax.ForExpr:
		return e.loopOver(x)
	case *hclsyntax.SplatExpr:
		source := e.of(x.Source)
		e.splat = append(e.splat, scalar(source.largest))
		each := e.of(x.Each)
		e.splat = e.splat[:len(e.splat)-1]
		return estimate{source.total + source.elements*(each.total+elementCost), source.elements, each.total}
	case *hclsyntax.AnonSymbolExpr:
		if n := len(e.splat); n > 0 {
			return e.splat[n-1]
		}
		return scalar(8)
	case *hclsyntax.TupleConsExpr:
		return e.sum(x.Exprs)
	case *hclsyntax.ObjectConsExpr:
		var parts []hclsyntax.Expression
		for _, item := range x.Items {
			parts = append(parts, item.KeyExpr, item.ValueExpr)
		}
		return e.sum(parts)
	}
	return e.parts(expr)
}

func (e *estimator) sum(exprs []hclsyntax.Expression) estimate {
	all := estimate{total: 8}
	for _, x := range exprs {
		one := e.of(x)
		all.total += one.total + elementCost
		all.elements++
		all.largest = max(all.largest, one.total)
	}
	return all
}

// parts bounds templates, operators, conditions, indexes and brackets by the sum of what is in
// them.
func (e *estimator) parts(expr hclsyntax.Expression) estimate {
	all := estimate{total: 8}
	add := func(exprs ...hclsyntax.Expression) {
		for _, x := range exprs {
			if x == nil {
				continue
			}
			one := e.of(x)
			all.total += one.total
			all.elements += one.elements
			all.largest += one.largest
		}
	}
	switch x := expr.(type) {
	case *hclsyntax.TemplateExpr:
		add(x.Parts...)
	case *hclsyntax.TemplateWrapExpr:
		add(x.Wrapped)
	case *hclsyntax.TemplateJoinExpr:
		add(x.Tuple)
	case *hclsyntax.ParenthesesExpr:
		add(x.Expression)
	case *hclsyntax.ConditionalExpr:
		add(x.Condition, x.TrueResult, x.FalseResult)
	case *hclsyntax.BinaryOpExpr:
		add(x.LHS, x.RHS)
	case *hclsyntax.UnaryOpExpr:
		add(x.Val)
	case *hclsyntax.IndexExpr:
		add(x.Collection, x.Key)
	case *hclsyntax.RelativeTraversalExpr:
		add(x.Source)
	case *hclsyntax.ObjectConsKeyExpr:
		add(x.Wrapped)
	default:
		all.total = math.Inf(1) // a form of expression that is not known here
	}
	return all
}

func (e *estimator) traversal(x *hclsyntax.ScopeTraversalExpr) estimate {
	root := x.Traversal.RootName()
	if known, ok := e.loop[root]; ok {
		return known
	}
	if len(x.Traversal) < 2 {
		return scalar(float64(len(root) + 3))
	}
	if value, isIterator := e.scope.Iterator(root); isIterator {
		return sizeOf(value)
	}
	attr, _ := x.Traversal[1].(hcl.TraverseAttr)
	if value, ok := e.scope.Value(root, attr.Name); ok {
		return e.scope.size(root+"."+attr.Name, value)
	}
	return scalar(float64(len(attr.Name) + len(root)))
}

// loopOver multiplies what the body yields by the number of elements.
func (e *estimator) loopOver(x *hclsyntax.ForExpr) estimate {
	coll := e.of(x.CollExpr)
	outer := e.loop
	e.loop = map[string]estimate{}
	for name, known := range outer {
		e.loop[name] = known
	}
	e.loop[x.ValVar] = estimate{coll.largest, max(1, coll.largest), coll.largest}
	if x.KeyVar != "" {
		e.loop[x.KeyVar] = scalar(coll.largest + 8)
	}
	body := scalar(8)
	for _, part := range []hclsyntax.Expression{x.KeyExpr, x.ValExpr, x.CondExpr} {
		if part != nil {
			body.total += e.of(part).total
		}
	}
	e.loop = outer
	return estimate{coll.total + coll.elements*(body.total+elementCost), coll.elements, body.total}
}

// call bounds a function's result by its arguments: their sum for most, their product for those
// that repeat one within another.
func (e *estimator) call(x *hclsyntax.FunctionCallExpr) estimate {
	all := e.sum(x.Args)
	product := 1.0
	for _, arg := range x.Args {
		product *= max(1, e.of(arg).total)
	}
	switch x.Name {
	case "range":
		return e.rangeCall(x)
	case "file":
		return e.fileCall(x)
	case "replace", "regexreplace", "setproduct", "indent", "join", "formatlist", "distinct", "format":
		all.total += product * 8
	case "split":
		all.total *= 3 // each byte may become an element
	case "csvdecode":
		all.total += e.table(x)
	case "regexall":
		all.total *= e.groups(x)
	case "jsondecode":
		all.total *= elementCost / 2 // "[]," is an element
	case "jsonencode", "title", "upper", "lower":
		all.total *= 8
	}
	return estimate{all.total + 64, all.total, all.total}
}

// simple returns the value of an argument that is written out, or is a variable or local.
func (e *estimator) simple(arg hclsyntax.Expression) (cty.Value, bool) {
	if t, ok := arg.(*hclsyntax.ScopeTraversalExpr); ok && len(t.Traversal) == 2 &&
		e.loop[t.Traversal.RootName()] == (estimate{}) {
		attr, _ := t.Traversal[1].(hcl.TraverseAttr)
		root := t.Traversal.RootName()
		value, known := e.scope.Value(root, attr.Name)
		if !known || root != "var" && root != "local" {
			return cty.NilVal, false
		}
		value, _ = value.Unmark()
		return value, value.IsKnown() && !value.IsNull()
	}
	if len(hclsyntax.Variables(arg)) > 0 {
		return cty.NilVal, false
	}
	value, found := arg.Value(nil) // without functions
	return value, !found.HasErrors() && value.IsKnown() && !value.IsNull()
}

// maxRange is how many elements the function makes at most.
const maxRange = 1024

// rangeCall bounds the result of range, exactly for simple arguments.
func (e *estimator) rangeCall(x *hclsyntax.FunctionCallExpr) estimate {
	most := estimate{total: maxRange * (24 + elementCost), elements: maxRange, largest: 24}
	var args []cty.Value
	for _, arg := range x.Args {
		value, ok := e.simple(arg)
		if !ok || value.Type() != cty.Number {
			return most
		}
		args = append(args, value)
	}
	if made, err := stdlib.RangeFunc.Call(args); err == nil {
		return sizeOf(made)
	}
	return most
}

// fileCall bounds the result of file, exactly for a simple argument.
func (e *estimator) fileCall(x *hclsyntax.FunctionCallExpr) estimate {
	if len(x.Args) == 1 {
		if name, ok := e.simple(x.Args[0]); ok && name.Type() == cty.String {
			text, err := e.scope.ReadFile(name.AsString())
			if err != nil {
				return scalar(0) // evaluating it reports the error
			}
			return scalar(float64(len(text) + 8))
		}
	}
	return scalar(functions.MaxFile)
}

// text returns a text argument that is simple, or the content of a simple file.
func (e *estimator) text(x *hclsyntax.FunctionCallExpr) (string, bool) {
	if len(x.Args) == 0 {
		return "", false
	}
	arg := x.Args[0]
	if call, ok := arg.(*hclsyntax.FunctionCallExpr); ok && call.Name == "file" && len(call.Args) == 1 {
		name, known := e.simple(call.Args[0])
		if !known || name.Type() != cty.String {
			return "", false
		}
		text, err := e.scope.ReadFile(name.AsString())
		return string(text), err == nil
	}
	value, ok := e.simple(arg)
	if !ok || value.Type() != cty.String {
		return "", false
	}
	return value.AsString(), true
}

// table bounds a table whose header is repeated in each of its rows.
func (e *estimator) table(x *hclsyntax.FunctionCallExpr) float64 {
	text, ok := e.text(x)
	if !ok {
		n := e.sum(x.Args).total
		return n * n
	}
	header, _, _ := strings.Cut(text, "\n")
	rows, columns := strings.Count(text, "\n")+1, strings.Count(header, ",")+1
	return float64(rows) * float64(len(header)+columns*elementCost)
}

// groups bounds how many texts each match of a pattern yields.
func (e *estimator) groups(x *hclsyntax.FunctionCallExpr) float64 {
	pattern, ok := e.text(x)
	if !ok {
		return e.sum(x.Args).total
	}
	return elementCost/2 + float64(strings.Count(pattern, "(")*elementCost)
}

// sizeOf measures a value.
func sizeOf(v cty.Value) estimate {
	if v != cty.NilVal {
		v, _ = v.Unmark()
	}
	if v == cty.NilVal || v.IsNull() || !v.IsKnown() {
		return scalar(8)
	}
	switch typ := v.Type(); {
	case typ == cty.String:
		return scalar(float64(len(v.AsString()) + 8))
	case typ == cty.Number:
		exponent := v.AsBigFloat().MantExp(nil)
		return scalar(math.Abs(float64(exponent))/3 + 24)
	case v.CanIterateElements():
		all := estimate{total: 8}
		for it := v.ElementIterator(); it.Next(); {
			key, element := it.Element()
			one := sizeOf(element).total + elementCost
			if key.Type() == cty.String {
				one += float64(len(key.AsString()))
			}
			all.total += one
			all.elements++
			all.largest = max(all.largest, one)
		}
		return all
	}
	return scalar(8)
}
