package hclfile

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// deferred are references that only have a value once the job runs, and what takes their place until they are supported.
var deferred = map[string]string{
	"array.index":  "arrays are not supported yet: submit one job for each element",
	"job.id":       "use $ROTA_JOB_ID in the command of a shell",
	"job.attempt":  "use $ROTA_ATTEMPT in the command of a shell",
	"worker.index": "use $ROTA_NODE_RANK in the command of a shell",
	"worker.count": "use $ROTA_WORKERS in the command of a shell",
	"node.name":    "use $(hostname) in the command of a shell",
}

// eval computes an expression after checking every name in it; on failure the diagnostics say why.
func (r *reader) eval(expr hclsyntax.Expression) (cty.Value, bool) {
	if lit, ok := expr.(*hclsyntax.LiteralValueExpr); ok {
		return lit.Val, true
	}
	words, ok := r.checkReferences(expr)
	ok = r.checkFunctions(expr) && ok
	if !ok || !r.affordable(expr) {
		return cty.DynamicVal, false
	}
	scope := words
	scope["var"] = object(r.vars)
	scope["local"] = object(r.locals)
	value, found := expr.Value(&hcl.EvalContext{Variables: scope, Functions: r.functions.table})
	if found.HasErrors() {
		r.addHCL(CodeExpression, "", found)
		return cty.DynamicVal, false
	}
	if !value.IsWhollyKnown() {
		return cty.DynamicVal, false // its cause has been reported
	}
	return value, true
}

func object(values map[string]cty.Value) cty.Value {
	if len(values) == 0 {
		return cty.EmptyObjectVal
	}
	return cty.ObjectVal(values)
}

// checkReferences resolves the names an expression uses. It returns those that stand for themselves: ${HOME} is a shell's.
func (r *reader) checkReferences(expr hclsyntax.Expression) (map[string]cty.Value, bool) {
	words, ok := map[string]cty.Value{}, true
	for _, t := range hclsyntax.Variables(expr) {
		root := t.RootName()
		switch {
		case len(t) == 1 && root != "var" && root != "local" && r.inTemplate(t.SourceRange()):
			words[root] = cty.StringVal("${" + root + "}")
		case root == "var" || root == "local":
			ok = r.checkNamed(root, t) && ok
		default:
			r.unknownReference(root, t)
			ok = false
		}
	}
	return words, ok
}

// inTemplate reports whether the place is the whole of a ${…}.
func (r *reader) inTemplate(at hcl.Range) bool {
	src := r.sources[at.Filename]
	start, end := at.Start.Byte, at.End.Byte
	return start >= 2 && end < len(src) && string(src[start-2:start]) == "${" && src[end] == '}'
}

// checkNamed checks var.NAME and local.NAME, and computes the local.
func (r *reader) checkNamed(root string, t hcl.Traversal) bool {
	attr, isAttr := hcl.TraverseAttr{}, false
	if len(t) > 1 {
		attr, isAttr = t[1].(hcl.TraverseAttr)
	}
	if !isAttr {
		r.add(t.SourceRange(), CodeReference, "write "+root+".NAME; for a literal ${"+root+"} write $${"+root+"}", "%s needs a name behind it", root)
		return false
	}
	if root == "var" {
		if v, ok := r.vars[attr.Name]; ok {
			return v.IsWhollyKnown() // else reported at the variable
		}
		if r.varBlocks[attr.Name] != nil {
			r.add(t.SourceRange(), CodeReference, "put what both need into a local", "variable %q cannot be used in the default of another", attr.Name)
			return false
		}
		r.add(t.SourceRange(), CodeReference, didYouMean(attr.Name, slices.Collect(maps.Keys(r.varBlocks)), "declare it: variable \""+attr.Name+"\" {}"),
			"there is no variable %q", attr.Name)
		return false
	}
	if r.pending[attr.Name] == nil {
		r.add(t.SourceRange(), CodeReference, didYouMean(attr.Name, slices.Collect(maps.Keys(r.pending)), "set it: locals { "+attr.Name+" = ... }"),
			"there is no local %q", attr.Name)
		return false
	}
	return r.local(attr.Name).IsWhollyKnown()
}

func (r *reader) unknownReference(root string, t hcl.Traversal) {
	full := root
	if len(t) > 1 {
		if attr, ok := t[1].(hcl.TraverseAttr); ok {
			full += "." + attr.Name
		}
	}
	hint, known := deferred[full]
	if !known && root == "array" && len(t) > 1 {
		hint, known = deferred["array.index"], true
	}
	if known {
		r.add(t.SourceRange(), CodeDeferred, hint, "%s is not supported yet", full)
		return
	}
	hint = "write \"" + root + "\" if a text is meant"
	switch {
	case len(t) > 1 && slices.Contains([]string{"job", "worker", "node"}, root):
		hint = didYouMean(full, slices.Collect(maps.Keys(deferred)), hint)
	case len(t) > 1:
		hint = didYouMean(root, []string{"var", "local"}, "values are named var.NAME and local.NAME; for a literal ${ write $${")
	case r.varBlocks[root] != nil:
		hint = "did you mean var." + root + "?"
	case r.pending[root] != nil:
		hint = "did you mean local." + root + "?"
	}
	r.add(t.SourceRange(), CodeReference, hint, "there is no %q here", full)
}

// checkFunctions finds calls of what does not exist.
func (r *reader) checkFunctions(expr hclsyntax.Expression) bool {
	ok := true
	_ = hclsyntax.VisitAll(expr, func(n hclsyntax.Node) hcl.Diagnostics {
		call, isCall := n.(*hclsyntax.FunctionCallExpr)
		if isCall {
			if _, known := r.functions.table[call.Name]; !known {
				ok = false
				r.add(call.NameRange, CodeFunction, didYouMean(call.Name, slices.Collect(maps.Keys(r.functions.table)), ""), "there is no function %q", call.Name)
			}
		}
		return nil
	})
	return ok
}
