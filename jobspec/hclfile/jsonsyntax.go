package hclfile

import (
	"bytes"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"

	"github.com/rota-hpc/rota/jobspec/hclfile/diagnostic"
)

// A file in JSON becomes the same syntax tree as a file in HCL, so that the rest of the package
// need not distinguish them. The schema says which names are blocks.

// IsJSON reports whether a file is in the JSON syntax of HCL. Its name ends in .json, or it begins
// with {, as a file in HCL cannot.
func IsJSON(name string, src []byte) bool {
	text := bytes.TrimLeft(bytes.TrimPrefix(src, []byte(byteOrderMark)), " \t\r\n")
	return strings.HasSuffix(name, ".json") || bytes.HasPrefix(text, []byte("{"))
}

// jsonReader turns JSON into HCL's syntax tree.
type jsonReader struct {
	r       *reader
	name    string
	literal bool // strings stand for themselves: a file of values
}

// parseJSON is [reader.parse] for JSON.
func (r *reader) parseJSON(name string, src []byte, schema *Block, literal bool) *hclsyntax.Body {
	if !r.shallowJSON(name, src) {
		return nil
	}
	root, found := json.ParseExpression(src, name)
	if found.HasErrors() {
		r.hideUnread(name, src)
		r.addHCL(diagnostic.CodeSyntax, "", found)
		return nil
	}
	j := &jsonReader{r: r, name: name, literal: literal}
	if _, isObject := hcl.ExprMap(root); isObject.HasErrors() {
		r.add(root.StartRange(), diagnostic.CodeSyntax, `write { "job": { "NAME": { ... } } }`,
			"a JSON file must be one object")
		return nil
	}
	return j.body(root, schema)
}

// shallowJSON refuses nesting that is too deep for the recursive parser.
func (r *reader) shallowJSON(name string, src []byte) bool {
	depth, words, line, inString := 0, 0, 1, false
	for i := 0; i < len(src); i++ {
		switch c := src[i]; {
		case c == '\n':
			line++
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
			words++
		case inString:
		case c == '{' || c == '[':
			depth++
			words++
		case c == '}' || c == ']':
			depth--
		case c == ',' || c == ':':
			words++
		}
		if depth > maxDepth || words > maxTokens {
			start := bytes.LastIndexByte(src[:i], '\n') + 1
			at := hcl.Pos{Line: line, Column: i - start + 1, Byte: i}
			r.add(hcl.Range{Filename: name, Start: at, End: at}, diagnostic.CodeLimit, "move data into files of their own",
				"objects and lists may be nested %d deep, and a file may have %d words", maxDepth, maxTokens)
			return false
		}
	}
	return true
}

// valuesSchema makes every name an attribute.
var valuesSchema = &Block{Free: func(any) *map[string]string { return nil }}

// declarations are the blocks of every file besides those of its schema.
var declarations = map[string]Nested{
	"variable": {Name: "variable", Label: "its name", Many: true, Body: variableSchema},
	"locals":   {Name: "locals", Many: true, Body: valuesSchema},
}

// dynamicBody is the schema of a dynamic block that makes blocks of one kind.
func dynamicBody(schema *Block, kind string) *Block {
	content := &Block{}
	if known := schema.block(kind); known != nil && known.Body != nil {
		content = known.Body
	}
	return &Block{
		Attrs:  []Attr{{Name: "for_each"}, {Name: "iterator", keyword: true}, {Name: "labels"}},
		Blocks: []Nested{{Name: "content", Body: content}},
	}
}

func (j *jsonReader) nested(schema *Block, name string) *Nested {
	if known := schema.block(name); known != nil {
		return known
	}
	if schema.Free != nil {
		return nil
	}
	if known, ok := declarations[name]; ok && schema == j.r.schema {
		return &known
	}
	if name == "dynamic" {
		return &Nested{Name: "dynamic", Label: "the kind of block", Many: true}
	}
	return nil
}

func (j *jsonReader) body(object hcl.Expression, schema *Block) *hclsyntax.Body {
	end := object.Range()
	end.Start = end.End
	body := &hclsyntax.Body{Attributes: hclsyntax.Attributes{}, SrcRange: object.Range(), EndRange: end}
	pairs, found := hcl.ExprMap(object)
	if found.HasErrors() {
		j.r.add(object.StartRange(), diagnostic.CodeForm, "write { ... }", "this must be an object")
	}
	for _, pair := range pairs {
		name := j.text(pair.Key)
		known := j.nested(schema, name)
		switch {
		case name == "//": // a comment
		case known == nil || known.Refused != "":
			j.attribute(body, name, pair, schema)
		default:
			body.Blocks = append(body.Blocks, j.blocks(known, schema, pair.Key.Range(), pair.Value)...)
		}
	}
	return body
}

func (j *jsonReader) attribute(body *hclsyntax.Body, name string, pair hcl.KeyValuePair, schema *Block) {
	place := pair.Key.Range()
	if body.Attributes[name] != nil {
		j.r.add(place, diagnostic.CodeDuplicate, "keep one of them", "%s is set twice", name)
		return
	}
	known := schema.attr(name)
	expr := j.expression(pair.Value)
	if text, err := pair.Value.Value(nil); known != nil && known.keyword && !err.HasErrors() && text.Type() == cty.String {
		expr = j.keyword(pair.Value.Range(), text.AsString())
	}
	body.Attributes[name] = &hclsyntax.Attribute{
		Name: name, Expr: expr, NameRange: place, EqualsRange: place, SrcRange: hcl.RangeBetween(place, pair.Value.Range()),
	}
}

// keyword parses a text that is an expression and not a template: a type.
func (j *jsonReader) keyword(at hcl.Range, text string) hclsyntax.Expression {
	return j.parsed(at, text, hclsyntax.LexExpression, hclsyntax.ParseExpression)
}

// parsed parses the text of a string.
func (j *jsonReader) parsed(
	at hcl.Range, text string,
	lex lexer,
	parse func(src []byte, name string, start hcl.Pos) (hclsyntax.Expression, hcl.Diagnostics),
) hclsyntax.Expression {
	if !j.r.shallowTokens(tokensOf([]byte(text), j.name, inside(at), lex)) {
		return literal(at, cty.DynamicVal)
	}
	expr, found := parse([]byte(text), j.name, inside(at))
	if found.HasErrors() {
		j.r.addHCL(diagnostic.CodeSyntax, syntaxHint(found), found)
		return literal(at, cty.DynamicVal)
	}
	return expr
}

func literal(at hcl.Range, value cty.Value) hclsyntax.Expression {
	return &hclsyntax.LiteralValueExpr{Val: value, SrcRange: at}
}

// inside is the place behind the quotation mark that a JSON string begins with.
func inside(at hcl.Range) hcl.Pos {
	return hcl.Pos{Line: at.Start.Line, Column: at.Start.Column + 1, Byte: at.Start.Byte + 1}
}

// blocks reads { "label": { ... } } or { ... } as blocks; a list of them is several.
func (j *jsonReader) blocks(known *Nested, schema *Block, kind hcl.Range, value hcl.Expression) []*hclsyntax.Block {
	var made []*hclsyntax.Block
	if items, found := hcl.ExprList(value); !found.HasErrors() {
		for _, item := range items {
			made = append(made, j.blocks(known, schema, kind, item)...)
		}
		return made
	}
	pairs, found := hcl.ExprMap(value)
	switch {
	case found.HasErrors() && isNull(value):
	case found.HasErrors():
		j.r.add(value.Range(), diagnostic.CodeForm, "write "+jsonForm(known), "%s is a block, not an attribute", known.Name)
	case known.Label == "" || known.MayLabel && j.unlabelled(pairs, known.Body):
		made = append(made, j.block(known.Name, nil, kind, value, known.Body))
	default:
		for _, pair := range pairs {
			made = append(made, j.labelled(known, schema, kind, pair)...)
		}
	}
	return made
}

// unlabelled reports whether pairs are the content of a block, not blocks by their labels: the
// first name is one of the block's.
func (j *jsonReader) unlabelled(pairs []hcl.KeyValuePair, body *Block) bool {
	return len(pairs) == 0 || slices.Contains(body.names(), j.text(pairs[0].Key))
}

func jsonForm(known *Nested) string {
	if known.Label != "" {
		return `"` + known.Name + `": { "NAME": { ... } }`
	}
	return `"` + known.Name + `": { ... }`
}

func isNull(expr hcl.Expression) bool {
	value, found := expr.Value(nil)
	return !found.HasErrors() && value.IsNull()
}

// labelled reads the blocks of one label.
func (j *jsonReader) labelled(known *Nested, schema *Block, kind hcl.Range, pair hcl.KeyValuePair) []*hclsyntax.Block {
	content := known.Body
	if known.Name == "dynamic" {
		content = dynamicBody(schema, j.text(pair.Key))
	}
	bodies, found := hcl.ExprList(pair.Value)
	if found.HasErrors() {
		bodies = []hcl.Expression{pair.Value}
	}
	var made []*hclsyntax.Block
	for _, body := range bodies {
		if isNull(body) {
			continue
		}
		made = append(made, j.block(known.Name, pair.Key, kind, body, content))
	}
	return made
}

func (j *jsonReader) block(name string, label hcl.Expression, kind hcl.Range, body hcl.Expression,
	schema *Block) *hclsyntax.Block {
	b := &hclsyntax.Block{Type: name, TypeRange: kind, OpenBraceRange: body.StartRange(), CloseBraceRange: body.Range()}
	if label != nil {
		b.Labels, b.LabelRanges = []string{j.text(label)}, []hcl.Range{label.Range()}
	}
	b.Body = j.body(body, schema)
	return b
}

// text is a key as it is written.
func (j *jsonReader) text(key hcl.Expression) string {
	value, found := key.Value(nil)
	if found.HasErrors() || value.Type() != cty.String {
		return ""
	}
	return value.AsString()
}

// expression turns a JSON value into an expression: a string is a template, an object a map.
func (j *jsonReader) expression(value hcl.Expression) hclsyntax.Expression {
	at := value.Range()
	if pairs, found := hcl.ExprMap(value); !found.HasErrors() {
		object := &hclsyntax.ObjectConsExpr{SrcRange: at, OpenRange: value.StartRange()}
		for _, pair := range pairs {
			key := &hclsyntax.ObjectConsKeyExpr{Wrapped: j.expression(pair.Key), ForceNonLiteral: true}
			object.Items = append(object.Items, hclsyntax.ObjectConsItem{KeyExpr: key, ValueExpr: j.expression(pair.Value)})
		}
		return object
	}
	if items, found := hcl.ExprList(value); !found.HasErrors() {
		list := &hclsyntax.TupleConsExpr{SrcRange: at, OpenRange: value.StartRange()}
		for _, item := range items {
			list.Exprs = append(list.Exprs, j.expression(item))
		}
		return list
	}
	scalar, found := value.Value(nil)
	if found.HasErrors() || scalar.Type() != cty.String || j.literal {
		return literal(at, scalar)
	}
	return j.template(at, scalar.AsString())
}

func (j *jsonReader) template(at hcl.Range, text string) hclsyntax.Expression {
	if !strings.Contains(text, "${") && !strings.Contains(text, "%{") {
		return literal(at, cty.StringVal(text))
	}
	return j.parsed(at, text, hclsyntax.LexTemplate, hclsyntax.ParseTemplate)
}
