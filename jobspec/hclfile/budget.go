package hclfile

import (
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
)

// dynamicCost is added to the cost of an expression in a dynamic block, which is decoded again for
// each element.
const dynamicCost = 256

// maxRefused is how many expressions may ask for more than the budget has, each without using it
// up. After them no expression is evaluated any more.
const maxRefused = 10

// affordable reports whether the file's budget lasts for an expression.
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
		"the expression yields too much: all expressions of a file together may have %d MiB", maxWork>>20)
	return false
}

// facts are properties of the value of a variable or local. They are found once, however often it
// is used.
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
