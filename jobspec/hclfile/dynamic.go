package hclfile

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/rota-hpc/rota/jobspec/hclfile/decode"
	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
)

// dynamic "KIND" { for_each = ... content { ... } } makes a block of its kind for each element. The
// syntax is that of the extension dynblock of HCL. The blocks are made here, so that their cost is
// bounded and diagnostics show their origin.

const dynamicBlock = "dynamic"

// maxDynamic bounds how many blocks a file may make.
const maxDynamic = 10_000

// iterator is the element that a dynamic block is being written for.
type iterator struct {
	name  string
	value cty.Value // an object with key and value
}

// iterator finds the innermost iterator of a name.
func (r *reader) iterator(name string) (cty.Value, bool) {
	for _, i := range slices.Backward(r.iterators) {
		if i.name == name {
			return i.value, true
		}
	}
	return cty.NilVal, false
}

// eachBlock calls do for every block of a body, including those that dynamic blocks make.
func (r *reader) eachBlock(body *hclsyntax.Body, schema *Block, do func(*hclsyntax.Block)) {
	for _, b := range body.Blocks {
		if b.Type == dynamicBlock && schema.Free == nil && schema.block(dynamicBlock) == nil {
			r.expand(b, schema, do)
		} else {
			do(b)
		}
	}
}

// dynamicContent is the body of the content block, nil when there is none.
func dynamicContent(b *hclsyntax.Block) *hclsyntax.Body {
	for _, inner := range b.Body.Blocks {
		if inner.Type == "content" {
			return inner.Body
		}
	}
	return nil
}

func (r *reader) expand(b *hclsyntax.Block, schema *Block, do func(*hclsyntax.Block)) {
	if len(b.Labels) != 1 {
		r.add(b.DefRange(), diagnostic.CodeLabels, `write dynamic "KIND" { ... }`,
			"dynamic needs one label, the kind of block to make")
		return
	}
	kind := &hclsyntax.Block{Type: b.Labels[0], TypeRange: b.LabelRanges[0], Body: b.Body,
		OpenBraceRange: b.OpenBraceRange}
	known := r.knownBlock(kind, schema)
	if known == nil {
		return
	}
	name, ok := r.checkDynamic(b, known)
	content := dynamicContent(b)
	if !ok || content == nil {
		return
	}
	for _, element := range r.elements(b) {
		if r.refused > 0 {
			return
		}
		if r.made++; r.made > maxDynamic {
			r.add(b.DefRange(), diagnostic.CodeLimit, "make fewer", "dynamic blocks make more than %d blocks", maxDynamic)
			return
		}
		r.iterators = append(r.iterators, iterator{name, element})
		labels, ranges, ok := r.dynamicLabels(b)
		if ok {
			do(&hclsyntax.Block{
				Type: kind.Type, Labels: labels, LabelRanges: ranges, Body: content, TypeRange: b.LabelRanges[0],
				OpenBraceRange: b.OpenBraceRange, CloseBraceRange: b.CloseBraceRange,
			})
		}
		r.iterators = r.iterators[:len(r.iterators)-1]
	}
}

// checkDynamic checks how a dynamic block is written and returns the name of its iterator.
func (r *reader) checkDynamic(b *hclsyntax.Block, known *Nested) (string, bool) {
	before := r.mistakes
	r.checkNames(b.Body, dynamicSchema)
	contents := 0
	for _, inner := range b.Body.Blocks {
		if inner.Type == "content" {
			contents++
		}
	}
	if contents > 1 {
		r.add(b.DefRange(), diagnostic.CodeDuplicate, "put everything into one", "content is written twice")
	}
	labels := b.Body.Attributes["labels"]
	switch {
	case labels != nil && known.Label == "":
		r.add(labels.NameRange, diagnostic.CodeLabels, "leave labels out", "%s has no label", known.Name)
	case labels == nil && known.Label != "" && !known.MayLabel:
		r.add(b.DefRange(), diagnostic.CodeLabels, "write labels = [...]", "%s needs a label: %s", known.Name, known.Label)
	}
	name := r.iteratorName(b)
	return name, r.mistakes == before
}

var dynamicSchema = &Block{
	Attrs:  []Attr{{Name: "for_each", Required: true}, {Name: "iterator"}, {Name: "labels"}},
	Blocks: []Nested{{Name: "content", Required: true}},
}

func (r *reader) iteratorName(b *hclsyntax.Block) string {
	name, place := b.Labels[0], b.LabelRanges[0]
	if a := b.Body.Attributes["iterator"]; a != nil {
		place = a.Expr.Range()
		if name = hcl.ExprAsKeyword(a.Expr); name == "" {
			r.add(place, diagnostic.CodeDynamic, "write iterator = each", "iterator must be a name, without quotes")
			return ""
		}
	}
	if name == "var" || name == "local" || isDeferredRoot(name) {
		r.add(place, diagnostic.CodeDynamic, "write iterator = each, and each.value in the content",
			"the iterator cannot be called %s, because this name already has a meaning", name)
	}
	return name
}

// elements evaluates for_each; each is an object with key and value.
func (r *reader) elements(b *hclsyntax.Block) []cty.Value {
	a := b.Body.Attributes["for_each"]
	all, ok := r.evalAs("for_each", a.Expr)
	if !ok {
		return nil
	}
	plain, marks := all.Unmark()
	if plain.IsNull() || !plain.CanIterateElements() {
		found := "null"
		if !plain.IsNull() {
			found = decode.Article(plain.Type().FriendlyName())
		}
		r.add(a.Expr.Range(), diagnostic.CodeDynamic, "write a list, set or map",
			"for_each: cannot iterate over %s", found)
		return nil
	}
	var list []cty.Value
	for it := plain.ElementIterator(); it.Next(); {
		key, value := it.Element()
		if plain.Type().IsSetType() {
			key = value
		}
		list = append(list, cty.ObjectVal(map[string]cty.Value{"key": key.WithMarks(marks), "value": value.WithMarks(marks)}))
	}
	return list
}

// dynamicLabels evaluates the labels of the block being made.
func (r *reader) dynamicLabels(b *hclsyntax.Block) ([]string, []hcl.Range, bool) {
	a := b.Body.Attributes["labels"]
	if a == nil {
		return nil, nil, true
	}
	value, ok := r.evalAs("labels", a.Expr)
	if !ok {
		return nil, nil, false
	}
	var labels []string
	err := decode.Into(&labels, r.reveal(value), false)
	if r.now.secret {
		r.add(a.Expr.Range(), diagnostic.CodeValue, "name it by a key that is not sensitive",
			"labels: a sensitive value cannot be a label, because labels are shown everywhere")
		return nil, nil, false
	}
	if err != nil {
		r.refuse(a, &Attr{Type: "list(string)"}, err)
		return nil, nil, false
	}
	return labels, slices.Repeat([]hcl.Range{a.Expr.Range()}, len(labels)), true
}
