package hclfile

import (
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/rota-hpc/rota/jobspec/hclfile/cost"
	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
)

// dynamicCost is added to the cost of an expression in a dynamic block, which is decoded again for
// each element.
const dynamicCost = 256

// affordable charges an expression to the file's budget.
func (r *reader) affordable(expr hclsyntax.Expression) bool {
	work := cost.Of(expr, r.scopeOfCost())
	if len(r.iterators) > 0 {
		work += dynamicCost
	}
	if float64(r.work)+work > maxWork {
		r.exhausted = true
		r.add(expr.Range(), diagnostic.CodeLimit, "compute less in the file, or let a script do it",
			"the expression may produce too much: all expressions of a file together may have %d MiB", maxWork>>20)
		return false
	}
	r.work += int(work)
	return true
}

func (r *reader) scopeOfCost() *cost.Scope {
	if r.costs == nil {
		r.costs = &cost.Scope{Iterator: r.iterator, ReadFile: r.ReadFile, Value: func(root, name string) (cty.Value, bool) {
			values := r.vars
			if root == "local" {
				values = r.locals
			}
			value, known := values[name]
			return value, known
		}}
	}
	return r.costs
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
