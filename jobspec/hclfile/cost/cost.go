// Package cost counts the bytes and elements that expressions of HCL yield, while they are
// evaluated, and ends an evaluation at a limit. A small file can ask for a huge result: locals that
// double each other, loops within loops, replace with a long text.
//
// Each value is charged where it comes from: literals, variables, the result of a function, each
// round of a loop. Functions that yield much more than they get are charged before they are called,
// by a bound that follows from their arguments.
package cost

import (
	"math"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// elementCost is what an element costs besides its bytes: it has a type and a header.
const elementCost = 64

// Meter is a budget of bytes and elements for all expressions of a file.
type Meter struct {
	left, before float64 // before: when the last expression began
	exhausted    bool
}

// NewMeter returns a budget of so many bytes. An element counts as some more.
func NewMeter(limit int) *Meter { return &Meter{left: float64(limit)} }

// Spend takes an amount from the budget, and reports whether it is not exhausted.
func (m *Meter) Spend(amount float64) bool {
	m.left -= amount
	m.exhausted = m.exhausted || m.left < 0
	return !m.exhausted
}

// Begin begins an expression, for [Meter.Refund].
func (m *Meter) Begin() { m.before = m.left }

// Refund gives back what was spent since [Meter.Begin], for an expression whose value is not kept.
func (m *Meter) Refund() { m.left, m.exhausted = m.before, false }

// Exhausted reports whether an evaluation asked for more than was left. Values since then are
// unknown.
func (m *Meter) Exhausted() bool { return m.exhausted }

// Value charges a value that no expression yields, and reports whether the budget is not exhausted.
func (m *Meter) Value(v cty.Value) bool { return m.Spend(m.size(v)) }

// Expression returns an expression with the same value that spends while it is evaluated. Its
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
		return x // an element of what the splat was charged for
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

// parts meters what is in an expression whose value is made of the values in it.
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
		return m.charged(&made, m.size) // a product may have far more digits than its factors
	case *hclsyntax.ObjectConsKeyExpr:
		// The evaluator takes a single name for a text, and knows it by its type.
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

// source meters what a part is taken from. The whole is not read, so it is not charged.
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

// loop charges each round, whether or not it yields something.
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

// charged returns an expression that spends what its value costs.
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

// elements is what a collection costs besides the values in it.
func elements(v cty.Value) float64 {
	v, _ = v.Unmark()
	if v == cty.NilVal || v.IsNull() || !v.IsKnown() || !v.CanIterateElements() {
		return 8
	}
	return 8 + float64(v.LengthInt())*elementCost
}

// size measures a value, up to what is left of the budget.
func (m *Meter) size(v cty.Value) float64 { return sizeOf(v, m.left) }

// sizeOf measures a value: its bytes, and what elements cost besides. It ends when the size is above
// the limit.
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
		return math.Abs(float64(exponent))/3 + 24 // its decimal digits
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
