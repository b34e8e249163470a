package hclfile

import (
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
)

// dynamicCost is added to the cost of an expression in a dynamic block, because each element
// decodes the expression again.
const dynamicCost = 256

// maxRefused is the number of expressions that may be refused because each needs more than the
// remaining budget. After that, no expression is evaluated.
const maxRefused = 10

// affordable reports whether the remaining budget suffices for an expression.
func (r *reader) affordable(expr hclsyntax.Expression) bool {
	if !r.meter.Exhausted() {
		return true
	}
	if r.refused++; r.refused > maxRefused {
		return false
	}
	if r.refused < maxRefused {
		r.meter.Refund()
	}
	r.add(expr.Range(), diagnostic.CodeLimit, "compute less in the file, or let a script do it",
		"the result of the expression is too large: all expressions of a file together may yield %d MiB", maxWork>>20)
	return false
}

// facts are properties of the value of a variable or local. They are computed once for all uses.
type facts struct{ known, secret bool }

// factsOf returns the facts of a variable or local. Its value must be final.
func (r *reader) factsOf(name string, value cty.Value) facts {
	if f, ok := r.facts[name]; ok {
		return f
	}
	f := facts{known: value.IsWhollyKnown(), secret: value.ContainsMarked()}
	r.facts[name] = f
	return f
}
