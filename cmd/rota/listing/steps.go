package listing

import (
	"fmt"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
)

// maxSteps bounds the work of one filter over all items of a list. It is ten times the work of a
// predicate over the nodes of 10,000 jobs on 100 nodes each.
const maxSteps = 10_000_000

// The names of the functions that count steps. An expression cannot have them: a name begins with a
// letter of ASCII there.
const (
	countOne   = "·step"
	countRange = "·range"
)

// stepCounter makes an expression count repeated work: each turn of a predicate, as in reduce and
// filter, and each number of a range. Without it a few nested predicates run for hours.
type stepCounter struct{ left int }

// options has an expression count, and fail when it has no steps left.
func (c *stepCounter) options() []expr.Option {
	return []expr.Option{
		expr.Patch(c),
		expr.Function(countOne, func(...any) (any, error) { return true, c.take(1) }, new(func() bool)),
		expr.Function(countRange, func(ends ...any) (any, error) {
			first, last := ends[0].(int), ends[1].(int) // the checker has seen to it
			if last < first {
				return []int{}, nil
			}
			if err := c.take(last - first); err != nil { // a difference that does not fit is below 0
				return nil, err
			}
			numbers := make([]int, last-first+1)
			for i := range numbers {
				numbers[i] = first + i
			}
			return numbers, nil
		}, new(func(int, int) []int)),
	}
}

// take takes n steps.
func (c *stepCounter) take(n int) error {
	if n > c.left || n < 0 {
		c.left = 0
		return fmt.Errorf("evaluation takes more than %d steps: nest fewer predicates and ranges", maxSteps)
	}
	c.left -= n
	return nil
}

// Visit implements ast.Visitor.
func (c *stepCounter) Visit(node *ast.Node) {
	call := func(name string, args ...ast.Node) ast.Node {
		return &ast.CallNode{Callee: &ast.IdentifierNode{Value: name}, Arguments: args}
	}
	switch n := (*node).(type) {
	case *ast.PredicateNode:
		n.Node = &ast.ConditionalNode{Cond: call(countOne), Exp1: n.Node, Exp2: &ast.NilNode{}}
	case *ast.BinaryNode:
		if n.Operator == ".." {
			ast.Patch(node, call(countRange, n.Left, n.Right))
		}
	}
}
