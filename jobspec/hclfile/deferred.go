package hclfile

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/rota-hpc/rota/jobspec/hclfile/decode"
	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
	"github.com/rota-hpc/rota/jobspec/template"
)

// A deferred reference, such as job.id, has no value until the job runs. An attribute with the flag
// Deferred stores it in three steps:
//
//  1. keep evaluates the expression. It replaces each reference by a mark: a NUL byte and the name
//     in braces. No file can hold a NUL byte, so a mark cannot be written by hand.
//  2. Only operations that copy texts without reading them may handle a mark: templates, lists,
//     conditional expressions and the functions in joining. Any other operation is an error.
//  3. asTemplate turns texts with marks into templates, and escapes the text around the marks. So
//     package template later reproduces the original text, with the values filled in.

const deferredMark = "\x00"

// deferredRoots are the first parts of all deferred references.
var deferredRoots = []string{"array", "job", "node", "worker"}

func isDeferredRoot(root string) bool { return slices.Contains(deferredRoots, root) }

// notSupported are the hints for references in a kind of file that has no Deferred attributes.
var notSupported = map[string]string{
	"array.index":  "arrays are not supported yet: submit one job for each element",
	"job.id":       "use $ROTA_JOB_ID in the command of a shell",
	"job.attempt":  "use $ROTA_ATTEMPT in the command of a shell",
	"worker.index": "use $ROTA_NODE_RANK in the command of a shell",
	"worker.count": "use $ROTA_WORKERS in the command of a shell",
	"node.name":    "use $(hostname) in the command of a shell",
}

// templateScope belongs to the innermost surrounding block with a Template flag.
type templateScope struct {
	on bool // one text of the block holds a reference, so all its texts are templates
}

// current is the state of the attribute being decoded.
type current struct {
	name     string
	deferred bool // the attribute may hold deferred references
	secret   bool // a sensitive value is part of it
}

// deferredOutside reports a deferred reference in a place that needs its value at once. The advice
// depends on the reason. The name is unknown, this kind of file has no references, the reference is
// part of a computation, or its value is needed earlier.
func (r *reader) deferredOutside(full string, t hcl.Traversal) {
	allowed := r.deferredAttrs()
	hint, old := notSupported[full]
	if !old && strings.HasPrefix(full, "array.") {
		hint, old = notSupported["array.index"], true
	}
	switch {
	case !template.Known(full):
		hint = "there are " + strings.Join(template.Names(), ", ") + " and array.PARAMETER"
		r.add(t.SourceRange(), diagnostic.CodeReference, didYouMean(full, template.Names(), hint), "%q is unknown here",
			full)
	case len(allowed) == 0 && old:
		r.add(t.SourceRange(), diagnostic.CodeDeferred, hint, "%s is not supported yet", full)
	case r.now.deferred:
		r.add(t.SourceRange(), diagnostic.CodeDeferredUse, "write \"${"+full+"}\" in text, and compute in the program",
			"%s is only known once the job runs, so it cannot be part of a computation", full)
	default:
		r.add(t.SourceRange(), diagnostic.CodeDeferred, "it may be used in "+strings.Join(allowed, ", "),
			"%s is only known once the job runs, which is too late for %s", full, r.now.name)
	}
}

// deferredAttrs lists the attributes of the file that may hold deferred references.
func (r *reader) deferredAttrs() []string { return deferredNames(r.schema, false, map[*Block]bool{}) }

// deferredNames lists the attributes below b that may hold deferred references. inScope means that
// a surrounding block has the Template flag; without it references are refused. seen ends the
// recursion at recursive blocks.
func deferredNames(b *Block, inScope bool, seen map[*Block]bool) []string {
	if seen[b] {
		return nil
	}
	seen[b] = true
	var names []string
	for i := range b.Attrs {
		if b.Attrs[i].Deferred && inScope {
			names = append(names, b.Attrs[i].Name)
		}
	}
	for i := range b.Blocks {
		inner := b.Blocks[i].Body
		if inner == nil {
			continue
		}
		within := inScope || b.Blocks[i].Template != nil
		if inner.Deferred && within {
			names = append(names, b.Blocks[i].Name)
		}
		names = append(names, deferredNames(inner, within, seen)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// hasDeferred reports whether an expression contains a deferred reference.
func hasDeferred(expr hclsyntax.Expression) bool {
	return slices.ContainsFunc(hclsyntax.Variables(expr), func(t hcl.Traversal) bool {
		return len(t) > 1 && template.Known(fullName(t))
	})
}

// defers reports whether a Deferred attribute of a block holds a deferred reference. It searches
// inner blocks too, except those with their own Template flag. It runs before any evaluation,
// because a single reference turns all texts of the block into templates.
func (r *reader) defers(body *hclsyntax.Body, schema *Block) bool {
	for _, a := range body.Attributes {
		known := schema.attr(a.Name)
		if (schema.Free != nil && schema.Deferred || known != nil && known.Deferred) && hasDeferred(a.Expr) {
			return true
		}
	}
	for _, b := range body.Blocks {
		kind, inner := b.Type, b.Body
		if b.Type == dynamicBlock && len(b.Labels) == 1 { // dynamic "kind" { content { ... } }
			if kind, inner = b.Labels[0], dynamicContent(b); inner == nil {
				continue
			}
		}
		known := schema.block(kind)
		if known != nil && known.Body != nil && known.Template == nil && r.defers(inner, known.Body) {
			return true
		}
	}
	return false
}

// nameOf returns the dotted name of an expression that consists of one reference starting with
// root.
func nameOf(expr hclsyntax.Expression, root string) (string, bool) {
	if wrap, ok := expr.(*hclsyntax.TemplateWrapExpr); ok {
		expr = wrap.Wrapped
	}
	x, ok := expr.(*hclsyntax.ScopeTraversalExpr)
	if !ok || root == "" || x.Traversal.RootName() != root {
		return "", false
	}
	name := root
	for _, step := range x.Traversal[1:] {
		switch s := step.(type) {
		case hcl.TraverseAttr:
			name += "." + s.Name
		case hcl.TraverseIndex:
			if s.Key.Type() != cty.String {
				return "", false
			}
			name += "." + s.Key.AsString()
		default:
			return "", false
		}
	}
	return name, true
}

// attrValue evaluates an attribute; r.now.secret records whether a sensitive value is part of the
// result.
func (r *reader) attrValue(expr hclsyntax.Expression, nameRoot string) (cty.Value, bool) {
	if name, ok := nameOf(expr, nameRoot); ok {
		return cty.StringVal(name), true
	}
	if !r.now.deferred {
		value, ok := r.eval(expr)
		return r.reveal(value), ok && r.finite(expr, value)
	}
	value, ok := r.keep(expr)
	if !ok || !r.affordable(expr) {
		return cty.DynamicVal, false
	}
	if r.scope.on {
		value = asTemplate(value)
	}
	return value, true
}

// finite reports an infinite number, such as the result of a division by zero.
func (r *reader) finite(expr hclsyntax.Expression, value cty.Value) bool {
	value, _ = value.Unmark()
	if value.Type() != cty.Number || value.IsNull() || !value.AsBigFloat().IsInf() {
		return true
	}
	r.add(expr.Range(), diagnostic.CodeExpression, "", "%s: the number is infinite: too large, or divided by zero",
		r.now.name)
	return false
}

// keep evaluates an expression and puts marks in place of its deferred references. Parts without
// deferred references are evaluated normally. For the others, keep descends into the expressions
// that only copy texts.
func (r *reader) keep(expr hclsyntax.Expression) (cty.Value, bool) {
	if !hasDeferred(expr) {
		value, ok := r.eval(expr)
		value = r.reveal(value)
		return value, ok && r.withoutMark(expr, value) && r.finite(expr, value)
	}
	switch x := expr.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		return r.keepReference(x)
	case *hclsyntax.TemplateWrapExpr:
		return r.keep(x.Wrapped)
	case *hclsyntax.ParenthesesExpr:
		return r.keep(x.Expression)
	case *hclsyntax.TemplateExpr:
		return r.keepText(x)
	case *hclsyntax.TupleConsExpr:
		values, ok := r.keepAll(x.Exprs)
		return cty.TupleVal(values), ok
	case *hclsyntax.ConditionalExpr:
		return r.keepChoice(x)
	case *hclsyntax.FunctionCallExpr:
		if joining[x.Name] && !x.ExpandFinal {
			return r.keepCall(x)
		}
	}
	// This kind of expression reads its operands, so a mark must not get in. A normal evaluation
	// reports each reference in it.
	_, _ = r.eval(expr)
	return cty.DynamicVal, false
}

// joining are the functions that combine values without reading them.
var joining = map[string]bool{"concat": true, "flatten": true, "join": true}

// keepCall calls a joining function with marks in its arguments. For join, elements of other types
// are converted to texts first, as in normal expressions.
func (r *reader) keepCall(x *hclsyntax.FunctionCallExpr) (cty.Value, bool) {
	args, ok := r.keepAll(x.Args)
	if !ok {
		return cty.DynamicVal, false
	}
	if x.Name == "join" {
		for i, arg := range args[min(1, len(args)):] {
			if list, err := textList(arg); err == nil {
				args[i+1] = list
			}
		}
	}
	r.meter.Begin()
	value, err := r.functions[x.Name].Call(args)
	if !r.affordable(x) {
		return cty.DynamicVal, false
	}
	if err != nil {
		r.add(x.Range(), diagnostic.CodeExpression, "", "%s: %s", x.Name, r.withoutNames(err.Error()))
		return cty.DynamicVal, false
	}
	return value, true
}

// textList converts a list of values into a list of texts.
func textList(v cty.Value) (cty.Value, error) {
	var texts []string
	err := decode.StoreList(&texts, v, func(text *string, v cty.Value) (err error) {
		*text, err = decode.PrimitiveText(v)
		return err
	})
	if err != nil || len(texts) == 0 {
		return v, err
	}
	values := make([]cty.Value, len(texts))
	for i, text := range texts {
		values[i] = cty.StringVal(text)
	}
	return cty.ListVal(values), nil
}

// withoutNames makes a message about values with marks readable: it writes ${job.id} in place of a
// mark. It hides the whole message if a value is sensitive.
func (r *reader) withoutNames(text string) string {
	if r.now.secret {
		return "the values do not match; one of them is sensitive, so it is not shown"
	}
	return strings.ReplaceAll(text, deferredMark, "$")
}

// keepAll calls keep for each expression. It continues after an error, so that all errors are
// reported.
func (r *reader) keepAll(exprs []hclsyntax.Expression) ([]cty.Value, bool) {
	values, ok := make([]cty.Value, len(exprs)), true
	for i, expr := range exprs {
		one := false
		values[i], one = r.keep(expr)
		ok = ok && one
	}
	return values, ok
}

// keepReference returns the mark of a reference.
func (r *reader) keepReference(x *hclsyntax.ScopeTraversalExpr) (cty.Value, bool) {
	full := fullName(x.Traversal)
	if len(x.Traversal) > 2 {
		r.add(x.SrcRange, diagnostic.CodeDeferredUse, "write "+full,
			"%s is a text that is only known once the job runs, so parts of it cannot be used", full)
		return cty.DynamicVal, false
	}
	value := cty.StringVal(deferredMark + "{" + full + "}")
	r.meter.Value(value)
	return value, true
}

// keepText joins the parts of a template string.
func (r *reader) keepText(x *hclsyntax.TemplateExpr) (cty.Value, bool) {
	var b strings.Builder
	ok := true
	for _, part := range x.Parts {
		if word, isWord := r.shellWord(part); isWord {
			b.WriteString(word)
			continue
		}
		value, one := r.keep(part)
		if !one {
			ok = false
			continue
		}
		text, err := decode.PrimitiveText(value)
		if err != nil {
			r.add(part.Range(), diagnostic.CodeExpression, "", "%s cannot be put into text", decode.Describe(value))
			ok = false
		}
		b.WriteString(text)
	}
	return cty.StringVal(b.String()), ok
}

// shellWord returns a part such as ${HOME} unchanged: an unknown single word in a text is a shell
// variable.
func (r *reader) shellWord(part hclsyntax.Expression) (string, bool) {
	x, ok := part.(*hclsyntax.ScopeTraversalExpr)
	if !ok || len(x.Traversal) != 1 || x.Traversal.RootName() == "var" || x.Traversal.RootName() == "local" {
		return "", false
	}
	if _, isIterator := r.iterator(x.Traversal.RootName()); isIterator || !r.bareWord(x.SrcRange) {
		return "", false
	}
	return "${" + x.Traversal.RootName() + "}", true
}

// keepChoice evaluates the condition, which must not be deferred, and keeps only the chosen result.
func (r *reader) keepChoice(x *hclsyntax.ConditionalExpr) (cty.Value, bool) {
	condition, ok := r.eval(x.Condition)
	condition = r.reveal(condition)
	switch {
	case !ok:
		return cty.DynamicVal, false
	case condition.IsNull() || condition.Type() != cty.Bool:
		r.add(x.Condition.Range(), diagnostic.CodeType, "", "the condition must be true or false")
		return cty.DynamicVal, false
	case condition.True():
		return r.keep(x.TrueResult)
	}
	return r.keep(x.FalseResult)
}

// withoutMark refuses a text with a NUL byte, because it would be mistaken for a mark.
func (r *reader) withoutMark(expr hclsyntax.Expression, value cty.Value) bool {
	found := false
	_ = cty.Walk(value, func(_ cty.Path, v cty.Value) (bool, error) {
		found = found || v.Type() == cty.String && !v.IsNull() && strings.Contains(v.AsString(), deferredMark)
		return !found, nil
	})
	if found {
		r.add(expr.Range(), diagnostic.CodeValue, "leave it out", "%s: a text cannot hold a NUL byte", r.now.name)
	}
	return !found
}

// asTemplate converts every text in a value into a template.
func asTemplate(value cty.Value) cty.Value {
	made, err := cty.Transform(value, func(_ cty.Path, v cty.Value) (cty.Value, error) {
		if v.Type() != cty.String || v.IsNull() {
			return v, nil
		}
		return cty.StringVal(templateText(v.AsString())), nil
	})
	if err != nil {
		panic("hclfile: a text changed its type: " + err.Error())
	}
	return made
}

// templateText converts a text with marks into a template. The first piece has no mark before it;
// each further piece starts with a name.
func templateText(text string) string {
	var b template.Builder
	for i, part := range strings.Split(text, deferredMark+"{") {
		if i > 0 {
			name, rest, _ := strings.Cut(part, "}")
			b.Reference(name)
			part = rest
		}
		b.Literal(part)
	}
	return b.String()
}

// Literal implements [Source].
func (r *reader) Literal(text string) string {
	if r.scope != nil && r.scope.on {
		return template.Escape(text)
	}
	return text
}
