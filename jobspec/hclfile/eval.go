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

// scope has the values of the names in one expression.
type scope struct {
	vars, locals map[string]cty.Value
	words        map[string]cty.Value // iterators, and words that stand for themselves: ${HOME} is a shell's
	secret       bool                 // something in it is sensitive
}

// evalAs is [reader.eval] for an attribute with a name for messages.
func (r *reader) evalAs(name string, expr hclsyntax.Expression) (cty.Value, bool) {
	r.now = current{name: name}
	return r.eval(expr)
}

// eval checks every name in an expression and computes it. It reports why it fails. Sensitive
// values are marked.
func (r *reader) eval(expr hclsyntax.Expression) (cty.Value, bool) {
	names, ok := r.checkReferences(expr)
	if ok = r.checkNodes(expr) && ok; !ok || !r.affordable(expr) {
		return cty.DynamicVal, false
	}
	r.meter.Begin()
	if len(r.iterators) > 0 {
		r.meter.Spend(dynamicCost)
	}
	if lit, isLiteral := expr.(*hclsyntax.LiteralValueExpr); isLiteral {
		r.meter.Value(lit.Val)
		return lit.Val, r.affordable(expr) && lit.Val.IsWhollyKnown()
	}
	variables := names.words
	variables["var"], variables["local"] = object(names.vars), object(names.locals)
	value, found := r.meter.Expression(expr).Value(&hcl.EvalContext{Variables: variables, Functions: r.functions})
	if !r.affordable(expr) {
		return cty.DynamicVal, false
	}
	if found.HasErrors() {
		r.failed(expr, names.secret, found)
		return cty.DynamicVal, false
	}
	if !value.IsWhollyKnown() {
		return cty.DynamicVal, false // its cause has been reported
	}
	return value, true
}

// failed reports why an expression could not be computed. The evaluator quotes values, so nothing
// of it is shown when one is sensitive.
func (r *reader) failed(expr hclsyntax.Expression, secret bool, found hcl.Diagnostics) {
	if secret {
		r.add(expr.Range(), diagnostic.CodeExpression, "try it with a value that is not sensitive",
			"the expression cannot be computed; it contains a sensitive value, so the reason is not shown")
		return
	}
	r.addHCL(diagnostic.CodeExpression, "", found)
}

func object(values map[string]cty.Value) cty.Value {
	if len(values) == 0 {
		return cty.EmptyObjectVal
	}
	return cty.ObjectVal(values)
}

// checkReferences resolves the names an expression uses.
func (r *reader) checkReferences(expr hclsyntax.Expression) (*scope, bool) {
	names := &scope{vars: map[string]cty.Value{}, locals: map[string]cty.Value{}, words: map[string]cty.Value{}}
	ok := true
	var inText map[hcl.Range]bool
	for _, t := range hclsyntax.Variables(expr) {
		root := t.RootName()
		if value, isIterator := r.iterator(root); isIterator {
			names.words[root] = value
			names.secret = names.secret || value.ContainsMarked()
			continue
		}
		if root == "var" || root == "local" {
			ok = r.checkNamed(root, t, names) && ok
			continue
		}
		if len(t) == 1 && inText == nil {
			inText = templateWords(expr)
		}
		if len(t) == 1 && inText[t.SourceRange()] && r.bareWord(t.SourceRange()) {
			names.words[root] = cty.StringVal("${" + root + "}")
			continue
		}
		r.unknownReference(root, t)
		ok = false
	}
	return names, ok
}

// templateWords returns the places of single names in ${ }.
func templateWords(expr hclsyntax.Expression) map[hcl.Range]bool {
	found := map[hcl.Range]bool{}
	word := func(part hclsyntax.Expression) {
		if x, ok := part.(*hclsyntax.ScopeTraversalExpr); ok && len(x.Traversal) == 1 {
			found[x.Traversal.SourceRange()] = true
		}
	}
	_ = hclsyntax.VisitAll(expr, func(n hclsyntax.Node) hcl.Diagnostics {
		switch x := n.(type) {
		case *hclsyntax.TemplateExpr:
			for _, part := range x.Parts {
				word(part)
			}
		case *hclsyntax.TemplateWrapExpr:
			word(x.Wrapped)
		}
		return nil
	})
	return found
}

// bareWord reports whether ${ and } stand directly around a place. In JSON, where places within a
// string are not exact, they do.
func (r *reader) bareWord(at hcl.Range) bool {
	src := r.sources[at.Filename]
	if IsJSON(at.Filename, src) {
		return true
	}
	start, end := at.Start.Byte, at.End.Byte
	return start >= 2 && end < len(src) && string(src[start-2:start]) == "${" && src[end] == '}'
}

// checkNamed checks var.NAME and local.NAME, and adds the value to names.
func (r *reader) checkNamed(root string, t hcl.Traversal, names *scope) bool {
	attr, isAttr := hcl.TraverseAttr{}, false
	if len(t) > 1 {
		attr, isAttr = t[1].(hcl.TraverseAttr)
	}
	if !isAttr {
		r.add(t.SourceRange(), diagnostic.CodeReference, "write "+root+".NAME; for a literal ${"+root+"} write $${"+root+"}",
			"%s needs a name after it", root)
		return false
	}
	var value cty.Value
	var ok bool
	if root == "var" {
		value, ok = r.variableNamed(attr.Name, t)
		names.vars[attr.Name] = value
	} else {
		value, ok = r.localNamed(attr.Name, t)
		names.locals[attr.Name] = value
	}
	names.secret = names.secret || ok && r.factsOf(root+"."+attr.Name, value).secret
	return ok
}

func (r *reader) variableNamed(name string, t hcl.Traversal) (cty.Value, bool) {
	if v, ok := r.vars[name]; ok {
		return v, r.factsOf("var."+name, v).known // else reported at the variable
	}
	if r.varBlocks[name] != nil {
		r.add(t.SourceRange(), diagnostic.CodeReference, "put the common value into a local",
			"variable %q cannot be used in the value of another", name)
		return cty.DynamicVal, false
	}
	r.add(t.SourceRange(), diagnostic.CodeReference, r.variableHint(name), "unknown variable %q", name)
	return cty.DynamicVal, false
}

func (r *reader) localNamed(name string, t hcl.Traversal) (cty.Value, bool) {
	if r.pending[name] == nil {
		r.add(t.SourceRange(), diagnostic.CodeReference,
			didYouMean(name, slices.Collect(maps.Keys(r.pending)), "set it: locals { "+name+" = ... }"),
			"unknown local %q", name)
		return cty.DynamicVal, false
	}
	v := r.local(name)
	if _, done := r.locals[name]; !done {
		return v, false // it needs itself
	}
	return v, r.factsOf("local."+name, v).known
}

// fullName returns the first two parts of a reference, such as worker.index.
func fullName(t hcl.Traversal) string {
	full := t.RootName()
	if len(t) > 1 {
		if attr, ok := t[1].(hcl.TraverseAttr); ok {
			full += "." + attr.Name
		}
	}
	return full
}

func (r *reader) unknownReference(root string, t hcl.Traversal) {
	full := fullName(t)
	if isDeferredRoot(root) && (len(t) > 1 || len(r.deferredAttrs()) > 0) {
		r.deferredOutside(full, t)
		return
	}
	hint := "write \"" + root + "\" for a text"
	switch {
	case len(t) > 1:
		hint = didYouMean(root, r.rootNames(), "values are named var.NAME and local.NAME; for a literal ${ write $${")
	case r.varBlocks[root] != nil:
		hint = "did you mean var." + root + "?"
	case r.pending[root] != nil:
		hint = "did you mean local." + root + "?"
	}
	r.add(t.SourceRange(), diagnostic.CodeReference, hint, "%q is unknown here", full)
}

// rootNames are what a reference may begin with here.
func (r *reader) rootNames() []string {
	names := []string{"var", "local"}
	if len(r.deferredAttrs()) > 0 {
		names = append(names, deferredRoots...)
	}
	for _, i := range r.iterators {
		names = append(names, i.name)
	}
	return names
}

// checkNodes finds calls of unknown functions, and names that are written twice in one map. The
// evaluator would drop the first of these without a message.
func (r *reader) checkNodes(expr hclsyntax.Expression) bool {
	ok := true
	_ = hclsyntax.VisitAll(expr, func(n hclsyntax.Node) hcl.Diagnostics {
		switch x := n.(type) {
		case *hclsyntax.ObjectConsExpr:
			seen := map[string]bool{}
			for i, name := range decode.SourceOrder(x) {
				if seen[name] {
					ok = false
					r.add(x.Items[i].KeyExpr.Range(), diagnostic.CodeDuplicate, "keep one of them", "%q is given twice", name)
				}
				seen[name] = true
			}
		case *hclsyntax.FunctionCallExpr:
			if _, known := r.functions[x.Name]; !known {
				ok = false
				r.add(x.NameRange, diagnostic.CodeFunction, didYouMean(x.Name, slices.Collect(maps.Keys(r.functions)), ""),
					"unknown function %q", x.Name)
			}
		}
		return nil
	})
	return ok
}
