package hclfile

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
)

// The value of a sensitive variable is marked, and so is everything computed from it. Messages
// about marked values do not show them. The value is also removed from every other message, because
// a rule may quote any text, and source lines with it are not shown.

type mark string

const sensitive = mark("sensitive")

// minSecret is the least length of a text that is removed from messages. Shorter ones occur by
// chance.
const minSecret = 4

const struckOut = "(sensitive)"

// secrets are what diagnostics must not show.
type secrets struct {
	texts  []string
	places []hcl.Range
	paths  map[string]bool // of values in the target's JSON
}

// hide keeps the line of an expression out of diagnostics.
func (r *reader) hide(at hcl.Range) { r.secret.places = append(r.secret.places, at) }

// conceal marks a value and remembers the texts in it.
func (r *reader) conceal(value cty.Value) cty.Value {
	plain, _ := value.UnmarkDeep()
	_ = cty.Walk(plain, func(_ cty.Path, v cty.Value) (bool, error) {
		if v.Type() == cty.String && v.IsKnown() && !v.IsNull() {
			r.strikeOut(v.AsString())
		}
		return true, nil
	})
	return plain.Mark(sensitive)
}

func (r *reader) strikeOut(text string) {
	if len(text) >= minSecret {
		r.secret.texts = append(r.secret.texts, text)
	}
}

// reveal removes the marks of a value that goes into the current attribute.
func (r *reader) reveal(value cty.Value) cty.Value {
	plain, marks := value.UnmarkDeep()
	r.now.secret = r.now.secret || len(marks) > 0
	return plain
}

// withoutSecrets strikes what is sensitive out of a message.
func (r *reader) withoutSecrets(text string) string {
	for _, secret := range r.secret.texts {
		text = strings.ReplaceAll(text, secret, struckOut)
	}
	return text
}

// isHidden reports whether the line of a place is not shown because something sensitive is written
// in it.
func (r *reader) isHidden(at hcl.Range) bool {
	line := diagnostic.LineAt(r.sources[at.Filename], at.Start.Byte)
	return r.withoutSecrets(line) != line || slices.ContainsFunc(r.secret.places, func(p hcl.Range) bool {
		return p.Filename == at.Filename && p.Start.Line <= at.Start.Line && at.Start.Line <= p.End.Line
	})
}

// isSecret reports whether something sensitive is in the value at a path of the target, or in what
// it is part of.
func (r *reader) isSecret(path string) bool {
	for ; path != ""; path = parentPath(path) {
		if r.secret.paths[path] {
			return true
		}
	}
	return false
}

// Sensitive lists the paths of the target's JSON that hold something of a sensitive variable, in
// order. A command that shows the target leaves them out.
func (f *Result) Sensitive() []string {
	return slices.Sorted(maps.Keys(f.reader.secret.paths))
}

// findSensitive notes whether a variable is sensitive, before values are read.
func (r *reader) findSensitive(name string, b *hclsyntax.Block) {
	a := b.Body.Attributes["sensitive"]
	if a == nil {
		return
	}
	lit, ok := a.Expr.(*hclsyntax.LiteralValueExpr)
	if ok && lit.Val.Type() == cty.Bool && !lit.Val.IsNull() && lit.Val.False() {
		return
	}
	r.sensitive[name] = true
	if value := b.Body.Attributes["default"]; value != nil {
		r.hide(value.Expr.Range())
	}
	if !ok || lit.Val.Type() != cty.Bool {
		r.add(a.Expr.Range(), diagnostic.CodeType, "write true or false, without quotes", "sensitive must be true or false")
	}
}

// hideUnread hides lines of a file that does not parse. If a variable may be sensitive, these are
// the lines of all variables, and all lines of a file of values.
func (r *reader) hideUnread(name string, src []byte) {
	if name != r.name && len(r.sensitive) > 0 {
		delete(r.sources, name)
	}
	if name != r.name || !bytes.Contains(src, []byte("sensitive")) {
		return
	}
	inVariable, number := IsJSON(name, src), 0
	for line := range bytes.Lines(src) {
		number++
		word, _, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		switch string(word) {
		case "variable":
			inVariable = true
		case "locals", "job":
			inVariable = false
		}
		if at := (hcl.Pos{Line: number}); inVariable {
			r.hide(hcl.Range{Filename: name, Start: at, End: at})
		}
	}
}
