package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// source is a package as `go list` has it.
type source struct {
	path   string // import path
	dir    string
	name   string   // of the package
	files  []string // names in dir that are built here, without tests
	tested bool     // it has test files
	starts bool     // its tests start their own program again, whose statements no profile has
}

// findPackage asks go for one package. The pattern is an import path or, from the working directory,
// ./DIR. The folder of the package decides about the module, because the laboratory has its own.
func findPackage(pattern string) (*source, error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Name,GoFiles,CgoFiles,TestGoFiles,XTestGoFiles", pattern)
	if info, err := os.Stat(pattern); err == nil && info.IsDir() {
		cmd.Dir, cmd.Args[len(cmd.Args)-1] = pattern, "."
	}
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w", pattern, err)
	}
	var p struct {
		ImportPath, Dir, Name                        string
		GoFiles, CgoFiles, TestGoFiles, XTestGoFiles []string
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&p); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("%s names several packages; name one", pattern)
	}
	s := &source{path: p.ImportPath, dir: p.Dir, name: p.Name, files: append(p.GoFiles, p.CgoFiles...)}
	for _, name := range append(p.TestGoFiles, p.XTestGoFiles...) {
		text, err := os.ReadFile(filepath.Join(p.Dir, name))
		if err != nil {
			return nil, err
		}
		s.tested = true
		s.starts = s.starts || bytes.Contains(text, []byte("os.Args[0]")) || bytes.Contains(text, []byte("os.Executable()"))
	}
	return s, nil
}

// position is a place in a file, both counted from 1.
type position struct{ line, column int }

func (p position) before(o position) bool {
	return p.line < o.line || p.line == o.line && p.column < o.column
}

// mutant is one change of one file.
type mutant struct {
	file       string // path
	at         position
	kind       string
	begin, end int // bytes that are replaced
	was, is    string
	within     *function // nil: no declared function
}

// String says where the mutant is and what it changes.
func (m *mutant) String() string {
	short := func(text string) string {
		text = strings.Join(strings.Fields(text), " ")
		if len(text) > 60 {
			text = text[:57] + "..."
		}
		return text
	}
	to := short(m.is)
	if strings.TrimSpace(m.is) == "" {
		to = "nothing"
	}
	return fmt.Sprintf("%s:%d: %s: %s -> %s", relative(m.file), m.at.line, m.kind, short(m.was), to)
}

// changesNothing reports whether a mutant writes the zero value of a struct in another way, going by
// the text. It stays in the list, so that the samples of a seed are the same.
func (m *mutant) changesNothing() bool {
	name, empty := strings.CutSuffix(m.was, "{}")
	return empty && m.is == "*new("+name+")"
}

// survivedIn reports whether the report of a run lists a mutant as a survivor.
func (m *mutant) survivedIn(report string) bool {
	return strings.Contains(report, fmt.Sprintf("%s: %s\n", m, survived)) ||
		strings.Contains(report, fmt.Sprintf("%s: %s\n", m, uncovered))
}

// text is the whole file with the change.
func (m *mutant) text() ([]byte, error) {
	old, err := os.ReadFile(m.file)
	if err != nil {
		return nil, err
	}
	return bytes.Join([][]byte{old[:m.begin], []byte(m.is), old[m.end:]}, nil), nil
}

// mutants lists all changes of the files whose name contains only. Changes that do not compile are
// found out later.
func (p *source) mutants(only string) ([]*mutant, error) {
	var all []*mutant
	for _, name := range p.files {
		if !strings.Contains(name, only) {
			continue
		}
		path := filepath.Join(p.dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		found, err := mutantsOf(path, text)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// mutantsOf lists all changes of one file, none of a generated one.
func mutantsOf(path string, text []byte) ([]*mutant, error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(f) {
		return nil, err
	}
	c := &collector{file: files.File(f.Pos()), path: path, text: text}
	ast.PreorderStack(f, nil, func(n ast.Node, stack []ast.Node) bool { return c.visit(n, stack) })
	return c.all, nil
}

type collector struct {
	file   *token.File
	path   string
	text   []byte
	all    []*mutant
	within *function // the present one
}

// replace adds a mutant that has other text from begin to end.
func (c *collector) replace(kind string, begin, end token.Pos, is string) {
	from, to := c.file.Offset(begin), c.file.Offset(end)
	if was := string(c.text[from:to]); was != is {
		at := c.file.Position(begin)
		c.all = append(c.all, &mutant{c.path, position{at.Line, at.Column}, kind, from, to, was, is, c.within})
	}
}

// source returns the text of a node.
func (c *collector) source(n ast.Node) string {
	return string(c.text[c.file.Offset(n.Pos()):c.file.Offset(n.End())])
}

// operators are what a binary operator, an assignment or a branch becomes.
var operators = map[token.Token][]struct {
	is   token.Token
	kind string
}{
	token.LSS: {{token.LEQ, "boundary"}, {token.GEQ, "negation"}},
	token.LEQ: {{token.LSS, "boundary"}, {token.GTR, "negation"}},
	token.GTR: {{token.GEQ, "boundary"}, {token.LEQ, "negation"}},
	token.GEQ: {{token.GTR, "boundary"}, {token.LSS, "negation"}},
	token.EQL: {{token.NEQ, "negation"}}, token.NEQ: {{token.EQL, "negation"}},
	token.LAND: {{token.LOR, "logic"}}, token.LOR: {{token.LAND, "logic"}},
	token.ADD: {{token.SUB, "arithmetic"}}, token.SUB: {{token.ADD, "arithmetic"}},
	token.MUL: {{token.QUO, "arithmetic"}}, token.QUO: {{token.MUL, "arithmetic"}}, token.REM: {{token.MUL, "arithmetic"}},
	token.AND: {{token.OR, "bits"}}, token.OR: {{token.AND, "bits"}}, token.XOR: {{token.AND, "bits"}},
	token.AND_NOT: {{token.AND, "bits"}}, token.SHL: {{token.SHR, "bits"}}, token.SHR: {{token.SHL, "bits"}},
	token.ADD_ASSIGN: {{token.SUB_ASSIGN, "arithmetic"}}, token.SUB_ASSIGN: {{token.ADD_ASSIGN, "arithmetic"}},
	token.MUL_ASSIGN: {{token.QUO_ASSIGN, "arithmetic"}}, token.QUO_ASSIGN: {{token.MUL_ASSIGN, "arithmetic"}},
	token.OR_ASSIGN: {{token.AND_ASSIGN, "bits"}}, token.AND_ASSIGN: {{token.OR_ASSIGN, "bits"}},
	token.INC: {{token.DEC, "increment"}}, token.DEC: {{token.INC, "increment"}},
	token.BREAK: {{token.CONTINUE, "branch"}}, token.CONTINUE: {{token.BREAK, "branch"}},
}

// operator adds what an operator at a place becomes.
func (c *collector) operator(at token.Pos, op token.Token) {
	for _, to := range operators[op] {
		c.replace(to.kind, at, at+token.Pos(len(op.String())), to.is.String())
	}
}

// visit adds the mutants of one node, and reports whether to go on below it.
func (c *collector) visit(n ast.Node, stack []ast.Node) bool {
	// The function that the following nodes are in; declarations of the file are in none.
	switch d := n.(type) {
	case *ast.FuncDecl:
		c.within = c.functionOf(d)
	case *ast.GenDecl:
		if len(stack) == 1 {
			c.within = nil
		}
	}
	switch n := n.(type) {
	case *ast.ImportSpec, *ast.Field, *ast.ArrayType: // types and paths: a change would not compile
		return false
	// Expressions: another operator, one side dropped, another constant.
	case *ast.BinaryExpr:
		if !isText(n.X) && !isText(n.Y) {
			c.operator(n.OpPos, n.Op)
		}
		if n.Op == token.LAND || n.Op == token.LOR {
			c.conjunct(n.X, n.X.Pos(), n.Y.Pos())
			c.conjunct(n.Y, n.X.End(), n.Y.End())
		}
	case *ast.UnaryExpr:
		if n.Op == token.NOT || n.Op == token.SUB {
			c.replace("negation", n.OpPos, n.X.Pos(), "")
		}
	case *ast.IncDecStmt:
		c.operator(n.TokPos, n.Tok)
		c.remove(n, stack)
	case *ast.BranchStmt:
		if n.Label == nil {
			c.operator(n.TokPos, n.Tok)
		}
	case *ast.Ident:
		if other := map[string]string{"true": "false", "false": "true"}[n.Name]; other != "" {
			c.replace("constant", n.Pos(), n.End(), other)
		}
	case *ast.BasicLit:
		if v, err := strconv.ParseInt(n.Value, 0, 64); err == nil && n.Kind == token.INT {
			c.replace("constant", n.Pos(), n.End(), strconv.FormatInt(v+1, 10))
			if v > 0 {
				c.replace("constant", n.Pos(), n.End(), strconv.FormatInt(v-1, 10))
			}
		}
	case *ast.CompositeLit:
		c.fields(n)
	// Statements: a guard that never holds, another operator, a statement or a result left out.
	case *ast.IfStmt:
		if !isError(n.Cond) {
			c.replace("guard", n.Cond.Pos(), n.Cond.End(), "false && ("+c.source(n.Cond)+")")
		}
		switch n.Cond.(type) {
		case *ast.BinaryExpr, *ast.UnaryExpr: // have mutants of their own
		default:
			c.replace("negation", n.Cond.Pos(), n.Cond.End(), "!("+c.source(n.Cond)+")")
		}
	case *ast.AssignStmt:
		c.operator(n.TokPos, n.Tok)
		if n.Tok != token.DEFINE {
			c.remove(n, stack)
		}
	case *ast.ExprStmt, *ast.DeferStmt, *ast.GoStmt, *ast.SendStmt:
		c.remove(n, stack)
	case *ast.ReturnStmt:
		c.results(n, stack)
	}
	return true
}

// conjunct adds the mutants of one side of && or ||. The side is dropped with the operator, and
// turned unless an operator of its own has such a mutant.
func (c *collector) conjunct(side ast.Expr, begin, end token.Pos) {
	c.replace("conjunct", begin, end, "")
	switch side.(type) {
	case *ast.BinaryExpr, *ast.UnaryExpr, *ast.ParenExpr:
	default:
		c.replace("negation", side.Pos(), side.End(), "!"+c.source(side))
	}
}

// fields adds a mutant for each field that a literal does not set any more.
func (c *collector) fields(n *ast.CompositeLit) {
	for i, e := range n.Elts {
		pair, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return
		}
		if _, named := pair.Key.(*ast.Ident); !named {
			return
		}
		switch {
		case i+1 < len(n.Elts):
			c.replace("field", e.Pos(), n.Elts[i+1].Pos(), "")
		case i > 0:
			c.replace("field", n.Elts[i-1].End(), e.End(), "")
		default:
			c.replace("field", e.Pos(), n.Rbrace, "")
		}
	}
}

// isError reports whether a condition asks only whether err is one. Without it the code goes on with
// what a call that failed has returned, which shows only where the call can be made to fail.
func isError(cond ast.Expr) bool {
	b, ok := cond.(*ast.BinaryExpr)
	if !ok || b.Op != token.NEQ {
		return false
	}
	x, ok := b.X.(*ast.Ident)
	return ok && x.Name == "err"
}

// isText reports whether an expression is a literal text, which cannot be subtracted.
func isText(e ast.Expr) bool {
	l, ok := e.(*ast.BasicLit)
	return ok && l.Kind == token.STRING
}

// remove adds the mutant without a statement that stands in a list.
func (c *collector) remove(n ast.Node, stack []ast.Node) {
	switch stack[len(stack)-1].(type) {
	case *ast.BlockStmt, *ast.CaseClause, *ast.CommClause:
		c.replace("statement", n.Pos(), n.End(), "")
	}
}

// results adds a mutant for each result that is replaced by its type's zero value.
func (c *collector) results(n *ast.ReturnStmt, stack []ast.Node) {
	var types []ast.Expr
	for i := len(stack) - 1; i >= 0 && types == nil; i-- {
		var list *ast.FieldList
		switch f := stack[i].(type) {
		case *ast.FuncDecl:
			list = f.Type.Results
		case *ast.FuncLit:
			list = f.Type.Results
		default:
			continue
		}
		if list == nil {
			return
		}
		for _, field := range list.List {
			for range max(1, len(field.Names)) {
				types = append(types, field.Type)
			}
		}
	}
	if len(types) != len(n.Results) { // none, or those of one call
		return
	}
	for i, r := range n.Results {
		switch c.source(r) {
		case "nil", "0", "false", `""`: // has it already
		case "true": // becomes false as a constant
		default:
			c.replace("result", r.Pos(), r.End(), zero(types[i], c.source(types[i])))
		}
	}
}

// zero writes the zero value of a type.
func zero(t ast.Expr, text string) string {
	switch t := t.(type) {
	case *ast.StarExpr, *ast.MapType, *ast.FuncType, *ast.ChanType, *ast.InterfaceType:
		return "nil"
	case *ast.ArrayType:
		if t.Len == nil {
			return "nil"
		}
	}
	switch text {
	case "error", "any":
		return "nil"
	case "string":
		return `""`
	case "bool":
		return "false"
	}
	return "*new(" + text + ")"
}
