// Package cost meters the bytes and elements that HCL expressions produce, and stops an evaluation
// at a limit. A small file can request a huge result: locals that double each other, nested loops,
// or replace with a long text.
//
// Each value is charged at its source: literals, variables, results of functions, rounds of a loop.
// A function whose result can be much larger than its arguments is charged in advance, by a bound
// computed from the arguments.
package cost

import (
	"math"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// elementCost is the cost of an element besides its bytes: it has a type and a header.
const elementCost = 64

// Meter is a budget of bytes and elements for all expressions of a file.
type Meter struct {
	left, before float64 // remaining budget, and its value when the last expression began
	exhausted    bool
}

// NewMeter returns a budget in bytes. An element costs elementCost bytes on top.
func NewMeter(limit int) *Meter { return &Meter{left: float64(limit)} }

// Spend takes an amount from the budget, and returns false once the budget is exhausted.
func (m *Meter) Spend(amount float64) bool {
	m.left -= amount
	m.exhausted = m.exhausted || m.left < 0
	return !m.exhausted
}

// Begin marks the start of an expression for [Meter.Refund].
func (m *Meter) Begin() { m.before = m.left }

// Refund returns what was spent since [Meter.Begin], for an expression whose value is dropped.
func (m *Meter) Refund() { m.left, m.exhausted = m.before, false }

// Exhausted reports whether an evaluation needed more than the remaining budget. Later values are
// unknown.
func (m *Meter) Exhausted() bool { return m.exhausted }

// Value charges for a value that comes from no expression, and returns false once the budget is
// exhausted.
func (m *Meter) Value(v cty.Value) bool { return m.Spend(m.size(v)) }

// Expression returns an equivalent expression that charges the budget during its evaluation. Its
// functions must be those of [Meter.Functions].
func (m *Meter) Expression(expr hclsyntax.Expression) hclsyntax.Expression {
	switch x := expr.(type) {
	case *hclsyntax.FunctionCallExpr:
		return m.call(x)
	case *hclsyntax.ForExpr:
		return m.loop(x)
	case *hclsyntax.SplatExpr:
		made := *x
		made.Source, made.Each = m.Expression(x.Source), m.Expression(x.Each)
		return m.charged(&made, elements)
	case *hclsyntax.AnonSymbolExpr:
		return x // the splat was charged for this element already
	case *hclsyntax.TupleConsExpr:
		made := *x
		made.Exprs = m.all(x.Exprs)
		return m.charged(&made, elements)
	case *hclsyntax.ObjectConsExpr:
		made := *x
		made.Items = make([]hclsyntax.ObjectConsItem, len(x.Items))
		for i, item := range x.Items {
			made.Items[i] = hclsyntax.ObjectConsItem{KeyExpr: m.Expression(item.KeyExpr),
				ValueExpr: m.Expression(item.ValueExpr)}
		}
		return m.charged(&made, elements)
	case *hclsyntax.IndexExpr, *hclsyntax.RelativeTraversalExpr:
		return m.charged(m.source(x), m.size)
	case *hclsyntax.LiteralValueExpr, *hclsyntax.ScopeTraversalExpr:
		return m.charged(x, m.size)
	}
	return m.parts(expr)
}

// parts meters the sub-expressions of an expression that combines their values.
func (m *Meter) parts(expr hclsyntax.Expression) hclsyntax.Expression {
	switch x := expr.(type) {
	case *hclsyntax.TemplateExpr:
		made := *x
		made.Parts = m.all(x.Parts)
		return &made
	case *hclsyntax.TemplateWrapExpr:
		made := *x
		made.Wrapped = m.Expression(x.Wrapped)
		return &made
	case *hclsyntax.TemplateJoinExpr:
		made := *x
		made.Tuple = m.Expression(x.Tuple)
		return &made
	case *hclsyntax.ParenthesesExpr:
		made := *x
		made.Expression = m.Expression(x.Expression)
		return &made
	case *hclsyntax.ConditionalExpr:
		made := *x
		made.Condition, made.TrueResult, made.FalseResult =
			m.Expression(x.Condition), m.Expression(x.TrueResult), m.Expression(x.FalseResult)
		return &made
	case *hclsyntax.UnaryOpExpr:
		made := *x
		made.Val = m.Expression(x.Val)
		return &made
	case *hclsyntax.BinaryOpExpr:
		made := *x
		made.LHS, made.RHS = m.Expression(x.LHS), m.Expression(x.RHS)
		return m.charged(&made, m.size) // a product can have far more digits than its factors
	case *hclsyntax.ObjectConsKeyExpr:
		// The evaluator treats a single name as a text, and recognises it by its Go type.
		if _, isName := x.Wrapped.(*hclsyntax.ScopeTraversalExpr); isName && !x.ForceNonLiteral {
			return x
		}
		made := *x
		made.Wrapped = m.Expression(x.Wrapped)
		return &made
	}
	return m.charged(expr, m.size)
}

func (m *Meter) all(exprs []hclsyntax.Expression) []hclsyntax.Expression {
	made := make([]hclsyntax.Expression, len(exprs))
	for i, x := range exprs {
		made[i] = m.Expression(x)
	}
	return made
}

// source meters an expression of which only a part is used. The whole value is not copied, so it is
// free.
func (m *Meter) source(expr hclsyntax.Expression) hclsyntax.Expression {
	switch x := expr.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		return x
	case *hclsyntax.IndexExpr:
		made := *x
		made.Collection, made.Key = m.source(x.Collection), m.Expression(x.Key)
		return &made
	case *hclsyntax.RelativeTraversalExpr:
		made := *x
		made.Source = m.source(x.Source)
		return &made
	}
	return m.Expression(expr)
}

func (m *Meter) call(x *hclsyntax.FunctionCallExpr) hclsyntax.Expression {
	made := *x
	made.Args = m.all(x.Args)
	if takesPart[x.Name] && len(x.Args) > 0 {
		made.Args[0] = m.source(x.Args[0])
	}
	return &made
}

// loop charges for each round, whether it produces an element or not.
func (m *Meter) loop(x *hclsyntax.ForExpr) hclsyntax.Expression {
	made := *x
	made.CollExpr, made.ValExpr = m.Expression(x.CollExpr), m.Expression(x.ValExpr)
	if x.KeyExpr != nil {
		made.KeyExpr = m.Expression(x.KeyExpr)
	}
	round := func(cty.Value) float64 { return elementCost }
	if x.CondExpr != nil {
		made.CondExpr = m.charged(m.Expression(x.CondExpr), round)
	} else {
		made.ValExpr = m.charged(made.ValExpr, round)
	}
	return &made
}

// charged returns an expression that charges for its value.
func (m *Meter) charged(expr hclsyntax.Expression, price func(cty.Value) float64) hclsyntax.Expression {
	return metered{expr, m, price}
}

type metered struct {
	hclsyntax.Expression
	meter *Meter
	price func(cty.Value) float64
}

// Value implements [hclsyntax.Expression].
func (e metered) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	if e.meter.exhausted {
		return cty.DynamicVal, nil
	}
	value, found := e.Expression.Value(ctx)
	if !e.meter.Spend(e.price(value)) {
		return cty.DynamicVal, nil
	}
	return value, found
}

// elements returns the cost of a collection's elements, without their values.
func elements(v cty.Value) float64 {
	v, _ = v.Unmark()
	if v == cty.NilVal || v.IsNull() || !v.IsKnown() || !v.CanIterateElements() {
		return 8
	}
	return 8 + float64(v.LengthInt())*elementCost
}

// size measures a value, capped at the remaining budget.
func (m *Meter) size(v cty.Value) float64 { return sizeOf(v, m.left) }

// sizeOf measures a value: its bytes, plus elementCost for each element. It stops as soon as the
// size exceeds the limit.
func sizeOf(v cty.Value, limit float64) float64 {
	if v == cty.NilVal {
		return 8
	}
	v, _ = v.Unmark()
	if v.IsNull() || !v.IsKnown() {
		return 8
	}
	switch typ := v.Type(); {
	case typ == cty.String:
		return float64(len(v.AsString()) + 8)
	case typ == cty.Number:
		exponent := v.AsBigFloat().MantExp(nil)
		return math.Abs(float64(exponent))/3 + 24 // number of decimal digits
	case v.CanIterateElements():
		size := 8.0
		for it := v.ElementIterator(); it.Next() && size <= limit; {
			key, element := it.Element()
			if key.Type() == cty.String && !typ.IsSetType() {
				size += float64(len(key.AsString()))
			}
			size += elementCost + sizeOf(element, limit-size)
		}
		return size
	}
	return 8
}
