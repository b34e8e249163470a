package hclfile

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/rota-hpc/rota/jobspec/hclfile/decode"
	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
)

// decodeBody stores the content of a body in target.
func (r *reader) decodeBody(body *hclsyntax.Body, schema *Block, target any, path string) {
	for _, a := range inSourceOrder(body.Attributes) {
		if schema.Free != nil {
			r.freeAttr(a, schema, target, join(path, a.Name))
			continue
		}
		if known := r.knownAttr(a, schema); known != nil {
			r.decodeAttr(a, known, target, path)
		}
	}
	seen := map[string]bool{}
	r.eachBlock(body, schema, func(b *hclsyntax.Block) {
		if known := r.knownBlock(b, schema); known != nil {
			if body.Attributes[known.Excludes] != nil {
				r.add(b.DefRange(), diagnostic.CodeDuplicate, "keep one of them", "%s and %s mean the same thing", known.Excludes,
					b.Type)
			}
			if seen[known.Excludes] {
				r.add(b.DefRange(), diagnostic.CodeDuplicate, cmp.Or(known.Instead, "keep one of them"),
					"%s and %s exclude each other", known.Excludes, b.Type)
			}
			r.decodeBlock(b, known, target, path, seen)
		}
	})
	r.missing(body, schema, seen)
}

// checkNames reports unknown, refused and missing names in a body. It does not evaluate values.
func (r *reader) checkNames(body *hclsyntax.Body, schema *Block) {
	for _, a := range inSourceOrder(body.Attributes) {
		r.knownAttr(a, schema)
	}
	seen := map[string]bool{}
	for _, b := range body.Blocks {
		if r.knownBlock(b, schema) != nil {
			seen[b.Type] = true
		}
	}
	r.missing(body, schema, seen)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// unsupported reports a name that this version does not support.
func (r *reader) unsupported(at hcl.Range, name, instead string) {
	r.add(at, diagnostic.CodeUnsupported, instead, "%s is not supported yet", name)
}

// knownAttr returns the schema of an attribute, or reports the name.
func (r *reader) knownAttr(a *hclsyntax.Attribute, schema *Block) *Attr {
	if known := schema.attr(a.Name); known != nil {
		if known.Refused != "" {
			r.unsupported(a.NameRange, a.Name, known.Refused)
			return nil
		}
		return known
	}
	if block := schema.block(a.Name); block != nil {
		if block.Refused != "" {
			r.unsupported(a.NameRange, a.Name, block.Refused)
			return nil
		}
		r.add(a.NameRange, diagnostic.CodeForm, "write "+a.Name+" { ... } without =", "%s is a block, not an attribute",
			a.Name)
		return nil
	}
	r.add(a.NameRange, diagnostic.CodeUnknownName, schema.hint(a.Name), "unknown attribute %q", a.Name)
	return nil
}

// knownBlock returns the schema of a block, or reports the name.
func (r *reader) knownBlock(b *hclsyntax.Block, schema *Block) *Nested {
	if schema.Free != nil {
		r.add(b.DefRange(), diagnostic.CodeForm, "write name = value", "%s { } is not allowed here: only attributes are",
			b.Type)
		return nil
	}
	if known := schema.block(b.Type); known != nil {
		if known.Refused != "" {
			r.unsupported(b.DefRange(), b.Type, known.Refused)
			return nil
		}
		return known
	}
	if attr := schema.attr(b.Type); attr != nil {
		if attr.Refused != "" {
			r.unsupported(b.DefRange(), b.Type, attr.Refused)
		} else {
			r.add(b.DefRange(), diagnostic.CodeForm, "write "+b.Type+" = ...", "%s is an attribute, not a block", b.Type)
		}
		return nil
	}
	if b.Type == dynamicBlock {
		r.add(b.DefRange(), diagnostic.CodeForm, "write the block out", "dynamic is not allowed here")
		return nil
	}
	hint := cmp.Or(schema.Elsewhere[b.Type], didYouMean(b.Type, append(schema.names(), dynamicBlock), ""))
	r.add(b.DefRange(), diagnostic.CodeUnknownName, hint, "unknown block %q", b.Type)
	return nil
}

func (r *reader) decodeBlock(b *hclsyntax.Block, known *Nested, target any, path string, seen map[string]bool) {
	label, ok := r.label(b, known)
	if seen[b.Type] && !known.Many {
		r.add(b.DefRange(), diagnostic.CodeDuplicate, cmp.Or(known.Instead, "put everything into one"), "%s is written twice",
			b.Type)
		return
	}
	seen[b.Type] = true
	if !ok {
		return
	}
	inner, segment := known.Enter(target, label)
	where := join(path, segment)
	if segment == "" {
		where = path
	}
	r.places[where] = b.DefRange()
	if known.Label != "" && len(b.Labels) > 0 {
		r.places[join(where, "name")] = b.LabelRanges[0]
	}
	if known.Template == nil {
		r.decodeBody(b.Body, known.Body, inner, where)
		return
	}
	outer := r.scope
	r.scope = &templateScope{on: r.defers(b.Body, known.Body)}
	*known.Template(inner) = r.scope.on
	r.decodeBody(b.Body, known.Body, inner, where)
	r.scope = outer
}

func (r *reader) label(b *hclsyntax.Block, known *Nested) (string, bool) {
	switch {
	case known.Label == "" && len(b.Labels) > 0:
		r.add(b.LabelRanges[0], diagnostic.CodeLabels, "write "+b.Type+" { ... }", "%s has no label", b.Type)
		return "", false
	case known.MayLabel && len(b.Labels) == 0:
		return "", true
	case known.Label != "" && len(b.Labels) == 0:
		r.add(b.DefRange(), diagnostic.CodeLabels, "write "+b.Type+" \"name\" { ... }", "%s needs a label: %s", b.Type,
			known.Label)
		return "", false
	case known.Label != "" && len(b.Labels) > 1:
		r.add(b.LabelRanges[1], diagnostic.CodeLabels, "write "+b.Type+" \"name\" { ... }", "%s has one label", b.Type)
		return "", false
	case known.Label != "":
		return b.Labels[0], true
	}
	return "", true
}

func (r *reader) missing(body *hclsyntax.Body, schema *Block, seen map[string]bool) {
	place := body.MissingItemRange()
	for i := range schema.Attrs {
		if a := &schema.Attrs[i]; a.Required && body.Attributes[a.Name] == nil {
			r.add(place, diagnostic.CodeMissing, "add "+a.Name+" = ...", "the attribute %q is missing", a.Name)
		}
	}
	for i := range schema.Blocks {
		if b := &schema.Blocks[i]; b.Required && !seen[b.Name] {
			hint := "add " + b.Name + " { ... }"
			if b.Label != "" {
				hint = "add " + b.Name + " \"name\" { ... }"
			}
			r.add(place, diagnostic.CodeMissing, hint, "the block %q is missing", b.Name)
		}
	}
}

func (r *reader) decodeAttr(a *hclsyntax.Attribute, known *Attr, target any, path string) {
	where := join(path, known.path())
	r.place(where, a.Expr)
	r.now = current{name: a.Name, deferred: known.Deferred && r.scope != nil}
	value, ok := r.attrValue(a.Expr, known.nameRoot)
	if r.now.secret {
		r.secret.paths[where] = true
	}
	if !ok || value.IsNull() {
		return
	}
	var err error
	switch {
	case known.setValue != nil:
		err = known.setValue(target, decode.NewValue(value, a.Expr), r)
	case known.set != nil:
		var text string
		if text, err = decode.ScalarText(value); err == nil {
			err = known.set(target, text, r)
		}
	default:
		err = decode.Into(known.into(target), value, known.Positive)
	}
	r.refuse(a, known, err)
}

// place records the position of a value, and of its elements if the value is a literal list or map.
func (r *reader) place(path string, expr hclsyntax.Expression) {
	r.places[path] = expr.Range()
	if list, ok := expr.(*hclsyntax.TupleConsExpr); ok {
		for i, item := range list.Exprs {
			r.places[fmt.Sprintf("%s[%d]", path, i)] = item.Range()
		}
	}
	if object, ok := expr.(*hclsyntax.ObjectConsExpr); ok {
		for i, item := range object.Items {
			r.places[fmt.Sprintf("%s[%d]", path, i)] = item.KeyExpr.Range()
		}
	}
}

// refuse reports why a value could not be stored.
func (r *reader) refuse(a *hclsyntax.Attribute, known *Attr, err error) {
	if err == nil {
		return
	}
	bad := &decode.Error{}
	if !errors.As(err, &bad) {
		bad = &decode.Error{Code: diagnostic.CodeValue, Text: err.Error()}
	}
	if bad.Code == diagnostic.CodeType && bad.Text == "" {
		bad.Text = fmt.Sprintf("it must be %s, not %s", known.Type, bad.Found)
	}
	if known.Required {
		bad.Hint = strings.TrimSuffix(bad.Hint, ", or leave it out")
	}
	place := a.Expr.Range()
	if bad.Element >= 0 {
		if list, ok := a.Expr.(*hclsyntax.TupleConsExpr); ok && bad.Element < len(list.Exprs) && bad.InElement {
			place = list.Exprs[bad.Element].Range()
		}
	}
	if r.now.secret {
		r.add(place, bad.Code, "", "%s: invalid value, which is sensitive, so it is not shown; it must be %s", a.Name,
			known.Type)
		return
	}
	r.add(place, bad.Code, bad.Hint, "%s: %s", a.Name, bad.Text)
}

// freeAttr stores an attribute of a block with free names.
func (r *reader) freeAttr(a *hclsyntax.Attribute, schema *Block, target any, path string) {
	r.places[path] = a.Expr.Range()
	r.now = current{name: a.Name, deferred: schema.Deferred && r.scope != nil}
	value, ok := r.attrValue(a.Expr, "")
	if r.now.secret {
		r.secret.paths[path] = true
	}
	if !ok || value.IsNull() {
		return
	}
	text, err := decode.ScalarText(value)
	if err != nil {
		r.refuse(a, &Attr{Type: "string, number or bool"}, err)
		return
	}
	into := schema.Free(target)
	if *into == nil {
		*into = map[string]string{}
	}
	(*into)[a.Name] = text
}

// Names lists all names allowed in a block, including refused names, in order.
func (b *Block) Names() []string { return slices.Sorted(slices.Values(b.names())) }
